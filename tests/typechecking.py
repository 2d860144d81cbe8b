"""The checker of signatures that the tests run clcore under: an int is a float, as in Python.

Run as a file, as the kernels of the build under test do first, it puts the rooms of clcore that the
checks call under it; the trainings have tests of their own under it. It notes, too, which files
such a kernel opens, for a test of the cache's keys.
"""

import sys
from pathlib import Path

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

check = beartype(conf=BeartypeConf(is_pep484_tower=True))


CHECKED = ("checks", "images", "ledger", "losses", "nets", "random", "reference", "stats", "theory")


def install(*names: str) -> None:
    """From now on, every import of these, all of clcore if none is named, checks shapes and types
    at each call."""
    install_import_hook([*names] or "clcore", "typechecking.check")


if __name__ == "<run_path>":
    sys.path.append(str(Path(__file__).parent))
    import opening

    opening.install()
    install(*(f"clcore.{name}" for name in CHECKED))
