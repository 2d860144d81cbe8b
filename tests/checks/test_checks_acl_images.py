"""acl Table 2 and Figure 7: printed cells, and checks on made-up tables of runs."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from clcore import _paths, ledger
from clcore.checks.minmax import images, printed_cells
from clcore.checks.relu_composition import image_filters as filters
from clcore.ledger import findings
from clcore.stats import welch_tests

pytestmark = pytest.mark.usefixtures("one_thread")

# ------------------------------------------------------------------------------- printed cells


def test_welch_is_scipys_on_the_numbers_behind_it():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 0.3, 5), rng.normal(0, 1.0, 7)
    of = [np.array([v]) for x in (a, b) for v in (x.mean(), x.std(ddof=1), len(x))]
    found = welch_tests(*of).iloc[0]
    test = stats.ttest_ind(a, b, equal_var=False)
    interval = test.confidence_interval(0.95)
    assert found[["t", "p", "low", "high"]].to_list() == pytest.approx(
        [test.statistic, test.pvalue, interval.low, interval.high]
    )
    assert found.difference == pytest.approx(a.mean() - b.mean())


@pytest.mark.parametrize(
    ("loss", "claim", "path"),
    [
        ("backprop", "num14", []),
        ("entropy", "num15", ["Pg_rH"]),
        ("inverse", "num15", ["Pg_rgamma2"]),
        ("square", "num15", ["Pg_rs"]),
        ("direct", "num16", []),
    ],
)
def test_differences_are_those_of_the_ledger(loss, claim, path):
    numbers = ledger.claim(f"acl/{claim}")["numbers"]["diff_vs_L_nce"]
    for row in printed_cells.against(loss).itertuples():
        expected = numbers[row.dataset]
        for key in path:
            expected = expected[key]
        assert row.difference == pytest.approx(expected[f"e{row.epoch}"])


def test_standard_errors_are_wider_than_standard_deviations():
    plain, wide = (
        printed_cells.against("direct"),
        printed_cells.against("direct", standard_error=True),
    )
    assert ((wide.high - wide.low) / (plain.high - plain.low)).to_numpy() == pytest.approx(5**0.5)


def test_behind_needs_half_a_point_and_a_small_p():
    table = pd.DataFrame({"difference": [-0.6, -0.6, -0.4, 0.6], "p": [0.01, 0.2, 0.01, 0.01]})
    assert printed_cells.behind(table).index.to_list() == [0]


# -------------------------------------------------------------------------------------- Table 2

LEADS = {
    "infonce": 0.0,
    "backprop": -0.6,
    "entropy": 0.1,
    "inverse": -0.25,
    "square": 0.4,
    "direct": 0.8,
}


def runs(leads=LEADS, dataset="cifar10-jpeg", epochs=(0, 10, 20), seeds=5, **other):
    """Runs in which every loss leads InfoNCE by what is given, a tenth of a point of noise."""
    rng = np.random.default_rng(1)
    rows = []
    for seed in range(seeds):
        level = rng.normal(0, 1)
        for loss, lead in leads.items():
            for epoch in epochs:
                gain = (20 + epoch / 10 + lead + rng.normal(0, 0.1)) if epoch else 0.0
                row = {"loss_name": loss, "seed": seed, "epoch": epoch, "diverged": False}
                row |= {"linear": (40 + level + gain) / 100, "dataset": dataset, "classes": 10}
                rows.append(row | {"images": 10_000, "width": 16} | other)
    return pd.DataFrame(rows)


LABEL = "made up"


def records(table):
    book = ledger.Ledger("any")
    return book.run(images.beside({LABEL: table}), draws=1, seed=0), book


def parts(table):
    found = records(table)[0]
    return {(r.claim, r.part.removesuffix(f", {LABEL}"), r.form): r for r in found}


ON_RUNS = {"acl/num14": images.num14, "acl/num15": images.num15, "acl/num16": images.num16}


def of_claim(claim, table):
    """The parts of one claim alone."""
    check = ON_RUNS.get(claim)
    found = check({LABEL: table}) if check else images.table2(table)
    return {c.part.removesuffix(f", {LABEL}"): c for c in found}


def register():
    return findings.verdicts()


def test_runs_as_the_paper_says():
    found, book = records(runs())
    fails = [(r.claim, r.part, r.form) for r in found if not r.passed]
    assert fails == []
    cells = [r for r in found if "printed cells" in r.part]
    assert len(cells) == 6 and {r.sort for r in cells} == {"sampled"}, "cells are no runs"
    for claim in ("acl/tab2a", "acl/num14", "acl/num15", "acl/num16"):
        own = [r for r in book.records if r["claim"] == claim]
        assert ledger.verdict(own) == register()[claim]


def test_runs_without_any_difference_are_seen_to_have_none():
    found = parts(runs({loss: 0.0 for loss in LEADS}))
    for claim, part in (("acl/num14", "lower than InfoNCE"), ("acl/num16", "above InfoNCE")):
        record = found[claim, f"runs: {part}", "printed"]
        assert not record.passed
        assert "no difference seen" in record.note
    assert found["acl/num15", "runs: comparable to InfoNCE or better", "printed"].passed


@pytest.mark.parametrize(
    ("loss", "lead", "claim", "part"),
    [
        ("backprop", 0.6, "acl/num14", "runs: lower than InfoNCE"),
        ("inverse", -0.9, "acl/num15", "runs: comparable to InfoNCE or better"),
        ("entropy", -30.0, "acl/num15", "runs: each works"),
        ("direct", -0.8, "acl/num16", "runs: above InfoNCE"),
        ("direct", -0.8, "acl/tab2a", "runs: order of the six losses"),
    ],
)
def test_other_runs_fail(loss, lead, claim, part):
    assert not ledger.judge(of_claim(claim, runs(LEADS | {loss: lead}))[part])


@pytest.mark.parametrize("size", ["cpu", "cpu-100"])
def test_controls_on_recorded_runs_fail_by_far(size):
    folder = _paths.root() / "data" / "recorded" / "1-minmax-images"
    table = pd.read_csv(folder / f"cifar10-jpeg-{size}.csv")
    paired = {"before and after exchanged at random within each seed", images.EXCHANGED}
    found = [c for c in records(table)[0] if paired & set(c.control)]
    assert len(found) == 4
    for c in found:
        assert max(map(abs, c.control.values())) < c.bound / 2, c.part


@pytest.mark.parametrize("seeds", [2, 3, 4, 5])
@pytest.mark.parametrize("lead", [0.0, 3.0])
def test_exchanged_labels_fail_for_any_number_of_seeds(seeds, lead):
    table = runs(dict.fromkeys(LEADS, lead) | {"infonce": 0.0}, seeds=seeds)
    for check in (images.num14({LABEL: table}), images.num15({LABEL: table})):
        for c in check:
            for value in c.control.values():
                assert (value < c.bound) if c.relation == ">=" else (value > c.bound)


def test_both_blocks_are_judged_at_once():
    sides = {"one": runs(), "two": runs(LEADS | {"direct": -0.8}, dataset="stl10")}
    found = ledger.Ledger("any").run(images.beside(sides), draws=1, seed=0)
    passed = {(r.claim, r.part): r.passed for r in found}
    assert passed["acl/num16", "runs: above InfoNCE, one"]
    assert not passed["acl/num16", "runs: above InfoNCE, two"]
    assert {"acl/tab2a", "acl/tab2b"} <= {r.claim for r in found}


@pytest.mark.parametrize(("lead", "ahead"), [(9.0, "square"), (-9.0, "none of the other losses")])
def test_the_note_names_the_losses_ahead_of_direct_weights(lead, ahead):
    found = of_claim(
        "acl/num16", runs({name: -1.0 for name in LEADS} | {"direct": 1, "square": lead})
    )
    assert f"Ahead of it on average: {ahead}. Runs" in found["runs: above InfoNCE"].note


def test_the_note_names_runs_that_differ():
    def printed(**leads):
        found = of_claim("acl/num15", runs(LEADS | leads))
        return found["printed cells: comparable to InfoNCE or better"]

    assert "Our runs differ" not in printed(square=-1.0).note
    record = printed(inverse=-9.0, square=2.0)
    assert "fails for the square regulariser" in record.note
    assert "Our runs differ: inverse" in record.note
    assert "inverse, γ = 2: -9.0" in record.note and "square: +" in record.note
    assert "10,000 images, 20 epochs" in record.note


def test_gaps_are_paired_and_carry_their_sign():
    table = runs()
    found = images.gaps(table).set_index(["epoch", "loss"])
    wide = table[table.epoch == 20].pivot(index="seed", columns="loss_name", values="linear")
    difference = 100 * (wide.direct - wide.infonce)
    row = found.loc[20, "direct"]
    assert row.difference == pytest.approx(difference.mean())
    assert row.t == pytest.approx(stats.ttest_1samp(difference, 0).statistic)
    assert row.low < row.difference < row.high
    assert (found.loc[0].t == 0).all()


def test_a_diverged_run_is_left_out_of_its_pairs():
    table = runs()
    bad = (table.loss_name == "direct") & (table.seed == 2)
    table.loc[bad & (table.epoch == 20), ["diverged", "linear"]] = [True, np.nan]
    found = images.gaps(table).set_index(["epoch", "loss"])
    assert found.loc[20, "direct"].pairs == 4
    assert found.loc[20, "entropy"].pairs == 5
    assert "1 diverged runs" in images.about(table)


def test_protocol_is_full_size_only():
    full = {"dataset": "cifar10", "epochs": (0, 100, 300, 500), "images": 50_000, "width": 64}
    assert images.evidence(runs(**full)) == "protocol"
    smaller = ({"width": 32}, {"images": 10_000}, {"seeds": 4}, {"dataset": "cifar10-jpeg"})
    for change in (*smaller, {"epochs": (0, 100, 300)}):
        assert images.evidence(runs(**full | change)) == "partial"


@pytest.mark.parametrize("dataset", ["cifar10", "stl10"])
def test_the_paper_s_own_cells_agree_with_themselves(dataset):
    size = images.TRAIN[dataset]
    table = runs(dataset=dataset, epochs=(0, *printed_cells.EPOCHS), images=size, width=64)
    own = printed_cells.printed().query("dataset == @dataset").set_index(["loss", "epoch"])["mean"]
    at = table.epoch > 0
    noise = np.random.default_rng(2).normal(0, 0.1, at.sum())
    keys = list(zip(table.loss_name[at], table.epoch[at], strict=True))
    table.loc[at, "linear"] = (own[keys].to_numpy() + noise) / 100
    claim = printed_cells.CLAIMS[dataset]
    found = {c.part: c for c in images.table2(table)}
    share = found["runs: share of cells that agree"]
    assert share.claim == claim
    assert share.measured == 1
    assert share.evidence == "protocol"
    assert ledger.judge(share)
    table.loc[at, "linear"] += 0.01
    assert {c.part: c for c in images.table2(table)}[share.part].measured < 0.1


# -------------------------------------------------------------------------------------- Figure 7

LAYERS = ("conv1", *(f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)))
CELLS = [(s, 0.0) for s in (0, 0.25, 0.5, 0.75, 1)] + [(0.0, g) for g in (0.25, 0.5, 0.75, 1)]


def nets(follow=1.0, seeds=3, noise=0.002):
    """Nets that are best at half strength, whose filters' variation follows their accuracy."""
    rng = np.random.default_rng(3)
    rows = []
    for seed in range(seeds):
        for jitter, gray in CELLS:
            level = max(jitter, gray)
            good = 0.1 * (1 - abs(level - 0.75) / 0.75)
            row = {"seed": seed, "epoch": 20, "jitter": jitter, "gray": gray, "diverged": False}
            row |= {"linear": 0.5 + good + rng.normal(0, noise), "dataset": "cifar10-jpeg"}
            for layer in LAYERS:
                rise = 1 + follow * good
                for measure, value in (("tv", 12 * rise), ("unit", 6 * rise), ("norm", 2.0)):
                    row[f"{measure}_{layer}"] = value * (1 + rng.normal(0, noise))
            rows.append(row | {"images": 10_000, "width": 16, "loss_name": "infonce"})
    return pd.DataFrame(rows)


