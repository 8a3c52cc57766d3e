"""Sweeps: one job at every combination of settings, machines and policies, with many seeds."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ._highwater import HighwaterError
from ._ledger import open_ledger
from ._options import Definition, PlanOptions, Value, takes_options
from ._plan import Event, Plan, _given, _plan_of
from ._progress import Progress, teller
from ._results import Results
from .executors.base import Executor
from .executors.threads import Threads

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_options
def sweep(
    grid: Mapping[str, Sequence[Value | Definition]],
    *,
    job: Definition,
    out: str | os.PathLike[str] | None = None,
    on: Executor | None = None,
    verify: float = 0.0,
    force: bool = False,
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
        out: The directory of the ledger, or its URL, which keeps every finished unit at once. The
            same call again runs only what is missing. At the end the results lie there, too, as
            `highwater sweep` writes them. Default: a directory that is removed at the end.
        on: Where the units run; default: `Threads()`, the threads of this process.
        verify: Share of the units in `out` that run again first, at least one if it is not 0. Their
            files must have the same bytes.
        force: Replace the plan and the results of another sweep in `out`. Its units stay, and those
            that this sweep has do not run again.
        progress: A bar, nothing, or a function of the finished units and of all.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.
        **options: See `PlanOptions`.

    Raises:
        HighwaterError: Names what is wrong before anything runs, the unit that failed, or the files
            that `verify` found to differ.
        KeyboardInterrupt: Within a second after Ctrl-C. Finished units stay in `out`.
    """
    values = dict(grid)
    policies = values.pop("policy", None)
    if policies is not None:
        options["policies"] = cast("Sequence[Definition]", policies)
    options["vary"] = {**(options.get("vary") or {}), **values}
    given = _given(job, options)
    planned = _plan_of(given.json(), given.texts)
    if out is not None:
        return run_into(planned, out, on, verify, force, progress, stop)
    with tempfile.TemporaryDirectory(prefix="highwater-") as temporary:
        return run_into(planned, temporary, on, 0.0, False, progress, stop, is_kept=False)


def run_into(
    plan: Plan,
    out: str | os.PathLike[str],
    on: Executor | None,
    verify: float,
    force: bool,
    progress: Progress,
    stop: Event | None,
    *,
    is_kept: bool = True,
) -> Results:
    """Runs the missing units of a plan into a ledger, and collects the results. They are written
    into its directory, too, if it is kept."""
    ledger = open_ledger(out)
    core = plan._plan
    if is_kept:
        core.keep(ledger.dir, force)
    unusable = core.missing(ledger.dir)[1]
    for line in unusable:
        warnings.warn(line, stacklevel=3)
    ids = list(dict.fromkeys(unit.id for unit in plan.units()))
    missing = ledger.missing(ids)
    if verify > 0:
        _verify(plan, ledger.dir, [id for id in ids if id not in set(missing)], verify, progress, stop)
    with teller(progress) as tell:
        (on if on is not None else Threads()).run(plan, missing, ledger, tell, stop)
    ledger.fetch(ids)
    results = plan.collect(ledger.dir)
    if is_kept:
        results._results.keep(ledger.dir)
    return results


def _verify(
    plan: Plan,
    dir: os.PathLike[str],
    there: list[str],
    fraction: float,
    progress: Progress,
    stop: Event | None,
) -> None:
    """Runs some of the finished units again, and compares bytes."""
    with teller(progress, "units verified") as tell:
        differ = plan._plan.verify(there, dir, fraction, None, tell, stop)
    if differ:
        files = ", ".join(os.fspath(path) for path in differ)
        raise HighwaterError(
            f"verify: {len(differ)} of the units that ran again differ from their files, which are damaged, or which "
            f"another build of this version wrote; remove them and run the sweep again: {files}"
        )
