"""Chunks of units: the ones that wait, the ones that are finished, and how often workers died.

A chunk has about `chunk_seconds` of work, and never more than a share of what is left. So chunks
become small towards the end, and all workers end at about the same time (guided self-scheduling).
Estimates of a plan are right to a factor of 2, and jobs have none; the pace of finished units
corrects them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._highwater import HighwaterError, Stopped
from .._ledger import Ledger
from .._plan import Event
from .base import Job, Progress, Runnable

#: Seconds of work in a chunk. Shorter chunks cost more messages; of longer ones more waits for one
#: worker.
CHUNK_SECONDS = 20.0
#: A chunk has at most the work that is left, divided by so many chunks for each worker.
CHUNKS_LEFT = 2
#: How often a unit's worker may die before the unit is blamed.
ATTEMPTS = 3
#: Estimate of a unit without one, in seconds.
UNKNOWN_SECONDS = 1.0


@dataclass
class Chunk:
    """Units of one plan that a worker gets at once."""

    #: The number of the plan among those of the call.
    plan: int
    #: The units, in the order in which they run.
    ids: list[str]


class Schedule:
    """The units of a call.

    Args:
        workers: Units that run at the same time.
        attempts: How often a unit's worker may die.
        clock: Seconds that pass; a test has its own.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        ledger: Ledger,
        progress: Progress | None,
        stop: Event | None,
        workers: int,
        chunk_seconds: float = CHUNK_SECONDS,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if workers < 1:
            raise HighwaterError(f"{workers} workers: there must be at least 1")
        self.jobs, self.ledger, self.workers = jobs, ledger, workers
        self._progress, self._stop = progress, stop
        self._chunk_seconds, self._attempts, self._clock = chunk_seconds, attempts, clock
        self._gate = threading.Lock()
        self._again: deque[Chunk] = deque()
        self._deaths: dict[str, int] = {}
        self._costs: dict[str, float] = {}
        #: Units of each plan that wait, the longest first.
        self._waiting: list[deque[str]] = []
        self._is_estimated = False
        wanted: set[str] = set()
        for plan, ids in jobs:
            # A unit that two plans share runs once.
            mine = [id for id in dict.fromkeys(ids) if id not in wanted]
            wanted.update(mine)
            self._waiting.append(self._missing(plan, mine))
        waiting = [id for ids in self._waiting for id in ids]
        self.total = len(wanted)
        self.done = self.total - len(waiting)
        #: Estimated seconds of the units that no worker has yet.
        self._left = sum(self._costs[id] for id in waiting)
        self._begun = clock()
        #: Estimated seconds of the units that this call finished.
        self._cost_done = 0.0
        if progress is not None and self.done > 0:
            progress(self.done, self.total)

    def _missing(self, plan: Runnable, ids: Sequence[str]) -> deque[str]:
        """Units that the ledger does not have, the longest first."""
        known: dict[str, float | None] = {unit.id: unit.seconds for unit in plan.units()}
        unknown = next((id for id in ids if id not in known), None)
        if unknown is not None:
            raise HighwaterError(f"{unknown}: the plan has no such unit; it has {len(known)}")
        missing = self.ledger.missing(ids)
        for id in missing:
            seconds = known[id]
            self._is_estimated |= seconds is not None
            self._costs[id] = UNKNOWN_SECONDS if seconds is None else seconds
        # Stable, so equal units keep the order of the plan.
        return deque(sorted(missing, key=lambda id: -self._costs[id]))

    @property
    def is_finished(self) -> bool:
        """Whether no unit waits; some may still run."""
        return not self._again and not any(self._waiting)

    def next(self) -> Chunk | None:
        """The chunk that runs next; none if no unit waits."""
        with self._gate:
            if self._again:
                return self._again.popleft()
            plans = [plan for plan, ids in enumerate(self._waiting) if ids]
            if not plans:
                return None
            # The plan with the longest unit: short ones then fill the end.
            plan = max(plans, key=lambda plan: self._costs[self._waiting[plan][0]])
            waiting, size = self._waiting[plan], self._size()
            ids = [waiting.popleft()]
            cost = self._costs[ids[0]]
            while waiting and cost + self._costs[waiting[0]] <= size:
                cost += self._costs[waiting[0]]
                ids.append(waiting.popleft())
            self._left -= cost
            return Chunk(plan, ids)

    def _size(self) -> float:
        """The work of the next chunk, in estimated seconds."""
        share = self._left / (self.workers * CHUNKS_LEFT)
        if self._cost_done == 0.0:
            # One unit at a time, until something is known.
            return min(share, self._chunk_seconds) if self._is_estimated else 0.0
        # The start of workers is in it, so the first chunks are rather too small than too large.
        pace = (self._clock() - self._begun) * self.workers / self._cost_done
        return min(share, self._chunk_seconds / max(pace, 1e-9))

    def finished(self, id: str) -> None:
        """A unit is in the ledger."""
        with self._gate:
            self.done += 1
            self._cost_done += self._costs[id]
        self.ledger.sync()
        if self._progress is not None:
            self._progress(self.done, self.total)

    def lost(self, chunk: Chunk, arrived: set[str], reason: str) -> None:
        """The worker of a chunk died. Its units that have not arrived wait again.

        Raises:
            HighwaterError: The same unit was the first of them too often, so it is the one that
                ends its workers.
        """
        left = [id for id in chunk.ids if id not in arrived]
        if not left:
            return
        deaths = self._deaths[left[0]] = self._deaths.get(left[0], 0) + 1
        if deaths >= self._attempts:
            unit = describe(self.jobs[chunk.plan][0], left[0])
            raise HighwaterError(
                f"{unit}: its worker ended {deaths} times ({reason}); finished units are kept:"
                " run this unit alone in threads to see why"
            )
        # The suspect runs alone: if it ends its worker again, nothing else is lost.
        again = [[left[0]], left[1:]]
        with self._gate:
            self._again.extendleft(Chunk(chunk.plan, ids) for ids in reversed(again) if ids)

    def check(self) -> None:
        """Raises:
        Stopped: `stop` is set.
        """
        if self._stop is not None and self._stop.is_set():
            raise Stopped(
                f"stopped: {self.done} of {self.total} units are finished; the same call"
                " continues from there"
            )


def describe(plan: Runnable, id: str) -> str:
    """A unit in words: `vm.swappiness=60, 6.1 on small-vm, seed 3`."""
    unit = next((unit for unit in plan.units() if unit.id == id), None)
    if unit is None:
        return f"unit {id}"
    values = [f"{key}={value}" for key, value in dict(unit.values).items()]
    return ", ".join([*values, f"{unit.label} on {unit.machine}", f"seed {unit.seed}"])
