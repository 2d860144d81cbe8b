"""The token experiment's checks: the exact ones, and those on tables of runs."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
import torch

from clcore import _paths, ledger
from clcore.checks.two_layer.tokens import batchnorm as norms
from clcore.checks.two_layer.tokens import runs as tables
from clcore.checks.two_layer.tokens import sequences as nl_tokens
from clcore.checks.two_layer.tokens import settings, table1
from clcore.experiments import token_sequences as ts
from clcore.ledger import findings

pytestmark = pytest.mark.usefixtures("one_thread")


def test_runs_are_trained_as_printed():
    assert nl_tokens.mismatches("paper") == 0 and nl_tokens.mismatches("released") == 16


def test_equation_1_by_loops():
    """nl Eq. 1 with epsilon = 1, raw outputs; a shift of all outputs changes nothing."""
    z, tau = np.random.default_rng(0).standard_normal((2, 4, 3)), 0.7
    total = 0.0
    for i in range(4):
        near = np.exp(-((z[0, i] - z[1, i]) ** 2).sum() / 2 / tau)
        far = [np.exp(-((z[0, i] - z[0, j]) ** 2).sum() / 2 / tau) for j in range(4) if j != i]
        total -= tau * np.log(near / (near + sum(far)))
    raw = torch.from_numpy(z)
    assert nl_tokens.eq1(raw, tau).item() == pytest.approx(total)
    assert nl_tokens.eq1(raw + 3, tau).item() == pytest.approx(total)


def score(activation, kind, norm, zeta, P, beta):
    """What the paper says of chi_+, as a formula."""
    if activation == "linear":
        return 0.9 if P == 1 else 0.4 + 0.001 * beta
    value = 0.5 + 0.17 * np.log(beta) - 0.05 * (kind == "quadratic")
    if zeta > 1 and norm == "none":
        value -= 0.03 * zeta
    return value - 0.1 * (norm == "vanilla")


def name(activation, kind, norm, zeta):
    """A panel's, as `token_panels` has it."""
    if zeta == 1:
        return f"{kind}-{activation}"
    return f"{'plain' if norm == 'none' else norm}-{zeta:g}"


def runs(steps=5000, seeds=3, change=None, more=False):
    """Runs as the paper says they are: activations, losses, BatchNorm at three zeta, Table 1."""
    panels = [(a, k, "none", 1.0) for a in ("relu", "linear") for k in ts.LOSSES]
    panels += [("leaky_relu", "infonce", "none", 1.0)]
    panels += [("relu", "infonce", n, z) for n in ("none", "mean") for z in (2.0, 5.0, 10.0)]
    panels += [("relu", "infonce", n, 10.0) for n in ("neither", "variance", "vanilla")]
    names = ["activation", "kind", "norm", "zeta"]
    panels += [(a, "infonce", "none", 1.0) for a in ("quadratic", "sigmoid") if more]
    rows = []
    for panel, P, beta, s in itertools.product(panels, tables.SIZES, tables.FACTORS, range(seeds)):
        own = (change or score)(*panel, P, beta)
        for step in (0, steps):
            by_chance = 0.2 + 0.05 * np.log(beta)
            value = own if step else by_chance
            lead = 0.1 if P > 1 else -0.1  # of ReLU, over the other activations
            minus = 0.2 - lead * (panel[0] == "relu") if step else by_chance
            jitter = 0.01 * (s - 1)
            row = dict(zip(names, panel, strict=True)) | {"seed": s, "P": float(P), "step": step}
            plus = value + jitter
            scores = {"chi_plus": plus, "released_plus": plus, "chi_minus": minus + jitter}
            scores["released_minus"] = scores["chi_minus"]
            rows.append(row | {"filters": beta * P, "panel": name(*panel)} | scores)
    made = pd.DataFrame(rows)
    relu = made.query("activation == 'relu' and kind == 'infonce' and zeta == 1")
    alike = {"panel": "unconfined", "chi_plus": relu.chi_minus, "released_plus": relu.chi_minus}
    return pd.concat([made, relu.assign(**alike)], ignore_index=True)


def nets(steps=5000, other=0.0):
    """Trained and untrained nets of Fig. 5 as the paper says they are."""
    rows = []
    for tokens, activation, step in itertools.product((20, 8), ("relu", "linear"), (0, steps)):
        relu = float(step > 0 and activation == "relu")
        shares = {"all_found": relu, "any_found": relu, "other_found": other * relu}
        rows.append({"tokens": tokens, "activation": activation, "step": step, "seed": 0} | shares)
    return pd.DataFrame(rows)


