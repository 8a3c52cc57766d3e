"""Grades of answers: the simulation is right, and known mistakes get their hints."""

from __future__ import annotations

import math
from typing import Any

import highwater as hw
import pytest
from highwater.teaching.catalogue import EXERCISES
from highwater.teaching.grading import Number, Trial, Word
from highwater.teaching.jobs import BLOCKS, TINY, run, timeline


@pytest.mark.parametrize("name", EXERCISES)
def test_the_right_answer_is_right_and_others_are_not(name: str) -> None:
    exercise = EXERCISES[name]
    if isinstance(exercise, Number):
        grade = hw.check_answer(name, exercise.right)
        wrong: list[Any] = [exercise.right * 3 + 1, -1, "many", math.nan]
    elif isinstance(exercise, Word):
        grade = hw.check_answer(name, f" {exercise.right.upper()} ")
        wrong = [word for word in exercise.choices if word != exercise.right] + ["perhaps"]
    else:
        assert isinstance(exercise, Trial)
        grade = hw.check_answer(name, 8 << 20)
        wrong = [64 << 20, 8, 1 << 20, "a little"]
    assert grade and str(grade).startswith("Right: "), grade
    for answer in wrong:
        grade = hw.check_answer(name, answer)
        assert not grade and str(grade).startswith("Not yet: "), (answer, grade)
        assert str(grade.message) not in str(hw.check_answer(name, None)), (
            "a hint, not the question"
        )


def test_answers_are_what_the_rules_say() -> None:
    """By hand, from the rules of the book: the simulation must agree."""
    # A block of order 6 and one of order 7 are free: two requests leave the half of the latter.
    assert EXERCISES["buddy.split"].grade(1) and EXERCISES["buddy.merge"].grade(1)
    # min 422; managed 48177 x 300 / 10000 = 1445.
    assert EXERCISES["watermarks.low"].grade(422 + 1445)
    # 16 MiB at 12 MB/s.
    assert EXERCISES["dirty.sync"].grade(16 * 2**20 / 12e6)
    assert EXERCISES["lru.shape"].grade("loop")


@pytest.mark.parametrize(
    ("name", "answer", "hint"),
    [
        ("watermarks.low", 422, "that is min, where allocations begin to reclaim themselves"),
        ("watermarks.low", 1867 * 4, "that is KiB"),
        ("lru.loop", 64, "where is the kernel's own memory?"),
        ("dirty.lever", 64, "did you give MiB?"),
        ("dirty.lever", 64 << 20, "how many bytes does the stick write in a second?"),
        ("buddy.split", 0, "what becomes of the rest"),
    ],
)
def test_a_known_mistake_has_its_hint(name: str, answer: float, hint: str) -> None:
    assert hint in hw.check_answer(name, answer).message


def test_no_answer_has_the_question() -> None:
    assert all(
        hw.check_answer(name).message == question for name, question in hw.exercises().items()
    )
    assert "border-left" in hw.check_answer("lru.loop")._repr_html_()


def test_an_unknown_exercise_is_one_line() -> None:
    with pytest.raises(
        hw.HighwaterError, match='^"buddy.splitt" is no exercise; did you mean buddy.split'
    ):
        hw.check_answer("buddy.splitt", 1)
    with pytest.raises(hw.HighwaterError, match="there are buddy.split, buddy.merge, "):
        hw.check_answer("nothing", 1)


def test_a_timeline_needs_counters_over_time() -> None:
    line = timeline(run(BLOCKS, TINY, sample_every_ms=50))
    assert line["ms"][1:] == [50.0, 100.0, 150.0] and len(line["nr_free_pages"]) == 4
    with pytest.raises(ValueError, match="no counters over time"):
        timeline(run(BLOCKS, TINY))
