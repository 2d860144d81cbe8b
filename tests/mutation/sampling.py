"""Which mutants: of which modules, and which of theirs."""

import random
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from alter import Mutant, Unmade, mutants

from clcore._files import sha256
from clcore.book import mutants as record

MATHEMATICS = (
    "losses",
    "theory",
    "images/augmentations.py",
    "images/evaluation.py",
    "images/filter_variation.py",
    "images/processes.py",
    "experiments/image_fields.py",
    "experiments/image_losses.py",
    "experiments/pretraining/evaluation.py",
    "experiments/residue_share.py",
    "experiments/sparse_factors.py",
    "experiments/sparse_models.py",
    "experiments/sparse_training.py",
    "experiments/token_sequences.py",
    "experiments/tree_contrast.py",
)
"""The formulas of clcore; what is left of images and experiments reads, writes and draws."""

HALVES = ("held out", "practice")


def files(root: Path, names: Iterable[str]) -> list[Path]:
    """The modules below clcore/ of these names: a folder, or a file. Raises ValueError naming one
    that is neither."""
    out: dict[Path, None] = {}
    for name in names:
        at = root / "clcore" / name
        found = sorted(at.rglob("*.py")) if at.is_dir() else [at] * at.is_file()
        if not found:
            raise ValueError(f"expected a file or folder of clcore, such as losses, got {name!r}")
        out |= dict.fromkeys(path for path in found if path.name != "__init__.py")
    return list(out)


def of_file(root: Path, path: Path) -> list[Mutant]:
    """Every mutant of a module."""
    name = path.relative_to(root).as_posix()
    judge = record.judges(name.removeprefix("clcore/"))
    return list(mutants(name, path.read_text(encoding="utf-8"), judge))


def half(mutant: Mutant) -> str:
    """The half of all mutants that one belongs to for good, whatever else is edited."""
    return HALVES[int(sha256(repr(mutant.name).encode()), 16) % 2]


def drawn(root: Path, path: Path, seed: int) -> Iterator[tuple[Mutant, str]]:
    """The mutants of one module with their sources, in the order of a seeded lot: a statement is
    drawn, then one change in it; after all statements have been, a second change of each, so that a
    long formula counts no more than a short one."""
    lot = random.Random(f"{seed} {path.relative_to(root).as_posix()}")
    statements: dict[tuple, list[Mutant]] = {}
    for mutant in of_file(root, path):
        statements.setdefault((mutant.where, mutant.first, mutant.last), []).append(mutant)
    columns = list(statements.values())
    lot.shuffle(columns)
    for column in columns:
        lot.shuffle(column)
    original = path.read_text(encoding="utf-8")
    for turn in zip_longest(*columns):
        for mutant in filter(None, turn):
            try:
                yield mutant, mutant.source(original)
            except Unmade:
                continue


def sample(
    root: Path, paths: list[Path], size: int, seed: int, only: str | None = None
) -> Iterator[tuple[Mutant, str]]:
    """`size` mutants (0: all there are), one of each module in turn. only: one of HALVES."""
    left = {
        path: (one for one in drawn(root, path, seed) if only in (None, half(one[0])))
        for path in paths
    }
    count = 0
    while left and (not size or count < size):
        for path in list(left):
            got = next(left[path], None)
            if got is None:
                del left[path]
                continue
            yield got
            count += 1
            if count == size:
                return
