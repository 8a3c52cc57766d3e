"""One simulated run, step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _highwater
from ._highwater import HighwaterError
from ._options import Definition, PlanOptions, Value, takes_options, text_of
from ._plan import _given

if TYPE_CHECKING:
    from typing_extensions import Unpack

_NS = 1e9
_US = 1e6


@dataclass(frozen=True)
class Zone:
    """A zone with memory, in pages."""

    name: str
    """`node 0 Normal`."""
    managed: int
    """Pages that the allocator has."""
    free: int
    """Free pages."""
    min: int
    """The watermarks."""
    low: int
    high: int
    blocks: tuple[int, ...]
    """Free blocks, by order."""


@dataclass(frozen=True)
class Task:
    """A task that has not ended."""

    name: str
    is_daemon: bool
    """A kernel thread or a device."""
    cpu: int | None
    """The CPU that it has; None: it waits."""
    doing: str
    """Its current phases, named as in `explain`; the last one is what it waits for."""


@dataclass(frozen=True)
class Group:
    """A memory cgroup with those below it, in pages."""

    name: str
    """Its name in the job."""
    current: int
    """Pages that are charged to it (`memory.current`)."""
    swap: int
    """Its pages in swap (`memory.swap.current`)."""
    limits: Mapping[str, int | None]
    """`min`, `low`, `high`, `max`, `swap-high` and `swap-max` in pages; None: `max`. In version 1
    `max` is `memory.limit_in_bytes`, and the others say nothing."""
    pressure: Mapping[str, float] | None
    """As `Frame.pressure`, of the group's tasks."""


@dataclass(frozen=True)
class Frame:
    """One look at a run."""

    time: float
    """Virtual seconds since boot."""
    counters: Mapping[str, int]
    """Totals since boot, by the names of `/proc/vmstat`; `nr_` is a number of pages now."""
    pressure: Mapping[str, float] | None
    """Seconds since boot of `cpu.some`, `memory.some`, `memory.full`, `io.some` and `io.full`, as
    `/proc/pressure` counts them; None: the kernel has no such files (before 4.20)."""
    zones: tuple[Zone, ...]
    """Zones with memory."""
    tasks: tuple[Task, ...]
    """Tasks that have not ended."""
    sysctls: Mapping[str, Any]
    """The sysctls in force, without `vm.`."""
    groups: Mapping[str, Group]
    """The job's memory cgroups that were not removed, by name."""


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    samples: tuple[tuple[str, float], ...]
    """Operation and value, in the units of the job's reports."""
    counters: Mapping[str, int]
    """Changes of counters over the measured part of the run."""
    user: float
    """CPU seconds of programs."""
    system: float
    """CPU seconds of the kernel."""
    elapsed: float
    """Virtual seconds."""
    notes: tuple[str, ...]
    """Remarks: additions to the machine, and what was left out."""

    def values(self, operation: str) -> list[float]:
        """The samples of an operation, in their order."""
        return [value for name, value in self.samples if name == operation]


class Session:
    """A run that stands still between two looks; make one by `session`.

    >>> import highwater as hw
    >>> with hw.session("web-request", quick=True, every=0.05) as run:
    ...     for frame in run:
    ...         if frame.counters["pgscan_direct"] > 0:
    ...             run.set({"vm.watermark_scale_factor": 200})
    ...             break
    """

    def __init__(self, session: _highwater.Session) -> None:
        self._session = session
        self._frame: Frame | None = None

    @property
    def title(self) -> str:
        """The run in words: experiment, policy, machine, seed."""
        return self._session.title

    @property
    def remarks(self) -> list[str]:
        """Remarks about names and values that were added, dropped or ignored."""
        return self._session.remarks

    @property
    def frame(self) -> Frame | None:
        """The latest look; None before the first."""
        return self._frame

    def step(self) -> Frame | None:
        """Goes on to the next look and stops there; None if the run ends before it.

        Raises:
            KeyboardInterrupt: Within a second after Ctrl-C; the step goes on behind the caller's back.
        """
        seen = self._session.next()
        if seen is None:
            return None
        at_ns, counters, pressure, zones, tasks, sysctls, groups = seen
        self._frame = Frame(
            time=at_ns / _NS,
            counters=counters,
            pressure=_seconds(pressure),
            zones=tuple(
                Zone(name, managed, free, *marks, blocks=tuple(blocks))
                for name, managed, free, marks, blocks in zones
            ),
            tasks=tuple(Task(*task) for task in tasks),
            sysctls=json.loads(sysctls),
            groups={
                name: Group(name, current, swap, dict(limits), _seconds(stalls))
                for name, current, swap, limits, stalls in groups
            },
        )
        return self._frame

    def __iter__(self) -> Iterator[Frame]:
        while (frame := self.step()) is not None:
            yield frame

    def set(self, values: Mapping[str, Value]) -> None:
        """Writes sysctls (`{"vm.swappiness": 10}`) and settings of memory cgroups of version 2
        (`{"group.web.high": "64M"}`: `min`, `low`, `high`, `max`, `swap-max`, `swap-high`,
        `oom-group`), in force from the look at which the run stands.

        A limit below the group's usage reclaims nothing by itself: the group's next charges meet it, as
        after a write with `O_NONBLOCK` on Linux 7.2. A phase of the job (`do = "set-group"`) reclaims at
        once.

        Raises:
            HighwaterError: If one is another key, the kernel lacks or refuses it, takes it at boot only
                (`vm.thp`), there is no such group, or the run is over. Nothing changes then.
        """
        self._session.set([f"{key}={text_of(value)}" for key, value in values.items()])

    def finish(self) -> Ended:
        """Runs to the end and closes the session."""
        samples, counters, (user, system, elapsed), notes = self._session.finish()
        return Ended(
            tuple(samples), dict(counters), user / _NS, system / _NS, elapsed / _NS, tuple(notes)
        )

    def close(self) -> None:
        """Ends the run where it is."""
        self._session.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _seconds(stalls: list[tuple[str, int]] | None) -> dict[str, float] | None:
    return None if stalls is None else {name: us / _US for name, us in stalls}


@takes_options
def session(
    what: Definition,
    *,
    every: float = 0.1,
    step: str | None = None,
    **options: Unpack[PlanOptions],
) -> Session:
    """Starts one run of an experiment or a job, which stands still at every look.

    The same options with the same writes at the same looks give the same run, bit by bit; without a
    write it is the run of `compare`.

    Args:
        what: An experiment or a job, or a directory that `Results.write` or `compare --out` wrote.
        every: Virtual seconds from one look to the next, from a microsecond.
        step: A step of a run that has several, such as stutterp's `mmap-12`; default: the last.
        **options: See `PlanOptions`; one policy and one seed, nothing varies.

    Raises:
        HighwaterError: Names the option that is wrong.
    """
    if not 1e-6 <= every <= 86_400:
        raise HighwaterError(f"every: must be between 0.000001 and 86400 seconds, not {every}")
    given = _given(what, options)
    return Session(_highwater.Session(given.json(), given.texts, round(every * _NS), step))
