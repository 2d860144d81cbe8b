"""Exercises that check themselves: `check("ex-minmax-2", answer)` in any kernel.

What an exercise asks, its level, its minutes and its hints stand in its chapter's notebook; how an
answer is judged stands here, in one module a chapter, as a function that measures how far an answer
is from right, with wrong answers that it must refuse.
"""

from clcore.book.exercises.judge import (
    Exercise,
    ExerciseError,
    NotYet,
    Verdict,
    check,
    exercise,
    known,
    module_of,
    numeric,
    score,
    verdict,
)
from clcore.book.exercises.text import Text, chapter_number, ids, texts, title

__all__ = [
    "Exercise",
    "ExerciseError",
    "NotYet",
    "Text",
    "Verdict",
    "chapter_number",
    "check",
    "exercise",
    "ids",
    "known",
    "module_of",
    "numeric",
    "score",
    "texts",
    "title",
    "verdict",
]
