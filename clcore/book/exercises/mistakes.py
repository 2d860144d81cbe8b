"""Usual mistakes: answers that would be right with one thing changed, and their names."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

_PATIENCE = 2.0
"""Seconds after which no further change is tried: some judges take one."""
_SINGLE = 1e-5
"""How far single precision may be from right, where double is asked for."""

NUMBERS = (
    ("it has the opposite sign", "times", -1.0),
    ("it is twice the right value", "times", 0.5),
    ("it is half the right value", "times", 2.0),
    ("it is four times the right value", "times", 0.25),
    ("it is a quarter of the right value", "times", 4.0),
    ("it is the right value times the square root of 2", "over", math.sqrt(2)),
    ("it is the right value over the square root of 2", "times", math.sqrt(2)),
    ("it is the answer in per cent; a share is asked for", "over", 100.0),
    ("it is the reciprocal of the right value", "into", 1.0),
    ("it is one minus the right value", "from", 1.0),
    ("it is the square of the right value", "root", 0.5),
    ("it is the square root of the right value", "square", 2.0),
    ("it has the logarithm to base 2; the natural one is meant", "times", math.log(2)),
    ("it has the logarithm to base 10; the natural one is meant", "times", math.log(10)),
    ("it divides by the logarithm to base 2, not the natural one", "over", math.log(2)),
)
"""Mistakes that a single number shows: (what is wrong, the operation that mends it, its number).
Of `_OPERATIONS`, of which fields.js has its own, for numbers that are typed into a page."""
_OPERATIONS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "times": lambda r, by: r * by,
    "over": lambda r, by: r / by,
    "into": lambda r, by: by / r,
    "from": lambda r, by: by - r,
    "root": lambda r, _: r.sqrt(),
    "square": lambda r, _: r.square(),
}


def usual(measure: Callable[[Any], float], bound: float, answer: Any) -> str:
    """What a wrong answer lacks, in words: a sign, a factor, a transpose; "" where no single change
    makes it right, and for answers that are no number and no function that returns one or an array.

    measure, bound: of its judge.
    """
    began = time.monotonic()
    if not callable(answer) and _tensor(answer) is None:
        return ""
    for words, change in _changes():
        if time.monotonic() - began > _PATIENCE:
            break
        try:
            if measure(_changed(answer, change)) <= bound:
                return words
        except Exception:  # a change that does not fit this answer
            continue
    if 0 < bound < _SINGLE and _near(measure, answer):
        return "off by rounding: compute in double precision (torch.float64)"
    return ""


def _near(measure: Callable[[Any], float], answer: Any) -> bool:
    try:
        return measure(answer) <= _SINGLE
    except Exception:
        return False


def _changed(answer: Any, change: Callable) -> Any:
    if not callable(answer):
        return change(_tensor(answer), ())
    return lambda *given: change(_tensor(answer(*given)), given)


def _tensor(value: Any) -> torch.Tensor | None:
    """A number or an array of them; of a pair or a list, the tensor that it makes; else None."""
    from clcore.book.exercises import judge

    try:
        return judge.numbers(value)
    except judge.ExerciseError:
        return None


def _rows(given: tuple) -> int:
    """How many rows the first array that a function was given has."""
    return next(len(one) for one in given if isinstance(one, torch.Tensor) and one.ndim)


def _settings(given: tuple) -> list[float]:
    """The numbers that a function was given, as a temperature."""
    return [float(one) for one in given if not isinstance(one, torch.Tensor)]


def _changes() -> Iterator[tuple[str, Callable]]:
    """(what is wrong, how to mend it: the value and what the function was given -> the value)."""
    for words, operation, number in NUMBERS:
        mend = _OPERATIONS[operation]
        yield words, lambda r, g, mend=mend, number=number: mend(r, number)
    yield "it is transposed", lambda r, g: r.T if r.ndim == 2 else _none()
    yield "it has the right values in the other order", lambda r, g: r.flip(0)
    yield "it is a sum where the mean is meant (a factor 1/n is missing)", lambda r, g: r / _rows(g)
    yield "it is a mean where the sum is meant (a factor n is missing)", lambda r, g: r * _rows(g)
    for at, named in enumerate(("first", "second", "third")):
        yield (
            f"it lacks a factor: the {named} number that the function is given",
            lambda r, g, at=at: r * _settings(g)[at],
        )
        yield (
            f"it must be divided by the {named} number that the function is given",
            lambda r, g, at=at: r / _settings(g)[at],
        )


def _none() -> torch.Tensor:
    raise ValueError("no change")
