"""The front of a package: its public names, each imported when it is first asked for.

So `import clcore` costs nothing, and a part costs only itself. The build reads the same table
without running it, to see which files a chapter needs (`clcore._imports`).
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def attach(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package (PEP 562).

    homes: module of the package -> the public names defined in it; under "" the modules that are
    public themselves.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it offers {', '.join(home)}"
            )
        module = import_module(f"{package}.{home[name] or name}")
        return getattr(module, name) if home[name] else module

    return list(home), get, lambda: list(home)
