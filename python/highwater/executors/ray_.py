"""Units on a Ray cluster, by plain remote functions.

A remote function gets a chunk of units and yields the bytes of each one's file as soon as it is
finished; the calling process writes them to its ledger. So a cluster needs no shared file system,
and if the calling process dies, only the units that were running are lost. Ray's own retries are
off: a chunk whose worker or node dies is sent again without the units that have arrived.

Ray is the optional extra `highwater[ray]`. Nothing here is imported by `import highwater`.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .._highwater import HighwaterError
from .._ledger import Ledger, as_ledger
from .._plan import Event
from .base import Job, Place, Progress, Runnable, each
from .schedule import ATTEMPTS, CHUNK_SECONDS, Chunk, Schedule

#: Chunks under way for each CPU: one runs, the next one is there when it ends.
_IN_FLIGHT_PER_CPU = 2
#: Seconds between two looks at the cluster's size, which may change.
_SIZE_SECONDS = 5.0
#: Seconds between two looks at `stop`.
_LOOK_SECONDS = 0.2
#: Memory of the object store of a local cluster. Only plans and finished units are in it.
_STORE_BYTES = 100 << 20


class Ray:
    """Runs units on a Ray cluster, one unit at a time on each CPU.

    Args:
        address: the cluster's address (`"10.0.0.1:6379"`, `"ray://host:10001"`), `"local"` for a
            new one on this computer. None: the cluster that `ray start` started on this computer,
            or that `RAY_ADDRESS` names; if there is none, a new one on this computer.
        cpus: CPUs of a new cluster on this computer; none: all. Not for an existing cluster.
        ship: how workers get this package. None: it is sent to the cluster if one of its nodes is
            another computer. True: it is sent. False: workers have it installed. A path: the wheel
            that is sent, for nodes whose system is not this one's.
        in_flight: chunks under way at most; none: two for each CPU of the cluster.
        chunk_seconds: estimated seconds of work in a chunk.
        attempts: how often a unit's worker may die before the call fails and names the unit.

    Dashboard and usage statistics are off. The connection stays for further calls; `close()`, or
    the end of a `with` block, ends it.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: int | None = None,
        ship: bool | str | os.PathLike[str] | None = None,
        in_flight: int | None = None,
        chunk_seconds: float = CHUNK_SECONDS,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.address = address
        self.cpus = cpus
        self.ship = ship
        self.in_flight = in_flight
        self.chunk_seconds = chunk_seconds
        self.attempts = attempts
        self._remote: Any = None

    def __repr__(self) -> str:
        return f"Ray({self.address!r})" if self.address is not None else "Ray()"

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and a cluster that this object started."""
        if self._remote is not None:
            self._remote = None
            _ray().shutdown()

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
        ray = _ray()
        remote = self._connect()
        cpus = _cpus(ray)
        schedule = Schedule(
            jobs, as_ledger(ledger), progress, stop, cpus, self.chunk_seconds, self.attempts
        )
        # In the object store once, not in each call.
        plans = [ray.put(pickle.dumps(plan)) for plan, _ in jobs]
        under_way: dict[Any, tuple[Chunk, set[str]]] = {}
        looked = time.monotonic()
        try:
            while under_way or not schedule.is_finished:
                schedule.check()
                if time.monotonic() - looked > _SIZE_SECONDS:
                    cpus, looked = _cpus(ray), time.monotonic()
                while len(under_way) < (self.in_flight or cpus * _IN_FLIGHT_PER_CPU):
                    chunk = schedule.next()
                    if chunk is None:
                        break
                    stream = remote.remote(plans[chunk.plan], chunk.ids)
                    under_way[stream] = (chunk, set())
                ready, _ = ray.wait(list(under_way), num_returns=1, timeout=_LOOK_SECONDS)
                for stream in ready:
                    chunk, arrived = under_way[stream]
                    if not _take(ray, stream, chunk, arrived, schedule):
                        del under_way[stream]
        finally:
            for stream in under_way:
                ray.cancel(stream, force=True)

    def _connect(self) -> Any:
        """The remote function, on a cluster that is connected."""
        if self._remote is None:
            ray = _ray()
            if not ray.is_initialized():
                self._init(ray)
            elif self.ship:
                raise HighwaterError(
                    "Ray(ship=...): this program is connected already; give ray.init"
                    " runtime_env={'py_modules': [highwater]} there"
                )
            # Its own retries would run all of a chunk again.
            options = {"num_cpus": 1, "max_retries": 0, "num_returns": "streaming"}
            self._remote = ray.remote(**options)(_units)
        return self._remote

    def _init(self, ray: Any) -> None:
        """Connects. Ray takes modules that are sent only when it connects."""
        if self.ship is None:
            self._start(ray, {})
            if not _has_other_computers(ray):
                return
            ray.shutdown()
        if self.ship is False:
            self._start(ray, {})
        elif self.ship is None or self.ship is True:
            self._start(ray, {"py_modules": [str(Path(__file__).resolve().parent.parent)]})
        else:
            self._start(ray, {"py_modules": [os.fspath(self.ship)]})

    def _start(self, ray: Any, runtime_env: dict[str, Any]) -> None:
        quiet = {"log_to_driver": False, "logging_level": "warning", "runtime_env": runtime_env}
        local = {"num_cpus": self.cpus, "object_store_memory": _STORE_BYTES, **quiet}
        try:
            if self.address is not None and self.address != "local":
                ray.init(self.address, **quiet)
                return
            if self.address is None:
                try:
                    # A cluster that is there has its own sizes, so it is looked for first.
                    ray.init("auto", **quiet)
                    return
                except ConnectionError:
                    pass
            ray.init("local", include_dashboard=False, **local)
        except (ConnectionError, ValueError, RuntimeError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise HighwaterError(
                f"Ray({self.address!r}): {lines[0]}; start a cluster with `ray start --head`, or"
                " name its address"
            ) from error


def _ray() -> Any:
    """The library, quiet."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray 2.60 would otherwise change CUDA_VISIBLE_DEVICES of tasks without GPUs, with a warning.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        return import_module("ray")
    except ImportError as error:
        raise HighwaterError(
            "Ray is not installed: pip install 'highwater[ray]', or use hw.Processes()"
        ) from error