def records(made, steps=5000):
    book = ledger.Ledger("any")
    checks = settings.beside(made, made, nets(steps), nets(steps))
    return book.run(checks, draws=1, seed=0), book


def test_runs_as_the_paper_says_pass_every_figure_s_check():
    found, _ = records(runs())
    figures = [r for r in found if r.claim != "nl/tab1"]
    assert {r.claim for r in figures} == {
        f"nl/{n}" for n in ("fig4", "fig5", "fig9", "fig10", "fig11", "rem22")
    }
    assert all(r.passed for r in figures), [r.part for r in figures if not r.passed]
    assert {r.evidence for r in figures} == {"protocol"}


def test_the_program_beside_the_print_is_a_correction_and_the_score_a_setting():
    """The printed form once a part; the score is open, the program's rate is not."""

    def steep(*c):
        return 0.4 + 0.15 * np.log(c[5]) if c[0] == "linear" and c[4] > 1 else score(*c)

    slow = runs(change=steep)
    book = ledger.Ledger("any")
    book.run(settings.beside(slow, runs(), nets(), nets())[:1], draws=1, seed=0)
    forms = {r["form"] for r in book.records}
    assert forms == {"printed", "corrected", "open"}
    settled = {r["setting"] for r in book.records if r["form"] == "open"}
    assert settled == {settings.SCORE}
    assert {r["correction"] for r in book.records if r["form"] == "corrected"} == {settings.PROGRAM}
    # Where the print passes, the program's failure is said and decides nothing.
    book = ledger.Ledger("any")
    book.run(settings.beside(runs(), slow, nets(), nets())[:1], draws=1, seed=0)
    assert {r["form"] for r in book.records if not r["passed"]} == set()
    assert any("which fails" in r["note"] for r in book.records)


def test_tables_put_one_under_the_other_are_one_table():
    made = runs()
    parts = [made[made.seed == s].reset_index(drop=True) for s in range(3)]
    pd.testing.assert_frame_equal(tables.cells(pd.concat(parts)), tables.cells(made))


def test_less_than_full_size_is_partial():
    assert {tables.evidence(runs(steps=500)), tables.evidence(runs(seeds=2))} == {"partial"}
    found, _ = records(runs(steps=500), steps=500)
    assert {r.evidence for r in found if "printed" not in r.part} == {"partial"}


@pytest.mark.parametrize(
    ("what", "part"),
    [
        (
            lambda *c: 0.8 + 0.01 * c[5] - 0.01 * (c[1] == "quadratic"),
            "(b) ReLU beats linear where P > 1 and beta > 1",
        ),
        (lambda *c: score(*c[:5], 10 / c[5]), "(c) ReLU improves with beta"),
        (
            lambda *c: score("relu", *c[1:]) + 0.5 * (c[0] == "linear") * (c[4] == 1),
            "(c) linear is much less affected by beta",
        ),
        (
            lambda *c: score(c[0], "infonce", *c[2:]) + 0.01 * (c[1] == "quadratic"),
            "(e) InfoNCE is ahead of the quadratic loss",
        ),
    ],
)
def test_other_runs_fail(what, part):
    """With the trend gone the check fails; the controls are then judged by nobody."""
    made = runs(change=what)
    found = {c.part: c for c in tables.fig4(tables.of_paper(made))}[part]
    fails = found.measured < found.bound if found.relation == ">=" else found.measured > found.bound
    assert fails


def test_the_printed_table_is_the_paper_s():
    table = table1.printed().set_index(["beta", "P", "norm"])
    assert len(table) == 64
    assert table.loc[(1, 3, "variance")].tolist() == [-0.03, 0.01]
    assert table.loc[(10, 5, "neither")].tolist() == [0.98, 0.02]
    assert table.loc[(2, 1, "mean")].tolist() == [0.63, 0.11]
    assert table.loc[(2, 1, "vanilla")].tolist() == [0.33, 0.12]


def test_table_1_agrees_with_itself_and_not_with_other_columns():
    rows = []
    for r in table1.printed().itertuples():
        for s in range(3):
            value = r.paper + (s - 1) * r.paper_std
            fixed = {"activation": "relu", "kind": "infonce", "zeta": 10.0, "step": 5000}
            sizes = {"P": float(r.P), "filters": r.P * r.beta, "seed": s, "norm": r.norm}
            rows.append(fixed | sizes | {"chi_plus": value, "released_plus": value})
    made = pd.DataFrame(rows)
    first = {c.part: c for c in [*table1.tab1(made), *table1.tab1_printed(1, 0)]}
    assert first["cells"].measured == 1 and first["cells"].control["variants exchanged"] < 0.6
    gain = first["better without the variance's gradient"].measured
    assert gain == pytest.approx(
        first["better without the variance's gradient, printed numbers"].measured
    )
    table = table1.beside_ours(made)
    assert table["mean"].to_numpy() == pytest.approx(table.paper)
    assert table["std"].to_numpy() == pytest.approx(table.paper_std)


