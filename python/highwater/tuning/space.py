"""The settings that a search may choose, and the file of `sysctl.d` that says the chosen ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from .._highwater import HighwaterError
from .._options import text_of
from .._sizes import PAGE, size_of, size_text

Value = Union[bool, int, float, str]

#: From this ratio of its ends on, a range is searched by factors, not by differences.
_LOG_RATIO = 50


@dataclass(frozen=True)
class Numbers:
    """Numbers from `low` to `high`, both included; whole ones if both ends are."""

    low: float
    high: float
    step: float | None = None

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def is_log(self) -> bool:
        return self.step is None and self.low > 0 and self.high / self.low >= _LOG_RATIO

    @property
    def ends(self) -> list[Value]:
        """The values to try first: if a kernel accepts both, it accepts all between."""
        return [self.low, self.high]

    def suggest(self, trial: Any, key: str) -> Value:
        """Asks Optuna for a value."""
        if self.is_whole:
            step = 1 if self.step is None else int(self.step)
            return int(trial.suggest_int(key, self.low, self.high, step=step, log=self.is_log))
        return float(trial.suggest_float(key, self.low, self.high, step=self.step, log=self.is_log))

    def __str__(self) -> str:
        return f"{self.low} to {self.high}" + (f" by {self.step}" if self.step is not None else "")


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Value, ...]

    @property
    def ends(self) -> list[Value]:
        return list(self.values)

    def suggest(self, trial: Any, key: str) -> Value:
        """Asks Optuna for a value."""
        chosen: Value = trial.suggest_categorical(key, self.values)
        return chosen

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


@dataclass(frozen=True)
class Sizes:
    """Sizes from `low` to `high`, both included, in bytes, in whole steps above `low`."""

    low: int
    high: int
    step: int

    @property
    def is_log(self) -> bool:
        return self.low > 0 and self.high / self.low >= _LOG_RATIO

    @property
    def ends(self) -> list[Value]:
        return [size_text(self.low), size_text(self.high)]

    def suggest(self, trial: Any, key: str) -> Value:
        """Asks Optuna for a value."""
        if not self.is_log:
            return size_text(trial.suggest_int(key, self.low, self.high, step=self.step))
        # By factors Optuna has no steps: the next one below.
        size = trial.suggest_int(key, self.low, self.high, log=True)
        return size_text(self.low + (size - self.low) // self.step * self.step)

    def __str__(self) -> str:
        return f"{size_text(self.low)} to {size_text(self.high)} by {size_text(self.step)}"


Range = Union[Numbers, Sizes, Choice]


@dataclass(frozen=True)
class Sysctl:
    """A setting with a place in a running Linux."""

    #: Values worth a try.
    range: Range
    #: Its line in `sysctl.d`, if it is a sysctl; else the file to write to.
    name: str
    #: The kernel's default.
    default: Value

    @property
    def is_file(self) -> bool:
        return self.name.startswith("/")


_THP = "/sys/kernel/mm/transparent_hugepage"

#: Sysctls whose values are worth a search, with ranges that administrators use.
SYSCTLS: dict[str, Sysctl] = {
    "vm.swappiness": Sysctl(Numbers(0, 200), "vm.swappiness", 60),
    "vm.dirty_ratio": Sysctl(Numbers(2, 60), "vm.dirty_ratio", 20),
    "vm.dirty_background_ratio": Sysctl(Numbers(1, 50), "vm.dirty_background_ratio", 10),
    "vm.dirty_expire_centisecs": Sysctl(Numbers(100, 6000), "vm.dirty_expire_centisecs", 3000),
    "vm.dirty_writeback_centisecs": Sysctl(Numbers(50, 3000), "vm.dirty_writeback_centisecs", 500),
    "vm.watermark_scale_factor": Sysctl(Numbers(10, 1000), "vm.watermark_scale_factor", 10),
    "vm.watermark_boost_factor": Sysctl(Choice((15000, 0)), "vm.watermark_boost_factor", 15000),
    "vm.min_free_kbytes": Sysctl(Numbers(2048, 131072), "vm.min_free_kbytes", 0),
    "vm.vfs_cache_pressure": Sysctl(Numbers(10, 500), "vm.vfs_cache_pressure", 100),
    "vm.page_cluster": Sysctl(Numbers(0, 6), "vm.page-cluster", 3),
    "vm.compaction_proactiveness": Sysctl(Numbers(0, 100), "vm.compaction_proactiveness", 20),
    "vm.thp": Sysctl(Choice(("madvise", "always", "never")), f"{_THP}/enabled", "madvise"),
}

#: The space of a search that names none.
USUAL = (
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.watermark_scale_factor",
    "vm.page_cluster",
    "vm.vfs_cache_pressure",
)

#: Settings of the model that are no sysctl and have another place in Linux.
_FILES = {
    "thp": f"{_THP}/enabled",
    "thp_defrag": f"{_THP}/defrag",
    "thp_zero_page": f"{_THP}/use_zero_page",
}
_KHUGEPAGED = "khugepaged_"
#: Files of a memory cgroup by a job's names of settings; all others are that name after `memory.`.
_GROUP_FILES = {
    "swap-max": "memory.swap.max",
    "swap-high": "memory.swap.high",
    "oom-group": "memory.oom.group",
    "limit": "memory.limit_in_bytes",
    "memsw": "memory.memsw.limit_in_bytes",
    "soft-limit": "memory.soft_limit_in_bytes",
}


def read_space(space: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Range]:
    """The settings of a search by key.

    Args:
        space: keys of `set` with their values: a tuple `(low, high)` or `(low, high, step)` of
            numbers or of sizes (`"64M"`) is a range, a list is a choice. Names alone are sysctls of
            `SYSCTLS`. None: `USUAL`.

    Raises:
        HighwaterError: a range is none.
    """
    if isinstance(space, str):
        space = [space]
    if not isinstance(space, Mapping):
        space = dict.fromkeys(USUAL if space is None else space)
    if not space:
        raise HighwaterError("hw.tune: the space is empty; give keys such as vm.swappiness")
    return {key: _range(key, values) for key, values in space.items()}


def _range(key: str, values: Any) -> Range:
    if values is None:
        if key not in SYSCTLS:
            raise HighwaterError(
                f"{key}: give its values, as {{{key!r}: (0, 100)}} or {{{key!r}: [False, True]}};"
                f" without values there are {', '.join(SYSCTLS)}"
            )
        return SYSCTLS[key].range
    if isinstance(values, tuple) and len(values) in (2, 3) and all(map(_is_number, values)):
        if not values[0] < values[1]:
            raise HighwaterError(f"{key}: {values[0]} is not below {values[1]}")
        return Numbers(*values)
    if isinstance(values, tuple) and len(values) in (2, 3):
        sizes = [size for size in map(size_of, values) if size is not None]
        if len(sizes) == len(values):
            return _sizes(key, values, sizes)
    if isinstance(values, (list, range)) and len(values) >= 2:
        return Choice(tuple(values))
    raise HighwaterError(
        f"{key}: {values!r} is neither a range, as (0, 100) or ('64M', '1G'), nor a choice of two"
        " values or more, as [0, 60, 200]"
    )


def _sizes(key: str, values: tuple[Any, ...], sizes: list[int]) -> Sizes:
    """A range of sizes; without a step, of whole MiB if both ends are, else of pages."""
    low, high = sizes[:2]
    if not low < high:
        raise HighwaterError(f"{key}: {values[0]} is not below {values[1]}")
    mib = 1 << 20
    step = sizes[2] if len(sizes) == 3 else mib if low % mib == high % mib == 0 else PAGE
    if step % PAGE or (high - low) % step:
        raise HighwaterError(
            f"{key}: from {values[0]} to {values[1]} are no whole steps of {size_text(step)};"
            f" sizes are multiples of {size_text(PAGE)}"
        )
    return Sizes(low, high, step)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def sysctl_lines(values: Mapping[str, Value]) -> list[str]:
    """The lines of a `sysctl.d` file. A setting that is no sysctl is a comment with its place."""
    lines = []
    for key, value in values.items():
        text = text_of(value)
        place = _place(key)
        group, _, setting = key.removeprefix("group.").rpartition(".")
        if key.startswith("group.") and group:
            file = _GROUP_FILES.get(setting, f"memory.{setting}")
            where = f"{file}, in the directory of cgroup {group}"
            lines.append(f"# not a sysctl: echo {text} > {where}")
        elif place is None:
            lines.append(f"# {key} = {text}: a setting of the model, not of a running Linux")
        elif place.startswith("/"):
            lines.append(f"# not a sysctl: echo {text} > {place}")
        else:
            lines.append(f"{place} = {text}")
    return lines


def _place(key: str) -> str | None:
    """The name of a sysctl, or the path of another file; none if Linux has no such setting."""
    prefix, _, name = key.partition(".")
    if prefix != "vm":
        return None
    if key in SYSCTLS:
        return SYSCTLS[key].name
    if name in _FILES:
        return _FILES[name]
    if name.startswith(_KHUGEPAGED):
        return f"{_THP}/khugepaged/{name[len(_KHUGEPAGED) :]}"
    if name == "wbt":
        return "/sys/block/DISK/queue/wbt_lat_usec"
    return None if name == "cpusets" else key
