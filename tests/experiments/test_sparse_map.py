"""The map over temperature, noise and masks; the panels of the program's entry points."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from clcore.experiments import sparse_map, sparse_panels
from clcore.experiments import sparse_tables as rt
from clcore.experiments import sparse_training as st
from clcore.grid import Grid

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"p": 6, "d": 3, "m": 6, "n": 12, "batch": 6}


def test_the_map_has_every_combination_once():
    cells = list(sparse_map.cells())
    assert len(cells) == len(set(cells)) == (2 * 5 - 1) * 5 * 3
    assert sum(cell[0] == st.TEMPERATURE for cell in cells) == 15
    assert sparse_map.SIGMAS == (0.0, 0.05, 0.152, 0.2303, 0.48)
    with pytest.raises(ValueError, match=r"masks: expected one of keep 0.5, .*got 'Eq. 3'"):
        list(sparse_map.cells(masks=("Eq. 3",)))


def test_the_rate_keeps_the_size_of_the_gradient():
    assert sparse_map.rate(0.2, "printed") == 0.025
    assert sparse_map.rate(0.2, "scaled") == pytest.approx(0.1)
    assert sparse_map.rate(st.TEMPERATURE, "scaled") == 0.025
    with pytest.raises(ValueError, match="rate: expected one of printed, scaled, got 'fast'"):
        sparse_map.rate(0.2, "fast")


def test_cells_are_trained_with_their_settings(monkeypatch):
    seen = []
    run = st.run

    def kept(configs, *args, **options):
        seen.extend(configs)
        return run(configs, *args, **options)

    monkeypatch.setattr(st, "run", kept)
    chosen = [(0.2, "scaled", 0.2303, "Eq. 2"), (0.5, "printed", 0.0, "keep 0.1")]
    table = sparse_map.runs([0, 1], (0.3,), chosen, 2, (1,), **TINY)
    names = ("temperature", "lr", "sigma", "mask", "keep", "pr", "seed")
    assert [tuple(c[n] for n in names) for c in seen] == [
        (0.2, pytest.approx(0.1), 0.2303, "dependent", 0.5, 0.3, 0),
        (0.2, pytest.approx(0.1), 0.2303, "dependent", 0.5, 0.3, 1),
        (0.5, 0.025, 0.0, "independent", 0.1, 0.3, 0),
        (0.5, 0.025, 0.0, "independent", 0.1, 0.3, 1),
    ]
    assert list(table.columns) == list(sparse_map.COLUMNS)
    ends = table[table.epoch == 2]
    assert list(zip(ends.temperature, ends.seed, strict=True)) == [
        (0.2, 0), (0.2, 1), (0.5, 0), (0.5, 1),
    ]  # fmt: skip
    assert table.groupby(sparse_map.KEY).epoch.apply(list).tolist() == [[0, 1, 2]] * 4


def test_a_cell_at_the_programs_temperature_is_the_printed_panel():
    cell = [(st.TEMPERATURE, "printed", sparse_map.SIGMAS[3], "keep 0.5")]
    options = {"epochs": 3, "record": (1,)} | TINY
    found = sparse_map.runs([1], chosen=cell, **options)
    sigma = sparse_map.SIGMAS[3]
    panel = sparse_panels.runs("cl-basic", [1], prs=(0.1,), noise=sigma, **options)
    assert found.epoch.tolist() == [0, 1, 3]
    for name in ("minimum", "median", "loss"):
        assert np.array_equal(found[name], panel[name], equal_nan=True)


def made(seeds=2):
    rows = []
    for cell in sparse_map.cells():
        for seed in range(seeds):
            values = dict(zip(("temperature", "rate", "sigma", "masks"), cell, strict=True))
            rows.append(
                values
                | {"model": "CL-basic", "latent": "iid", "pr": 0.1, "seed": seed, "epoch": 8000.0}
            )
    return pd.DataFrame(rows).assign(minimum=0.5, loss=1.0)


def test_the_map_stands_in_for_panels_at_the_printed_noise():
    runs = pd.DataFrame(
        {"panel": ["ncl-basic", "cl-basic"], "pr": 0.1, "seed": 0, "epoch": 8000.0}
    ).assign(minimum=[0.3, 0.2], loss=0.0)
    panels = sparse_map.as_panels(made(), runs)
    assert list(panels.columns) == list(runs.columns)
    assert set(sparse_map.READINGS) < set(rt.OPEN)
    for suffix in sparse_map.READINGS:
        found = rt.reading(panels, suffix)
        assert found.panel.value_counts().to_dict() == {
            "cl-basic": 2, "cl-basic-masked": 2, "cl-basic-dependent": 2, "ncl-basic": 1,
        }  # fmt: skip
        assert found[found.panel == "ncl-basic"].minimum.tolist() == [0.3]
        assert rt.evidence(found, "cl-basic") == "partial"
    # One run has no spread, and a map without noise stands in for nothing.
    assert sparse_map.as_panels(made(1), runs).empty
    quiet = made().query("sigma == 0")
    assert sparse_map.as_panels(quiet, runs).empty


def test_the_map_at_fainter_noise_stands_in_where_no_panel_was_trained():
    without = made().query("temperature == 0.05 and masks == 'Eq. 2'").assign(model="NCL-basic")
    runs = pd.DataFrame({"panel": ["cl-basic-faint-t0.5"], "pr": 0.1, "seed": 0, "epoch": 8000.0})
    found = sparse_map.as_panels(pd.concat([made(), without]), runs.assign(minimum=0.2, norm=1.0))
    assert found.norm.isna().all()
    counts = {s: rt.reading(found, s).panel.value_counts().to_dict() for s in sparse_map.FAINT}
    masks = {"cl-basic-masked": 2, "cl-basic-dependent": 2}
    assert counts == {
        "-faint": {"cl-basic": 2, "ncl-basic-dependent": 2} | masks,
        "-faint-t0.2": {"cl-basic": 2} | masks,
        "-faint-t0.5": masks,
    }
    assert set(sparse_map.FAINT) < set(rt.OPEN)


def test_the_map_at_louder_noise_has_recorded_nets_without_a_temperature_beside_it():
    without = made().query("temperature == 0.05 and masks == 'Eq. 2'").assign(model="NCL-basic")
    loud = made().sigma == sparse_map.SIGMAS[4]
    table = pd.concat([made().assign(minimum=np.where(loud, 0.7, 9.0)), without])
    runs = pd.DataFrame({"panel": ["ncl-basic", "ncl-basic-0.48"], "pr": 0.1, "seed": 0})
    runs = runs.assign(epoch=8000.0, minimum=[9.0, 0.4], norm=[9.0, 2.0])
    assert sparse_panels.configurations("ncl-basic-0.48")[0]["sigma"] == sparse_map.SIGMAS[4]
    found = sparse_map.as_panels(table, runs)
    assert set(sparse_map.LOUD) < set(rt.OPEN)
    for suffix, (temperature, rate) in sparse_map.LOUD.items():
        assert rate == ("printed" if temperature == st.TEMPERATURE else "scaled")
        here = rt.reading(found, suffix)
        masks = {"cl-basic-masked": 2, "cl-basic-dependent": 2, "ncl-basic-dependent": 2}
        assert here.panel.value_counts().to_dict() == {"cl-basic": 2, "ncl-basic": 1} | masks
        assert here[here.panel == "cl-basic"].minimum.tolist() == [0.7, 0.7]
        assert here[here.panel == "ncl-basic"][["minimum", "norm"]].to_numpy().tolist() == [
            [0.4, 2.0]
        ]


def test_panels_at_louder_noise_at_full_size_replace_those_of_the_map():
    names = ["cl-basic-loud", "ncl-basic-loud", "ncl-basic-0.48"]
    runs = pd.DataFrame({"panel": names, "pr": 0.1, "seed": 0}).assign(epoch=8000.0, minimum=0.3)
    found = sparse_map.as_panels(made(), runs)
    counts = {s: rt.reading(found, s).panel.value_counts().to_dict() for s in sparse_map.LOUD}
    masks = {"cl-basic-masked": 2, "cl-basic-dependent": 2}
    assert counts == {
        "-loud": masks,
        "-loud-t0.2": {"cl-basic": 2} | masks,
        "-loud-t0.5": {"cl-basic": 2} | masks,
    }


def test_scripts_have_the_programs_settings_at_another_pace():
    for panel, chosen in sparse_panels.PANELS.items():
        if "-script" not in panel:
            continue
        first = sparse_panels.configurations(panel)[0]
        slow = panel.endswith("slow")
        assert (first["protocol"], first["n"]) == ("released", 3000), panel
        assert first["sigma"] == pytest.approx(math.log(10) ** 0.5 / 10)
        assert first["lr"] == pytest.approx(0.005 * chosen["pace"])
        assert chosen["pace"] == (1 if slow else sparse_panels.PACE)
        # Eq. 2 where there are negatives, Eq. 3 where there are none.
        negatives = first["loss_kind"] in ("nt-xent", "contrastive")
        assert first["mask"] == ("dependent" if negatives else "independent"), panel
    assert not sparse_panels.configurations("ncl-basic-script")[0]["bn"]
    assert sparse_panels.configurations("cl-basic-script")[0]["bn"]


def test_a_faster_panel_counts_epochs_as_the_program_does():
    table = sparse_panels.runs(
        "ncl-basic-script", [0], 20, (0.1,), (0, 5, 7, 10), **TINY | {"batch": 5}
    )
    assert table.epoch.tolist() == [0, 5, 10, 20]
    direct = st.run(
        sparse_panels.configurations("ncl-basic-script", [0], (0.1,), **TINY | {"batch": 5}),
        4, (0, 1, 2), progress=False,
    ).table  # fmt: skip
    assert table.minimum.tolist() == direct.minimum.tolist()
    assert sparse_panels.seconds("ncl-basic-script") < sparse_panels.seconds("ncl-basic-released")


def test_one_hot_latents_are_panels_of_their_own():
    runs = pd.DataFrame({"panel": ["one-hot-ncl", "one-hot-ncl-bn"], "pr": 0.1, "seed": 0})
    runs = runs.assign(epoch=8000.0, minimum=[0.3, 0.4], loss=0.0)
    panels = sparse_map.as_panels(made().assign(latent="one-hot"), runs)
    with_bn = rt.reading(panels, "-bn-t0.2")
    assert with_bn.panel.value_counts().to_dict() == {"one-hot-cl": 2, "one-hot-ncl": 1}
    assert with_bn[with_bn.panel == "one-hot-ncl"].minimum.tolist() == [0.4]
    assert rt.reading(panels, "-t0.2").empty  # the net without BatchNorm was not trained


def test_the_plan_is_trained_once_and_whole():
    class Asked(Grid):
        """Notes what is asked for, and says of each run the seed alone."""

        def gather(self, requests):
            self.requests = [*requests]
            blank = [name for name in sparse_map.COLUMNS if name not in sparse_map.KEY]
            tables = [pd.DataFrame({"run": range(len(r.configs))}) for r in self.requests]
            return [SimpleNamespace(table=t.assign(**dict.fromkeys(blank, 0.0))) for t in tables]

    grid = Asked()
    table = sparse_map.everything(1, grid)
    seen = [*table[sparse_map.KEY].itertuples(index=False, name=None)]
    wanted = {
        (*net, *cell, pr, seed)
        for *net, cells, prs, seeds in sparse_map.plan()
        for cell in cells
        for pr in prs
        for seed in seeds
    }
    assert len(seen) == len(set(seen)) and set(seen) == wanted
    configs = [c for r in grid.requests for c in r.configs]
    assert [(c["seed"], c["model"], c["pr"]) for c in configs] == [
        (key[-1], key[0], key[-2]) for key in seen
    ]
    # 135 cells of 3 runs; 3 cells of 2 more at Pr = 0.1 and of 5 at the other two; 2 nets of 15
    # and 3 of 5; NCL-basic under two masks.
    assert len(seen) == 405 + 3 * (2 + 10) + 2 * 15 + 3 * 5 + 30
