"""Linux memory management that can be run, replayed and taken apart.

>>> import highwater as hw
>>> print(hw.compare("003", quick=True, seeds=1, mem="64M", cpus=2).verdict)  # doctest: +ELLIPSIS
Verdict: ...

| you want | use |
|---|---|
| a comparison of policies | `compare`, `run` |
| what it would run, and the runs one by one | `plan`, `Plan`, `Unit` |
| many settings, machines and seeds | `sweep` |
| where they run | `Threads`, `Processes`, `Ray` |
| better settings, and whether they are worth it | `tune` |
| the least memory that keeps an objective | `fit` |
| the switches behind a change | `bisect` |
| a run in steps, with sysctls written on the way | `session`, `gym` |
| where slow operations spent their time | `explain` |
| a Linux beside the model | `capture`, `check`, `diagnose`, `replay` |
| exercises of the teaching notebooks | `check_answer`, `exercises` |
| what the command prints | `command` |
| names that come with the program | `experiments`, `machines`, `policies`, `workloads` |

Simulations run without Python's lock, end within a second after Ctrl-C, and give the same bytes as
the command `highwater`, which this package has, too. A policy's decisions as a Python function are
out of scope: a policy is a set of switches of the kernel, or code in Rust.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _highwater
from ._answers import Answer, Capture, Check, Explanation, FitAnswer
from ._command import command
from ._highwater import HighwaterError, Stopped
from ._linux import capture, check, diagnose, replay
from ._metric import Metric
from ._names import experiments, machines, policies, workloads
from ._options import Definition, PlanOptions, Seeds, Value
from ._plan import Event, Plan, Unit, compare, plan, run
from ._progress import Progress
from ._results import Observations, Results
from ._searches import bisect, explain, fit
from ._session import Ended, Frame, Group, Session, Task, Zone, session

if TYPE_CHECKING:
    from ._sweep import sweep
    from .executors import Executor, Processes, Ray, Threads
    from .teaching import Grade, check_answer, exercises
    from .tuning import Tuning, tune

# Loaded when they are asked for: they import much of Python's library, and the command needs none of it.
_LATER = {
    "Executor": ".executors",
    "Grade": ".teaching",
    "Processes": ".executors",
    "Ray": ".executors",
    "Threads": ".executors",
    "Tuning": ".tuning",
    "check_answer": ".teaching",
    "exercises": ".teaching",
    "sweep": "._sweep",
    "tune": ".tuning",
}


def __getattr__(name: str) -> object:
    if name == "gym":
        # It needs gymnasium, which is an extra.
        return import_module(".gym", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


version: str = _highwater.version
"""Version of Highwater."""

__version__ = version

__all__ = [
    "Answer",
    "Capture",
    "Check",
    "Definition",
    "Ended",
    "Event",
    "Executor",
    "Explanation",
    "FitAnswer",
    "Frame",
    "Group",
    "Grade",
    "HighwaterError",
    "Metric",
    "Observations",
    "Plan",
    "PlanOptions",
    "Processes",
    "Progress",
    "Ray",
    "Results",
    "Seeds",
    "Session",
    "Stopped",
    "Task",
    "Threads",
    "Tuning",
    "Unit",
    "Value",
    "Zone",
    "bisect",
    "capture",
    "check",
    "check_answer",
    "command",
    "compare",
    "diagnose",
    "exercises",
    "experiments",
    "explain",
    "fit",
    "machines",
    "plan",
    "policies",
    "replay",
    "run",
    "session",
    "sweep",
    "tune",
    "version",
    "workloads",
]
