"""Units in processes of this computer.

A process that dies (the kernel's OOM killer, a fault, `kill -9`) takes only its own unit along. A
`concurrent.futures.ProcessPoolExecutor` fails all its work when one process dies and does not say
which work that process had, so the pool here is made of `multiprocessing`'s own parts: one pipe
for each process, on which the process reports each finished unit.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from .._highwater import HighwaterError
from .._ledger import as_ledger
from .._plan import Event
from .base import Job, Place, Progress, Runnable, each
from .schedule import ATTEMPTS, CHUNK_SECONDS, Chunk, Schedule
from .threads import processors

#: Seconds between two looks at `stop`.
_LOOK_SECONDS = 0.1
#: Seconds that a process gets to end by itself.
_END_SECONDS = 1.0
#: Plans that a process keeps; of a plan that comes again later it gets the bytes again.
_PLANS_MAX = 64


@dataclass
class _Worker:
    """A process, and the chunk that it has."""

    process: BaseProcess
    pipe: Connection
    chunk: Chunk | None = None
    arrived: set[str] = field(default_factory=set)


class Processes:
    """Runs units in processes of this computer, one unit at a time in each.

    Threads are as fast, since simulations hold no Python lock. Processes are for simulations that
    may die: one that the kernel kills does not take your notebook along. A unit whose process dies
    runs again, at most `attempts` times in all.

    Args:
        workers: number of processes; none: one for each CPU.
        chunk_seconds: estimated seconds of work that a process gets at once.
        attempts: how often a unit's process may die before the call fails and names the unit.

    Processes start with the first call and stay for further ones; `close()`, or the end of a
    `with` block, ends them.

    A script that starts processes needs `if __name__ == "__main__":` around its calls, as with
    `multiprocessing`: each process imports the script.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        chunk_seconds: float = CHUNK_SECONDS,
        attempts: int = ATTEMPTS,
    ) -> None:
        if workers is not None and workers < 1:
            raise HighwaterError(f"Processes({workers}): there must be at least 1")
        self.workers = workers or processors()
        self.chunk_seconds = chunk_seconds
        self.attempts = attempts
        self._pool: list[_Worker] = []
        self._gate = threading.Lock()
        # Also if nobody calls close().
        self._finalizer = weakref.finalize(self, _end, self._pool)

    def __repr__(self) -> str:
        return f"Processes({self.workers})"

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes. A later call starts new ones."""
        with self._gate:
            _end(self._pool)

    def run(
        self,
        plan: Runnable,
        ids: Sequence[str],
        ledger: Place,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        """Runs units of one plan."""
        self.run_all([(plan, ids)], ledger, progress, stop)

    def run_all(
        self,
        jobs: Sequence[Job],
        ledger: Place,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        """Runs units of several plans."""
        schedule = Schedule(
            jobs, as_ledger(ledger), progress, stop, self.workers, self.chunk_seconds, self.attempts
        )
        plans = [pickle.dumps(plan) for plan, _ in jobs]
        with self._gate:
            try:
                self._run(schedule, plans)
            except BaseException:
                # Units that still run are of no use to anybody.
                _end(self._pool)
                raise

    def _run(self, schedule: Schedule, plans: list[bytes]) -> None:
        while True:
            schedule.check()
            for worker in self._idle(schedule):
                chunk = schedule.next()
                if chunk is None:
                    break
                worker.chunk, worker.arrived = chunk, set()
                try:
                    worker.pipe.send((plans[chunk.plan], chunk.ids, str(schedule.ledger.dir)))
                except OSError:
                    pass  # It died; its sentinel says so below.
            busy = [worker for worker in self._pool if worker.chunk is not None]
            if not busy:
                return
            pipes = {worker.pipe: worker for worker in busy}
            ready = wait([*pipes, *(w.process.sentinel for w in busy)], timeout=_LOOK_SECONDS)
            for worker in busy:
                if worker.pipe in ready:
                    self._hear(worker, schedule)
                elif worker.process.sentinel in ready:
                    # Reports that it sent before its death have been heard: the pipe is empty.
                    self._bury(worker, schedule)

    def _idle(self, schedule: Schedule) -> list[_Worker]:
        """Processes without work; missing ones are started if there is work for them."""
        if not schedule.is_finished:
            while len(self._pool) < self.workers:
                self._pool.append(_start())
        return [worker for worker in self._pool if worker.chunk is None]

    def _hear(self, worker: _Worker, schedule: Schedule) -> None:
        """One report of a process."""
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker, schedule)
        if isinstance(said, str):
            worker.arrived.add(said)
            schedule.finished(said)
        elif isinstance(said, BaseException):
            raise said
        else:
            worker.chunk = None

    def _bury(self, worker: _Worker, schedule: Schedule) -> None:
        """A process died while it had a chunk."""
        worker.process.join()
        worker.pipe.close()
        self._pool.remove(worker)
        chunk = worker.chunk
        assert chunk is not None
        # Its last unit may have reached the ledger without a report.
        for id in chunk.ids:
            if id not in worker.arrived and schedule.ledger.has(id):
                worker.arrived.add(id)
                schedule.finished(id)
        schedule.lost(chunk, worker.arrived, _death(worker.process.exitcode))


def _start() -> _Worker:
    # Not by fork: a fork of a process with threads may hold locks for ever.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), name="highwater", daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _end(pool: list[_Worker]) -> None:
    for worker in pool:
        worker.pipe.close()
        worker.process.terminate()
    for worker in pool:
        worker.process.join(_END_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
    pool.clear()


def _death(exitcode: int | None) -> str:
    """How a process ended, in words."""
    if exitcode is None or exitcode >= 0:
        return f"exit status {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    return f"{name}, perhaps by the OOM killer" if name == "SIGKILL" else name


def _work(pipe: Connection) -> None:
    """The life of a process: chunks come in, a report goes out for each unit."""
    # Ctrl-C goes to all processes of a terminal; the calling process decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    plans: dict[str, Runnable] = {}
    while True:
        try:
            payload, ids, dir = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            key = hashlib.sha256(payload).hexdigest()
            if key not in plans:
                if len(plans) >= _PLANS_MAX:
                    plans.clear()
                plans[key] = pickle.loads(payload)

            plans[key].run_units(ids, dir, jobs=1, progress=each(ids, pipe.send))
            pipe.send(None)
        except OSError:
            return  # The calling process closed the pipe.
        except BaseException as error:
            pipe.send(_portable(error))


def _end_with_parent() -> None:
    """A calling process that is killed cannot end its processes: they do it themselves."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _portable(error: BaseException) -> BaseException:
    """An error that the calling process can unpickle."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return HighwaterError(f"{type(error).__name__}: {error}")
    return error