@pytest.mark.parametrize("pair", [("mean", "vanilla"), ("neither", "variance")])
def test_the_variance_s_gradient_must_hurt_with_the_mean_s_and_without(pair):
    table = table1.printed()
    other = dict(zip(pair, pair[::-1], strict=True))
    turned = table.assign(norm=table.norm.map(lambda name: other.get(name, name)))
    right, wrong = table1._gains(table, "paper"), table1._gains(turned, "paper")
    assert all(gain.mean() > 0.02 for gain in right)
    assert sum(gain.mean() < -0.02 for gain in wrong) == 1


def test_lowest_everywhere_is_asked_besides_lowest_in_part():
    """ReLU lowest in five of the nine cells with P > 1 and beta > 1, and nowhere else."""
    made = runs()
    lost = (made["P"] < 5) | (made.filters == made["P"]) | ((made["P"] == 10) & (made.filters > 50))
    made.loc[(made.activation == "relu") & lost & (made.step > 0), "chi_minus"] = 0.9
    passed = {c.part: ledger.judge(c) for c in tables.fig9(tables.bare(made))}
    assert passed["ReLU has the lowest chi_- where P > 1 and beta > 1"]
    assert not passed["ReLU has the lowest chi_-"]


def test_a_filter_on_a_noise_token_fails_the_sentence_and_not_figure_5():
    noisy = nets(other=0.2)
    assert all(ledger.judge(c) for c in tables.fig5(noisy))
    passed = {c.part: ledger.judge(c) for c in tables.rem22(runs(), noisy)}
    assert passed.pop("chi_+ - chi_- of ReLU nets")
    assert passed == {
        f"ReLU finds {what}, {tokens} tokens": False
        for what in ("no other token", "all three tokens and no other")
        for tokens in (8, 20)
    }


def test_rate_and_reduction_are_told_apart_in_the_nets_of_figure_5():
    """The reduction is open, the rate is against the print; neither has parts on other runs, nor
    one whose control cannot fail: where no token is found, none of noise is."""
    none = nets().assign(all_found=0.0, any_found=0.0, other_found=0.0)
    corners = {"mean": none, "fast": nets(other=0.2)}
    book = ledger.Ledger("any")
    checks = settings.beside(runs(), runs(), nets(), nets(), corner_nets=corners)
    book.run(checks[1:3], draws=1, seed=0)
    left_open = [r for r in book.records if r["form"] == "open"]
    assert {r["setting"] for r in left_open} == {settings.MEAN}
    passed = {(r["claim"][3:], r["part"].rpartition(",")[0]): r["passed"] for r in left_open}
    assert passed == {
        ("fig5", "ReLU finds all three tokens"): False,
        ("rem22", "ReLU finds all three tokens and no other"): False,
    }
    said = {r["part"]: r["note"] for r in book.records if r["form"] == "printed"}
    fast = settings.FAST
    assert f"0.2 ({fast}, which fails)" in said["ReLU finds no other token, 20 tokens"]
    assert fast not in said["chi_+ - chi_- of ReLU nets"]


def test_nets_of_figure_5_under_open_settings_that_reproduce_it():
    """The factor of Eq. 1 and the temperature are open: where one gives all that is printed and
    the program's does not, the rows depend."""
    none = nets().assign(all_found=0.0, any_found=0.5)
    book = ledger.Ledger("any")
    corners = {"sum": nets(), "t0.5": none}
    book.run(settings.beside(runs(), runs(), none, nets(other=0.2), corner_nets=corners)[1:3], 1, 0)
    left_open = {r["setting"]: r["passed"] for r in book.records if "all three" in r["part"]}
    assert left_open == {"": False, settings.OPEN["sum"]: True, settings.OPEN["t0.5"]: False}
    for claim in ("nl/fig5", "nl/rem22"):
        mine = [r for r in book.records if r["claim"] == claim]
        assert ledger.verdict(mine) == "depends", claim


