"""Arrays of symbols for proofs: numpy arrays of polynomials of one ring.

numpy's own products work on them, derivatives are exact, and they are much faster than sympy's
expressions where there are many.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import sympy
from sympy.polys.rings import PolyRing

from clcore.ledger import exact


def arrays(**shapes: tuple[int, ...]) -> list[Any]:
    """Arrays of real symbols, by name and shape; all of one ring. () is a single symbol."""
    symbols = [
        sympy.Symbol("_".join(map(str, (name, *place))), real=True)
        for name, shape in shapes.items()
        for place in np.ndindex(shape)
    ]
    generators = iter(PolyRing(symbols, sympy.QQ).gens)
    made = []
    for shape in shapes.values():
        array = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            array[place] = next(generators)
        made.append(array)
    return made


def plain(values: Any) -> list[Any]:
    """Polynomials as expressions."""
    return [v.as_expr() if hasattr(v, "as_expr") else sympy.sympify(v) for v in np.ravel(values)]


def equal(left: Any | Sequence, right: Any | Sequence) -> exact.Shown:
    """Whether arrays, or lists of arrays, are the same polynomials."""
    both = [side if isinstance(side, list) else [side] for side in (left, right)]
    return exact.equal(*([plain(array) for array in side] for side in both))


def unlike(left: Any, right: Any) -> exact.Shown:
    """Whether `left` is `right` in the first entries that differ: for a control, where one is
    enough."""
    pairs = list(zip(plain(left), plain(right), strict=True))
    return exact.equal(*next((pair for pair in pairs if pair[0] != pair[1]), pairs[0]))


def gradient(value: Any, at: Any) -> Any:
    """Derivatives by the symbols `at`, [*value, *at]."""
    places = product(np.ravel(value), np.ravel(at))
    found = np.empty(np.size(value) * np.size(at), dtype=object)
    found[:] = [v.diff(x) for v, x in places]
    return found.reshape(*np.shape(value), *np.shape(at))


def put(value: Any, old: Any, new: Any) -> Any:
    """`value` with polynomials in place of symbols."""
    pairs = list(zip(np.ravel(old), np.ravel(new), strict=True))
    found = np.empty(np.size(value), dtype=object)
    found[:] = [v.compose(pairs) for v in np.ravel(value)]
    return found.reshape(np.shape(value))