def _has_other_computers(ray: Any) -> bool:
    here = {ray.util.get_node_ip_address(), "127.0.0.1"}
    return any(node["Alive"] and node["NodeManagerAddress"] not in here for node in ray.nodes())


def _cpus(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _take(ray: Any, stream: Any, chunk: Chunk, arrived: set[str], schedule: Schedule) -> bool:
    """Takes the unit that a chunk has ready. False at the end of the chunk, or if its worker
    died."""
    try:
        id, data = ray.get(next(stream))
    except StopIteration:
        # A chunk that ends without some of its units would be an error of ours.
        schedule.lost(chunk, arrived, "it ended early")
        return False
    except ray.exceptions.RayTaskError as error:
        raise _cause(error) from error
    except ray.exceptions.RayError as error:
        schedule.lost(chunk, arrived, type(error).__name__)
        return False
    schedule.ledger.put(id, data)
    arrived.add(id)
    schedule.finished(id)
    return True


def _cause(error: Any) -> BaseException:
    """The error of a unit, without the stack of the worker."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, HighwaterError):
        return cause
    return HighwaterError(f"{type(cause or error).__name__}: {cause or error}")


#: Plans that a worker has, by the hash of their bytes.
_plans: dict[str, Runnable] = {}


def _units(payload: bytes, ids: list[str]) -> Iterator[tuple[str, bytes]]:
    """The remote function: the id and the bytes of each unit, as they are finished."""
    key = hashlib.sha256(payload).hexdigest()
    if key not in _plans:
        _plans[key] = pickle.loads(payload)
    plan = _plans[key]
    ended: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="highwater-") as dir:
        ledger = Ledger(dir)

        def run() -> None:
            try:
                plan.run_units(ids, dir, jobs=1, progress=each(ids, ended.put))
                ended.put(None)
            except BaseException as error:  # raised below, in the thread that Ray knows
                ended.put(error)

        # The plan runs in a thread of its own, so that units leave one by one.
        threading.Thread(target=run, daemon=True).start()
        while (one := ended.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            yield one, ledger.get(one)
            ledger.path(one).unlink()
