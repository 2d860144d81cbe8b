"""Figures 4, 5, 9, 10, 11 and Table 1 of nl under every setting that we ran (nl Sec. 5, App. E.2).

The printed form of a part is measured on runs with all that the paper prints: rate 0.002, momentum,
weight decay, Eq. 1 as a sum, scored by Eq. 16. The paper prints neither the outputs' norm nor the
temperature nor the number of outputs; norm 1, 0.1 and 50 are the released program's in all runs.
How Eq. 16 takes the sign of a linear net's cosine, and which tokens count, is open, too: the
program has its own score. In rate, loss and BatchNorm the program departs from the print: results
of that are given with a part and are its correction if they pass and the print does not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from clcore.checks.two_layer.tokens import batchnorm as norms
from clcore.checks.two_layer.tokens import runs as tables
from clcore.checks.two_layer.tokens import table1
from clcore.experiments.token_panels import ACTIVATIONS, NON_HOMOGENEOUS, OTHER
from clcore.experiments.token_sequences import TEMPERATURES
from clcore.ledger import Check
from clcore.ledger.readings import beside_print, tells

SCORE = "the released program's score (absolute cosines for linear nets, tokens that occur)"
PROGRAM = "the released program's rate 0.02, mean over samples and BatchNorm per view"
BOTH = "the released program's rate 0.02, mean, BatchNorm per view, and score"
LESS = BOTH + ', "much less" read as "less"'
MEAN = "the mean of the cross-entropies at the printed rate"
SUM = "the sum of the cross-entropies at the printed rate"
OPEN = {"mean": MEAN, "sum": SUM} | {n: f"temperature {tau:g}" for n, tau in TEMPERATURES.items()}
"""Name of a table -> what it takes for what the print leaves open: Eq. 1 is tau times the sum."""
SCORED = ", the released program's score"
TANH = f", {OTHER} as the non-homogeneous activation"
FAST = "the released program's rate 0.02 with Eq. 1 as a sum"
FAST_SCORE = FAST + ", and the program's score"
REGULAR = "regular BatchNorm, gradients through mean and deviation"
REGULAR_SCORE = REGULAR + SCORED

NEEDS: dict[Callable, set[str]] = {
    tables.fig4: {*(f"infonce-{a}" for a in ACTIVATIONS), "quadratic-relu"},
    tables.fig9: {f"infonce-{a}" for a in ACTIVATIONS},
    tables.fig10: {"infonce-relu", "quadratic-relu"},
    norms.fig11: {"mean-10", "plain-10"},
    table1.tab1: {"mean-10"},
}
"""Panels without which a corner tells nothing of a figure: not every corner has all of them."""

Checks = list[Callable[[int, int], Iterator[Check]]]


def _set(checks: Iterator[Check], setting: str) -> Iterator[Check]:
    for found in checks:
        yield replace(found, form="open", setting=setting)


def _told(check: Check, name: str, other: Check) -> Check:
    """A part under an open setting with what a reading against the print measures there."""
    return replace(check, readings=f"Another reading gives {other.measured:.2g} ({name}).")


def _of_nets(checks: Iterator[Check]) -> Iterator[Check]:
    """The parts that are measured on nets of Fig. 5, where their control can fail."""
    return (c for c in checks if c.part.startswith(tables.OF_NETS) and tells(c))


def _beside(
    printed: Iterator[Check], others: dict[str, Iterator[Check]], left_open: Sequence[Check] = ()
) -> Iterator[Check]:
    """Parts as printed, and readings against the print, by name."""
    parts = {name: {c.part: c for c in checks} for name, checks in others.items()}
    for c in printed:
        of_part = {n: found[c.part] for n, found in parts.items() if c.part in found}
        yield from beside_print(c, of_part, [o for o in left_open if o.part == c.part])


def _scored(
    check: Callable,
    score: str,
    of: Callable,
    runs: pd.DataFrame,
    others: Mapping[str, pd.DataFrame],
    more: Mapping[str, Iterator[Check]] | None = None,
    left_open: Iterable[Check] = (),
) -> Iterator[Check]:
    """A figure's check of the text's runs by Eq. 16 or 181, and of all runs by both scores.

    others: "program", and what there is of "fast" and of `OPEN`, as of `beside`; left_open: results
    of further settings.
    """
    ours, theirs = f"chi_{score}", f"released_{score}"
    others = {n: t for n, t in others.items() if n == "program" or NEEDS[check] <= set(t.panel)}

    def of_corner(name: str, column: str) -> Iterator[Check]:
        """The parts whose control can fail there: where little is learned, some cannot."""
        return (c for c in check(of(others[name]), column) if tells(c))

    program = {
        PROGRAM: check(of(others["program"]), ours),
        BOTH: check(of(others["program"]), theirs),
    }
    if "fast" in others:
        program |= {FAST: of_corner("fast", ours), FAST_SCORE: of_corner("fast", theirs)}
    opened = [*_set(check(of(runs), theirs), SCORE), *left_open]
    for name, setting in OPEN.items():
        if name in others:
            opened += _set(of_corner(name, ours), setting)
            opened += _set(of_corner(name, theirs), setting + SCORED)
    yield from _beside(check(of(runs), ours), program | dict(more or {}), opened)
    yield from opened


def beside(
    runs: pd.DataFrame,
    released: pd.DataFrame,
    nets: pd.DataFrame,
    other_nets: pd.DataFrame,
    corners: Mapping[str, pd.DataFrame] | None = None,
    corner_nets: Mapping[str, pd.DataFrame] | None = None,
) -> Checks:
    """The checks of the figures and of Table 1, as `Ledger.run` takes them.

    runs, nets: with all that the paper prints; released, other_nets: as the program trains them;
    corners, and nets of Fig. 5 there: "fast", Eq. 1 at the program's rate, and what there is of
    `OPEN`, at the printed rate.
    """
    others, of_nets = {"program": released, **(corners or {})}, corner_nets or {}

    def scored(check: Callable, score: str, of: Callable = tables.bare) -> Callable:
        return lambda draws, seed: _scored(check, score, of, runs, others)

    def fig4(draws: int, seed: int) -> Iterator[Check]:
        less = tables.fig4(tables.bare(released), "released_plus", much=1.0)
        more = {LESS: (c for c in less if c.part == tables.LESS_AFFECTED)}
        yield from _scored(tables.fig4, "plus", tables.bare, runs, others, more)

    def fig9(draws: int, seed: int) -> Iterator[Check]:
        """With the program's sigmoid, and with another activation where there are runs of it."""
        usual = {n: t[t.activation != OTHER] for n, t in others.items()}
        tables_of = ((n, t) for n, t in others.items() if f"infonce-{OTHER}" in set(t.panel))
        left_open = [
            found
            for name, table in tables_of
            for column, scored_by in (("chi_minus", ""), ("released_minus", SCORED))
            for found in _set(
                tables.fig9(tables.bare(table[table.activation != NON_HOMOGENEOUS]), column),
                OPEN[name] + TANH + scored_by,
            )
        ]
        yield from _scored(tables.fig9, "minus", tables.bare, runs, usual, left_open=left_open)

    def cornered(check: Callable, program: Iterator[Check]) -> Iterator[Check]:
        """A check of the nets of Fig. 5, and its parts on nets in the corners."""
        against = {PROGRAM: program}
        if "fast" in of_nets:
            against[FAST] = _of_nets(check(of_nets["fast"]))
        left_open = [
            found
            for name, setting in OPEN.items()
            if name in of_nets
            for found in _set(_of_nets(check(of_nets[name])), setting)
        ]
        yield from _beside(check(nets), against, left_open)
        yield from left_open

    def filters(draws: int, seed: int) -> Iterator[Check]:
        yield from cornered(tables.fig5, tables.fig5(other_nets))

    def concentrate(draws: int, seed: int) -> Iterator[Check]:
        # The program's score takes every token that occurs, so that of the control says nothing.
        yield from cornered(partial(tables.rem22, runs), tables.rem22(released, other_nets))

    def fig11(draws: int, seed: int) -> Iterator[Check]:
        of = tables.of_paper
        regular = {REGULAR: ("chi_plus", PROGRAM), REGULAR_SCORE: ("released_plus", BOTH)}
        vanilla = [
            _told(c, program, released_one)
            for setting, (column, program) in regular.items()
            for c, released_one in zip(
                _set(norms.fig11(of(runs), column, "vanilla"), setting),
                norms.fig11(of(released), column, "vanilla"),
                strict=True,
            )
        ]
        yield from _scored(norms.fig11, "plus", of, runs, others, left_open=vanilla)

    return [
        fig4,
        filters,
        concentrate,
        fig9,
        scored(tables.fig10, "plus"),
        fig11,
        scored(table1.tab1, "plus", tables.of_paper),
        table1.tab1_printed,
    ]
