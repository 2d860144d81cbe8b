"""Table 1 of nl, four variants of BatchNorm, against our runs and against its own sentence (nl App.
E.2).

Functions of a table of runs, as `runs`.
"""

import numpy as np
import pandas as pd

from clcore import ledger, stats
from clcore.checks.two_layer.tokens.runs import NAMES, REPEATS, Runs, cells, evidence
from clcore.ledger import Part, Trial, check

SHARE = 0.9
BETTER = "better without the variance's gradient"
VARIANTS = {
    "mu_no__sigma_no": "neither",
    "mu_no__sigma_yes": "variance",
    "mu_yes__sigma_no": "mean",
    "mu_yes__sigma_yes": "vanilla",
}
"""Columns of Table 1 and the BatchNorm of `token_sequences` each one is."""
PAIRS = (("mean", "vanilla"), ("neither", "variance"))
"""Variants that differ in the variance's gradient alone: without it, with it."""


def printed() -> pd.DataFrame:
    """Table 1 as printed: beta, P, norm, paper, paper_std; 64 rows."""
    rows = [
        (int(beta[5:]), int(P[2:]), VARIANTS[column], value["mean"], value["std"])
        for beta, sizes in ledger.claim("nl/tab1")["numbers"]["cells"].items()
        for P, columns in sizes.items()
        for column, value in columns.items()
    ]
    return pd.DataFrame(rows, columns=["beta", "P", "norm", "paper", "paper_std"])


def beside_ours(runs: pd.DataFrame, column: str = "chi_plus") -> pd.DataFrame:
    """Table 1 with our means, and whether a cell agrees by the ledger's rule (the paper's n,
    which it does not state here, is the 3 of its figures)."""
    ours = cells(runs, column).query("zeta == 10 and activation == 'relu' and kind == 'infonce'")
    table = printed().merge(ours[["beta", "P", "norm", "mean", "std", "count"]], "inner")
    return table.assign(agrees=_agree(table, table))


def _agree(table: pd.DataFrame, ours: pd.DataFrame) -> list[bool]:
    """Whether each printed cell agrees with ours by the ledger's rule."""
    columns = (ours["mean"], ours["std"], ours["count"], table.paper, table.paper_std)
    return [
        ledger.agreement(m, s, int(n), theirs, spread, REPEATS, 0.01)
        for m, s, n, theirs, spread in zip(*columns, strict=True)
    ]


def _exchanged(table: pd.DataFrame) -> float:
    """Share of printed cells that agree with our results of the variants in another order."""
    names = [n for n in VARIANTS.values() if n in set(table.norm)]
    other = table.norm.map(dict(zip(names, names[::-1], strict=True)))
    ours = stats.other_cells(table, ["beta", "P", "norm"], norm=other)
    return float(np.mean(_agree(table, ours)))


def _gains(table: pd.DataFrame, value: str) -> list[pd.Series]:
    """Without the variance's gradient minus with it, one row per setting: with the mean's gradient,
    and without, if both variants of the pair were run."""
    wide = table.pivot(index=["beta", "P"], columns="norm", values=value)
    return [wide[a] - wide[b] for a, b in PAIRS if {a, b} <= set(wide.columns)]


@check("nl/tab1", on="runs")
def tab1(t: Trial, runs: Runs, column: str = "chi_plus") -> None:
    """Matching score for four BatchNorm variants, tokens of unequal norm (Table 1).

    Protocol   the token experiment at zeta = 10 with four variants of BatchNorm, ReLU nets,
               InfoNCE.
    Question   (1) Do nine of ten of the 64 cells agree with the paper's by the ledger's rule? (2)
               Is the score better without the variance's gradient, by 0.02 or more in the mean,
               with the mean's gradient and without?
    Refuted    by (1) fewer cells, (2) a smaller gain. Controls: variants in another order.
    """
    table = beside_ours(runs, column)
    draws = int(table["count"].sum())

    # (1) The share of cells that agree.
    cells = t.part("cells", SHARE, ">=", draws=draws, evidence=evidence(runs))
    cells.add(table.agrees.mean()).breaks("variants exchanged", _exchanged(table))
    cells.says(agree=table.agrees.sum(), cells=len(table), score=NAMES[column], share=SHARE)

    # (2) Scores of the variants without it minus those with it, where both were run.
    if gains := _gains(table, "mean"):
        _better(t.part(BETTER, 0.02, ">=", evidence=evidence(runs)), gains)


@check("nl/tab1")
def tab1_printed(t: Trial) -> None:
    """Matching score for four BatchNorm variants, tokens of unequal norm (Table 1).

    Given   the printed cells of Table 1.
    Claim   The sentence on the table agrees with its numbers: better without the variance's
            gradient, by 0.02 or more, averaged over (beta, P), with the mean's gradient and
            without.
    Fails   with the columns exchanged, which turns the sign.
    """
    part = t.part(f"{BETTER}, printed numbers", 0.02, ">=", words=BETTER)
    _better(part, _gains(printed(), "paper"))


def _better(p: Part, gains: list[pd.Series]) -> None:
    p.draws = sum(map(len, gains))
    for gain in gains:
        p.add(gain.mean()).breaks("exchanged", -gain.mean())
    lost = dict.fromkeys(f"({b}, {P})" for gain in gains for b, P in gain[gain < 0].index)
    where = f"it is reversed at (beta, P) = {', '.join(lost)}" if lost else "no setting reverses it"
    p.says(reversed=where)
