"""ddn Tables 2 and 3: the printed cells, and the checks on runs made up to be right and wrong."""

import numpy as np
import pandas as pd
import pytest
import torch
from chapter_checks import claims_of
from scipy import stats

from clcore import _paths, ledger, random
from clcore.checks.dual_networks.residue import direct_test
from clcore.checks.dual_networks.residue import images as checks
from clcore.experiments import residue_share
from clcore.images import augmentations as aug
from clcore.images import image_sets
from clcore.ledger import findings

pytestmark = pytest.mark.usefixtures("one_thread")
LABEL = "made up"


def runs(
    gaps=None, dataset="digits", epochs=(0, 20, 100), seeds=5, width=4, noise=0.2, images=105_000
):
    """Accuracies around 80 with a share of each seed, and what the losses have beyond it."""
    rng = np.random.default_rng(0)
    base = {s: rng.normal(80, 2) for s in range(seeds)}
    rows = [
        {
            "loss_name": loss,
            "seed": seed,
            "epoch": epoch,
            "linear": (base[seed] + (gaps or {}).get(loss, 0) + rng.normal(0, noise)) / 100
            if epoch
            else base[seed] / 100 - 0.2,  # one start for all losses
            "diverged": False,
        }
        for loss in (*checks.LOSSES, *checks.BETWEEN)
        for seed in base
        for epoch in epochs
    ]
    return pd.DataFrame(rows).assign(**{"dataset": dataset, "width": width, "images": images})


@pytest.fixture(scope="module")
def shares():
    x = torch.from_numpy(image_sets.load("digits").pixels[:60].copy()).float() / 255
    recipe = aug.Recipe(8, (0.5, 1.0), flip=0.0, jitter_chance=0.0, gray=0.0)
    world = residue_share.image_world(random.split(random.key(0), 3), x, 8, 3, recipe)
    weights = [
        random.normal(random.fold_in(random.key(1), a), (3, b, a), torch.float64) * (2 / a) ** 0.5
        for a, b in ((64, 16), (16, 8))
    ]
    return direct_test.tidy(
        residue_share.along(weights, world, 0.5, 0.3, 20, 10), scale=0.5, tied=False
    )


def on_runs(table, shares):
    """What is asked of runs, without what is not."""
    asked = [c for c in checks.beside({LABEL: table}, shares) if c is not checks.rem13_split]
    return ledger.Ledger("any").run(asked, 6, 3)


def by_part(records):
    return {(r.claim, r.part, r.form): r for r in records}


def test_the_printed_cells_are_the_papers():
    table = checks.printed().set_index(["dataset", "loss_name", "epoch"])
    assert len(table) == 30
    assert table.loc[("stl10", "exact-noise", 100)].tolist() == [78.27, 0.25]
    assert table.loc[("cifar10", "beta+0.2", 500)].tolist() == [87.29, 0.07]
    assert set(checks.printed("ddn/tab3").loss_name) == {"beta-0.5", "beta+0.2"}


def test_welch_is_scipy_s():
    gaps = checks.welch("exact", "nce").set_index(["dataset", "epoch"])
    row = gaps.loc[("cifar10", 100)]
    found = stats.ttest_ind_from_stats(83.84, 0.18, 5, 84.20, 0.09, 5, equal_var=False)
    assert row.t == pytest.approx(found.statistic) and row.p == pytest.approx(found.pvalue)
    # The interval's end is where the p value would be 0.05.
    shifted = stats.ttest_ind_from_stats(83.84 - row.high, 0.18, 5, 84.20, 0.09, 5, False)
    assert shifted.pvalue == pytest.approx(0.05)
    assert row.high - row.difference == pytest.approx(row.difference - row.low)


def test_verdicts(shares):
    book = ledger.Ledger("any")
    records = by_part(book.run(checks.beside({LABEL: runs()}, shares), 6, 3))
    printed = [r for k, r in records.items() if "printed cells" in k[1]]
    assert len(printed) == 6 and all(r.passed for r in printed)
    assert {r.sort for r in printed} == {"sampled"}, "cells are no runs"
    assert records[("ddn/rem13", "direct test: how it is measured", "printed")].passed
    assert {r.evidence for r in records.values() if LABEL in r.part} == {"partial"}
    book.blocked("ddn/num3", "ImageNet")
    register = findings.verdicts()
    for claim in claims_of("ddn", "images"):
        mine = [r for r in book.records if r["claim"] == claim]
        assert ledger.verdict(mine) == register[claim], claim


@pytest.mark.parametrize("seed", range(4))
def test_the_split_of_the_gradient_for_any_seed(seed):
    assert all(ledger.judge(record) for record in checks.rem13_split(20, seed))


AT_VIEWS = "exact, weights at the views, is comparable"
NOISY = "exact with noise is comparable"


@pytest.mark.parametrize(
    ("gaps", "passing"),
    [
        (
            {},
            {
                *("exact is comparable", NOISY, AT_VIEWS, "(1) and similar at the end"),
                "only the residue left out",
            },
        ),
        (
            {"exact": -3, "exact-noise": -1},
            {
                *("noise improves", AT_VIEWS, "(1) and similar at the end"),
                "only the residue left out, weights shared",
            },
        ),
        # One negative's weights are worse, with and without the residue.
        (
            {"exact": -3, "nce-pairwise": -3, "exact-noise": -3},
            {AT_VIEWS, "(1) and similar at the end", "only the residue left out"},
        ),
        (
            {"exact-shared": -3, "exact-views": -3},
            {
                *("exact is comparable", NOISY, "(1) and similar at the end"),
                "only the residue left out, weights of one",
            },
        ),
        (
            {"beta-0.5": 2, "beta+0.2": -2},
            {
                *("exact is comparable", NOISY, AT_VIEWS, "order after"),
                *("(1) beta < 0 is ahead", "(2) beta > 0 is", "only the residue left out"),
            },
        ),
        (
            {"beta-0.5": -2, "beta+0.2": 2, "exact-noise": -2},
            {"exact is comparable", AT_VIEWS, "only the residue left out"},
        ),
    ],
)
def test_on_runs_that_are_known(gaps, passing, shares):
    for r in on_runs(runs(gaps), shares):
        if LABEL in r.part:
            assert r.passed == any(r.part.startswith(start) for start in passing), r.part


