"""Grids of runs that outgrow one process, and one machine.

A run has an address, a digest of all that decides its result; its result is a small file under that
address, written by whoever computed it. A launcher (this process, other local processes, a Dask
cluster, Slurm) computes what is missing, in any order and in stacks of any size.

The function of a grid stands in a module, where workers find it. It takes a list of configurations
and trains them, as by `sweep.train(configs, init, data, loss, steps, device=device)`. Then
`Grid(Path("found"), launcher("local:4")).run(function, configs)` gives the same `sweep.Result` as
the function alone, and the same call again computes only what is not there. A Dask cluster and
Slurm need `pip install "clcore[cluster]"`; grids need Linux or macOS.
"""

try:
    import fcntl as _locks  # noqa: F401 - asked here, once for all modules of the package
except ModuleNotFoundError:
    raise ImportError(
        "clcore.grid locks files by fcntl, which Windows does not have; use WSL (Windows Subsystem "
        "for Linux) for grids and builds"
    ) from None

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
