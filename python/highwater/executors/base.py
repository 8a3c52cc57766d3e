"""The interface of executors, and the part of the work that all of them share.

An executor gets plans with the ids of units that are missing from a ledger, and returns when the
ledger has them. It decides where units run, never how: a unit's bytes depend on its id alone.

| file | holds |
|---|---|
| `base` | `Executor`; `Schedule`: chunks, retries, progress |
| `threads` | `Threads`: this process, on the pool of the core |
| `processes` | `Processes`: processes of this computer |
| `ray_` | `Ray`: a Ray cluster |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Protocol, Union, runtime_checkable

from .._highwater import HighwaterError, Stopped
from .._ledger import Ledger
from .._plan import Event

#: Called after each finished unit with how many are finished, and how many there are.
Progress = Callable[[int, int], object]

#: Seconds of work in a chunk, by the estimates of its units. Shorter chunks cost more messages; of
#: longer ones more is lost when a worker dies, and workers finish at more different times.
CHUNK_SECONDS = 20.0
#: Chunks for each worker at least, if there are units enough: with one each, the worker with the
#: slowest chunk would finish long after all others.
CHUNKS_PER_WORKER = 4
#: How often a unit's worker may die before the unit is blamed.
ATTEMPTS = 3
#: Estimate of a unit without one, in seconds.
UNKNOWN_SECONDS = 1.0


class Unit(Protocol):
    """The part of a plan's unit that executors use."""

    @property
    def id(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...


class Runnable(Protocol):
    """The part of a plan that executors use. It can be pickled."""

    def units(self) -> Sequence[Any]: ...

    def run_units(
        self,
        ids: Sequence[str],
        out: str | PathLike[str],
        jobs: int | None = ...,
        progress: Progress | None = ...,
        stop: Event | None = ...,
    ) -> None: ...


#: A ledger, or its directory.
Place = Union[Ledger, str, "PathLike[str]"]
#: A plan, and the ids of those of its units that are wanted.
Job = tuple[Runnable, Sequence[str]]


@runtime_checkable
class Executor(Protocol):
    """A place where units run: `Threads`, `Processes`,
    `Ray`, or your own class with these two methods."""

    def run(
        self,
        plan: Runnable,
        ids: Sequence[str],
        ledger: Place,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        """Runs units of one plan until the ledger has all of them.

        Units that the ledger already has do not run again. `progress(done, total)` is called in
        the calling thread or in others, but never twice at once.

        Raises:
            HighwaterError: a unit failed, or its worker died too often. Finished units stay in the
                ledger, so a second call runs only the others.
            Stopped: `stop` is set; finished units stay.
            KeyboardInterrupt: the user pressed Ctrl-C; finished units stay.
        """
        ...

    def run_all(
        self,
        jobs: Sequence[Job],
        ledger: Place,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        """The same for units of several plans, all at once: no plan waits for the last unit of
        another one. Progress counts the units of all."""
        ...


def chunks(
    units: Iterable[tuple[str, float | None]], workers: int, seconds: float = CHUNK_SECONDS
) -> list[list[str]]:
    """Cuts units into chunks of about `seconds`, the longest units first.

    Chunks are shorter if workers would otherwise have fewer than `CHUNKS_PER_WORKER` each. A
    unit that is longer than a chunk is one by itself. `units` are ids with estimates in seconds.
    """
    known = [(id, UNKNOWN_SECONDS if cost is None else cost) for id, cost in units]
    # Stable, so equal units keep the order of the plan.
    known.sort(key=lambda unit: -unit[1])
    total = sum(cost for _, cost in known)
    size = min(seconds, total / (workers * CHUNKS_PER_WORKER))
    found: list[list[str]] = []
    room = 0.0
    for id, cost in known:
        if not found or cost > room:
            found.append([])
            room = size
        found[-1].append(id)
        room -= cost
    return found


@dataclass
class Chunk:
    """Units of one plan that a worker gets at once."""

    #: The number of the plan among those of the call.
    plan: int
    #: The units, in the order in which they run.
    ids: list[str]


@dataclass
class Schedule:
    """The chunks of a call: which are waiting, what is finished, how often workers died."""

    jobs: Sequence[Job]
    ledger: Ledger
    progress: Progress | None
    stop: Event | None
    workers: int
    chunk_seconds: float = CHUNK_SECONDS
    attempts: int = ATTEMPTS
    total: int = field(init=False, default=0)
    done: int = field(init=False, default=0)
    _waiting: deque[Chunk] = field(init=False, default_factory=deque)
    _deaths: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise HighwaterError(f"{self.workers} workers: there must be at least 1")
        wanted: set[str] = set()
        cut: list[tuple[float, Chunk]] = []
        for number, (plan, ids) in enumerate(self.jobs):
            # A unit that two plans share runs once.
            mine = [id for id in dict.fromkeys(ids) if id not in wanted]
            wanted.update(mine)
            costs: dict[str, float | None] = {unit.id: unit.seconds for unit in plan.units()}
            unknown = next((id for id in mine if id not in costs), None)
            if unknown is not None:
                raise HighwaterError(f"{unknown}: the plan has no such unit; it has {len(costs)}")
            missing = self.ledger.missing(mine)
            for ids_of in chunks(
                [(id, costs[id]) for id in missing], self.workers, self.chunk_seconds
            ):
                cost = sum(costs[id] or UNKNOWN_SECONDS for id in ids_of)
                cut.append((cost, Chunk(number, ids_of)))
            self.done += len(mine) - len(missing)
        self.total = len(wanted)
        # Long chunks first, whichever plan they are of: short ones then fill the end.
        cut.sort(key=lambda one: -one[0])
        self._waiting.extend(chunk for _, chunk in cut)
        if self.progress is not None and self.done > 0:
            self.progress(self.done, self.total)

    @property
    def is_finished(self) -> bool:
        """Whether no chunk waits; some may still run."""
        return not self._waiting

    def next(self) -> Chunk | None:
        """The chunk that runs next; none if no chunk waits."""
        return self._waiting.popleft() if self._waiting else None

    def finished(self) -> None:
        """One more unit is in the ledger."""
        self.done += 1
        self.ledger.sync()
        if self.progress is not None:
            self.progress(self.done, self.total)

    def lost(self, chunk: Chunk, arrived: set[str], reason: str) -> None:
        """The worker of a chunk died. Its units that have not arrived wait again.

        Raises:
            HighwaterError: the same unit was the first of them too often, so it is the one that
                ends its workers.
        """
        left = [id for id in chunk.ids if id not in arrived]
        if not left:
            return
        deaths = self._deaths[left[0]] = self._deaths.get(left[0], 0) + 1
        if deaths >= self.attempts:
            unit = describe(self.jobs[chunk.plan][0], left[0])
            raise HighwaterError(
                f"{unit}: its worker ended {deaths} times ({reason}); finished units are kept:"
                " run this unit alone in threads to see why"
            )
        # The suspect runs alone: if it ends its worker again, nothing else is lost.
        again = [[left[0]], left[1:]]
        self._waiting.extendleft(Chunk(chunk.plan, ids) for ids in reversed(again) if ids)

    def check(self) -> None:
        """Raises:
        Stopped: `stop` is set.
        """
        if self.stop is not None and self.stop.is_set():
            raise Stopped(
                f"stopped: {self.done} of {self.total} units are finished; the same call"
                " continues from there"
            )


def each(ids: Sequence[str], say: Callable[[str], object]) -> Progress:
    """Progress of `run_units` with one job as a call for each finished unit. The core reports a few
    times a second, so several units may have finished since the last report."""
    said = 0

    def progress(done: int, _: int) -> None:
        nonlocal said
        for id in ids[said:done]:
            say(id)
        said = max(said, done)

    return progress


def describe(plan: Runnable, id: str) -> str:
    """A unit in words: `vm.swappiness=60, 6.1 on small-vm, seed 3`."""
    unit = next((unit for unit in plan.units() if unit.id == id), None)
    if unit is None:
        return f"unit {id}"
    values = [f"{key}={value}" for key, value in dict(unit.values).items()]
    return ", ".join([*values, f"{unit.label} on {unit.machine}", f"seed {unit.seed}"])