def test_runs_of_the_papers_losses_only(shares):
    table = runs()
    table = table[table.loss_name.isin(checks.LOSSES)]
    parts = {r.part for r in on_runs(table, shares) if LABEL in r.part}
    assert parts and not any("residue" in part for part in parts)


def test_pairs_are_over_seeds_and_leave_out_diverged_runs():
    table = runs({"exact": -1}, noise=0.1)
    assert checks.paired(table, "exact", "nce", 100).pairs == 5
    at = (table.loss_name == "nce") & (table.seed == 2)
    table.loc[at, ["diverged", "linear"]] = True, np.nan
    row = checks.paired(table, "exact", "nce", 100)
    keep = table[(table.epoch == 100) & (table.seed != 2)].pivot(
        index="seed", columns="loss_name", values="linear"
    )
    found = stats.ttest_rel(keep.exact, keep.nce)
    assert row.pairs == 4 and row.t == pytest.approx(found.statistic)
    assert row.p == pytest.approx(found.pvalue)
    other = checks.paired(table, "nce", "exact", 100)
    assert other.difference == pytest.approx(-row.difference)
    with pytest.raises(ValueError, match="expected runs of exact, nce at epoch 7, got none"):
        checks.paired(table, "exact", "nce", 7)
    with pytest.raises(ValueError, match="at least two pairs"):
        checks.paired(table[table.seed == 0], "exact", "nce", 100)


def test_controls_on_recorded_runs_fail_by_far(shares):
    folder = _paths.root() / "data" / "recorded" / "4-dual-networks-images"
    table = pd.read_csv(folder / "cifar10-jpeg-cpu.csv")
    records = ledger.Ledger("any").run(checks.beside({LABEL: table}, shares), 6, 3)
    found = [r for r in records if checks.EXCHANGED in r.control]
    assert len(found) == 4
    for r in found:
        assert abs(r.control[checks.EXCHANGED]) < r.bound / 2, r.part


def test_the_mean_gain_is_judged_with_the_errors_of_a_data_set_taken_as_one():
    gaps = checks.welch("exact-noise", "exact")
    assert gaps.difference.mean() == pytest.approx(0.275)
    error = np.hypot(*gaps.groupby("dataset").error.mean()) / 2
    assert checks._least_mean(gaps) == pytest.approx(0.275 - stats.t.ppf(0.975, 8) * error)
    assert 0 < checks._least_mean(gaps) < 0.06


def test_words_follow_the_interval():
    row = checks.paired(runs(), "exact", "nce", 100)
    assert "no difference seen" in checks.said(row)
    row = checks.paired(runs({"exact": -3}), "exact", "nce", 100)
    assert checks.said(row).endswith("5 pairs: a difference")


def cells_of(table):
    trial = ledger.Trial(["ddn/tab2"])
    checks._share_of_cells(trial, table)
    return list(trial.records())


def test_cells_at_the_protocol_and_short_of_it():
    table = checks.printed()
    frames = [runs(dataset=name, epochs=checks.EPOCHS, width=64, noise=0.1) for name in checks.SETS]
    full = pd.concat(frames)
    places = full.merge(table, on=["dataset", "loss_name", "epoch"], how="left")
    rng = np.random.default_rng(1)
    full["linear"] = (places.paper.to_numpy() + rng.normal(0, 0.05, len(full))) / 100
    assert checks.evidence(full) == "protocol"
    assert checks.evidence(full[full.seed < 4]) == "partial"
    assert checks.evidence(full.assign(images=10_000)) == "partial"
    assert checks.evidence(full.assign(width=32)) == "partial"
    assert checks.evidence(full[full.epoch < 500]) == "partial"
    assert checks.evidence(full.assign(dataset="cifar10-jpeg")) == "partial"
    (check,) = cells_of(full)
    assert check.evidence == "protocol" and check.measured > 0.9 and ledger.judge(check)
    (check,) = cells_of(full[full.dataset == "stl10"])
    assert check.evidence == "partial" and "9 of 9 cells agree, of 18" in check.note
    assert cells_of(runs(dataset="cifar10-jpeg")) == []


def test_early_is_a_fifth():
    assert checks.early_epoch(runs(epochs=(0, 100, 300, 500))) == 100
    assert checks.early_epoch(runs(epochs=(0, 2, 5, 10))) == 2
    assert checks.early_epoch(runs(epochs=(0, 1))) == 1


def test_tidy_keeps_every_number_in_its_place(shares):
    assert len(shares) == 3 * 3 * 2 and set(shares.step) == {0, 10, 20}
    assert (shares.groupby(["step", "seed"]).loss.nunique() == 1).all()
    one = shares.set_index(["step", "seed", "layer"])
    assert one.loss[(0, 0, 1)] > one.loss[(20, 0, 1)]
    row = one.loc[(10, 1, 2)]
    assert row.reversed**2 == pytest.approx(4 + 4 * row.overlap + row.ratio**2)
    assert direct_test.medians(shares).ratio.max() < shares.ratio.max()
