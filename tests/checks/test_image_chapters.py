"""Parameters of the image chapters: which images they train on, which losses, with which settings.

Their cells are run with data sets of the registered sizes and no pixels.
"""

import ast
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clcore import _paths
from clcore.book.gpu import tables
from clcore.checks.dual_networks.residue import images as ddn_images
from clcore.checks.minmax import images
from clcore.checks.relu_composition import image_filters
from clcore.experiments.pretraining import Settings
from clcore.images import datasets, image_sets

NAMES = ("1-minmax-images", "3-relu-composition-images", "4-dual-networks-images")


def cells(name):
    notebook = json.loads((_paths.root() / "chapters" / f"{name}.ipynb").read_text())
    return {c["id"]: "".join(c["source"]) for c in notebook["cells"]}


def imports(source):
    kept = [s for s in ast.parse(source).body if isinstance(s, ast.Import | ast.ImportFrom)]
    return ast.unparse(ast.Module(kept, []))


def load(name, split="train"):
    entry = datasets.registry()[name]
    count = sum(entry["splits"][part] for part in split.split("+"))
    pixels = np.lib.stride_tricks.as_strided(
        np.zeros(1, np.uint8), (count, *entry["shape"]), [0] * 4
    )
    labels = np.zeros(count, np.int64)
    return image_sets.ImageSet(name, split, name, pixels, labels, tuple(entry["classes"]))


def run_data(name, monkeypatch, profile="paper", **parameters):
    """The namespace after the cell "data" of a chapter."""
    monkeypatch.setattr(image_sets, "load", load)
    source = cells(name)
    space = {"size": "full", "repeats": 0, "losses": "", "epochs": 0, "fast": "auto"} | parameters
    exec(imports(source["setup"]), space)
    picked = {"smoke": 0, "book": 1, "paper": 2}
    space["here"] = SimpleNamespace(
        profile=profile,
        seed=0,
        device=torch.device("cpu"),
        pick=lambda **of: [of["smoke"], of["book"], of["paper"]][picked[profile]],
    )
    space["known"] = ("digits", "cifar10", "cifar10-jpeg", "stl10")
    exec(source["data"], space)
    return space


@pytest.mark.parametrize("name", NAMES)
def test_stl10_at_full_size_is_train_and_unlabelled(name, monkeypatch):
    full = run_data(name, monkeypatch, dataset="stl10")
    assert len(full["train"]) == 105_000 and full["train"].split == "train+unlabeled"
    assert len(full["test"]) == 8000
    for other in ({"size": "cpu"}, {"profile": "book"}):
        assert len(run_data(name, monkeypatch, dataset="stl10", **other)["train"]) == 5000
    assert len(run_data(name, monkeypatch, dataset="cifar10")["train"]) == 50_000


def test_what_the_checks_ask_for_is_that():
    assert images.TRAIN["stl10"] == ddn_images.IMAGES["stl10"] == 105_000
    assert image_filters.IMAGES == 105_000


def test_losses_can_be_chosen(monkeypatch):
    chosen = {"dataset": "cifar10", "losses": "nce, beta-0.5,beta+0.2", "repeats": 3}
    space = run_data(NAMES[2], monkeypatch, **chosen)
    assert list(space["arms"]) == ["nce", "beta-0.5", "beta+0.2"] and len(space["seeds"]) == 3
    assert set(space["arms"]) == set(
        cells(NAMES[2])["checks-ledger"].split("losses ")[1].split()[0].split(",")
    )
    space = run_data(NAMES[2], monkeypatch, dataset="cifar10")
    assert len(space["arms"]) == 11 and len(space["seeds"]) == 5
    told = r"losses: expected some of nce, .*exact-noise-released with commas between, got beta in"
    with pytest.raises(ValueError, match=told):
        run_data(NAMES[2], monkeypatch, dataset="cifar10", losses="nce,beta")


def test_a_hundred_epochs_on_a_cpu_are_for_two_losses(monkeypatch):
    space = run_data(NAMES[2], monkeypatch, dataset="cifar10-jpeg", size="cpu-100")
    assert list(space["arms"]) == ["nce", "exact"] and len(space["seeds"]) == 3
    assert space["own"]["epochs"] == 100 and space["record"] == [0, 20, 40, 60, 80, 100]
    short = run_data(NAMES[2], monkeypatch, dataset="cifar10-jpeg", size="cpu")
    assert short["record"] == [0, 4, 12, 20] and len(short["arms"]) == 8
    assert {**short["own"], "epochs": 100} == space["own"]


@pytest.mark.parametrize("name", NAMES[::2])
def test_fast_settings_are_those_of_the_runs(name, monkeypatch):
    assert "mixed" not in run_data(name, monkeypatch, dataset="cifar10")["own"]
    assert run_data(name, monkeypatch, dataset="cifar10", fast="yes")["own"]["mixed"]


@pytest.mark.parametrize("name", NAMES[::2])
def test_a_hundred_epochs_at_full_size_are_the_runs_of_a_gpu(name, monkeypatch):
    """What `python -m clcore gpu` trains is what the chapter would, and its record fits."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    given = {"dataset": "cifar10-jpeg", "size": "full-100", "fast": "yes"}
    space = run_data(name, monkeypatch, **given)
    first = next(batch for batch in tables.batches() if batch.chapter == name)
    arms = space.get("arms") or {loss: {"loss": loss} for loss in space["losses"]}
    made = [Settings(seed=0, **arm, **space["own"]) for arm in arms.values()]
    assert sorted(first.settings(**tables.shared("cuda")), key=str) == sorted(made, key=str)
    assert list(first.record) == list(space["record"]) and len(space["seeds"]) == 5
    assert "cifar10-jpeg-full-100" in cells(name)["recorded"]
