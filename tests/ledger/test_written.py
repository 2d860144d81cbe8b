"""Numbers as people write them."""

import pytest

from clcore.ledger.tex import typeset, written


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2.1e-14 ≤ 1e-10", "2.1·10⁻¹⁴ ≤ 10⁻¹⁰"),
        ("5.2e-01, 1.23e+04, 1e3", "0.52, 12300, 1000"),
        ("-2e-9 and 8E-300", "-2·10⁻⁹ and 8·10⁻³⁰⁰"),
        ("0x1e5, v1e3, 1e-5x, 12e45abc, 1.5", "0x1e5, v1e3, 1e-5x, 12e45abc, 1.5"),
    ],
)
def test_powers_of_ten_are_written_and_names_are_left_alone(given, shown):
    assert written(given) == shown
    assert written(shown) == shown


def test_in_a_formula_they_are_latex():
    assert written("3e-05", formula=True) == r"3\cdot 10^{-5}"
    assert typeset("$x<1e-10$, 1e-12") == r"\(x&lt;10^{-10}\), 10⁻¹²"
