"""The checker of signatures that the tests run clcore under: an int is a float, as in Python.

Run as a file, as the kernels of the build under test do first, it puts clcore under it.
"""

import sys
from pathlib import Path

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def install() -> None:
    """From now on, every import of clcore checks shapes and types at each call."""
    install_import_hook("clcore", "typechecking.check")


if __name__ == "<run_path>":
    sys.path.append(str(Path(__file__).parent))
    install()
