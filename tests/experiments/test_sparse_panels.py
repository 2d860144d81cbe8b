"""The panels and the factors: what they are, how many runs, and that tiny ones are trained."""

import math

import numpy as np
import pandas as pd
import pytest

from clcore import ledger
from clcore.experiments import sparse_factors as factors
from clcore.experiments import sparse_panels as sp
from clcore.experiments import sparse_tables as rt
from clcore.grid import Grid

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"p": 6, "d": 3, "m": 6, "n": 12, "batch": 5}


def test_every_figure_and_table_has_its_panels_and_its_number_of_runs():
    rows = {i[4:] for i in ledger.claims() if i.startswith(("ncl/fig", "ncl/tab"))}
    assert rows == set(sp.FIGURES)
    for figure, panels in sp.FIGURES.items():
        wanted = ledger.claim(f"ncl/{figure}")["protocol"]
        for panel in panels if figure != "fig6" else panels[:1]:
            assert sp.PANELS[panel]["seeds"] >= wanted["runs"], figure
            for c in sp.configurations(panel):
                assert {k: c[k] for k in "pdm"} == {k: wanted.get(k, c[k]) for k in "pdm"}, figure
                if "c" in wanted:
                    assert c["warm"] == pytest.approx(c["p"] ** (-wanted["c"] / 2)), figure
                if wanted.get("normalise_rows"):
                    assert c["normalise"] == "rows"
                if wanted.get("normalise_columns"):
                    assert c["normalise"] == "columns"
                if figure in ("fig7", "fig15", "fig16"):
                    assert c["keep"] == pytest.approx(1 - wanted["mask_probability"])
    sigmas = [{c["warm"] for c in sp.configurations(p)} for p in sp.FIGURES["tab4"]]
    assert [round(s.pop(), 3) for s in sigmas] == [0.141, 0.02, 0.002]


def test_readings_change_one_thing():
    for panel, change in (
        ("simclr-drop", "keep"),
        ("warm-0.02-quiet", "sigma"),
        ("cl-basic-0.05", "sigma"),
        ("cl-basic-masked", "keep"),
        ("cl-basic-released-quiet", "sigma"),
        ("simclr-half-noise", "sigma"),
        ("simsiam-faint", "sigma"),
        ("pred-warm-faint", "sigma"),
        ("warm-0.14-loud", "sigma"),
        ("warm-0.02-balanced", "start"),
        ("warm-0.002-by-columns", "start"),
        ("warm-0.14-each-sign", "pr"),
        ("warm-0.02-narrow", "m"),
        ("warm-0.02-target-first", "updates"),
        ("warm-0.002-together", "updates"),
    ):
        base = panel.removesuffix("-by-columns").removesuffix("-each-sign")
        base = base.removesuffix("-target-first")
        base = panel.rsplit("-", 1)[0] if base == panel else base
        few = sp.PANELS[panel]
        bases = sp.configurations(base, seeds=range(few["seeds"]), prs=few["prs"])
        for a, b in zip(sp.configurations(panel), bases, strict=True):
            assert {k for k in a if a[k] != b[k]} == {change}
    for name in ("simclr", "simsiam"):
        a, b = sp.configurations(f"{name}-half")[0], sp.configurations(name)[0]
        assert {k: a[k] for k in a if a[k] != b[k]} == {"keep": 0.5, "sigma": 0.0}


@pytest.mark.parametrize(
    ("suffix", "changed"),
    [
        ("-loud-balanced", {"sigma", "start"}),
        ("-loud-each-sign", {"sigma", "pr"}),
        ("-balanced-each-sign", {"start", "pr"}),
        ("-loud-balanced-each-sign", {"sigma", "start", "pr"}),
        ("-loud-balanced-each-sign-together", {"sigma", "start", "pr", "updates"}),
    ],
)
def test_open_settings_of_a_start_are_also_changed_together(suffix, changed):
    for start in ("warm-0.14", "warm-0.02", "warm-0.002"):
        pairs = zip(sp.configurations(start + suffix), sp.configurations(start), strict=True)
        assert all({k for k in a if a[k] != b[k]} == changed for a, b in pairs)
        first = sp.configurations(start + suffix)[0]
        assert first["pr"] == (0.2 if "pr" in changed else 0.1)
        assert first["sigma"] == pytest.approx(0.4799 if "sigma" in changed else 0.2303, abs=1e-4)


def test_of_panels_at_fainter_noise_only_temperature_and_rate_are_others():
    """The rate is in proportion to the temperature, which stands in the panel's name."""
    for panel, chosen in sp.PANELS.items():
        base, faint, end = panel.partition("-faint")
        if not faint:
            continue
        seeds = range(chosen["first"], chosen["first"] + chosen["seeds"])
        bases = sp.configurations(base, seeds, chosen["prs"])
        for a, b in zip(sp.configurations(panel), bases, strict=True):
            changes = {k: a[k] for k in a if a[k] != b[k]}
            temperature = float(end.removeprefix("-t") or b["temperature"])
            wanted = {"sigma": 0.05}
            if end:
                wanted |= {"temperature": temperature, "lr": b["lr"] * temperature / 0.05}
            assert changes == pytest.approx(wanted), panel


