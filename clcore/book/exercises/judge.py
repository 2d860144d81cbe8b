"""How an answer to an exercise is judged."""

import difflib
import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clcore.book.exercises.text import hints
from clcore.ledger.outcomes import number

if TYPE_CHECKING:
    import torch

_FOLDER = Path(__file__).parent
_ID = re.compile(r'@exercise\(\s*"(ex-[\w-]+)"')


class ExerciseError(ValueError):
    """A question that cannot be judged: an unknown exercise, an answer of the wrong kind."""


class NotYet(AssertionError):
    """An answer that is not right yet. In a notebook it is shown without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not yet. {self}"]


@dataclass(frozen=True)
class Exercise:
    """How one exercise is judged. asks: what the answer has to be, in words. bound: how far from
    right it may be. wrong: answers that must be refused. measure: answer -> how far from right."""

    id: str
    asks: str
    bound: float
    wrong: tuple[Any, ...]
    measure: Callable[[Any], float]


_KNOWN: dict[str, Exercise] = {}


def exercise(name: str, asks: str, *, bound: float, wrong: tuple) -> Callable:
    """Register `measure(answer) -> float` as the judge of an exercise.

    The answer is right when the measure is at most `bound`. A measure raises ExerciseError with
    words for an answer of the wrong kind or shape.
    """

    def register(measure: Callable[[Any], float]) -> Callable[[Any], float]:
        if not wrong:
            raise ExerciseError(f"{name}: expected wrong answers that it refuses, got none")
        _KNOWN[name] = Exercise(name, asks, float(bound), tuple(wrong), measure)
        return measure

    return register


def _modules() -> dict[str, Path]:
    """Id of an exercise -> the file that judges it, by reading the files, not by importing them."""
    own = {"__init__", "judge", "text"}
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


def check(name: str, answer: Any = None, quiet: bool = False) -> None:
    """Judge an answer: says that it is right, or raises NotYet with a hint.

    name: as on the page, "ex-minmax-2". answer: what the exercise asks for, a number, an array or a
    function. quiet: say nothing of a right answer, as graders want. Raises ExerciseError for an
    unknown exercise.
    """
    import torch

    found = known(name)
    if answer is None or answer is ...:
        raise NotYet(f"{name} asks for {found.asks}." + _hint(name))
    try:
        # Judges differentiate, whatever the notebook has switched off.
        with torch.inference_mode(False), torch.enable_grad():
            gap = float(found.measure(answer))
    except ExerciseError as error:
        raise NotYet(f"{name} asks for {found.asks}; {error}." + _hint(name)) from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise NotYet(
            f"{name} asks for {found.asks}; what came could not be judged ({told})." + _hint(name)
        ) from error
    if not gap <= found.bound:
        off = "is not a number" if math.isnan(gap) else f"is off by {number(gap)}"
        raise NotYet(f"The answer to {name} {off} (allowed: {number(found.bound)})." + _hint(name))
    if not quiet:
        print(f"{name}: right (off by {number(gap)}, allowed {number(found.bound)}).")


def _hint(name: str) -> str:
    told = hints(name)
    return f" Hint: {' '.join(told[0].split())}" if told else ""


def value(answer: Any, shape: tuple[int, ...] = ()) -> "torch.Tensor":
    """An answer as a float64 tensor of this shape, from numbers of any library, with more or fewer
    axes of length 1. Raises ExerciseError for anything else."""
    given = _numbers(answer)
    if [n for n in given.shape if n != 1] != [n for n in shape if n != 1]:
        want = f"the shape {shape}" if shape else "one number"
        raise ExerciseError(f"expected {want}, got the shape {tuple(given.shape)}")
    return given.reshape(shape)


def scalar(answer: Any) -> float:
    """An answer, or what a function that is one returns, as a number. Errors: as `value`."""
    return float(value(answer))


def _numbers(answer: Any) -> "torch.Tensor":
    import numpy as np
    import torch

    try:
        if isinstance(answer, list | tuple):
            return torch.stack([_numbers(part) for part in answer])
        if not isinstance(answer, torch.Tensor):
            array = np.asarray(answer)
            if array.dtype.kind in "US":
                raise TypeError  # numpy would read a text as a number
            answer = torch.from_numpy(array.astype(complex if array.dtype.kind == "c" else float))
        if answer.is_complex() and not bool(answer.imag.any()):  # as roots of a polynomial come
            answer = answer.real
        if not answer.is_complex():
            return answer.detach().to("cpu", torch.float64, copy=True)
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
