"""What a chapter may be asked for: profile, device, seed and the chapter's own parameters.

The same check runs before a kernel starts (the build) and in a notebook's first cell
(`clcore.book.chapter.start`), because papermill itself only logs an unknown parameter.
"""

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clcore import _device
from clcore._files import read_notebook

PROFILES = ("smoke", "book", "paper")
COMMON = {"profile", "device", "seed"}
"""Parameters of every chapter."""
_INJECTED = "# Parameters\n"
"""How the cell begins that papermill puts behind the parameters cell."""


class ParameterError(ValueError):
    """A parameter that a chapter cannot be run with."""


def declared_in(source: str) -> dict[str, Any]:
    """Names and default values that a parameters cell assigns; only literals are allowed there."""
    found = {}
    for node in ast.parse(source).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                try:
                    found[name] = ast.literal_eval(value)
                except ValueError:
                    raise ParameterError(
                        f"the parameters cell sets {name} to {ast.unparse(value)!r}; expected a "
                        "literal (a number, a string, a list)"
                    ) from None
    return found


def of_cells(cells: Iterable[str]) -> tuple[dict[str, Any], set[str]]:
    """Parameters and defaults of the parameters cell among the cells that a kernel has run, and the
    names that papermill set in a separate cell; ({}, ...) if no such cell was run.

    The parameters cell is known by what every chapter has: it assigns profile, device and seed.
    """
    setting = [cell for cell in cells if _assigned(cell) >= COMMON]
    # papermill's may assign all three, too, and comes after it.
    own = setting[:1] + [cell for cell in setting[1:] if not cell.startswith(_INJECTED)]
    injected = {name for cell in cells if cell.startswith(_INJECTED) for name in _assigned(cell)}
    return declared_in(own[-1]) if own else {}, injected


def _assigned(source: str) -> set[str]:
    """Names that a cell assigns; none where it is no Python."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return set()
    found = set()
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def declared(notebook: Path) -> dict[str, Any]:
    """Parameters of a notebook file: those of its cell tagged `parameters`.

    Raises ParameterError when the file is no notebook or has no such cell.
    """
    try:
        cells = read_notebook(notebook)["cells"]
    except ValueError as error:
        raise ParameterError(str(error)) from None
    for cell in cells:
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            return declared_in("".join(cell["source"]))
    raise ParameterError(
        f"{notebook} has no parameters cell; tag its first code cell `parameters` and assign "
        "profile, device and seed there"
    )


def validate(given: dict[str, Any], declared: dict[str, Any], chapter: str) -> dict[str, Any]:
    """All parameters of a run: the declared defaults overridden by `given`, each one checked.

    Raises ParameterError naming the parameter, what was expected and what came.
    """
    for name in given:
        if name not in declared:
            raise ParameterError(
                f"{chapter} has no parameter {name!r}; it takes {', '.join(sorted(declared))}"
            )
    values = declared | given
    if values.get("profile") not in PROFILES:
        raise ParameterError(
            f"expected profile in {', '.join(PROFILES)}; got {values.get('profile')!r}"
        )
    check_device(values.get("device"))
    seed = values.get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**31:
        raise ParameterError(f"expected seed to be an integer from 0 to 2^31 - 1; got {seed!r}")
    for name, value in given.items():
        default = declared[name]
        number = isinstance(default, float) and isinstance(value, int | float)
        if not (number and not isinstance(value, bool)) and type(value) is not type(default):
            raise ParameterError(
                f"expected {name} of {chapter} to be of type {type(default).__name__} "
                f"(such as {default!r}); got {value!r}"
            )
    return values


def check_device(name: Any) -> str:
    """`_device.usable`, with a ParameterError of its words."""
    try:
        return _device.usable(name)
    except _device.NoDevice as error:
        raise ParameterError(str(error)) from None
