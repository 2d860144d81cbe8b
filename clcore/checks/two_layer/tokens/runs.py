"""Figures 4, 5, 9, 10 and Table 1 of nl beside our runs (nl Sec. 5, App. E.2).

Functions of a table of runs (`token_panels.runs`), recorded or of this build, all of one protocol;
`settings` puts protocols and scores side by side. Full size: 16 settings
(P, beta), 3 seeds, 5000 minibatches; anything less is `partial`. Every grid has a row of random
filters, the same nets before training.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import linregress, spearmanr

from clcore import ledger, stats
from clcore.experiments.token_panels import FACTORS, FIGURE_SEEDS, OURS, SIZES
from clcore.experiments.token_sequences import STEPS
from clcore.ledger import Part, Trial, check

REPEATS = FIGURE_SEEDS
SHARE = 0.9
MUCH = 3.0
"""How many times "much less affected" is, in nl Fig. 4: a threshold of ours, as are 0.5 for "in
most cells", 0.8 for a rank correlation and 0.9 for a cosine or a share of cells."""
LESS_AFFECTED = "(c) linear is much less affected by beta"
BETTER = "better without the variance's gradient"
GROUP = ["activation", "kind", "norm", "zeta"]
CELL = [*GROUP, "P", "beta"]
VARIANTS = {
    "mu_no__sigma_no": "neither",
    "mu_no__sigma_yes": "variance",
    "mu_yes__sigma_no": "mean",
    "mu_yes__sigma_yes": "vanilla",
}
"""Columns of Table 1 and the BatchNorm of `token_sequences` each one is."""
PLAIN = {"kind": "infonce", "norm": "none", "zeta": 1.0}
OF_NETS = "ReLU finds "
"""How the parts begin that are measured on nets of Fig. 5."""
NAMES = {"chi_plus": "scored by Eq. 16", "released_plus": "by the program's score"}


