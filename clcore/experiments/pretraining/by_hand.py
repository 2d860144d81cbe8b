"""A pretraining run from the command line: settings as texts, table and checkpoint as files."""

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml

from clcore._files import write_atomic
from clcore.experiments.pretraining.checkpoint import checkpoint_name
from clcore.experiments.pretraining.single import run
from clcore.experiments.trainer import Settings
from clcore.images import augmentations as aug
from clcore.images import image_sets, processes


def parsed(assignments: Sequence[str]) -> Settings:
    """Settings from texts such as "loss=nce", "images=1000", "recipe={size: 224, blur: 23}".

    Values are YAML. Errors: no "=", an unknown name, no YAML, a value of another type.
    """
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    found: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"--set: expected NAME=VALUE, NAME one of {[*fields]}; got {text!r}")
        try:
            meant = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError(
                f"--set {name}: expected a value of YAML, such as 3, nce or {{size: 8, blur: 3}}; "
                f"got {value!r}"
            ) from None
        found[name] = _typed(name, fields[name].type, meant)
    return Settings(**found)


def _recipe(given: dict[str, Any]) -> aug.Recipe:
    """A custom recipe. Errors: an unknown name, none for size, a value of another type."""
    fields = {field.name: field for field in dataclasses.fields(aug.Recipe)}
    if strange := [str(name) for name in given if name not in fields]:
        raise ValueError(
            f"--set recipe: expected names of {', '.join(fields)}; got {', '.join(strange)}"
        )
    if "size" not in given:
        raise ValueError(f"--set recipe: expected a size (pixels of a side), got only {given}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        kinds = get_args(fields[name].type)
        values = value if kinds and isinstance(value, list) else [value]
        whole = fields[name].type is int
        fit = all(type(v) is int or (type(v) is float and not whole) for v in values)
        if not fit or len(values) != (len(kinds) or 1):
            expected = f"a list of {len(kinds)} numbers" if kinds else "a number"
            expected = "a whole number" if whole else expected
            raise ValueError(f"--set recipe: expected {expected} for {name}, got {value!r}")
        found[name] = tuple(values) if kinds else value
    return aug.Recipe(**found)


def _typed(name: str, kind: Any, value: Any) -> Any:
    """A value from YAML as one of the type of a field of Settings. Errors: it cannot be."""
    if get_origin(kind) is Literal:
        return value  # Settings knows which
    kinds = get_args(kind) or (kind,)
    if float in kinds and type(value) in (str, int):
        with suppress(ValueError):
            value = float(value)  # YAML takes 1e-3 for a text
    if aug.Recipe in kinds and isinstance(value, dict):
        value = _recipe(value)
    if type(value) not in kinds:
        names = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
        raise ValueError(f"--set {name}: expected {names}, got {value!r}")
    return value


def command(
    data: str,
    out: Path,
    assignments: Sequence[str],
    record: Sequence[int] | None,
    train: str,
    test: str,
    device: str,
) -> Path | None:
    """`python -m clcore pretrain`: one run, its checkpoint and its table (CSV) in the folder `out`.

    The table's path; None in all processes of torchrun but the first. Errors: as `parsed` and
    `run`; an `out` that can be no folder.
    """
    settings = parsed(assignments)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--out: expected a folder for checkpoint and table, got {out} ({error.strerror}); "
            "nothing was trained"
        ) from None
    load = image_sets.folder if Path(data).is_dir() else image_sets.load
    splits = load(data, train), load(data, test)
    name = checkpoint_name(settings)
    table = run(*splits, settings, device=device, checkpoint=out / name, record=record or None)
    if processes.join()[0]:
        return None
    file = (out / name).with_suffix(".csv")
    write_atomic(file, table.assign(data=splits[0].label).to_csv(index=False).encode())
    return file