def test_losses_without_a_temperature_stand_beside_those_with_one():
    table = pd.DataFrame({"panel": ["simsiam-faint", "simclr-faint-t0.5", "simsiam"], "seed": 0})
    found = sp.beside(table)
    assert sorted(found.panel) == ["simsiam-faint-t0.2", "simsiam-faint-t0.5"]
    both = pd.concat([table, found])
    assert sorted(rt.reading(both, "-faint-t0.5").panel) == ["simclr", "simsiam"]
    assert rt.reading(both, "-faint").panel.tolist() == ["simsiam"]
    assert rt.reading(both, "-t0.5").empty


def test_of_panels_at_louder_noise_only_temperature_and_rate_are_others():
    for panel, chosen in sp.PANELS.items():
        base, loud, end = panel.partition("-loud")
        if not loud or base.startswith("warm-0"):
            continue
        seeds = range(chosen["first"], chosen["first"] + chosen["seeds"])
        bases = sp.configurations(base, seeds, chosen["prs"])
        assert chosen["seeds"] == sp.PANELS[base]["seeds"], panel
        for a, b in zip(sp.configurations(panel), bases, strict=True):
            changes = {k: a[k] for k in a if a[k] != b[k]}
            temperature = float(end.removeprefix("-t") or b["temperature"])
            wanted = {"sigma": (math.log(a["d"]) / a["d"]) ** 0.5}
            if end:
                wanted |= {"temperature": temperature, "lr": b["lr"] * temperature / 0.05}
            assert changes == pytest.approx(wanted), panel