def figure(table):
    book = ledger.Ledger("any")
    found = book.run(filters.beside(filters.curves(table)), draws=6, seed=0)
    return {(r.claim, r.part): r for r in found}, book


def test_nets_as_the_paper_says_pass():
    found, book = figure(nets())
    assert all(r.passed for r in found.values()), found
    for claim in ("acl/fig7", "acl/num17"):
        own = [r for r in book.records if r["claim"] == claim]
        assert ledger.verdict(own) == register()[claim]


def test_nets_whose_filters_do_not_follow_fail():
    for follow in (0.0, -1.0):
        found, _ = figure(nets(follow))
        assert not found["acl/num17", "total variation is correlated with accuracy"].passed
        part = "left: total variation is larger where accuracy is best"
        assert not found["acl/fig7", part].passed
    reverse, _ = figure(nets(-1.0))
    part = "right: first filters at norm 1 vary more under strong augmentation"
    assert not reverse["acl/fig7", part].passed
    assert not reverse["acl/fig7", "left: both are largest at about the same strength"].passed


def test_curves_share_their_first_runs_and_leave_diverged_ones_out():
    table = nets()
    found = filters.curves(table)
    assert found.groupby("curve").size().to_dict() == {"gray": 15, "jitter": 15}
    assert len(filters.settings(found)) == 9
    table.loc[(table.seed == 1) & (table.jitter == 0.5), "diverged"] = True
    found = filters.curves(table)
    assert filters.curve(found, "jitter").accuracy.shape == (2, 5)
    assert filters.curve(found, "gray").accuracy.shape == (3, 5)


