"""A real Linux beside the model: `capture`, `check`, `diagnose` and `replay`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from . import _highwater
from ._answers import Answer, Capture, Check
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
    *paths: str | os.PathLike[str], progress: Progress = None, stop: Event | None = None
) -> Check:
    """Compares the model with files captured from a real Linux, as `highwater check` does.

    Args:
        paths: Captured files, or directories to search for them.
        progress: As of `compare`; counts files.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.

    Raises:
        HighwaterError: If a path does not exist, or nothing in it can be compared.
    """
    with teller(progress, "files") as tell:
        answer, agreement = _highwater.check(list(paths), tell, stop)
    document, text, verdict, html, refused = answer
    return Check(json.loads(document), verdict, refused, text, html, agreement)


def diagnose(
    log: str | os.PathLike[str] | None = None,
    *,
    text: str | bytes | None = None,
    report: int | None = None,
) -> Answer:
    """Answers why a kernel refused memory or killed a process, as `highwater diagnose` does.

    `verdict` is the answer in one sentence, `remarks` are what the text does not say, `document` is
    the JSON form: a list `reports` with the zones, the cause and the trials.

    Args:
        log: A file: the text of dmesg, of the journal, or of a mail that quotes it.
        text: The text itself, instead of a file.
        report: Only this report of the text, from 1; default: all, and the verdict of the first.

    Raises:
        HighwaterError: If the text has no report of failed or killed memory, or not so many.
        OSError: If the file cannot be read.
        TypeError: If neither or both of `log` and `text` are given.
    """
    if (log is None) == (text is None):
        raise TypeError("diagnose() takes a file or text=, and not both")
    if log is not None:
        name, data = os.fspath(log), Path(log).read_bytes()
    else:
        name, data = "text", text.encode() if isinstance(text, str) else text or b""
    document, table, verdict, html, remarks = _highwater.diagnose(name, data, report)
    return Answer(json.loads(document), verdict, remarks, table, html)


def capture(
    *,
    pids: Sequence[int] = (),
    comms: Sequence[str] = (),
    cgroups: Sequence[str] = (),
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
        seconds: Seconds to watch the processes; 0: averages since each one started.
        working_set: More seconds in which touches of memory are measured; 0: they are guessed.
        every_ms: Milliseconds between two looks.
        root: Read the directory's `proc` and `sys`, recorded somewhere else; nothing waits then.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.

    Raises:
        HighwaterError: If there is no kernel to look at, or a named process does not exist.
    """
    options = (list(pids), list(comms), list(cgroups), seconds, working_set, every_ms)
    found, text, verdict, html, remarks = _highwater.capture(root, options, None, stop)
    files = dict(found)
    document = json.loads(files["static.json"]) if "static.json" in files else {}
    return Capture(document, verdict, remarks, text, html, files)
