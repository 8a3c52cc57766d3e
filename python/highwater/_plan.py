"""Plans: what `compare` and `run` would do, as a value that can be looked at, run and sent away."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from . import _highwater
from ._options import Definition, Given, PlanOptions, takes_options
from ._progress import Progress, teller
from ._results import Results

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Event(Protocol):
    """Something that can be set, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Whether it is set."""
        ...


@dataclass(frozen=True)
class Unit:
    """A unit of work: a policy on a machine with a seed, or a part of that."""

    id: str
    """SHA-256 of everything that decides the bytes of its result, in hexadecimal digits. Units of
    equal id have equal results, on any computer."""
    point: int
    """Number of its point, from 0."""
    machine: str
    """Name of the machine."""
    policy: str
    """Name of the policy."""
    label: str
    """Heading of the policy's column in reports."""
    seed: int
    """The seed."""
    part: int
    """Number of the part, from 0."""
    seconds: float | None
    """Estimated CPU seconds, right to a factor of 2; `None`: there is no estimate."""
    values: dict[str, str] = field(default_factory=dict)
    """Values of the keys that vary, at its point."""


class Plan:
    """The runs of some options, with every name resolved.

    A plan can be pickled. It carries the texts of all files that it was made from, so that another
    process, also on another computer, makes the same plan with the same ids.
    """

    __slots__ = ("_plan",)

    def __init__(self, plan: _highwater.Plan) -> None:
        self._plan = plan

    @property
    def remarks(self) -> list[str]:
        """Remarks about names and values that were added, dropped or ignored."""
        return self._plan.remarks

    @property
    def command_line(self) -> list[str]:
        """The command that runs the same. Definitions that are no files have names of files in it."""
        return self._plan.command_line

    @property
    def keys(self) -> list[str]:
        """Keys that vary."""
        return self._plan.keys

    @property
    def points(self) -> list[dict[str, str]]:
        """The values of the keys at each point."""
        keys = self.keys
        return [dict(zip(keys, values)) for values in self._plan.points]

    @property
    def texts(self) -> dict[str, str]:
        """Texts of the files that the plan was made from, by path."""
        return self._plan.texts

    def toml(self) -> str:
        """The options as a plan file, which `highwater sweep FILE --out DIR` runs. Files that it names
        are not in it; `texts` has theirs."""
        return self._plan.toml()

    def units(self) -> list[Unit]:
        """All units, point by point, in the order in which results are put together."""
        points = self.points
        return [
            Unit(id, point, machine, policy, label, seed, part, seconds, points[point])
            for id, point, machine, policy, label, seed, part, seconds in self._plan.units()
        ]

    def run(
        self, jobs: int | None = None, progress: Progress = None, stop: Event | None = None
    ) -> Results:
        """Runs everything, in this process and without Python's lock.

        Args:
            jobs: Simulations at a time; default: one for each CPU.
            progress: A bar, nothing, or a function of the finished units and of all.
            stop: If it is set from another thread, the call ends with `Stopped` within a second.

        Raises:
            HighwaterError: If a run fails.
            KeyboardInterrupt: Within a second after Ctrl-C.
        """
        with teller(progress) as tell:
            return Results(self._plan.run(jobs, tell, stop))

    def run_units(
        self,
        ids: Iterable[str],
        out: str | os.PathLike[str],
        jobs: int | None = 1,
        progress: Progress = False,
        stop: Event | None = None,
    ) -> None:
        """Runs units by id, in the order of the ids, and keeps each in a ledger as soon as it is
        finished. A unit that is there does not run again. Any number of processes may write to one
        ledger.

        Args:
            ids: Ids of units of this plan.
            out: The directory of the ledger; it is made if it is missing.
            jobs: Simulations at a time; `None`: one for each CPU.
            progress: As in `run`.
            stop: As in `run`. Finished units stay.

        Raises:
            HighwaterError: If the plan has no such unit, one fails, or the directory cannot be written.
        """
        with teller(progress if progress is not None else False) as tell:
            self._plan.run_units(list(ids), out, jobs, tell, stop)

    def collect(self, *dirs: str | os.PathLike[str]) -> Results:
        """The results from directories of finished units: ledgers, or what `highwater compare --out`
        keeps. Nothing runs; the bytes are those of `run`.

        Raises:
            HighwaterError: If units are missing; it says how many, and names the first.
        """
        return Results(self._plan.collect(list(dirs)))

    def __repr__(self) -> str:
        return f"<Plan: {' '.join(self.command_line)}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (_plan_of, (self._plan.spec, self._plan.texts))


def _plan_of(spec: str, texts: dict[str, str]) -> Plan:
    return Plan(_highwater.Plan(spec, texts))


def _given(what: Definition, options: PlanOptions, kind: str = "job") -> Given:
    given = Given()
    given.put("what", given.definition(kind, what))
    given.options(options)
    return given


@takes_options
def plan(what: Definition, *, workload: bool = False, **options: Unpack[PlanOptions]) -> Plan:
    """Resolves every name and value of a comparison, so a wrong one is found before anything runs.

    Args:
        what: An experiment by name, number or file; a job by name or file, or as a mapping or
            dataclass of what its file says.
        workload: Run one workload with one seed, as `highwater run` does.
        **options: See `PlanOptions`.

    Raises:
        HighwaterError: Names the option, file or key that is wrong, and what to do.
    """
    given = _given(what, options)
    given.put("is_run", workload)
    return _plan_of(given.json(), given.texts)


@takes_options
def compare(
    what: Definition,
    *,
    jobs: int | None = None,
    progress: Progress = None,
    **options: Unpack[PlanOptions],
) -> Results:
    """Runs the policies of an experiment or a job with the same seeds and compares them, as
    `highwater compare` does.

    >>> import highwater as hw
    >>> results = hw.compare("003", quick=True, seeds=1, mem="64M", cpus=2)
    >>> results.to_polars()  # doctest: +SKIP

    Args:
        what: An experiment or a job; see `plan`.
        jobs: Simulations at a time; default: one for each CPU.
        progress: A bar, nothing, or a function of the finished units and of all.
        **options: See `PlanOptions`.

    Raises:
        HighwaterError: Names the option, file or key that is wrong, or the run that failed.
        KeyboardInterrupt: Within a second after Ctrl-C.
    """
    return plan(what, **options).run(jobs, progress)


@takes_options
def run(
    what: Definition,
    *,
    jobs: int | None = None,
    progress: Progress = None,
    **options: Unpack[PlanOptions],
) -> Results:
    """Runs one workload or job under one policy with one seed, as `highwater run` does; `policies` is
    6.1 by default. A workload of a study needs a machine. Arguments are those of `compare`."""
    return plan(what, workload=True, **options).run(jobs, progress)
