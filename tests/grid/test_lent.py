"""Larger arguments: the same in the other process, checked when they are read, and no code."""

import logging
import os
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from grid_runs import runs, table

from clcore.grid import Grid, lent
from clcore.grid.launchers import Local

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass(frozen=True)
class Pair:
    """An object that holds arrays, as data sets do."""

    name: str
    pixels: np.ndarray
    labels: torch.Tensor


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    lent.read.cache_clear()
    monkeypatch.setattr("clcore.grid.waiting.PATIENCE", 0.0)


def sent(folder, **values):
    return lent.read(folder, lent.write(folder, values))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(12).reshape(3, 4).T,
        np.array(2.5),
        np.zeros((0, 3), np.uint8),
        np.arange(3, dtype=">f4"),
        np.array(["a", "bc"]),
        np.array([True, False]),
    ],
    ids=["float", "transposed", "scalar", "empty", "other order", "texts", "bools"],
)
def test_arrays_come_back_to_the_bit(tmp_path, array):
    found = sent(tmp_path, x=array)["x"]
    assert found.dtype == array.dtype and found.shape == array.shape
    np.testing.assert_array_equal(found, array)
    assert len([*tmp_path.glob("shared-*.npy")]) == 1


def test_objects_tensors_and_plain_values_come_back(tmp_path):
    pair = Pair("a", np.arange(6, dtype=np.uint8), torch.tensor([1, -1]))
    half = torch.ones(2, dtype=torch.bfloat16)
    found = sent(tmp_path, pair=pair, deep=[{"x": torch.ones(2)}], half=half, count=3)
    assert found["pair"].name == "a" and found["count"] == 3
    np.testing.assert_array_equal(found["pair"].pixels, pair.pixels)
    assert torch.equal(found["pair"].labels, pair.labels)
    assert torch.equal(found["deep"][0]["x"], torch.ones(2)) and torch.equal(found["half"], half)
    found["pair"].labels[0] = 7  # a tensor is the reader's own
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    assert sent(tmp_path, x=masked)["x"].mask.tolist() == [True, False]


def test_equal_arrays_are_one_file_and_others_another(tmp_path):
    lent.write(tmp_path, {"a": np.ones(3), "b": np.ones(3), "c": np.ones((3, 1)), "d": np.ones(4)})
    assert len([*tmp_path.glob("shared-*")]) == 3


def test_what_cannot_be_sent_is_refused(tmp_path):
    with pytest.raises(ValueError, match="shared: expected arrays, tensors and plain objects"):
        lent.write(tmp_path, {"f": lambda: None})


class Code:
    """What runs when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap", "code", "array of code"])
def test_a_file_that_is_not_its_name_is_refused_and_written_anew(tmp_path, caplog, damage):
    kept = lent.write(tmp_path, {"x": np.ones(64)})
    (file,) = tmp_path.glob("shared-*.npy")
    content, mark = bytearray(file.read_bytes()), tmp_path / "ran"
    if damage == "flip":
        content[-7] ^= 1
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[:-8])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "swap":
        np.save(file, np.zeros(64))
    elif damage == "code":
        file.write_bytes(pickle.dumps(Code(str(mark))))
    else:
        np.save(file, np.array([Code(str(mark))], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"shared-\w+.npy is damaged"):
        lent.read(tmp_path, kept)
    with caplog.at_level(logging.WARNING):
        assert sent(tmp_path, x=np.ones(64))["x"].sum() == 64
    assert "damaged, and written anew" in caplog.text and not mark.exists()


def test_processes_take_them(tmp_path):
    large = np.arange(1000.0)
    grid = Grid(tmp_path / "grid", Local(1), progress=False)
    found = grid.run(table, runs(2), shared={"shared": large}).table
    pd.testing.assert_frame_equal(found, table(runs(2), shared=large))
    assert [*grid.folder.glob("shared-*.npy")] and not [*grid.folder.glob("*.joblib")]
