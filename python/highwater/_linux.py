"""A real Linux beside the model: `capture`, `check`, `diagnose` and `replay`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from . import _highwater
from ._answers import Answer, Capture, Check
from ._highwater import HighwaterError
from ._options import Definition, Given
from ._plan import Event
from ._progress import Progress, teller


def replay(
    trace: str | os.PathLike[str],
    *,
    policies: Definition | Sequence[Definition] | None = None,
    machine: Definition | None = None,
    sidecars: bool = True,
    partial: bool = False,
    hottest: int = 8,
    progress: Progress = None,
    stop: Event | None = None,
) -> Answer:
    """Replays a trace of a real kernel's page allocator under policies, as `highwater replay` does.

    Args:
        trace: A trace of the kmem events: ftrace's text, trace-cmd report or perf script; plain or
            gzip.
        policies: Policies by name, file or content; default: 6.1.
        machine: The machine, where no captured /proc files lie beside the trace.
        sidecars: Use the .zoneinfo, .pagetypeinfo and .buddyinfo files beside the trace.
        partial: Replay an incomplete trace, too.
        hottest: Number of hottest blocks to show.
        progress: As of `compare`; counts policies.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.

    Raises:
        HighwaterError: If a file cannot be read, or the trace does not fit the machine.
    """
    given = Given()
    given.put("what", os.fspath(trace))
    given.put("policies", given.definitions("policy", policies))
    if machine is not None:
        given.put("machine", given.definition("machine", machine))
    given.put("no_sidecars", not sidecars)
    given.put("partial", partial)
    with teller(progress, "policies") as tell:
        found = _highwater.replay(given.json(), given.texts, hottest, tell, stop)
    document, text, verdict, html, remarks = found
    return Answer(json.loads(document), verdict, remarks, text, html)


def check(
    *paths: str | os.PathLike[str],
    idle: float = 0.0,
    progress: Progress = None,
    stop: Event | None = None,
) -> Check:
    """Compares the model with files captured from a real Linux, as `highwater check` does.

    Args:
        paths: Captured files, or directories to search for them.
        idle: Seconds that the simulated machine idles before a script of memory cgroups, 0 to 3600. No
            capture says when the kernel's periodic work ran last.
        progress: As of `compare`; counts files.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.

    Raises:
        HighwaterError: If a path does not exist, nothing in it can be compared, or `idle` is out of its
            range.
    """
    if not 0 <= idle <= 3600:
        raise HighwaterError(f"idle: must be between 0 and 3600 seconds, not {idle}")
    with teller(progress, "files") as tell:
        answer, agreement = _highwater.check(list(paths), idle, tell, stop)
    document, text, verdict, html, refused = answer
    return Check(json.loads(document), verdict, refused, text, html, agreement)


def diagnose(
    *files: str | os.PathLike[str],
    text: str | bytes | None = None,
    report: int | None = None,
    order: int | None = None,
    interval: float = 1.0,
    cpus: int | None = None,
    unit: str | None = None,
    since: float | str | None = None,
    until: float | str | None = None,
) -> Answer:
    """Answers the question that a text of Linux answers, as `highwater diagnose` does: a kernel's log
    why memory was refused or a process killed; files of /proc whether the machine is fragmented;
    output of `vmstat 1` or lines of pressure who was short of what; a trace which tasks were stalled.

    `verdict` is the answer in one sentence, `document` the JSON form. For a log `remarks` are what
    the text does not say.

    Args:
        files: A text of Linux; or zoneinfo, buddyinfo and pagetypeinfo of /proc, or their folder.
        text: The text itself, instead of a file.
        report: Only this report of a log, from 1; default: all, and the verdict of the first.
        order: Of files of /proc: could a request of this order be served, 0 to 10?
        interval: Seconds between two rows of vmstat without time stamps.
        cpus: CPUs of the machine on which vmstat ran.
        unit: The unit of `vmstat -S`: k, K, m or M.
        since, until: Only this part of a text over time: seconds of its clock, a time of day
            ("03:00") or a date with time ("2026-11-28 03:00").

    Raises:
        HighwaterError: If a file cannot be read or answers nothing, or a log has not so many reports.
        TypeError: If neither or both of `files` and `text` are given.
    """
    if bool(files) == (text is not None):
        raise TypeError("diagnose() takes files or text=, and not both")
    data = text.encode() if isinstance(text, str) else text
    times = [None if time is None else str(time) for time in (since, until)]
    over_time = (interval, cpus, unit, times[0], times[1])
    found = _highwater.diagnose(list(files), data, report, order, over_time)
    document, table, verdict, html, remarks = found
    return Answer(json.loads(document), verdict, remarks, table, html)


def capture(
    *,
    pids: Sequence[int] = (),
    comms: Sequence[str] = (),
    cgroups: Sequence[str] = (),
    units: Sequence[str] = (),
    seconds: float = 10.0,
    working_set: float = 0.0,
    every_ms: int = 1000,
    root: str | os.PathLike[str] | None = None,
    stop: Event | None = None,
) -> Capture:
    """Captures a running Linux: a machine file, a job file of its processes, and what its kernel
    computed, as `highwater capture` does. Nothing is written; `Capture.write` does.

    Args:
        pids: Processes to capture; default: the 12 largest of yours that use memory or CPU time.
        comms: Processes with these names, of any user.
        cgroups: Processes in these control groups or below them.
        units: Processes of these systemd units.
        seconds: Seconds to watch the processes; 0: averages since each one started.
        working_set: More seconds in which touches of memory are measured; 0: they are guessed.
        every_ms: Milliseconds between two looks.
        root: Read the directory's `proc` and `sys`, recorded somewhere else; nothing waits then.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.

    Raises:
        HighwaterError: If there is no kernel to look at, or a named process does not exist.
    """
    options = (list(pids), list(comms), list(cgroups), list(units), seconds, working_set, every_ms)
    found, text, verdict, html, remarks = _highwater.capture(root, options, None, stop)
    files = dict(found)
    document = json.loads(files["static.json"]) if "static.json" in files else {}
    return Capture(document, verdict, remarks, text, html, files)
