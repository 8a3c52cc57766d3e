"""A gymnasium environment: an agent that sets sysctls and limits of groups while a simulated kernel runs.

>>> import highwater as hw
>>> env = hw.gym.MemoryEnv(  # doctest: +SKIP
...     "postgres-like", quick=True, actions={"vm.swappiness": (0, 200)}, every=0.5
... )
>>> observation, info = env.reset(seed=1)  # doctest: +SKIP
>>> observation, reward, terminated, truncated, info = env.step([10.0])  # doctest: +SKIP

Time is virtual: an episode of a minute takes a second or so. The seed of `reset` is the seed of the
simulation, so the same seed with the same actions is the same episode, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union, cast

from ._highwater import HighwaterError
from ._options import Definition, PlanOptions, Value, takes_options
from ._session import Ended, Frame, Group, Session, session
from ._sizes import PAGE, size_of, size_text

try:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
except ImportError as error:  # pragma: no cover - without the extra
    raise ImportError(
        "hw.gym needs gymnasium and numpy: pip install 'highwater[gym]'"
    ) from error

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

Range = Union[tuple[float, float], tuple[str, str]]
"""The least and the greatest value of a setting. If both are whole, values are rounded to whole numbers;
if both are sizes (`"64M"`), values are bytes, rounded to whole pages."""

Choice = Sequence[Value]
"""The values that a setting may take."""

Reward = Union[str, Callable[["Step"], float]]
"""A figure of a step, which is better if it is smaller (`"memory.some"`), or a function of the step."""

OBSERVED = (
    "memory.some",
    "memory.full",
    "io.some",
    "nr_free_pages",
    "nr_inactive_anon",
    "nr_active_anon",
    "nr_inactive_file",
    "nr_active_file",
    "nr_dirty",
    "nr_writeback",
    "pgfault",
    "pgmajfault",
    "pgscan_kswapd",
    "pgscan_direct",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pswpin",
    "pswpout",
    "workingset_refault_anon",
    "workingset_refault_file",
)
"""The figures of an observation, unless others are named."""

_SEEDS = 2**31


@dataclass(frozen=True)
class Step:
    """What happened between two looks."""

    before: Frame | None
    """The look at its begin; None: boot."""
    after: Frame
    """The look at its end."""
    groups: frozenset[str] = frozenset()
    """Groups of the episode, the removed ones too."""

    @property
    def seconds(self) -> float:
        """Virtual seconds that it took."""
        return self.after.time - (self.before.time if self.before else 0.0)

    def figure(self, name: str) -> float:
        """A figure of the step: of a counter its rate a second, of `nr_*` its value at the end in pages
        (`nr_free_pages`), of `memory.some` and the like percent of the step. Of a memory cgroup
        `group.NAME.current` and `group.NAME.swap` at the end in pages, and `group.NAME.memory.some` and
        the like; they are 0 after it was removed.

        Raises:
            HighwaterError: If the kernel or the job has no such figure.
        """
        if name.startswith("group."):
            return self._of_group(name)
        if "." in name:
            return self._stalled(name, name, self.after, self.before)
        after, before = self.after.counters, self.before.counters if self.before else None
        if name not in after:
            raise HighwaterError(
                f"{name}: this kernel has no such figure; there are the names of /proc/vmstat"
            )
        if name.startswith("nr_"):
            return float(after[name])
        return (after[name] - (before[name] if before else 0)) / self.seconds

    def _of_group(self, name: str) -> float:
        before = self.before.groups if self.before else {}
        group, key = _split(name, {*self.groups, *before, *self.after.groups})
        if group not in self.after.groups:
            return 0.0
        now = self.after.groups[group]
        if key == "current" or key == "swap":
            return float(now.current if key == "current" else now.swap)
        return self._stalled(name, key, now, before.get(group))

    def _stalled(
        self, name: str, key: str, after: Frame | Group, before: Frame | Group | None
    ) -> float:
        """Percent of the step."""
        if after.pressure is None:
            raise HighwaterError(f"{name}: kernels before 4.20 do not measure pressure")
        if key not in after.pressure:
            here = ["current", "swap"] if isinstance(after, Group) else []
            known = ", ".join([*here, *after.pressure])
            raise HighwaterError(f"{name}: this kernel has no such figure; there are {known}")
        begin = before.pressure[key] if before and before.pressure else 0.0
        return 100.0 * (after.pressure[key] - begin) / self.seconds


def _split(name: str, groups: Collection[str]) -> tuple[str, str]:
    """The group and the rest of `group.NAME.REST`; names may have dots, so the longest one counts."""
    for group in sorted(groups, key=len, reverse=True):
        begin = f"group.{group}."
        if name.startswith(begin):
            return group, name.removeprefix(begin)
    there = f"there are {', '.join(sorted(groups))}" if groups else "the job has none"
    raise HighwaterError(f"{name}: no such group; {there}")


class MemoryEnv(gymnasium.Env["NDArray[np.float64]", Any]):
    """A job on a simulated machine, whose sysctls and groups' limits the agent sets before each step.

    Observations are a `Box` of the figures that `observe` names (see `Step.figure`). Actions are a `Box`
    with a value for each setting if all have ranges, or a `MultiDiscrete` if all have lists of values.
    The episode ends with the job. `info` has the look as `frame`, and at the end what the job measured
    as `ended`.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    @takes_options
    def __init__(
        self,
        job: Definition,
        *,
        actions: Mapping[str, Range | Choice],
        observe: Sequence[str] = OBSERVED,
        reward: Reward = "memory.some",
        every: float = 0.1,
        max_steps: int | None = None,
        render_mode: str | None = None,
        **options: Unpack[PlanOptions],
    ) -> None:
        """Checks the settings and runs to the first look.

        Args:
            job: A job or an experiment.
            actions: Sysctls (`vm.swappiness`) and settings of groups (`group.web.high`) with their
                ranges `(low, high)`, of sizes `("64M", "1G")`, or with lists of values. See
                `Session.set`; once a group is removed, its settings are not written any more.
            observe: Figures of an observation.
            reward: A figure that shall be small: the reward is its negative; or a function of the step.
            every: Virtual seconds of a step.
            max_steps: Steps after which an episode is truncated; default: none.
            render_mode: `"ansi"`, or None.
            **options: See `PlanOptions`; one policy; `reset` has the seed.

        Raises:
            HighwaterError: Names the option, setting or figure that is wrong.
        """
        if options.get("seeds") is not None:
            raise HighwaterError("seeds: reset(seed=...) has the seed of an episode")
        self._job, self._options, self._every = job, options, every
        self._max_steps, self.render_mode = max_steps, render_mode
        self._names, self._reward = tuple(observe), reward
        self._keys = tuple(actions)
        self._choices: list[list[Value]] = []
        self._values: list[Callable[[float], Value]] = []
        self.action_space = self._actions(actions)
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(self._names),), np.float64)
        self._run: Session | None = None
        self._frame: Frame | None = None
        self._groups: frozenset[str] = frozenset()
        self._seen = np.zeros(len(self._names), np.float64)
        self._nr = 0
        # A wrong name is found here and not in the first episode.
        self._begin(1)
        first = {key: self._value(at, self._some(at)) for at, key in enumerate(self._keys)}
        self._session.set(first)
        self.close()

    def _actions(self, actions: Mapping[str, Range | Choice]) -> spaces.Space[Any]:
        if not actions:
            raise HighwaterError("actions: name at least one sysctl or setting of a group")
        for key in actions:
            if not key.startswith(("vm.", "group.")):
                raise HighwaterError(
                    f"actions {key}: only sysctls (vm.NAME) and settings of groups (group.NAME.KEY)"
                    " can change while a run goes on"
                )
        is_range = [isinstance(of, tuple) for of in actions.values()]
        if all(is_range):
            ends = [self._range(key, cast(Range, of)) for key, of in actions.items()]
            low, high = (np.array([end[at] for end in ends], np.float64) for at in (0, 1))
            return spaces.Box(low, high, dtype=np.float64)
        if any(is_range):
            raise HighwaterError("actions: give all settings ranges (low, high), or all lists of values")
        self._choices = [list(of) for of in actions.values()]
        for key, of in actions.items():
            if not list(of):
                raise HighwaterError(f"actions {key}: the list of values is empty")
        return spaces.MultiDiscrete([len(of) for of in self._choices])

    def _range(self, key: str, ends: Range) -> tuple[float, float]:
        """A range as numbers; keeps what makes a value of a number."""
        sizes = [size for size in map(size_of, ends) if size is not None]
        numbers = [float(end) for end in ends if not isinstance(end, str)] if not sizes else sizes
        if len(ends) != 2 or len(numbers) != 2 or not numbers[0] <= numbers[1]:
            raise HighwaterError(f"actions {key}: expected (low, high), not {ends}")
        if sizes:
            self._values.append(lambda number: size_text(round(number / PAGE) * PAGE))
        elif all(isinstance(end, int) for end in ends):
            self._values.append(round)
        else:
            self._values.append(float)
        return numbers[0], numbers[1]

    def _some(self, at: int) -> Any:
        return 0 if self._choices else self.action_space.low[at]  # type: ignore[attr-defined]

    def _value(self, at: int, action: Any) -> Value:
        """The value of a setting for its part of an action."""
        if self._choices:
            return self._choices[at][int(action)]
        return self._values[at](float(action))

    @property
    def observation_names(self) -> tuple[str, ...]:
        """The figures of an observation, in their order."""
        return self._names

    @property
    def _session(self) -> Session:
        if self._run is None:
            raise HighwaterError("reset() begins an episode")
        return self._run

    def _begin(self, seed: int) -> dict[str, Any]:
        """Starts the job and goes to the first look."""
        self.close()
        options: Any = {**self._options, "seeds": range(seed, seed + 1)}
        self._run = session(self._job, every=self._every, **options)
        self._nr = 0
        frame = self._run.step()
        if frame is None:
            raise HighwaterError(f"every: the job ends before its first look, at {self._every} s")
        self._frame, self._groups = frame, frozenset(frame.groups)
        first = Step(None, frame, self._groups)
        self._look(first)
        if isinstance(self._reward, str):
            first.figure(self._reward)
        return {"frame": frame, "seed": seed}

    def _look(self, step: Step) -> None:
        self._seen = np.array([step.figure(name) for name in self._names], np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begins an episode. Without a seed its simulation's seed is drawn from the last one given."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(1, _SEEDS)) if seed is None else seed
        return self._seen_after(self._begin(drawn))

    def _is_there(self, key: str) -> bool:
        """False of the setting of a group that was removed."""
        groups = self._frame.groups if self._frame else {}
        group = key.rpartition(".")[0].removeprefix("group.")
        return key.startswith("vm.") or group in groups

    def _seen_after(self, info: dict[str, Any]) -> tuple[NDArray[np.float64], dict[str, Any]]:
        return self._seen.copy(), info

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Writes the settings and runs to the next look, or to the end of the job."""
        run, before = self._session, self._frame
        writes = {
            key: self._value(at, action[at])
            for at, key in enumerate(self._keys)
            if self._is_there(key)
        }
        if writes:
            run.set(writes)
        self._nr += 1
        frame = run.step()
        if frame is None:
            ended: Ended = run.finish()
            self._run = None
            return self._seen.copy(), 0.0, True, False, {"frame": before, "ended": ended}
        self._groups |= frozenset(frame.groups)
        step = Step(before, frame, self._groups)
        self._frame = frame
        self._look(step)
        reward = self._reward(step) if callable(self._reward) else -step.figure(self._reward)
        truncated = self._max_steps is not None and self._nr >= self._max_steps
        return self._seen.copy(), float(reward), False, truncated, {"frame": frame}

    def render(self) -> str | None:
        """The latest observation as text, if the render mode is `ansi`."""
        if self.render_mode != "ansi":
            return None
        rows = zip(self._names, self._seen, strict=True)
        return "\n".join(f"{name:28} {value:14.2f}" for name, value in rows)

    def close(self) -> None:
        """Ends the episode where it is."""
        if self._run is not None:
            self._run.close()
            self._run = None
