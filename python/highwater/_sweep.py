"""Sweeps: one job at every combination of settings, machines and policies, with many seeds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ._options import Definition, PlanOptions, Value, takes_options
from ._plan import Event, Plan, _given, _plan_of
from ._progress import Progress, teller
from ._results import Results

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Executor(Protocol):
    """Where the units of a plan run."""

    def run(
        self,
        plan: Plan,
        ids: Sequence[str],
        ledger: Path,
        progress: Callable[[int, int], object] | None,
        stop: Event | None,
    ) -> None:
        """Runs units and returns when all of them are in the ledger.

        Args:
            plan: The plan; it can be pickled.
            ids: Ids of the units to run, each once, the longest first.
            ledger: The directory of the ledger.
            progress: Called with the number of finished units and of all.
            stop: If it is set, the call ends with `Stopped`; finished units stay.
        """
        ...


class _InProcess:
    """The threads of this process."""

    def run(
        self,
        plan: Plan,
        ids: Sequence[str],
        ledger: Path,
        progress: Callable[[int, int], object] | None,
        stop: Event | None,
    ) -> None:
        plan.run_units(ids, ledger, None, progress if progress is not None else False, stop)


@takes_options
def sweep(
    grid: Mapping[str, Sequence[Value | Definition]],
    *,
    job: Definition,
    out: str | os.PathLike[str] | None = None,
    on: Executor | None = None,
    progress: Progress = None,
    stop: Event | None = None,
    **options: Unpack[PlanOptions],
) -> Results:
    """Runs a job at every combination of the values of a grid.

    >>> import highwater as hw
    >>> grid = {"vm.swappiness": [0, 60, 200], "policy": ["5.18", "6.1"]}
    >>> results = hw.sweep(grid, job="postgres-like", seeds=range(1, 6))  # doctest: +SKIP

    Args:
        grid: Values by key. The values of `policy` are compared at every point, and those of
            `machine` are machines; other keys are those of `set`.
        job: An experiment or a job, by name or file, or what its file says.
        out: The directory of the ledger, which keeps every finished unit at once. The same call
            again runs only what is missing. Default: a directory that is removed at the end.
        on: Where the units run; default: the threads of this process.
        progress: A bar, nothing, or a function of the finished units and of all.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.
        **options: See `PlanOptions`.

    Raises:
        HighwaterError: Names what is wrong before anything runs, or the unit that failed.
        KeyboardInterrupt: Within a second after Ctrl-C. Finished units stay in `out`.
    """
    values = dict(grid)
    policies = values.pop("policy", None)
    if policies is not None:
        options["policies"] = cast("Sequence[Definition]", policies)
    options["vary"] = {**(options.get("vary") or {}), **values}
    given = _given(job, options)
    planned = _plan_of(given.json(), given.texts)
    with tempfile.TemporaryDirectory(prefix="highwater-") as temporary:
        ledger = Path(out if out is not None else temporary)
        units = {unit.id: unit.seconds or 0.0 for unit in planned.units()}
        ids = sorted(units, key=lambda id: -units[id])
        with teller(progress) as tell:
            (on or _InProcess()).run(planned, ids, ledger, tell, stop)
        return planned.collect(ledger)
