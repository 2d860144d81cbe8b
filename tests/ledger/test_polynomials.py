"""Arrays of polynomials: names and shapes, sameness, derivatives, what is put in for symbols."""

import numpy as np
import pytest
import sympy

from clcore.ledger import LedgerError, exact, polynomials


def names(array):
    return [str(value) for value in np.ravel(array)]


def test_arrays_are_of_symbols_by_name_and_place():
    w, x, s = polynomials.arrays(w=(2, 3), x=(2,), s=())
    assert (w.shape, x.shape, s.shape) == ((2, 3), (2,), ())
    assert names(w) == ["w_0_0", "w_0_1", "w_0_2", "w_1_0", "w_1_1", "w_1_2"]
    assert names(x) == ["x_0", "x_1"] and names(s) == ["s"]
    assert str(x @ w[:, 0] * s.item()) == "w_0_0*x_0*s + w_1_0*x_1*s"


def test_symbols_are_real():
    (x,) = polynomials.arrays(x=(2,))
    assert exact.nonnegative(polynomials.plain(x**2), polynomials.plain(x**2)).failing == 0


def test_plain_takes_polynomials_and_numbers():
    x, _ = polynomials.arrays(x=(), y=())
    found = polynomials.plain([x.item() ** 2 / 2, 3])
    assert found == [sympy.Symbol("x", real=True) ** 2 / 2, 3]
    assert all(isinstance(value, sympy.Expr) for value in found)


def test_equal_counts_the_entries_that_differ():
    a, b = polynomials.arrays(a=(2, 2), b=(2,))
    by_hand = np.array([a[0, 0] * b[0] + a[0, 1] * b[1], a[1, 0] * b[0] + a[1, 1] * b[1]])
    assert polynomials.equal(a @ b, by_hand) == exact.Shown("proved", 2, 0)
    assert polynomials.equal(a @ b, by_hand * [1, 2]) == exact.Shown("proved", 2, 1)
    assert polynomials.equal([a @ b, a], [by_hand, a.T]) == exact.Shown("proved", 6, 2)
    with pytest.raises(LedgerError, match="as many entries"):
        polynomials.equal([a, b], a)


def test_unlike_shows_the_first_entries_that_differ():
    (a,) = polynomials.arrays(a=(3,))
    assert polynomials.unlike(a, a * [1, 2, 3]) == exact.Shown("proved", 1, 1)
    assert polynomials.unlike(a, a * [2, 1, 1]) == exact.Shown("proved", 1, 1)
    assert polynomials.unlike(a, a) == exact.Shown("proved", 1, 0)
    assert polynomials.unlike(a[:1], a[:1]) == exact.Shown("proved", 1, 0)
    with pytest.raises(ValueError, match="shorter"):
        polynomials.unlike(a, a[:2])
    # numbers may stand beside the symbols: what is compared are the entries that differ
    mixed = np.array([a[0].ring(2), a[1]])
    assert polynomials.unlike(mixed, mixed * [1, 2]) == exact.Shown("proved", 1, 1)


def test_gradient_has_the_axes_of_the_value_and_then_those_of_the_symbols():
    a, x = polynomials.arrays(a=(2, 3), x=(3,))
    jacobian = polynomials.gradient(a @ x, x)
    assert jacobian.shape == (2, 3) and (jacobian == a).all()
    by_matrix = polynomials.gradient(a @ x, a)
    assert by_matrix.shape == (2, 2, 3)
    assert (by_matrix[1, 1] == x).all() and not by_matrix[0, 1].any()
    loss = polynomials.gradient(x @ x, x)
    assert loss.shape == (3,) and (loss == 2 * x).all()


def test_put_takes_polynomials_in_place_of_symbols():
    x, y = polynomials.arrays(x=(2,), y=(2,))
    put = polynomials.put(np.array([[x[0] ** 2, x[0] * x[1]]]), x, y[::-1] + 1)
    assert put.shape == (1, 2)
    assert (put[0] == [(y[1] + 1) ** 2, (y[1] + 1) * (y[0] + 1)]).all()
    with pytest.raises(ValueError, match="shorter"):
        polynomials.put(x, x, y[:1])