def test_further_runs_of_a_warm_start_are_the_same_but_for_their_seeds():
    panels = [name for name in sp.PANELS if sp.MORE in name]
    assert len(panels) == 5
    for panel in panels:
        first, more = (sp.configurations(name) for name in (panel.replace(sp.MORE, ""), panel))
        assert [c["seed"] for c in more] == [*range(5, 20)] * 3
        assert all(c | {"seed": 0} == first[5 * (at // 15)] for at, c in enumerate(more))


def test_every_panel_of_the_print_is_trained_as_the_program_does():
    for figure, panels in sp.FIGURES.items():
        for panel in panels:
            first = sp.configurations(f"{panel}-released")[0]
            assert (first["protocol"], first["n"], first["lr"]) == ("released", 3000, 0.005), figure
            assert first["latent"] == ("one-hot" if "one-hot" in panel else "fixed")
            assert first["sigma"] == pytest.approx(math.log(first["d"]) ** 0.5 / first["d"])
            slow = first["loss_kind"] == "nt-xent"
            runs = sp.PANELS[f"{panel}-released"]["seeds"]
            three = panel in ("pred-warm", "fig14", "fig15")  # in the figures
            own = sp.FEW if three else sp.PANELS[panel]["seeds"]
            assert runs == min(own, sp.FEW if slow else sp.MANY)
            for name in ("model", "keep", "warm", "normalise", "m", "p", "d", "pr"):
                assert first[name] == sp.configurations(panel)[0][name]


def test_factors_are_all_combinations_and_end_where_the_sweep_ends(monkeypatch):
    """Of the 36 that are asked for, six are trained here; all of them in the smoke build."""
    for loss, count in (("non-contrastive", 24), ("contrastive", 12)):
        cells = factors.factors(loss, [0, 1])
        names = ("head", "bn", "warm", "normalise")
        assert len({tuple(c[n] for n in names) for c in cells}) == count == len(cells) / 2
        assert {(c["pr"], c["sigma"], c["relu"], c["layers"]) for c in cells} == {(0.1, 0, True, 1)}
        assert {c["loss_kind"] for c in cells} == {loss}
    with pytest.raises(ValueError, match="loss: expected one of non-contrastive, contrastive, got"):
        factors.factors("nt-xent", [0])
    asked, train = [], sp.st.run

    def some(configs, *given, **options):
        asked.extend(configs)
        return train(configs[1::7], *given, **options)

    monkeypatch.setattr(sp.st, "run", some)
    both = factors.decide([3], epochs=2, record=(1,), **TINY)
    monkeypatch.undo()
    assert asked == [c for loss in factors.DECIDING for c in factors.factors(loss, [3], **TINY)]
    assert len(asked) == 36
    factor = ["loss", "predictor", "batchnorm", "warm", "normalise", "sigma", "seed"]
    results = ["epoch", "before", "minimum", "median", "maximum", "rank", "norm", "diverged"]
    assert list(both.columns) == factor + results and both.index.tolist() == [*range(len(both))]
    table = both[both.epoch == 2]
    assert len(table) == 4 + 2 and table.notna().all(axis=None)
    assert set(table.loss) == set(factors.DECIDING) and not table.diverged.any()
    starts = table.groupby("warm").before.agg(["min", "max"])
    assert np.allclose(starts["min"], starts["max"]) and starts["min"].nunique() == 2
    (alone,) = [
        c
        for c in factors.factors("contrastive", [3], **TINY)
        if c["bn"] and c["warm"] < 0 and c["normalise"] == "columns"
    ]
    path = sp.st.run([alone], 2, progress=False).table.sort_values("epoch")
    query = "loss == 'contrastive' and batchnorm and not warm and normalise == 'columns'"
    found = both.query(query).sort_values("epoch")
    assert found.epoch.tolist() == [1, 2]
    assert found.minimum.tolist() == pytest.approx(path.minimum.tolist()[1:], abs=1e-5)
    assert found.before.tolist() == pytest.approx([path.minimum.iloc[0]] * 2, abs=1e-5)


def test_runs_are_trained_on_the_device_that_is_named(monkeypatch):
    names = []
    train = sp.st.run

    def on(configs, epochs, record, device, **options):
        names.append(device)
        return train(configs[:1], epochs, record, "cpu", **options)  # where, not what

    monkeypatch.setattr(sp.st, "run", on)
    monkeypatch.setattr("clcore.grid.grid.usable", str)
    sp.runs("cl-basic", [0], 1, (0.1,), grid=Grid(device="cuda:1"), **TINY)
    factors.decide([0], 1, (), grid=Grid(device="cuda:1"), **TINY)
    assert names == ["cuda:1"] * 3


def test_the_cost_grows_with_runs_epochs_and_depth():
    table = sp.cost()
    assert list(table.panel) == list(sp.PANELS)
    assert table.runs.sum() == sum(len(sp.configurations(p)) for p in sp.PANELS)
    each = table.set_index("panel").seconds
    a_run = (table.seconds / table.runs).set_axis(table.panel)
    released = a_run[a_run.index.str.endswith("-released")]
    assert (released > a_run[released.index.str.removesuffix("-released")].to_numpy()).all()
    assert each["ncl-basic-2l"] == pytest.approx(2 * each["ncl-basic"])
    assert sp.seconds("ncl-basic", epochs=80) == pytest.approx(each["ncl-basic"] / 100)


def test_a_panel_is_trained():
    table = sp.runs("warm-0.14", seeds=[0, 1], prs=[0.2], epochs=3, record=(1,), **TINY)
    assert list(table.columns) == list(sp.COLUMNS)
    assert table.groupby("seed").epoch.apply(list).tolist() == [[0, 1, 3]] * 2
    assert (table.panel == "warm-0.14").all() and table.notna().all(axis=None)
    start = table[table.epoch == 0]
    assert (start.minimum > 0.7).all()  # six entries of noise 0.14 beside a vector of norm 1
    with pytest.raises(ValueError, match=r"panel: expected one of simclr, .* got 'byol'"):
        sp.runs("byol")


def test_runs_of_the_same_data_are_trained_once(monkeypatch):
    """The program draws two entries of ten at Pr(sparse) = 0.1 and at 0.2, three at 0.3."""
    trained = []
    run = sp.st.run

    def counted(configs, *args, **kwargs):
        trained.extend(c["pr"] for c in configs)
        return run(configs, *args, **kwargs)

    monkeypatch.setattr(sp.st, "run", counted)
    tiny = TINY | {"d": 10, "p": 12}
    table = sp.runs("ncl-basic-released", seeds=[0, 1], epochs=2, **tiny)
    assert trained == [0.1, 0.1, 0.3, 0.3]
    assert table.pr.tolist() == [pr for pr in sp.PRS for _ in range(table.shape[0] // 3)]
    ends = {pr: t.drop(columns="pr").reset_index(drop=True) for pr, t in table.groupby("pr")}
    pd.testing.assert_frame_equal(ends[0.1], ends[0.2])
    alone = sp.runs("ncl-basic-released", seeds=[0, 1], prs=[0.2], epochs=2, **tiny)
    pd.testing.assert_frame_equal(ends[0.2], alone.drop(columns="pr"))
    assert not np.allclose(ends[0.1].loss.dropna(), ends[0.3].loss.dropna())
    # The printed latents differ, and so does the cost.
    trained.clear()
    sp.runs("ncl-basic", seeds=[0], epochs=2, **tiny)
    assert trained == list(sp.PRS)
    two, three = (sp.seconds(p, epochs=8) for p in ("ncl-basic-released", "ncl-basic"))
    steps = [sp.st.steps(sp.configurations(p)[0], 8) for p in ("ncl-basic-released", "ncl-basic")]
    assert two / steps[0] == pytest.approx(2 / 3 * three / steps[1])


def test_probabilities_of_each_sign_are_twice_those_that_are_printed():
    panel = "warm-0.14-each-sign"
    found = [c["pr"] for c in sp.configurations(panel, seeds=[0])]
    assert found == pytest.approx([0.2, 0.4, 0.6])
    both = sp.runs([panel, "warm-0.14"], [0], epochs=2, prs=[0.1, 0.2], record=(1,), **TINY)
    assert set(both.pr.round(12)) == {0.1, 0.2}
    one, two = (both[both.panel == p].set_index(["pr", "epoch"]).loss for p in both.panel.unique())
    assert one.loc[0.1].tolist() == two.loc[0.2].tolist() != two.loc[0.1].tolist()
