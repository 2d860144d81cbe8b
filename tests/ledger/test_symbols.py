"""Formulas without LaTeX, as HTML."""

import re

import pytest

from clcore.ledger import registry
from clcore.ledger.symbols import symbols
from clcore.ledger.tex import typeset
from clcore.ledger.written import statements


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("alpha_ij >= 0", "α<sub>ij</sub> ≥ 0"),
        ("|rho_0mu|^2 / tau", "|ρ<sub>0μ</sub>|<sup>2</sup> / τ"),
        ("f_{2,l-1}^T", "f<sub>2,l-1</sub><sup>T</sup>"),
        ("e^(-r_+/tau)", "e<sup>-r<sub>+</sub>/τ</sup>"),
        ("f^(l) at r_k-", "f<sup>(l)</sup> at r<sub>k</sub>-"),
        ("d^-0.75, 10^-3", "d<sup>-0.75</sup>, 10<sup>-3</sup>"),
        ("dsigma/dw != 1/sqrt(2 pi)", "dσ/dw ≠ 1/√(2 π)"),
        ("int_0^inf of u^perp", "int<sub>0</sub><sup>∞</sup> of u<sup>⊥</sup>"),
        ("U_>= and (1 + c)^2", "U<sub>≥</sub> and (1 + c)<sup>2</sup>"),
        ("phi' < psi -> x +- 1", "φ&#39; &lt; ψ → x ± 1"),
        ("leaky_relu, part_of, theta-like, etas", "leaky_relu, part_of, θ-like, etas"),
        ('<b title="x_1">', "&lt;b title=&#34;x<sub>1</sub>&#34;&gt;"),
    ],
)
def test_letters_indices_and_powers_are_as_in_print(text, html):
    assert symbols(text) == html


def test_code_and_latex_stay_as_they_are():
    assert typeset("`alpha_ij` is $\\alpha_{ij}$ or alpha_ij") == (
        r"<code>alpha_ij</code> is \(\alpha_{ij}\) or α<sub>ij</sub>"
    )


def test_of_what_the_checks_say_hardly_a_formula_is_left_as_typed():
    """What is left: a hat as in y^, a power of a bracket within brackets, a name in a program."""
    left = []
    for place in registry.places():
        said = statements.of(place)
        for text in (*said.blocks.values(), said.note):
            html = re.sub(r"<code>.*?</code>|\\\(.*?\\\)", "", typeset(text))
            left += re.findall(r"[\w)\]|][_^][\w({]+", html)
    assert len(left) < 12, left