def cells(runs: pd.DataFrame, column: str = "chi_plus", trained: bool = True) -> pd.DataFrame:
    """Mean, std (n - 1) and count of `column` at the last step (or the first: random filters),
    one row a setting: activation, kind, norm, zeta, P, beta."""
    step = runs.step.max() if trained else 0
    kept = runs[runs.step == step].reset_index(drop=True)
    P = kept.P.round().astype(int)
    kept = kept.assign(zeta=kept.zeta.round(3), P=P, beta=kept.filters // P)
    return kept.groupby(CELL)[column].agg(["mean", "std", "count"]).reset_index()


def grid(table: pd.DataFrame, **chosen: str | float) -> pd.DataFrame:
    """Means of one panel, P down and beta across. Errors: no such runs."""
    for name, value in chosen.items():
        table = table[table[name] == value]
    if table.empty:
        raise ValueError(f"expected runs with {chosen}, got none; train or record them first")
    if table.duplicated(["P", "beta"]).any():
        raise ValueError(f"expected one panel, got several under {chosen}; name more of {GROUP}")
    return table.pivot(index="P", columns="beta", values="mean")


def evidence(runs: pd.DataFrame) -> str:
    """Whether runs are at full size: every setting 3 times, 5000 minibatches."""
    table = cells(runs)
    complete = table.groupby(GROUP).size().min() == len(SIZES) * len(FACTORS)
    full = complete and table["count"].min() >= REPEATS and runs.step.max() >= STEPS
    return "protocol" if full else "partial"


def panel(
    runs: pd.DataFrame, column: str, trained: bool = True, **chosen: str | float
) -> pd.DataFrame:
    """`grid` of these runs; InfoNCE, no BatchNorm and zeta = 1 unless `chosen` says otherwise."""
    return grid(cells(runs, column, trained), **(PLAIN | chosen))


def slope(table: pd.DataFrame) -> float:
    """Mean over P > 1 of the slope of the score in log beta."""
    x = np.log(table.columns.to_numpy(float))
    return float(np.mean([linregress(x, row).slope for row in table.loc[table.index > 1].values]))


def _gap(a: pd.DataFrame, b: pd.DataFrame) -> float:
    """Mean difference of two panels over the standard error of that mean."""
    return float(stats.paired((a - b).to_numpy().ravel()).t)


def _beyond(runs: pd.DataFrame, column: str, a: dict, b: dict, trained: bool) -> float:
    """Share of settings with P > 1, beta > 1 in which a exceeds b by 2 pooled std."""
    table = cells(runs, column, trained).query("P > 1 and beta > 1")
    spread = []
    for chosen in (a, b):
        rows = table
        for name, value in (PLAIN | chosen).items():
            rows = rows[rows[name] == value]
        spread.append(rows.set_index(["P", "beta"])[["mean", "std"]])
    pooled = ((spread[0]["std"] ** 2 + spread[1]["std"] ** 2) / 2) ** 0.5
    return float((spread[0]["mean"] - spread[1]["mean"] > 2 * pooled).mean())


def ahead(p: Part, runs: pd.DataFrame, column: str, a: dict, b: dict) -> None:
    """In what share of cells a is ahead of b. Control: random filters."""
    p.add(_beyond(runs, column, a, b, trained=True))
    p.breaks("random filters", _beyond(runs, column, a, b, trained=False))


def _listed(values: pd.Series, places: int) -> str:
    return ", ".join(f"{v:.{places}f}" for v in values)


@check("nl/fig4", on="runs")
def fig4(t: Trial, runs: pd.DataFrame, column: str = "chi_plus", much: float = MUCH) -> None:
    """The statements on ReLU and linear nets, on the means of the panels. Controls: random
    filters, panels exchanged, the other end of the grid. much: how many times "much less" is."""
    part = partial(t.part, relation=">=", evidence=evidence(runs))
    relu, linear = (panel(runs, column, activation=a) for a in ("relu", "linear"))
    before = panel(runs, column, trained=False, activation="relu")
    lead = linear - relu
    p = part("(a) at P = 1, beta = 1 linear is ahead of ReLU", draws=REPEATS)
    p.add(lead.loc[1, 1]).breaks("P = 5, beta = 5", lead.loc[5, 5])
    p = part("(a) at P = 1 linear is ahead of ReLU, mean over beta", draws=4 * REPEATS)
    p.add(lead.loc[1].mean()).breaks("P = 5", lead.loc[5].mean())
    p.says(leads=_listed(lead.loc[1], 2))
    rise = (relu - before).loc[1, 10] - (relu - before).loc[1, 1]
    p = part("(a) at P = 1 ReLU needs a large beta", draws=REPEATS)
    p.add(rise).breaks("beta exchanged", -rise)
    p.says(low=relu.loc[1, 1], high=relu.loc[1, 10])
    p.says(random_low=before.loc[1, 1], random_high=before.loc[1, 10])
    linear_nets = {"activation": "linear"}
    p = part("(b) ReLU beats linear where P > 1 and beta > 1", 0.5, draws=9 * REPEATS)
    ahead(p, runs, column, {"activation": "relu"}, linear_nets)
    ranks = pd.Series([spearmanr(relu.columns, row).statistic for row in relu.to_numpy()])
    p = part("(c) ReLU improves with beta", 0.8, draws=16 * REPEATS)
    p.add(ranks.mean()).breaks("beta reversed", -ranks.mean()).says(ranks=_listed(ranks, 1))
    _less_affected(t, runs, column, much)
    for other in sorted({"leaky_relu", "quadratic"} & set(runs.activation)):
        name = f"(d) {other} beats linear where P > 1 and beta > 1"
        p = part(name, 0.5, draws=9 * REPEATS)
        ahead(p, runs, column, {"activation": other}, linear_nets)
    _losses(t, runs, column, "(e) ")


def _less_affected(t: Trial, runs: pd.DataFrame, column: str, times: float) -> None:
    """The slope of linear nets in log beta is `times` below that of ReLU nets. Control: the nets
    exchanged, or, for times > 1, ReLU nets for linear ones."""
    relu, linear = (slope(panel(runs, column, activation=a)) for a in ("relu", "linear"))
    before = slope(panel(runs, column, trained=False, activation="relu"))
    a, b = abs(linear), abs(relu)
    p = t.part(LESS_AFFECTED, draws=16 * REPEATS, evidence=evidence(runs)).add(a - b / times)
    if times > 1:
        p.breaks("ReLU", b - b / times)
    else:
        p.breaks("nets exchanged", b - a)
    p.says(linear=linear, relu=relu, random=before, times=times)


def _losses(t: Trial, runs: pd.DataFrame, column: str, letter: str = "") -> None:
    """InfoNCE ahead of the quadratic loss, and the same trend in beta, for ReLU nets."""
    part = partial(t.part, relation=">=", evidence=evidence(runs), draws=32 * REPEATS)
    ahead = panel(runs, column, activation="relu")
    behind = panel(runs, column, activation="relu", kind="quadratic")
    p = part(f"{letter}InfoNCE is ahead of the quadratic loss", 2.0).add(_gap(ahead, behind))
    p.breaks("losses exchanged", _gap(behind, ahead))
    lead = (ahead - behind).to_numpy()
    p.says(lead=lead.mean(), cells=lead.size, positive=(lead > 0).sum())
    slopes = [slope(p) for p in (ahead, behind)]
    p = part(f"{letter}both rise with beta").add(min(slopes)).breaks("beta reversed", -max(slopes))
    p.says(infonce=slopes[0], quadratic=slopes[1])


@check("nl/fig10", on="runs")
def fig10(t: Trial, runs: pd.DataFrame, column: str = "chi_plus") -> None:
    """The quadratic loss against InfoNCE. Controls: losses exchanged, beta reversed."""
    _losses(t, runs, column)


@check("nl/fig9", on="runs")
def fig9(t: Trial, runs: pd.DataFrame, column: str = "chi_minus") -> None:
    """chi_- of ReLU nets against the other activations in the table, everywhere and where the
    figure's (b) looks, and against their chi_+. Controls: the other score; P = 1; random filters.
    """
    runs = runs[runs.kind == "infonce"]
    kinds = sorted(set(runs.activation))
    if not {"relu", "linear"} < set(kinds):
        raise ValueError(f"expected runs of relu, linear and another activation, got {kinds}")
    part = partial(t.part, bound=0.5, relation=">=", evidence=evidence(runs))
    relu = lowest(runs, column)
    other = lowest(runs, column.replace("minus", "plus"))
    p = part("ReLU has the lowest chi_-", draws=relu.size * len(kinds) * REPEATS)
    p.add(relu.to_numpy().mean()).breaks("chi_+", other.to_numpy().mean())
    p.says(kinds=", ".join(kinds))
    name = "ReLU has the lowest chi_- where P > 1 and beta > 1"
    p = part(name, draws=9 * len(kinds) * REPEATS)
    p.add(relu.loc[relu.index > 1, relu.columns > 1].to_numpy().mean())
    p.breaks("P = 1", relu.loc[1].mean())
    _inside(t, runs, column, "chi_+ above chi_- for ReLU", 0.05, SIZES)


def lowest(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Where ReLU scores lower than all other activations, P down and beta across."""
    others = [panel(runs, column, activation=a) for a in set(runs.activation) - {"relu"}]
    return panel(runs, column, activation="relu") < np.min(others, axis=0)


def _inside(
    t: Trial, runs: pd.DataFrame, column: str, name: str, bound: float, sizes: tuple[int, ...]
) -> Part:
    """Mean over settings of chi_+ - chi_- of ReLU nets. Control: random filters."""
    plus = column.replace("minus", "plus")
    trained, untrained = (
        (panel(runs, plus, when, activation="relu") - panel(runs, column, when, activation="relu"))
        .loc[list(sizes)]
        .to_numpy()
        for when in (True, False)
    )
    draws = len(sizes) * 4 * REPEATS
    p = t.part(name, bound, ">=", draws=draws, evidence=evidence(runs)).add(trained.mean())
    return p.breaks("random filters", untrained.mean()).says(least=trained.min())


@check("nl/rem22", on="runs")
def rem22(t: Trial, runs: pd.DataFrame, nets: pd.DataFrame, column: str = "chi_minus") -> None:
    """Weights concentrate on the tokens of the generators: by the scores, and in the nets of
    Fig. 5, where a field is to have all of its tokens and no other. Controls: random filters, and
    nets trained with generators that use every token; linear nets; tokens of R_k."""
    sizes, every = (1, 3, 5), runs[runs.panel == "unconfined"]
    p = _inside(t, bare(runs), column, "chi_+ - chi_- of ReLU nets", 0.2, sizes)
    plus = column.replace("minus", "plus")
    gap = _mean(every, plus, sizes) - _mean(every, column, sizes)
    p.breaks("generators with every token", gap)
    _found(t, nets, OF_NETS + "all three tokens and no other", _both)
    _noise_free(t, nets)


def _mean(runs: pd.DataFrame, column: str, sizes: tuple[int, ...]) -> float:
    return float(cells(runs, column).query("P in @sizes")["mean"].mean())


# --------------------------------------------------------------------------------------- Table 1


def printed() -> pd.DataFrame:
    """Table 1 as printed: beta, P, norm, paper, paper_std; 64 rows."""
    rows = [
        (int(beta[5:]), int(P[2:]), VARIANTS[column], value["mean"], value["std"])
        for beta, sizes in ledger.claim("nl/tab1")["numbers"]["cells"].items()
        for P, columns in sizes.items()
        for column, value in columns.items()
    ]
    return pd.DataFrame(rows, columns=["beta", "P", "norm", "paper", "paper_std"])


def table1(
    runs: pd.DataFrame, column: str = "chi_plus", spread: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Table 1 beside our means, and whether a cell agrees by the ledger's rule (the paper's n,
    which it does not state here, is the 3 of its figures).

    spread: runs whose standard deviations are taken where there is one run a cell.
    """
    chosen = "zeta == 10 and activation == 'relu' and kind == 'infonce'"
    ours = cells(runs, column).query(chosen)
    table = printed().merge(ours[["beta", "P", "norm", "mean", "std", "count"]], "inner")
    if spread is not None:
        other = cells(spread, column).query(chosen)[["beta", "P", "norm", "std"]]
        alone = table.drop(columns="std").merge(other, "left")["std"]
        table["std"] = table["std"].fillna(alone)
    return table.assign(agrees=_agree(table, table))


def _agree(table: pd.DataFrame, ours: pd.DataFrame) -> list[bool]:
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


def _order(table: pd.DataFrame, value: str) -> pd.Series:
    """(mean, no variance) minus (mean and variance), one row a setting."""
    wide = table.pivot(index=["beta", "P"], columns="norm", values=value)
    return wide["mean"] - wide["vanilla"]


@check("nl/tab1", on="runs")
def tab1(
    t: Trial, runs: pd.DataFrame, column: str = "chi_plus", spread: pd.DataFrame | None = None
) -> None:
    """All 64 cells by the agreement rule, and the order of the last two columns. Controls:
    variants in another order. spread: as in `table1`."""
    table = table1(runs, column, spread)
    draws = int(table["count"].sum())
    p = t.part("cells", SHARE, ">=", draws=draws, evidence=evidence(runs))
    p.add(table.agrees.mean()).breaks("variants exchanged", _exchanged(table))
    p.says(agree=table.agrees.sum(), cells=len(table), score=NAMES[column], share=SHARE)
    if {"mean", "vanilla"} <= set(table.norm):
        _better(t.part(BETTER, 0.02, ">=", evidence=evidence(runs)), _order(table, "mean"))


@check("nl/tab1")
def tab1_printed(t: Trial) -> None:
    """The sentence on Table 1 against the table's own numbers. Control: columns exchanged."""
    p = t.part(f"{BETTER}, printed numbers", 0.02, ">=", words=BETTER)
    _better(p, _order(printed(), "paper"))


def _better(p: Part, gain: pd.Series) -> None:
    p.draws = len(gain)
    p.add(gain.mean()).breaks("exchanged", -gain.mean())
    reversed_at = [f"({b}, {p})" for (b, p), g in gain.items() if g < 0]
    p.says(reversed=", ".join(reversed_at) or "none")


# ------------------------------------------------------------------------------------- Figure 5


@check("nl/fig5", on="runs")
def fig5(t: Trial, nets: pd.DataFrame) -> None:
    """Trained nets at P = 3, beta = 5, one row each (`token_panels.found`): fields in which every
    token of R_k has a filter. Controls: linear nets, random filters."""

    def every(nets: pd.DataFrame) -> float:
        return float(nets.all_found.mean())

    for part, relu in _found(t, nets, OF_NETS + "all three tokens", every):
        part.says(nets=len(relu), least=relu.all_found.min())


def _found(
    t: Trial, nets: pd.DataFrame, name: str, share: Callable[[pd.DataFrame], float]
) -> list[tuple[Part, pd.DataFrame]]:
    """A part for each number of tokens: in what share of fields trained ReLU nets have what is
    asked. Controls: linear nets, random filters, of which no field has all three."""
    trained, before, parts = nets[nets.step > 0], nets[nets.step == 0], []
    for tokens, rows in trained.groupby("tokens"):
        relu, linear = (rows[rows.activation == a] for a in ("relu", "linear"))
        chance = before[(before.tokens == tokens) & (before.activation == "relu")]
        size, full = len(relu), f"{name}, {tokens} tokens"
        p = t.part(full, 0.9, ">=", draws=size, words=name, evidence=_size(trained))
        p.add(share(relu)).breaks("linear", share(linear)).breaks("random", share(chance))
        parts.append((p, relu))
    return parts


def _both(nets: pd.DataFrame) -> float:
    """At most this share of fields has all tokens of R_k and no other."""
    return np.minimum(nets.all_found, 1 - nets.other_found).mean()


def _size(nets: pd.DataFrame) -> str:
    return "protocol" if nets.step.max() >= STEPS else "partial"


def _noise_free(t: Trial, nets: pd.DataFrame) -> None:
    """Fields in which a token outside R_k has a filter. Control: tokens of R_k."""
    trained, name = nets[(nets.step > 0) & (nets.activation == "relu")], OF_NETS + "no other token"
    for tokens, rows in trained.groupby("tokens"):
        part = f"{name}, {tokens} tokens"
        p = t.part(part, evidence=_size(rows), draws=len(rows), words=name)
        p.add(rows.other_found.mean()).breaks("tokens of the set", rows.any_found.mean())


# ------------------------------------------------------------------------------ parts of a record


def of_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """Without the panels that are ours."""
    return runs[~runs.panel.isin(OURS)]


def bare(runs: pd.DataFrame) -> pd.DataFrame:
    """Tokens of norm 1, without BatchNorm."""
    return of_paper(runs).query("norm == 'none' and zeta == 1")
