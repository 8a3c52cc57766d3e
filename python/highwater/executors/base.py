"""The interface of executors.

An executor gets plans with the ids of units that are missing from a ledger, and returns when the
ledger has them. It decides where units run, never how: a unit's bytes depend on its id alone.

| file | holds |
|---|---|
| `base` | `Executor` |
| `schedule` | `Schedule`, which all of them share: chunks, retries, progress |
| `threads` | `Threads`: this process, on the pool of the core |
| `processes` | `Processes`: processes of this computer |
| `ray_` | `Ray`: a Ray cluster |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Protocol, Union, runtime_checkable

from .._ledger import Ledger
from .._plan import Event

#: Called after each finished unit with how many are finished, and how many there are.
Progress = Callable[[int, int], object]


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
