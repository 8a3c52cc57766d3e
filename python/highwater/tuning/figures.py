"""Figures of results by name, seed by seed, and bounds on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._highwater import HighwaterError, objective


@dataclass(frozen=True)
class Figure:
    """A figure of one policy on one machine."""

    seeds: Sequence[int]
    #: Its value in each seed; none without one (no operation ended).
    values: Sequence[float | None]
    #: `microseconds`, `operations a second`, ...; empty for counts.
    unit: str
    #: `higher`, `lower` or `neither`.
    better: str
    #: For each seed, the tasks that ended early, in words; empty if none did.
    ended: Sequence[str]
    #: Job, machine and policy in words.
    what: str
    #: CPUs of the machine; none if it has several nodes.
    cpus: int | None


def read_figure(results: Any, name: str) -> Figure:
    """A figure of results that have one policy on one machine.

    Raises:
        HighwaterError: there is no such figure, or results have several policies or machines.
    """
    rows = results.metric(name)
    document = results.documents[0]
    if len(rows) != 1 or len(document["runs"]) != 1:
        raise HighwaterError(
            f"hw.tune: the job runs {len(document['runs'])} policies and machines; name one"
            " policy and one machine"
        )
    row, run = rows[0], document["runs"][0]
    ended = {one["seed"]: _ended(one.get("ended_early", [])) for one in run.get("per_seed", [])}
    quick = ", quick" if "--quick" in document["command_line"] else ""
    return Figure(
        seeds=row.seeds,
        values=row.values,
        unit=row.unit,
        better=row.better,
        ended=[ended.get(seed, "") for seed in row.seeds],
        what=f"{document['experiment']}{quick} on {run['machine']} under {run['policy']}",
        cpus=_cpus(document["machines"][0]["definition"]),
    )


def _ended(tasks: list[dict[str, Any]]) -> str:
    """Tasks that ended early, in words."""
    words = []
    for task in tasks:
        if task["killed"]:
            words.append(
                f"the OOM killer ended {task['killed']} of {task['started']} {task['task']}"
            )
        if task["failed"]:
            words.append(f"{task['failed']} of {task['started']} {task['task']} gave up")
    return ", ".join(words)


def _cpus(definition: str) -> int | None:
    """CPUs of a machine with one node, by its file."""
    lists = re.findall(r'^cpus = "([^"]*)"', definition, re.MULTILINE)
    if len(lists) != 1:
        return None
    count = 0
    for part in lists[0].split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def direction_of(figure: Figure | None, objective: str, said: str | None) -> str:
    """The better direction of an objective.

    Raises:
        HighwaterError: it has none, and none was said.
    """
    if said is not None:
        return said
    if figure is None or figure.better not in ("lower", "higher"):
        raise HighwaterError(
            f"{objective} is a count without a better direction; add direction='lower' or"
            " direction='higher'"
        )
    return figure.better


@dataclass(frozen=True)
class Condition:
    """A bound on a figure, as `fit` takes it."""

    metric: str
    is_below: bool
    #: In the figure's unit; times in microseconds.
    bound: float
    text: str

    @staticmethod
    def parse(text: str) -> Condition:
        """Reads `memory.some<5` or `backend.hit.p99<2ms`, as `fit` does.

        Raises:
            HighwaterError: It has another form, or there cannot be such a figure.
        """
        metric, is_below, bound = objective(text)
        return Condition(metric, is_below, bound, text.strip())

    def holds(self, value: float | None) -> bool:
        """Whether it holds with a value. Without a value it does not."""
        if value is None:
            return False
        return value < self.bound if self.is_below else value > self.bound

    def excess(self, value: float | None) -> float:
        """How far a value is from keeping it, in shares of the bound; 0 or less if it does."""
        if value is None:
            return 1.0
        distance = value - self.bound if self.is_below else self.bound - value
        return distance / max(abs(self.bound), 1e-9)

    def failure(self, value: float | None, unit: str) -> str:
        """That it does not hold, in words."""
        shown = "no value" if value is None else value_text(value, unit)
        return f"{self.text} does not hold ({shown})"


def value_text(value: float, unit: str) -> str:
    """A value as a reader has it, with its unit."""
    if unit.startswith("microseconds"):
        return _time(value)
    if unit.startswith("milliseconds"):
        return _time(value * 1e3)
    if unit.startswith("seconds"):
        return _time(value * 1e6)
    if unit == "percent of the time":
        return f"{value:.2f} % of the time"
    number = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{number} {unit}".rstrip()


def _time(us: float) -> str:
    for name, size in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if abs(us) >= size:
            return f"{us / size:.3g} {name}"
    return f"{us * 1e3:.3g} ns"
