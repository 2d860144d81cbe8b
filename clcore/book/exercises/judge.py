"""How an answer to an exercise is judged."""

import contextlib
import difflib
import hashlib
import importlib
import math
import re
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clcore import _paths
from clcore.book.exercises.text import hints, ids, title
from clcore.ledger.outcomes import number

if TYPE_CHECKING:
    import torch

NEAR = 0.05
"""An answer of this share off or less is near: it is told how far off, and not a usual mistake
that would be no more than as near, as the square of a number close to 1."""
_FOLDER = Path(__file__).parent
_ID = re.compile(r'@(?:exercise|numeric)\(\s*"(ex-[\w-]+)"')


class ExerciseError(ValueError):
    """A question that cannot be judged: an unknown exercise, an answer of the wrong kind."""


class NotYet(AssertionError):
    """An answer that is not right yet. In a notebook it is shown without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not yet. {self}"]


@dataclass(frozen=True)
class Exercise:
    """How one exercise is judged. asks: what the answer has to be, in words. bound: how far from
    right it may be. wrong: answers that must be refused. measure: answer -> how far from right.

    Of one that asks for a number: truth gives it, and varies names the constants that a lecturer's
    key may change: parameter of `truth` -> how the page prints it, and the values it may take.
    """

    id: str
    asks: str
    bound: float
    wrong: tuple[Any, ...]
    measure: Callable[..., float]
    truth: Callable[..., float] | None = None
    varies: dict[str, tuple[str, tuple]] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """A judge's verdict on an answer. told: with the exercise's name. empty: no answer given."""

    id: str
    right: bool
    told: str
    empty: bool = False


_KNOWN: dict[str, Exercise] = {}
_SEEN: dict[str, Verdict] = {}
_KEY: ContextVar[str] = ContextVar("key", default="")


def exercise(name: str, asks: str, *, bound: float, wrong: tuple) -> Callable:
    """Register `measure(answer) -> float` as the judge of an exercise.

    The answer is right when the measure is at most `bound`. A measure raises ExerciseError with
    words for an answer of the wrong kind or shape.
    """

    def register(measure: Callable[[Any], float]) -> Callable[[Any], float]:
        _refuses(name, wrong)
        _KNOWN[name] = Exercise(name, asks, float(bound), tuple(wrong), measure)
        return measure

    return register


def numeric(
    name: str, asks: str, *, wrong: tuple, within: float = 0.01, varies: dict | None = None
) -> Callable:
    """Register `truth() -> float` as the answer to an exercise that asks for a number.

    within: how far an answer may be off, relative to the truth; one per cent, so that what a
    solution prints with three digits is right. varies: as for `Exercise`.
    """

    def register(truth: Callable[..., float]) -> Callable[..., float]:
        found = cache(truth)  # asked anew for each usual mistake

        def measure(answer: Any, **constants: Any) -> float:
            return abs(scalar(answer) / found(**constants) - 1)

        _refuses(name, wrong)
        _KNOWN[name] = Exercise(name, asks, within, tuple(wrong), measure, found, varies or {})
        return truth

    return register


def keyed(seed: int) -> int:
    """The seed from which a judge draws the inputs for a function: this one, or another under a
    lecturer's key, so that a table of the printed judges' draws is no answer."""
    key = _KEY.get()
    if not key:
        return seed
    return int.from_bytes(hashlib.sha256(f"{key}\n{seed}".encode()).digest()[:4])


@contextlib.contextmanager
def under(key: str) -> Generator[None]:
    """Judges draw by this key inside."""
    before = _KEY.set(key)
    try:
        yield
    finally:
        _KEY.reset(before)


def _refuses(name: str, wrong: tuple) -> None:
    if not wrong:
        raise ExerciseError(f"{name}: expected wrong answers that it refuses, got none")


def _modules() -> dict[str, Path]:
    """Id of an exercise -> the file that judges it, by reading the files, not by importing them."""
    own = {"__init__", "judge", "mistakes", "text", "variants"}
    files = [file for file in sorted(_FOLDER.glob("*.py")) if file.stem not in own]
    return {name: file for file in files for name in _ID.findall(file.read_text(encoding="utf-8"))}


def module_of(name: str) -> str | None:
    """The module that judges an exercise, as a dotted name; None for an id that is not there."""
    file = _modules().get(name)
    return f"clcore.book.exercises.{file.stem}" if file else None


def known(name: str) -> Exercise:
    """How an exercise is judged. Raises ExerciseError for an id that is not there."""
    module = module_of(name)
    if module is None:
        near = difflib.get_close_matches(name, _modules(), 3) or sorted(_modules())[:3]
        raise ExerciseError(
            f"expected the id of an exercise, got {name!r}; did you mean {', '.join(near)}?"
        )
    importlib.import_module(module)
    return _KNOWN[name]


def verdict(name: str, answer: Any = None, key: str = "") -> Verdict:
    """Judge an answer, and explain in words what is wrong with it.

    key: a lecturer's, for the constants that `variants.constants` draws from it and, where a
    function is asked for, the seeds of its inputs. Raises ExerciseError for an unknown exercise.
    """
    import torch

    from clcore.book.exercises import mistakes, variants

    found, named = known(name), title(name)
    if answer is None or answer is ...:
        return Verdict(name, False, f"{named}: no answer yet; it asks for {found.asks}.", True)
    given = variants.constants(found, key)
    try:
        # Judges differentiate, whatever the notebook has switched off.
        seeds = under("" if found.truth else key)
        with seeds, torch.inference_mode(False), torch.enable_grad():
            gap = float(found.measure(answer, **given))
            if gap <= found.bound:
                return Verdict(name, True, f"{named}: right.")
            usual = _near(gap, found) or mistakes.usual(
                lambda other: found.measure(other, **given), found.bound, answer
            )
    except ExerciseError as error:
        return Verdict(name, False, f"{named} asks for {found.asks}; {error}.")
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        words = f"{named} asks for {found.asks}; what came could not be judged ({told})."
        return Verdict(name, False, words)
    return Verdict(name, False, f"{named}: {usual or _off(gap, found)}.")


def _near(gap: float, found: Exercise) -> str:
    near = found.truth and found.bound and gap <= NEAR
    return f"near, but {_off(gap, found)}" if near else ""


def _off(gap: float, found: Exercise) -> str:
    if math.isnan(gap):
        return "the answer is not a number"
    if found.bound == 0:
        return f"not right; it asks for {found.asks}"
    if found.truth:
        own, most = _percent(gap), _percent(found.bound)
        return f"off by {'just over ' if own == most else ''}{own} per cent (allowed: {most})"
    return f"off by {number(gap)} (allowed: {number(found.bound)})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


def check(name: str, answer: Any = None, quiet: bool = False) -> None:
    """Judge an answer: prints that it is right, or raises NotYet with a hint.

    name: "ex-minmax-2", as in the question's check. answer: as required by the exercise, a
    number, an array or a function; an empty one (... or None) is reported, and counted by
    `score`. quiet: print nothing for a right answer and raise for an empty one, for graders.
    Raises ExerciseError for an unknown exercise.
    """
    found = _SEEN[name] = verdict(name, answer)
    if found.empty and not quiet:
        print(found.told)
    elif not found.right:
        raise NotYet(found.told + _hint(name))
    elif not quiet:
        print(found.told)


def score(chapter: str) -> None:
    """Print how many of a chapter's exercises are right, not right yet and empty, by the last call
    of `check` for each."""
    notebook = _paths.root() / "chapters" / f"{chapter}.ipynb"
    names = ids(notebook)
    seen = [_SEEN.get(name) for name in names]
    right = sum(one is not None and one.right for one in seen)
    open_ = [title(n) for n, one in zip(names, seen, strict=True) if one is None or one.empty]
    wrong = [title(v.id) for v in seen if v and not v.right and not v.empty]
    print(f"{right} of {len(names)} right.")
    for words, some in (("Not right yet", wrong), ("Without an answer", open_)):
        if some:
            print(f"{words}: {', '.join(some)}.")


def _hint(name: str) -> str:
    told = hints(name)
    return f" Hint: {' '.join(told[0].split())}" if told else ""


def value(answer: Any, shape: tuple[int, ...] = ()) -> "torch.Tensor":
    """An answer as a float64 tensor of this shape, from numbers of any library, with more or fewer
    axes of length 1. Raises ExerciseError for anything else."""
    given = numbers(answer)
    if [n for n in given.shape if n != 1] != [n for n in shape if n != 1]:
        want = f"the shape {shape}" if shape else "one number"
        raise ExerciseError(f"expected {want}, got the shape {tuple(given.shape)}")
    return given.reshape(shape)


def scalar(answer: Any) -> float:
    """An answer, or the value returned by an answer that is a function, as a number. Errors: as
    `value`."""
    return float(value(answer))


def numbers(answer: Any) -> "torch.Tensor":
    """An answer as a float64 tensor of the same shape. Raises ExerciseError for anything else."""
    import numpy as np
    import torch

    try:
        if isinstance(answer, list | tuple):
            return torch.stack([numbers(part) for part in answer])
        if not isinstance(answer, torch.Tensor):
            array = np.asarray(answer)
            if array.dtype.kind in "US":
                raise TypeError  # numpy would read a text as a number
            answer = torch.from_numpy(array.astype(complex if array.dtype.kind == "c" else float))
        if answer.is_complex() and not bool(answer.imag.any()):  # as roots of a polynomial come
            answer = answer.real
        if not answer.is_complex():
            found = answer.detach().to("cpu", torch.float64, copy=True)
            if not bool(found.isfinite().all()):  # the largest of some gaps may pass over a NaN
                raise ExerciseError("expected finite numbers, got NaN or infinity")
            return found
    except ExerciseError:
        raise
    except (TypeError, ValueError, RuntimeError):
        raise ExerciseError(f"expected numbers, got {type(answer).__name__}") from None
    raise ExerciseError("expected real numbers, got complex ones")


def function(answer: Any) -> Callable:
    """An answer that has to be a function. Raises ExerciseError for anything else."""
    if not callable(answer):
        raise ExerciseError(f"expected a function, got {type(answer).__name__}")
    return answer
