"""Latent trees in symbols: means as sums over all joint states, for proofs of this chapter."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import sympy

from clcore.ledger import exact

Q = sympy.Matrix([-1, 1])  # q: P(z_nu | z_mu) is (1 1^T + rho q q^T)/2
HALF = sympy.Rational(1, 2)
ROOT = sympy.Symbol("rho_0", real=True)

State = tuple[int, ...]
Value = Callable[[State], sympy.Expr]


class Law(NamedTuple):
    """A tree of latents: each node's parent, the root's prior, P(z_node | z_parent) of the rest."""

    parents: Sequence[int]
    prior: Any
    tables: Mapping[int, sympy.Matrix]


def edge(rho: Any) -> Any:
    """Eq. 14: P(z_nu | z_mu), a row each z_mu."""
    up, down = (1 + rho) / 2, (1 - rho) / 2
    return sympy.Matrix([[up, down], [down, up]])


def binary(parents: Sequence[int], rho0: Any = ROOT) -> Law:
    """SB-HLTM with the symbols `polarity(node)`; rho0 is that of the root."""
    tables = {node: edge(polarity(node)) for node in range(1, len(parents))}
    return Law(parents, [(1 - rho0) / 2, (1 + rho0) / 2], tables)


def polarity(node: int) -> sympy.Symbol:
    """The polarity rho of the edge above a node, a symbol."""
    return sympy.Symbol(f"rho_{node}", real=True)


def stochastic(name: str, rows: int, columns: int) -> Any:
    """A table of symbols whose rows sum to 1."""
    table = exact.matrix(name, rows, columns)
    for i in range(rows):
        table[i, columns - 1] = 1 - sum(table[i, :-1])
    return table


def regular(name: str, rows: int, columns: int) -> Any:
    """A table of Def. 3: rows sum to 1 and columns to rows / columns; all other entries free."""
    table = stochastic(name, rows, columns)
    for j in range(columns):
        above = sum(table[:-1, j], sympy.Integer(0))
        table[rows - 1, j] = sympy.Rational(rows, columns) - above
    return table


def deviation(table: Any) -> Any:
    """C of Def. 3: the table minus 1 / m_nu."""
    return table - sympy.ones(*table.shape) / table.cols


def along(law: Law, node: int) -> Any:
    """P(z_node | z_0), a row each z_0, from the joint states."""

    rows, columns = range(len(law.prior)), range(law.tables[node].cols)

    def chance(state: int, end: int) -> sympy.Expr:
        return mean(law, lambda z: sympy.Integer(z[node] == end), 0, state)

    return sympy.Matrix([[chance(state, end) for end in columns] for state in rows])


def chances(law: Law, node: int = 0, state: int | None = None) -> dict[State, list[sympy.Expr]]:
    """The factors of every joint state's probability, with `node` in `state`; at the root: given
    that."""
    states = [len(law.prior)] + [law.tables[k].cols for k in range(1, len(law.parents))]
    found = {}
    for z in product(*map(range, states)):
        if state is not None and z[node] != state:
            continue
        first = 1 if node == 0 and state is not None else law.prior[z[0]]
        rest = [law.tables[k][z[law.parents[k]], z[k]] for k in range(1, len(law.parents))]
        found[z] = [sympy.sympify(p) for p in (first, *rest)]
    return found


def mean(law: Law, value: Value, node: int = 0, state: int | None = None) -> Any:
    """E[value] from the joint states, or where z_node = state: at the root E[value | z_0 = state],
    at another node P(z_node = state) times that."""
    weights = chances(law, node, state)
    shown = [sympy.sympify(value(z)) for z in weights]
    # Sums over many states are faster in a ring of polynomials than by expansion.
    ring, parts = sympy.sring([q for p in weights.values() for q in p] + shown)
    total, width = ring.zero, len(law.parents)
    for k, value_ in enumerate(parts[width * len(weights) :]):
        total += prod(parts[k * width : (k + 1) * width]) * value_
    return total.as_expr()


def certain(z: State) -> Any:
    """What has the mean 1, so that `mean` is a probability."""
    return sympy.Integer(1)


def over_root(law: Law, values: Sequence[Value]) -> Any:
    """V_{z_0}[E[values | z_0]], as a sum over the root's states."""
    states = range(len(law.prior))
    rows = [sympy.Matrix([mean(law, value, 0, c) for value in values]) for c in states]
    middle = sum((law.prior[c] * rows[c] for c in states), sympy.zeros(len(values), 1))
    gaps = [row - middle for row in rows]
    return sum((law.prior[c] * gaps[c] * gaps[c].T for c in states), sympy.zeros(len(values)))


def shows(node: int, values: Any) -> Value:
    """values[z_node]: what a unit shows on the mean whose latent is that."""
    return lambda z: values[z[node]]


MIDDLE = exact.vector("middle", 2)
"""The mean of v_k(0) and v_k(1), of two units."""
GAPS = exact.vector("s", 2)
"""s_k, half of v_k(1) - v_k(0), of two units."""
SHOWN = sympy.Matrix.hstack(MIDDLE - GAPS, MIDDLE + GAPS)
"""v_k(0) and v_k(1) of two units, a row each, by their mean and s_k."""


class Far(NamedTuple):
    """Two children of a node mu that is two edges below the root; path is rho_0mu."""

    law: Law
    values: list[Value]
    a: Any
    path: Any
    covariance: Any


@cache
def far() -> Far:
    """The covariance of the children's units over z_0, by the joint states."""
    law = binary((-1, 0, 1, 2, 2))
    values = [shows(3 + k, SHOWN.row(k)) for k in range(2)]
    a = sympy.Matrix([polarity(3 + k) * GAPS[k] for k in range(2)])
    return Far(law, values, a, 2 * along(law, 2)[1, 1] - 1, over_root(law, values))


def sizes(path: Any) -> tuple[sympy.Expr, sympy.Expr]:
    """o_mu as Theorem 6 is typeset, and that of Eq. 179."""
    return path**2 * (1 - path**2), path**2 * (1 - ROOT**2)
