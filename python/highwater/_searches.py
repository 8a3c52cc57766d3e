"""`fit`, `bisect` and `explain`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _highwater
from ._answers import Answer, Explanation, FitAnswer
from ._options import Definition, PlanOptions, takes_options
from ._plan import Event, _given
from ._progress import Progress, teller

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_options
def fit(
    job: Definition,
    *,
    slo: str | Sequence[str],
    min: str = "machine.memory",
    low: str | int | None = None,
    high: str | int | None = None,
    within: float | None = None,
    allow_kills: bool = False,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Progress = None,
    stop: Event | None = None,
    **options: Unpack[PlanOptions],
) -> FitAnswer:
    """Searches the smallest value of a setting with which a job meets objectives, as
    `highwater fit` does.

    Args:
        job: A job by name or file, or what its file says.
        slo: Objectives, all of which must hold in every seed: `"reader.get.p99<5ms"`,
            `"pswpout<1000"`, `"memory.some<5"`.
        min: The key whose smallest value is searched.
        low: Value at which the search begins (`--from`); default for memory: a sixteenth of the
            machine's.
        high: Value at which it ends (`--to`); default for memory: four times the machine's.
        within: Precision of the answer, in percent of it; default 0.25.
        allow_kills: Accept a value with which a task is killed or gives up.
        out: A directory that keeps finished runs, for another search.
        jobs: Simulations at a time; default: one for each CPU.
        progress: As of `compare`; of one value at a time.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.
        **options: See `PlanOptions`; nothing varies.

    Raises:
        HighwaterError: Names the option that is wrong, or the run that failed.
        KeyboardInterrupt: Within a second after Ctrl-C.
    """
    given = _given(job, options)
    given.put("slo", [slo] if isinstance(slo, str) else list(slo))
    given.put("min", min)
    given.put("from", None if low is None else str(low))
    given.put("to", None if high is None else str(high))
    given.put("within", within)
    given.put("allow_kills", allow_kills)
    given.put("jobs", jobs)
    with teller(progress) as tell:
        found = _highwater.fit(given.json(), given.texts, out, tell, stop)
    document, text, verdict, html, remarks = found
    return FitAnswer(json.loads(document), verdict, remarks, text, html)


@takes_options
def bisect(
    a: Definition,
    b: Definition,
    job: Definition,
    *,
    metric: str,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Progress = None,
    stop: Event | None = None,
    **options: Unpack[PlanOptions],
) -> Answer:
    """Searches the smallest set of switches between two policies that explains how a figure changes,
    as `highwater bisect` does. `highwater show schema bisect` describes the document.

    Args:
        a: The policy to start from.
        b: The policy to end with.
        job: A job or an experiment.
        metric: The figure: of an operation (`"backend.update.p99.9"`), a share of time
            (`"memory.some"`), counters (`"pgscan_direct+pgscan_kswapd"`), or `"time.system"`.
        out: A directory that keeps finished runs, for another search.
        jobs: Simulations at a time; default: one for each CPU.
        progress: As of `compare`; of one batch of policies at a time.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.
        **options: See `PlanOptions`; `seeds` are those of each trial, 5 by default.

    Raises:
        HighwaterError: Names the option that is wrong, or the run that failed.
        KeyboardInterrupt: Within a second after Ctrl-C.
    """
    given = _given(job, options)
    given.put("policies", [given.definition("policy", policy) for policy in (a, b)])
    given.put("metric", metric)
    given.put("jobs", jobs)
    with teller(progress) as tell:
        found = _highwater.bisect(given.json(), given.texts, out, tell, stop)
    document, text, verdict, html, remarks = found
    return Answer(json.loads(document), verdict, remarks, text, html)


@takes_options
def explain(
    what: Definition,
    *,
    op: str | None = None,
    worst: int | None = None,
    jobs: int | None = None,
    progress: Progress = None,
    stop: Event | None = None,
    **options: Unpack[PlanOptions],
) -> Explanation:
    """Runs an experiment with its time booked by cause: where the slowest operations spent their
    time, as `highwater explain` says it.

    Args:
        what: An experiment or a job, or a directory that `Results.write` or `compare --out` wrote.
        op: This operation alone, by its name in reports.
        worst: Slowest operations of each policy; default 5.
        jobs: Simulations at a time; default: one for each CPU.
        progress: As of `compare`.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.
        **options: See `PlanOptions`; one seed by default. A directory says itself what ran.

    Raises:
        HighwaterError: Names the option that is wrong, or the run that failed.
        KeyboardInterrupt: Within a second after Ctrl-C.
    """
    given = _given(what, options)
    given.put("op", op)
    given.put("worst", worst)
    given.put("jobs", jobs)
    with teller(progress) as tell:
        answer, folded = _highwater.explain(given.json(), given.texts, tell, stop)
    document, text, verdict, html, remarks = answer
    return Explanation(json.loads(document), verdict, remarks, text, html, folded)
