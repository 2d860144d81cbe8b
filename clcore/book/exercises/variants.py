"""Numbers of a lecturer's own in exercises that ask for one: the printed solutions are public.

Of an exercise that names constants (`numeric(..., varies=)`), a key draws other values, the same
ones for the notebook that students get and for the grader. Without the key, the printed ones.
Functions are tried on inputs of the key's: see `judge.keyed`.
"""

import hashlib
import re
from typing import Any

from clcore.book.exercises.judge import Exercise, ExerciseError, known

_NUMBER = re.compile(r"\d+(\.\d+)?")


def constants(exercise: Exercise, key: str) -> dict[str, Any]:
    """Parameter -> its value under a key; {} without one, and for an exercise without constants."""
    if not key:
        return {}
    drawn = {}
    for name, (_, choices) in exercise.varies.items():
        seed = hashlib.sha256(f"{key}\n{exercise.id}\n{name}".encode()).digest()
        drawn[name] = choices[int.from_bytes(seed[:8], "big") % len(choices)]
    return drawn


def varied(name: str, key: str) -> bool:
    """Whether an exercise has other numbers under this key."""
    return bool(constants(known(name), key))


def rewritten(name: str, question: str, key: str) -> str:
    """A question with the constants of a key in place of the printed ones.

    Raises ExerciseError where the question does not print one of them exactly once.
    """
    found = known(name)
    for parameter, value in constants(found, key).items():
        printed, _ = found.varies[parameter]
        if question.count(printed) != 1:
            raise ExerciseError(
                f"{name}: expected {printed!r} once in the question, found it "
                f"{question.count(printed)} times; `varies` and the chapter must agree"
            )
        question = question.replace(printed, _NUMBER.sub(str(value), printed))
    return question
