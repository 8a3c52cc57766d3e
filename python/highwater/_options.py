"""Arguments of plans and searches, and what becomes of them.

An argument has the name of the command's option, with underscores. Machines, policies and jobs may be
given as names, files, mappings or dataclasses: `definition` makes the text of a file of a mapping, and
the library finds it under that file's name without one being written.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Union, cast

from . import _highwater
from ._highwater import HighwaterError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Definition = Union[str, "os.PathLike[str]", Mapping[str, Any], "DataclassInstance"]
"""A machine, a policy or a job: a name, a file, or what its file says as a mapping or dataclass."""

Value = Union[bool, int, float, str, Sequence[Union[bool, int, float, str]]]
"""A value of a key, as `--set` takes it: `10`, `True`, `"2G"`, `[1, 2]`."""

Seeds = Union[int, range, Sequence[int]]
"""How many seeds, from 1; or the seeds themselves, which follow each other."""


class PlanOptions(TypedDict, total=False):
    """Options of `highwater compare` and `run`. An option that is left out is as in the command."""

    quick: bool
    """Run the short version of an experiment."""
    full: bool
    """Run with the sizes and times of the study, where the experiment is smaller."""
    machine: Definition | None
    """The machine instead of the experiment's own."""
    mem: str | None
    """Instead of a machine: one node of this much memory, such as `"8G"`."""
    cpus: int | None
    """CPUs of that node."""
    numa: Sequence[str] | None
    """Instead of a machine: its nodes, each `"SIZE,cpus=FIRST-LAST"`."""
    numa_distance: Sequence[str] | None
    """Distances between nodes, each `"FROM,TO=DISTANCE"`."""
    disk: str | None
    """The disk of a machine that has none: `"nvme"`, `"ssd"`, `"hdd"` or `"ram"`."""
    swap: str | None
    """Swap of the machine, such as `"2G"`; `"0"`: none."""
    state: str | os.PathLike[str] | None
    """The directory whose free lists the machine starts with, as `diagnose --state-out` writes it."""
    policies: Definition | Sequence[Definition] | None
    """Policies instead of the experiment's own; the first is the baseline."""
    seeds: Seeds | None
    """Seeds of each policy."""
    set: Mapping[str, Value] | None
    """Values of single keys: `{"vm.swappiness": 10, "machine.memory": "2G"}`."""
    vary: Mapping[str, Sequence[Value | Definition]] | None
    """Keys that take several values: a point for each combination. The key `machine` takes machines."""
    beyond: bool
    """Also run the experiment's policies that no kernel shipped."""
    ablate: bool
    """Take the change from the first policy to the last one apart, switch by switch."""
    histograms: bool
    """Show histograms of throttled sleeps."""
    story: bool
    """Keep the story of the first seed: the page of the results then has charts over time."""
    sample_every_ms: int | None
    """Keep counters every so many milliseconds of virtual time, for `Results.write`."""
    native: bool
    """Run on the threads and memory of this computer instead of in virtual time."""


_F = TypeVar("_F", bound=Callable[..., Any])


def takes_options(function: _F) -> _F:
    """Shows the options of a plan in the signature, so that editors and notebooks complete them."""
    own = inspect.signature(function)
    kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in PlanOptions.__annotations__.items()
        if name not in own.parameters
    ]
    cast(Any, function).__signature__ = own.replace(parameters=[*kept, *options])
    return function


