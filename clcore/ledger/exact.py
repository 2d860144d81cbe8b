"""What exact arithmetic shows of a part: an identity between symbols, a sign, a counterexample,
an enclosure by intervals. A check hands it to `Part.proves`, and the part has its rung from it.

    w = exact.vector("w", 3)
    part.proves(exact.equal(w.dot(w), sum(x**2 for x in w)), at="n = 3",
                breaks={"one square left out": exact.equal(w.dot(w), w[0]**2 + w[1]**2)})

Where the symbols stand for entries of matrices, it is shown for that size only: `at` says which.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import mpmath
import sympy
from sympy.core.function import AppliedUndef

from clcore.ledger.printed import LedgerError

RELATIONS = {"==": sympy.Eq, "<=": sympy.Le, ">=": sympy.Ge, "<": sympy.Lt, ">": sympy.Gt}


@dataclass(frozen=True)
class Shown:
    """What came out: of `entries` statements `failing` were not shown. rung: "proved" or
    "certified". refutes: what was shown is that a statement is false."""

    rung: str
    entries: int
    failing: int
    refutes: bool = False


def vector(name: str, n: int, positive: bool | None = None) -> sympy.Matrix:
    """A column (n, 1) of real symbols; positive: of positive ones."""
    return matrix(name, n, 1, positive=positive)


def matrix(name: str, rows: int, columns: int, positive: bool | None = None) -> sympy.Matrix:
    """A matrix (rows, columns) of real symbols; positive: of positive ones."""
    entries = [
        [sympy.Symbol(f"{name}_{i}_{j}", real=True, positive=positive) for j in range(columns)]
        for i in range(rows)
    ]
    return sympy.Matrix(entries)


def function(name: str) -> Any:
    """Any differentiable function of one variable; its attribute `slope` is its derivative, another
    such function, which sympy puts in when it differentiates."""
    slope: Any = sympy.Function(f"{name}_slope")

    def fdiff(self: Any, argindex: int = 1) -> Any:
        return slope(self.args[0])

    return type(name, (_Unknown,), {"nargs": 1, "slope": slope, "fdiff": fdiff})


class _Unknown(sympy.Function):
    """What `function` makes."""


def equal(left: Any, right: Any = 0) -> Shown:
    """Whether `left` is `right` for all values of their symbols, entry by entry.

    left, right: expressions, matrices of one shape, or (nested) lists of them; right may be 0.
    Raises LedgerError where there is no symbol (which would be a sample and no proof), a rounded
    number, or another number of entries.
    """
    differences = _differences(left, right)
    if not any(d.free_symbols for d in _entries(left) + _entries(right)):
        raise LedgerError(
            "exact.equal: expected symbols, got numbers only; an identity at some numbers is a "
            "sample, and no proof"
        )
    return Shown("proved", len(differences), sum(not _vanishes(d) for d in differences))


def nonnegative(value: Any, form: Any) -> Shown:
    """Whether `value` is `form` for all values of the symbols, and `form` cannot be negative as it
    is written: squares, products and sums of what is positive (by the symbols' assumptions).

    Raises LedgerError as `equal` does.
    """
    same = equal(value, form)
    signs = sum(sympy.sympify(f).is_nonnegative is not True for f in _entries(form))
    return Shown("proved", same.entries, max(same.failing, signs))


def positive(value: Any, form: Any) -> Shown:
    """Whether `value` is `form` for all values of the symbols, and `form` is above 0 as it is
    written: as for `nonnegative`, and not 0 either."""
    same = equal(value, form)
    signs = sum(sympy.sympify(f).is_positive is not True for f in _entries(form))
    return Shown("proved", same.entries, max(same.failing, signs))


def differ(left: Any, right: Any, claimed: str = "==") -> Shown:
    """Whether `left claimed right` is false, at exact numbers: a counterexample that owes nothing
    to rounding. Shown where one entry breaks it. claimed: "==", "<=", ">=", "<" or ">".

    Raises LedgerError for a symbol, a rounded number, or another relation.
    """
    if claimed not in RELATIONS:
        raise LedgerError(f"exact.differ: expected {', '.join(RELATIONS)}, got {claimed!r}")
    differences = _differences(left, right)
    if any(d.free_symbols for d in differences):
        raise LedgerError("exact.differ: expected numbers, got symbols; put exact numbers in")
    broken = sum(
        RELATIONS[claimed](sympy.simplify(sympy.expand(d)), 0) == sympy.false for d in differences
    )
    return Shown("proved", len(differences), int(not broken), refutes=True)


def below_zero(boxes: Iterable[Any]) -> Shown:
    """Whether every one of these intervals (`mpmath.iv`) lies at or below 0. Each encloses the
    value of one function on one box of its arguments, so that together they speak of all points.

    Raises LedgerError for what is no interval.
    """
    ends = []
    for box in boxes:
        if not isinstance(box, mpmath.iv.mpf):
            raise LedgerError(f"exact.below_zero: expected mpmath.iv numbers, got {type(box)}")
        ends.append(box.b)
    if not ends:
        raise LedgerError("exact.below_zero: expected at least one interval, got none")
    return Shown("certified", len(ends), sum(not bool(end <= 0) for end in ends))


def cover(low: float, high: float, boxes: int) -> list[Any]:
    """Intervals (`mpmath.iv`) that cover [low, high] without a gap."""
    ends = [low + (high - low) * k / boxes for k in range(boxes)] + [high]
    return [mpmath.iv.mpf([a, b]) for a, b in pairwise(ends)]


# -------------------------------------------------------------------------------------- how


def _entries(value: Any) -> list[sympy.Expr]:
    if isinstance(value, sympy.MatrixBase):
        return list(value)
    if isinstance(value, (list, tuple)):
        return list(chain.from_iterable(_entries(v) for v in value))
    made = sympy.sympify(value)
    if made.atoms(sympy.Float):
        raise LedgerError(f"exact: expected exact numbers, got the rounded one in {made}")
    return [made]


def _differences(left: Any, right: Any) -> list[sympy.Expr]:
    ours, theirs = _entries(left), _entries(right)
    if theirs == [0]:
        theirs *= len(ours)
    if len(ours) != len(theirs) or not ours:
        raise LedgerError(f"exact: expected as many entries, got {len(ours)} and {len(theirs)}")
    return list(map(operator.sub, ours, theirs))


def _vanishes(difference: sympy.Expr) -> bool:
    """By expansion, over a common denominator, and by all that sympy knows; at some numbers first,
    which is the fastest way to see that it does not."""
    if _is_somewhere_else(difference):
        return False
    if sympy.expand(_opaque(difference)) == 0:
        return True
    if (expanded := sympy.expand(difference)) == 0:
        return True
    above, _ = sympy.fraction(sympy.together(expanded))
    return sympy.expand(above) == 0 or sympy.simplify(expanded) == 0


def _opaque(value: sympy.Expr) -> sympy.Expr:
    """Unknown functions and their derivatives, as they stand, as symbols: what vanishes whatever
    their values are, vanishes, and expanding it is much faster."""
    return value.xreplace({atom: sympy.Dummy() for atom in value.atoms(_Unknown, AppliedUndef)})


def _is_somewhere_else(difference: sympy.Expr) -> bool:
    """Whether it is not 0 at the cube roots of primes, and for Bessel functions as its unknown ones
    and as their slopes, by far more than 30 digits leave open: then no more has to be tried."""
    symbols = sorted(difference.free_symbols, key=str)
    unknown = {f.func.__name__ for f in difference.atoms(_Unknown, AppliedUndef)}
    bessel = {  # each of one argument; with more of them, there is no number
        name: lambda x, *, k=k: mpmath.besseli(k, x) for k, name in enumerate(sorted(unknown))
    }
    with mpmath.workdps(30):
        at = {x: mpmath.cbrt(p) for x, p in zip(symbols, sympy.sieve, strict=False)}
        try:
            try:
                found = _value(difference, dict(at), {**_ELEMENTARY, **bessel})
            except NotImplementedError:
                found = sympy.lambdify(symbols, difference, [bessel, "mpmath"])(*at.values())
        except _NO_NUMBER:
            return False
        return abs(found) > mpmath.mpf("1e-15")


_ELEMENTARY = {
    f.__name__: getattr(mpmath, f.__name__)  # sympy and mpmath mean the same by these names
    for f in (sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tanh)
}
_NO_NUMBER = (
    *(NameError, NotImplementedError, TypeError),  # mpmath does not know a function
    *(ZeroDivisionError, mpmath.mp.NoConvergence),
)


def _value(of: Any, known: dict[Any, Any], functions: dict[str, Any]) -> Any:
    """The number that an expression is, by mpmath. Most are sums and products, of which lambdify
    would print and compile the text: that takes twenty times as long.

    known: the values of the symbols; those of what was met on the way are put in. Raises
    NotImplementedError for anything but numbers, sums, products, powers and `functions`.
    """
    if of in known:
        return known[of]
    if of.is_Rational:
        found = mpmath.mpf(of.p) / of.q
    elif of.is_Add:
        found = mpmath.fsum(_value(a, known, functions) for a in of.args)
    elif of.is_Mul:
        found = mpmath.fprod(_value(a, known, functions) for a in of.args)
    elif of.is_Pow:
        base, exponent = (_value(a, known, functions) for a in of.args)
        found = base**exponent
    elif of.func.__name__ in functions:
        found = functions[of.func.__name__](*(_value(a, known, functions) for a in of.args))
    else:
        raise NotImplementedError(f"no value for {of.func}")
    known[of] = found
    return found
