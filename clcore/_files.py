"""Files that are either there whole or not at all."""

import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from clcore import _paths

MOST = 1_000_000
"""Values of a YAML file with all aliases written out."""
RESTORE = "restore it from the repository"
"""What to do about a file of ours that no command makes."""
DEEPEST = 100
"""Levels of a YAML file."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DiskFull(OSError):
    """No room to write a file. Finished files are untouched."""


def explain_full(error: OSError, path: Path) -> OSError:
    """Return `error`, or a DiskFull with a remedy if `error` means a full disk or quota."""
    if error.errno not in _FULL:
        return error
    return DiskFull(
        error.errno,
        f"no space left (or quota reached) while writing {path}; free some space and run the same "
        "command again: everything finished so far is kept",
    )


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part.

    Raises DiskFull when there is no room; the old file then stays.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as out:
            temporary = Path(out.name)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise explain_full(error, path) from error
        raise


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    write_atomic(path, (text + "\n").encode())


def read_json(path: Path, remedy: str) -> Any:
    """Read JSON. Raises ValueError naming the file and `remedy` if it is missing or cut short."""
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path} is not there; {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}); {remedy}") from None


def read_yaml(path: Path, schema: dict, error: type[Exception]) -> Any:
    """Read YAML that meets a JSON schema. Raises `error` naming the file, the place and what is
    wrong there."""
    import yaml

    try:
        text = path.read_bytes().decode("utf-8-sig")
        # The loader in C, where it is, is much faster.
        kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _shallow(text, kind)
        loader = _naming(kind)(text)
        root = loader.get_single_node()
        _size(root, (), {})
        document = None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        told = " ".join(str(problem).replace('in "<unicode string>", ', "at ").split())
        raise error(f"{_paths.shown(path)} is not valid YAML: {told}") from None
    return _valid(document, path, schema, error)


_CELL = {
    "type": "object",
    "required": ["cell_type", "metadata", "source"],
    "properties": {
        "metadata": {"type": "object"},
        "source": {"type": ["string", "array"], "items": {"type": "string"}},
    },
}
_NOTEBOOK = {
    "type": "object",
    "required": ["cells", "metadata"],
    "properties": {
        "metadata": {"type": "object"},
        "cells": {"type": "array", "items": _CELL},
    },
}


def read_notebook(path: Path) -> dict[str, Any]:
    """Read a notebook of ours, as JSON. Raises ValueError naming the file when it is none."""
    shown = _paths.shown(path)
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{shown} is not there; {RESTORE}") from None
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{shown} is not a notebook ({problem})") from None
    return _valid(document, path, _NOTEBOOK, ValueError)


def read_record(path: Path, schema: dict, error: type[Exception], remedy: str) -> Any:
    """Read JSON that meets a JSON schema. Raises `error` naming the file and `remedy` if it is
    missing or cut short, else the place and what is wrong there."""
    try:
        document = read_json(path, remedy)
    except ValueError as problem:
        raise error(str(problem)) from None
    return _valid(document, path, schema, error)


def _valid(document: Any, path: Path, schema: dict, error: type[Exception]) -> Any:
    for problem in _validator()(schema).iter_errors(document):
        where = "/".join(str(part) for part in problem.absolute_path)
        said = f"{problem.message}{_wanted(problem)}"
        raise error(f"{_paths.shown(path)}, at {where or 'top'}: {said}")
    return document


def _wanted(problem: Any) -> str:
    """What the schema wants in the place of a problem, where it says so."""
    if problem.validator == "additionalProperties":
        return f"; expected some of {', '.join(problem.schema.get('properties', ()))}"
    if problem.validator in ("pattern", "minLength", "maxLength", "type"):
        said = problem.schema.get("description")
        return f"; expected: {said}" if said else ""
    return "; leave it out here" if problem.validator is None else ""  # a schema that is False


def _shallow(text: str, loader: type) -> None:
    """Refuse deep nesting, which no file of ours has, before it is read by recursion: that of the
    loader in C ends the whole process."""
    import yaml

    depth = 0
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} deep", event)


@cache
def _naming(loader: Any) -> Any:
    """A loader whose errors locate values that cannot be made, such as a 31st of June."""
    import yaml

    class Naming(loader):
        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, OverflowError) as problem:
                raise yaml.MarkedYAMLError(None, None, str(problem), node.start_mark) from None

    return Naming


def _refused(why: str, where: Any) -> Exception:
    import yaml

    return yaml.MarkedYAMLError(None, None, why, where.start_mark)


def _size(node: Any, above: tuple, known: dict[int, int]) -> int:
    """How many values a node of YAML stands for, aliases written out.

    Refuses a key that is given twice, of which YAML's reader keeps the last without a word, an
    alias of what it stands in, which has no end, and aliases of aliases that come near it.
    """
    import yaml

    if node in above:
        raise _refused("an alias inside what it names", node)
    if id(node) in known:
        return known[id(node)]
    inner: list[Any] = []
    if isinstance(node, yaml.SequenceNode):
        inner = node.value
    elif isinstance(node, yaml.MappingNode):
        inner = [value for _, value in node.value]
        names = set()
        for key, _ in node.value:
            if str(key.value) in names:
                raise _refused(f"duplicate key {key.value!r}", key)
            names.add(str(key.value))
    size = 1 + sum(_size(one, (*above, node), known) for one in inner)
    if size > MOST:
        raise _refused(f"with its aliases written out it has more than {MOST:,} values", node)
    known[id(node)] = size
    return size


@cache
def _validator() -> Any:
    """Of JSON Schema, where the `$` of a pattern is the very end: Python's lets a line end by."""
    import jsonschema

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[Any]:
        if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", wanted), value):
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")

    return jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})


def sha256(*parts: bytes) -> str:
    """Hex digest of the parts, each preceded by its length so that their borders count."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
