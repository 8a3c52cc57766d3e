"""Exercises, and grades of answers to them.

The right answers are not in this package: the first question about an exercise runs the simulation
that answers it. So an answer is right for the model as it is, not as it was when the text was
written.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Grade:
    """The grade of an answer. It is true if the answer is right."""

    #: The exercise's name.
    exercise: str
    is_right: bool
    #: The reason, or a hint.
    message: str

    def __bool__(self) -> bool:
        return self.is_right

    def __str__(self) -> str:
        return f"{'Right' if self.is_right else 'Not yet'}: {self.message}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.is_right else "#9a6700"
        style = f"border-left: 4px solid {colour}; padding-left: 8px"
        return f'<p style="{style}">{html.escape(str(self))}</p>'


class Exercise:
    """A question with a way to judge answers."""

    #: `topic.name`.
    name: str
    #: One sentence that ends with a question mark or says what to give.
    question: str

    def judge(self, answer: Any) -> tuple[bool, str]:
        """Whether an answer is right, and the reason or a hint."""
        raise NotImplementedError

    def grade(self, answer: Any) -> Grade:
        """Grades an answer; `None` is no answer yet, and has the question as its hint."""
        if answer is None or (isinstance(answer, str) and not answer.strip()):
            return Grade(self.name, False, self.question)
        return Grade(self.name, *self.judge(answer))


@dataclass
class Number(Exercise):
    """A number, right within a tolerance."""

    name: str
    question: str
    unit: str
    #: Runs the simulation.
    truth: Callable[[], float]
    #: Largest distance from the truth that is right, as a share of it; 0: exactly.
    tolerance: float
    #: Said of a right answer.
    because: str
    #: Hints if the answer is too small and too large.
    small: str
    large: str
    #: Numbers that come from a known mistake, each with its hint.
    mistakes: Sequence[tuple[Callable[[], float], str]] = field(default_factory=tuple)

    @cached_property
    def right(self) -> float:
        return self.truth()

    def judge(self, answer: Any) -> tuple[bool, str]:
        try:
            value = float(answer)
        except (TypeError, ValueError):
            return False, f"{answer!r} is no number; give one, in {self.unit}"
        if math.isnan(value):
            return False, f"give a number, in {self.unit}"
        if self._is_near(value, self.right):
            return True, f"{self.because} The simulation has {self.right:,.4g} {self.unit}."
        for mistake, hint in self.mistakes:
            if self._is_near(value, mistake()):
                return False, hint
        return False, self.small if value < self.right else self.large

    def _is_near(self, value: float, of: float) -> bool:
        return abs(value - of) <= self.tolerance * abs(of) + 1e-9


@dataclass
class Word(Exercise):
    """One of a few words."""

    name: str
    question: str
    choices: Sequence[str]
    #: Runs the simulation.
    truth: Callable[[], str]
    because: str
    #: A hint for each wrong word.
    hints: dict[str, str]

    @cached_property
    def right(self) -> str:
        return self.truth()

    def judge(self, answer: Any) -> tuple[bool, str]:
        word = str(answer).strip().lower()
        if word not in self.choices:
            return False, f"{answer!r} is none of {', '.join(self.choices)}"
        if word == self.right:
            return True, self.because
        return False, self.hints.get(word, "look at the figure again")


@dataclass
class Trial(Exercise):
    """A setting that is tried: the simulation runs with it, and has to keep a condition."""

    name: str
    question: str
    #: Runs the simulation with an answer: whether it is right, and what came out.
    run: Callable[[Any], tuple[bool, str]]

    def judge(self, answer: Any) -> tuple[bool, str]:
        return self.run(answer)
