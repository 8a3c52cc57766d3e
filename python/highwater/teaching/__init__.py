"""Exercises of the teaching notebooks, and their jobs."""

from __future__ import annotations

import difflib
from typing import Any

from .._highwater import HighwaterError
from .grading import Grade

__all__ = ["Grade", "check_answer", "exercises"]


def check_answer(exercise: str, answer: Any = None) -> Grade:
    """Grades the answer to an exercise of a teaching notebook.

    The right answer is not stored: the first call runs the simulation that has it, which takes a
    second or so. A wrong answer gets a hint.

    >>> import highwater as hw
    >>> hw.check_answer("watermarks.lowest", "high")
    Not yet: at high kswapd sleeps, and memory goes on falling

    Args:
        exercise: Its name; `exercises()` has all.
        answer: A number or a word. None: there is no answer yet, and the grade has the question.

    Raises:
        HighwaterError: There is no such exercise.
    """
    from .catalogue import EXERCISES

    if exercise not in EXERCISES:
        near = difflib.get_close_matches(exercise, EXERCISES, n=2)
        next = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(EXERCISES)}"
        raise HighwaterError(f'"{exercise}" is no exercise; {next}')
    return EXERCISES[exercise].grade(answer)


def exercises() -> dict[str, str]:
    """The questions of all exercises, by name."""
    from .catalogue import EXERCISES

    return {name: exercise.question for name, exercise in EXERCISES.items()}