def test_curve_by_hand():
    c = filters.curve(filters.curves(nets(noise=0.0)), "gray")
    assert c.levels.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert c.best() == 3
    assert c.ratios()[:, 3] == pytest.approx(1.1)
    assert c.apart() == 0


def test_what_training_does_to_filters_by_hand():
    end = nets(noise=0.0)
    start = end.assign(
        epoch=0, **{f"{m}_{layer}": 10.0 for layer in LAYERS for m in filters.MEASURES}
    )
    end["tv_conv1"] = 11.0 + end.seed  # of seeds 0, 1, 2: +0.1, +0.2, +0.3
    table = pd.concat([start, end])
    found = filters.trained(table).set_index(["layer", "measure"])
    assert len(found) == 27
    assert found.loc[("conv1", "tv")].to_list() == pytest.approx([0.2, 4.30265 * 0.1 / 3**0.5])
    assert found.loc[("layer4.1", "norm")].to_list() == pytest.approx([-0.8, 0])
    lost = (table.seed == 2) & (table.epoch > 0) & (table.jitter == 0.5)
    table.loc[lost, ["diverged", "tv_conv1"]] = [True, np.nan]
    found = filters.trained(table).set_index(["layer", "measure"])
    assert found.loc[("conv1", "tv")].change == pytest.approx(0.2)


def test_one_seed_is_refused():
    with pytest.raises(ValueError, match="expected two seeds with all levels of the jitter curve"):
        filters.curve(filters.curves(nets(seeds=1)), "jitter")


def test_spearman_is_scipys_with_ties():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, (6, 9)), rng.integers(0, 4, (6, 9))
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    assert filters.spearman(x, y) == pytest.approx(expected)
    assert filters.spearman(np.ones(9), x[0]) == 0


def test_figure_seven_at_full_size_is_protocol():
    table = nets().assign(dataset="stl10", images=105_000, width=64, epoch=300)
    assert filters.evidence(filters.curves(table)) == "protocol"
    assert filters.evidence(filters.curves(table.assign(epoch=100))) == "partial"
    assert filters.evidence(filters.curves(table[table.jitter != 0.25])) == "partial"
