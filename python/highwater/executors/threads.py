"""Units in threads of this process."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence

from .._ledger import as_ledger
from .._plan import Event
from .base import Job, Place, Progress, Runnable, each
from .schedule import Schedule

#: Seconds between two looks at `stop` and at Ctrl-C.
_LOOK_SECONDS = 0.1


def processors() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Runs units in this process. Simulations hold no Python lock, so `jobs` of them run at once.

    `jobs` is the number of simulations at a time; none: one for each CPU.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs

    def __repr__(self) -> str:
        return f"Threads({self.jobs if self.jobs is not None else ''})"

    def run(
        self,
        plan: Runnable,
        ids: Sequence[str],
        ledger: Place,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        """Runs units of one plan on the core's own pool of threads."""
        ledger = as_ledger(ledger)
        costs = {unit.id: unit.seconds or 0.0 for unit in plan.units()}
        # Longest first: a long unit that starts last leaves all other threads without work.
        wanted = sorted(dict.fromkeys(ids), key=lambda id: -costs.get(id, 0.0))
        there = len(wanted)
        wanted = ledger.missing(wanted)
        there -= len(wanted)

        def of_all(done: int, total: int) -> None:
            ledger.sync()
            if progress is not None:
                progress(there + done, there + total)

        if wanted:
            jobs = self.jobs or processors()
            plan.run_units(wanted, ledger.dir, jobs=jobs, progress=of_all, stop=stop)
            ledger.sync()
        elif progress is not None:
            progress(there, there)

    def run_all(
        self,
        jobs: Sequence[Job],
        ledger: Place,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        """Runs units of several plans, each thread one chunk after the other."""
        ledger = as_ledger(ledger)
        if len(jobs) == 1:
            return self.run(*jobs[0], ledger, progress, stop)
        workers = self.jobs or processors()
        schedule = Schedule(jobs, ledger, progress, stop, workers)
        ended: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
        quit = threading.Event()

        def work() -> None:
            try:
                while not quit.is_set():
                    chunk = schedule.next()
                    if chunk is None:
                        break
                    plan, ids = jobs[chunk.plan][0], chunk.ids
                    plan.run_units(
                        ids, ledger.dir, jobs=1, progress=each(ids, ended.put), stop=quit
                    )
                ended.put(None)
            except BaseException as error:  # goes to the calling thread
                ended.put(error)

        # Daemons: after Ctrl-C nobody waits for the units that still run.
        threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running > 0:
                schedule.check()
                try:
                    one = ended.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    continue
                if one is None:
                    running -= 1
                elif isinstance(one, BaseException):
                    raise one
                else:
                    schedule.finished(one)
        finally:
            quit.set()