class Given:
    """Arguments as the library takes them: a JSON object, and texts of files by path."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] = {}
        self.texts: dict[str, str] = {}

    def json(self) -> str:
        """The object as text; equal arguments give equal texts."""
        return json.dumps(self.spec, separators=(",", ":"))

    def put(self, name: str, value: object) -> None:
        """Keeps an argument that was given."""
        if value is not None and value is not False and value != []:
            self.spec[name] = value

    def definition(self, kind: str, value: Definition) -> str:
        """The name or the file of a machine, a policy or a job."""
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        content = plain(value)
        if not isinstance(content, dict):
            given = type(value).__name__
            raise TypeError(f"{kind}: expected a name, a file, a mapping or a dataclass, not {given}")
        name = str(content.get("name", kind)).replace("/", "-")
        text = _highwater.toml_of(json.dumps(content))
        for number in range(1, 1 + len(self.texts) + 1):
            path = f"{name}.toml" if number == 1 else f"{name}-{number}.toml"
            if self.texts.setdefault(path, text) == text:
                return path
        raise AssertionError("one of the paths is free")

    def definitions(self, kind: str, values: Definition | Sequence[Definition] | None) -> list[str]:
        """The same of one, several or none."""
        if values is None:
            return []
        if isinstance(values, (str, os.PathLike, Mapping)) or dataclasses.is_dataclass(values):
            return [self.definition(kind, values)]
        return [self.definition(kind, value) for value in values]

    def options(self, options: PlanOptions) -> None:
        """Keeps the options of a plan."""
        for name in options:
            if name not in PlanOptions.__annotations__:
                known = ", ".join(PlanOptions.__annotations__)
                raise TypeError(f"unknown option {name!r}; there are {known}")
        flags = ("quick", "full", "beyond", "ablate", "histograms", "story")
        numbers = ("cpus", "sample_every_ms")
        texts = ("mem", "disk", "swap")
        for name in (*flags, *numbers, *texts, "native"):
            self.put(name, options.get(name))
        for name in ("numa", "numa_distance"):
            self.put(name, list(cast("Sequence[str]", options.get(name) or [])))
        state = options.get("state")
        if state is not None:
            self.put("state", os.fspath(state))
        machine = options.get("machine")
        if machine is not None:
            self.put("machine", self.definition("machine", machine))
        self.put("policies", self.definitions("policy", options.get("policies")))
        self.seeds(options.get("seeds"))
        self.set(options.get("set"))
        vary = options.get("vary") or {}
        self.put("vary", [[key, self.values(key, values)] for key, values in vary.items()])

    def set(self, values: Mapping[str, Value] | None) -> None:
        """Keeps values of single keys."""
        self.put("set", [f"{key}={text_of(value)}" for key, value in (values or {}).items()])

    def seeds(self, seeds: Seeds | None) -> None:
        """Keeps the first seed and their number."""
        if seeds is None:
            return
        if isinstance(seeds, int):
            self.put("iterations", int(seeds))
            if seeds < 1:
                raise HighwaterError(f"seeds: must be at least 1, not {seeds}")
            return
        all_seeds = list(seeds)
        if not all_seeds or all_seeds != list(range(all_seeds[0], all_seeds[0] + len(all_seeds))):
            raise HighwaterError(
                f"seeds: must follow each other, as range(1, 101) does; not {_short(all_seeds)}"
            )
        if all_seeds[0] < 0:
            raise HighwaterError(f"seeds: must not be below 0, as {all_seeds[0]} is")
        self.spec["iterations"], self.spec["seed"] = len(all_seeds), all_seeds[0]

    def values(self, key: str, values: Sequence[Value | Definition]) -> list[str]:
        """The values of a key that varies."""
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise HighwaterError(f"vary {key}: expected a list of values, not {values!r}")
        if key == "machine":
            return [self.definition("machine", cast(Definition, value)) for value in values]
        return [text_of(cast(Value, value)) for value in values]


def text_of(value: Value) -> str:
    """A value as the command line has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        # A float of numpy is one, and shows its type.
        return repr(float(value))
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        parts = [json.dumps(part) if isinstance(part, str) else text_of(part) for part in value]
        return f"[{','.join(parts)}]"
    # A number of another library, such as numpy's.
    if hasattr(value, "item"):
        return text_of(cast(Any, value).item())
    raise TypeError(f"expected a number, a text, a truth value or a list of them, not {value!r}")


def plain(value: object) -> Any:
    """Mappings, dataclasses and sequences as dicts and lists. A value `None` is left out. A field
    of a dataclass has its own name in the file, or the one of `metadata={"key": ...}`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((f.metadata.get("key", f.name), getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: plain(of) for name, of in fields if of is not None}
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name): plain(of) for name, of in items if of is not None}
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if isinstance(value, Iterable):
        return [plain(of) for of in cast("Iterable[object]", value)]
    if hasattr(value, "item"):
        return cast(Any, value).item()
    raise TypeError(f"expected what a TOML file can hold, not {value!r}")


def _short(seeds: list[int]) -> str:
    return f"{seeds[:4]}" if len(seeds) <= 4 else f"[{seeds[0]}, {seeds[1]}, {seeds[2]}, ...]"
