"""Jobs by submitit, with the processes that stand in for Slurm."""

import os
from pathlib import Path

import pandas as pd
import pytest
from grid_runs import fragile, runs, sweep, table

from clcore import _paths
from clcore.grid import Grid, GridFailed, launcher

pytestmark = pytest.mark.usefixtures("one_thread")


def test_jobs_give_what_one_call_does_and_a_killed_one_is_named(tmp_path, monkeypatch):
    path = [str(_paths.root()), str(Path(__file__).parent)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    grid = Grid(tmp_path / "grid", launcher("submitit:timeout_min=10"), progress=False)
    found = grid.run(sweep, runs(3), chunk=2, options={"steps": 6}).table
    pd.testing.assert_frame_equal(found, sweep(runs(3)).table, check_exact=True)
    how = {"how": "kill", "folder": str(tmp_path)}
    with pytest.raises(GridFailed, match=r"1 of 2 runs failed(.|\n)*seeds 3 .*: killed: job"):
        grid.run(fragile, runs(4)[2:], options=how, chunk=1)
    assert len(grid.run(table, runs(2)).table) == 2