def test_rate_and_reduction_are_told_apart_in_the_figures():
    """A trend that the rate alone brings is its correction, one that the reduction brings is open;
    each is scored twice."""
    part = "(b) ReLU beats linear where P > 1 and beta > 1"

    def level(*c):
        near = score("relu", *c[1:]) - 0.001 - 0.005 * np.log(c[5])
        return near if c[0] == "linear" and c[4] > 1 else score(*c)

    flat = runs(change=level)

    def of(**corners):
        book = ledger.Ledger("any")
        checks = settings.beside(flat, flat, nets(), nets(), corners)
        book.run(checks[:1], draws=1, seed=0)
        return [r for r in book.records if r["part"] == part]

    flat_too = runs(change=level, more=True)
    quick = of(fast=runs(more=True), mean=flat_too)
    passed = {(r["form"], r["setting"] or r["correction"]): r["passed"] for r in quick}
    scored = settings.MEAN + settings.SCORED
    wrong = [("open", s) for s in (settings.SCORE, settings.MEAN, scored)]
    assert passed == dict.fromkeys([("printed", ""), *wrong], False) | {
        ("corrected", settings.FAST): True
    }
    averaged = of(fast=flat_too, mean=runs(more=True))
    assert {r["form"] for r in averaged} == {"printed", "open"}
    assert {r["setting"] for r in averaged if r["passed"]} == {settings.MEAN, scored}
    # A corner without some of the figure's panels is not asked.
    assert {r["setting"] for r in of(mean=flat)} == {"", settings.SCORE}


def test_a_missing_panel_says_so():
    with pytest.raises(ValueError, match=r"expected runs with .*quadratic.* got none"):
        list(tables.fig10(runs().query("kind == 'infonce' and panel != 'unconfined'")))
    with pytest.raises(ValueError, match="expected runs of relu, linear and another activation"):
        list(
            tables.fig9(
                runs().query("zeta == 1 and panel != 'unconfined' and activation != 'leaky_relu'")
            )
        )
    with pytest.raises(ValueError, match="expected one panel, got several"):
        tables.grid(tables.cells(runs()), activation="relu")


def test_real_runs_have_the_columns_that_the_checks_read():
    sizes = {"fields": 3, "tokens": 12, "generators": 5, "fixed": 2, "batch": 8}
    configs = [ts.configuration(s, P, 2, **sizes) for s in range(2) for P in (1, 3)]
    table = tables.cells(ts.run(configs, steps=2, progress=False).table)
    assert table.P.tolist() == [1, 3] and table.beta.tolist() == [2, 2]
    assert table["count"].tolist() == [2, 2] and table["mean"].notna().all()


def test_which_batchnorm_decides_figure_11():
    """Behind with regular BatchNorm, ahead with the paper's own: the row depends on it, and the
    parts of zeta = 2 and 5 are of the one that ran there."""

    def behind(*c):
        return score(*c) - 0.5 * (c[2] == "vanilla")

    made = runs(change=behind)
    book = ledger.Ledger("any")
    checks = settings.beside(made, made, nets(), nets())
    book.run(checks[5:6], draws=1, seed=0)
    assert ledger.verdict(book.records) == "depends"
    lost = {r["setting"] for r in book.records if not r["passed"]}
    assert lost == {settings.REGULAR, settings.REGULAR_SCORE}
    told = [r["readings"] for r in book.records if not r["passed"]]
    assert [settings.PROGRAM[1:] in told[0], settings.BOTH[1:] in told[1]] == [True, True]
    printed = {r["part"]: r for r in book.records if r["form"] == "printed"}
    assert len(printed) == 3 and all(r["passed"] for r in printed.values())
    even = runs(change=lambda *c: score(*c) + 0.03 * c[3] * (c[2] == "mean") * (c[3] == 2))
    failed = {c.part for c in norms.fig11(tables.of_paper(even)) if not ledger.judge(c)}
    assert failed == {"it hardly helps at zeta = 2"}


def test_figure_5_in_short_has_the_recorded_shares():
    """At the printed rate: without the factor tau of Eq. 1, of 20 and of 8 tokens; with it, the
    least and the largest over temperatures, of 20 tokens."""

    def shares(name):
        path = _paths.root() / "data" / "recorded" / "5-two-layer" / f"filters-{name}.csv"
        rows = pd.read_csv(path).query("step > 0 and activation == 'relu'")
        return rows.groupby("tokens").all_found.mean()

    said = findings.known()["nl/fig5"]["in_short"]
    without, largest = re.search(
        r"(\d+) per cent .*, 0 to (\d+) with it \(20 tokens\)", said
    ).groups()
    assert shares("sum").round(2).eq(int(without) / 100).all()
    with_it = [shares(name)[20] for name in ("paper", *ts.TEMPERATURES)]
    assert min(with_it) == 0 and round(100 * max(with_it)) == int(largest)
