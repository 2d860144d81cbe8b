"""A proof of the limit of large batches, which Lemma 2 and what follows from it share."""

from itertools import product

import sympy

from clcore.ledger import Part, exact


def averaged(part: Part) -> None:
    """The average over N^2 of a term of two samples, i != j, tends to its mean in mean square: E S
    -> m and E S^2 -> m^2, for every law under which the squared term has a mean.

    E S^2 sorts ordered pairs of pairs by the samples they share. Their numbers are polynomials in
    N of degree 4 at most, found from N = 0 to 4. Control: pairs that all have the first sample.
    """
    size = sympy.Symbol("N", positive=True, integer=True)
    m, one, both = sympy.symbols("m one both", real=True)  # means of q_ij, q_ij q_ik, q_ij^2
    of = {0: m**2, 1: one, 2: both}  # q made symmetric, as sums over both orders allow

    def limits(star: bool) -> list[sympy.Expr]:
        sums: list[list[tuple[int, sympy.Expr]]] = [[], []]
        for n in range(5):
            pairs = [p for p in product(range(n), repeat=2) if p[0] != p[1]]
            pairs = [p for p in pairs if 0 in p] if star else pairs
            shared = [of[len(set(p) & set(q))] for p, q in product(pairs, repeat=2)]
            sums[0].append((n, m * len(pairs)))
            sums[1].append((n, sum(shared, sympy.Integer(0))))
        moments = [sympy.interpolate(values[1:] if star else values, size) for values in sums]
        scale = 2 * size if star else size**2
        return [sympy.limit(moments[k] / scale ** (k + 1), size, sympy.oo) for k in (0, 1)]

    shown, broken = (exact.equal(limits(star), [m, m**2]) for star in (False, True))
    part.proves(shown, breaks={"all pairs share a sample": broken}, at=r"$N\to\infty$")
