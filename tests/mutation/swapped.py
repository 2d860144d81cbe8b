"""One module with another source: what a child imports from now on. No file is touched."""

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any


def forget(package: str) -> None:
    """Import a package anew when it is asked for next."""
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]


def swap(path: Path, source: str) -> None:
    """Every later import of the file at `path` compiles `source` in place of what is there; its
    bytecode is neither read nor written."""
    target, data = path.resolve(), source.encode()
    stats, read = SourceFileLoader.path_stats, SourceFileLoader.get_data

    def meant(asked: str) -> bool:
        return asked.endswith(target.name) and Path(asked).resolve() == target

    def path_stats(self: Any, asked: str) -> Any:
        if meant(asked):
            raise OSError(f"{asked} has another source now")  # so Python keeps no bytecode of it
        return stats(self, asked)

    def get_data(self: Any, asked: str) -> bytes:
        return data if meant(asked) else read(self, asked)

    SourceFileLoader.path_stats = path_stats
    SourceFileLoader.get_data = get_data
