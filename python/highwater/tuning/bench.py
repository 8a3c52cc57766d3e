"""Runs settings of a job with the same seeds each, and reads figures seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from .._highwater import HighwaterError
from .._ledger import Ledger
from .._plan import Event
from ..executors import Executor
from .figures import Condition, Figure, read_figure
from .space import Range, Value

#: Settings by key.
Settings = Mapping[str, Value]


@dataclass(frozen=True)
class Measured:
    """The figures of one setting, seed by seed."""

    seeds: tuple[int, ...]
    #: The objective; none in a seed without a value (no operation ended).
    values: tuple[float | None, ...]
    #: Why each seed does not count, in words; empty if all constraints hold in it.
    broken: tuple[str, ...]
    #: How far constraints are from holding, in shares of their bounds: 0 or less if they hold.
    excess: float

    @property
    def is_feasible(self) -> bool:
        """All constraints hold in every seed, and every seed has a value."""
        return not any(self.broken) and None not in self.values

    @property
    def known(self) -> list[float]:
        """The values, of a setting that has all of them."""
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        """The mean over the seeds; none if a seed has no value."""
        return fmean(self.known) if None not in self.values else None

    @property
    def reason(self) -> str:
        """The first seed that does not count, in words."""
        for seed, broken in zip(self.seeds, self.broken):
            if broken:
                return f"{broken} in seed {seed}"
        if None in self.values:
            return f"no value in seed {self.seeds[self.values.index(None)]}"
        return ""


class Bench:
    """A job under fixed options, whose settings change.

    Args:
        make: makes a plan, as `plan` does.
        options: options of `make` that all plans have; `set` among them is the base.
        objective: the figure that is read.
        conditions: constraints; each must hold in every seed.
        allow_kills: tasks that end early do not matter.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        options: Mapping[str, Any],
        objective: str,
        conditions: Sequence[Condition],
        allow_kills: bool,
        ledger: Ledger,
        executor: Executor,
        stop: Event | None = None,
    ) -> None:
        self.make = make
        self.options = dict(options)
        self.objective = objective
        self.conditions = conditions
        self.allow_kills = allow_kills
        self.ledger = ledger
        self.executor = executor
        self.stop = stop
        self.units_run = 0
        #: The objective's unit, from the first result.
        self.figure: Figure | None = None

    def plan(self, settings: Settings, seeds: range) -> Any:
        """The plan of a setting.

        Raises:
            HighwaterError: a key or a value is refused.
        """
        options = dict(self.options)
        values = {**(options.pop("set", None) or {}), **settings}
        if "policy" in values:
            options["policies"] = [str(values.pop("policy"))]
        return self.make(**options, set=values, seeds=seeds)

    def check(self, space: Mapping[str, Range], seeds: range) -> None:
        """Refuses keys, values and names of figures before the search: each end of each range is
        planned, and the default runs with these seeds.

        Raises:
            HighwaterError: what is wrong, and what there is.
        """
        for key, values in space.items():
            for value in values.ends:
                self.plan({key: value}, seeds)
        answer = self.measure([({}, seeds)])[0]
        if isinstance(answer, HighwaterError):
            raise answer

    def measure(self, wanted: Sequence[tuple[Settings, range]]) -> list[Measured | HighwaterError]:
        """Runs settings at the same time. A setting that is refused, or whose machine cannot boot,
        has its error in the list."""
        answers: list[Any] = []
        for settings, seeds in wanted:
            try:
                answers.append(self.plan(settings, seeds))
            except HighwaterError as error:
                answers.append(error)
        plans = {at: plan for at, plan in enumerate(answers) if not _is_error(plan)}
        jobs = [(plan, self.ledger.missing(u.id for u in plan.units())) for plan in plans.values()]
        self.units_run += len({id for _, ids in jobs for id in ids})
        try:
            self.executor.run_all(jobs, self.ledger, None, self.stop)
        except HighwaterError as error:
            if self.stop is not None and self.stop.is_set():
                raise
            if len(plans) == 1:
                return [error if at in plans else one for at, one in enumerate(answers)]
            # One by one, to find out which settings cannot run. Finished units do not run again.
            return [
                one if _is_error(one) else self.measure([wanted[at]])[0]
                for at, one in enumerate(answers)
            ]
        self.ledger.fetch(unit.id for plan in plans.values() for unit in plan.units())
        return [
            one if _is_error(one) else self._read(one.collect(self.ledger.dir)) for one in answers
        ]

    def _read(self, results: Any) -> Measured:
        figure = read_figure(results, self.objective)
        self.figure = self.figure or figure
        broken = ["" if self.allow_kills else ended for ended in figure.ended]
        excess = float(sum(1 for ended in broken if ended))
        for condition in self.conditions:
            of = read_figure(results, condition.metric)
            for at, value in enumerate(of.values):
                excess = max(excess, condition.excess(value))
                if not broken[at] and not condition.holds(value):
                    broken[at] = condition.failure(value, of.unit)
        return Measured(tuple(figure.seeds), tuple(figure.values), tuple(broken), excess)


def _is_error(one: object) -> bool:
    return isinstance(one, HighwaterError)
