"""Search settings of a job that are better than the defaults, and judge them honestly."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._highwater import HighwaterError
from .._ledger import open_ledger
from .._options import Definition, PlanOptions, Seeds, takes_options, text_of
from .._plan import Event
from .._progress import Progress, teller
from ..executors import Executor, Threads
from .bench import Bench, Measured, Settings
from .figures import Condition, direction_of
from .result import Tuning, Verdict, gain_percent, gain_text
from .search import Search, Trial, optuna, simplified
from .space import Value, read_space
from .stats import Interval, paired_bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Interval", "Trial", "Tuning", "Verdict", "tune"]

#: Seeds of the check at least: with fewer an interval is much narrower than it should be.
_UNSEEN_MIN = 12
#: Seeds of a complete trial.
_SEEDS = 8
#: Keys of the machine's memory, which are the same.
_MEMORY = ("mem", "machine.memory")


@takes_options
def tune(
    job: Definition,
    space: Mapping[str, Any] | Iterable[str] | None = None,
    *,
    objective: str,
    direction: str | None = None,
    constraints: Sequence[str] = (),
    allow_kills: bool = False,
    trials: int = 64,
    unseen: int | None = None,
    neighbours: bool = True,
    least: float = 1.0,
    batch: int = 8,
    seed: int = 1,
    out: str | os.PathLike[str] | None = None,
    on: Executor | None = None,
    progress: Progress = None,
    stop: Event | None = None,
    **options: Unpack[PlanOptions],
) -> Tuning:
    """Searches sysctls, policy switches and limits of groups that are better than the defaults.

    Optuna (the extra `highwater[tune]`) proposes settings. All settings run the same seeds as the
    default. A trial stops early if a constraint does not hold in a seed, or if Wilcoxon's
    signed-rank test says that it is worse than the best so far. Keys that the best setting does not
    need are dropped. The rest is then judged against the default on seeds that no trial saw, and on
    similar machines: half and twice the memory, half and twice the CPUs.

    >>> import highwater as hw
    >>> tuning = hw.tune(
    ...     "postgres-like", {"vm.swappiness": (0, 200)}, objective="backend.select.p99", quick=True
    ... )  # doctest: +SKIP

    Args:
        job: A job by name or file, or what its file says.
        space: Keys of `set` with their values: `{"vm.swappiness": (0, 200), "vm.page_cluster": [0,
            3], "policy.watermark.boost": [True, False]}`. A tuple is a range (a third number is its
            step), a list is a choice. Sizes are texts: `{"group.web.high": ("64M", "192M")}`, in
            steps of 1 MiB where the ends are whole MiB. Names of well-known sysctls alone have
            usual ranges (`["vm.swappiness", "vm.dirty_ratio"]`). Default: six of these. The key
            `policy` chooses among policies by name.
        objective: The figure to improve, as `fit` and `bisect` name them: `"backend.select.p99"`,
            `"reader.rate"`, `"memory.some"`, `"pgmajfault"`. Its mean over the seeds is compared.
        direction: `"lower"` or `"higher"`; needed for counters, which have no better direction.
        constraints: Objectives of `fit`, as `"memory.some<5"` (percent of the time) or
            `"backend.hit.p99<2ms"`. Each must hold in every seed.
        allow_kills: Let tasks end early, by the OOM killer or because a call fails. Without it a
            setting that kills is never chosen.
        trials: Settings to try.
        unseen: Seeds of the check; default: the larger of 12 and twice those of a trial.
        neighbours: Whether similar machines are checked.
        least: Gain in percent below which a setting is not worth it, even if it is no chance.
        batch: Settings that are proposed at once. The answer depends on it, and not on the number
            of threads or workers.
        seed: Of the proposals, not of the simulations.
        out: A ledger for the finished units. Called again with the same arguments, an interrupted
            search continues from there.
        on: Where the units run; default: `Threads()`.
        progress: A bar, nothing, or a function of the finished trials and of all.
        stop: If it is set from another thread, the call ends with `Stopped` within a second.
        **options: See `PlanOptions`; one policy, and nothing varies. They are part of the default.
            `seeds` are those of each complete trial, 8 by default; 4 is the least with which a
            trial can stop early.

    Raises:
        HighwaterError: A name or a value is refused before a trial runs; Optuna is not installed.
        KeyboardInterrupt: Within a second after Ctrl-C.
    """
    optuna()
    ranges = read_space(space)
    seeds = _range(options.pop("seeds", None))
    if trials < 1 or batch < 1 or not seeds:
        raise HighwaterError(
            f"trials={trials}, seeds={len(seeds)}, batch={batch}: each must be at least 1"
        )
    if direction not in (None, "lower", "higher"):
        raise HighwaterError(f"direction={direction!r} is neither 'lower' nor 'higher'")
    conditions = [Condition.parse(text) for text in constraints]
    from .. import plan as make

    given = {"what": job, **options}
    with tempfile.TemporaryDirectory(prefix="highwater-tune-") as temporary:
        ledger = open_ledger(out if out is not None else temporary)
        bench = Bench(
            make, given, objective, conditions, allow_kills, ledger, on or Threads(), stop
        )
        bench.check(ranges, seeds[:1])
        is_lower = direction_of(bench.figure, objective, direction) == "lower"
        default = _measured(bench, {}, seeds)
        with teller(progress, "trials") as tell:
            search = Search(bench, ranges, is_lower, trials, seeds, batch, seed, tell)
            best = search.run(default)
        nr_unseen = unseen or max(_UNSEEN_MIN, 2 * len(seeds))
        judge = _Judge(bench, search, default, nr_unseen, least, seed)
        return judge.judged(best, neighbours)


def _range(seeds: Seeds | None) -> range:
    """The seeds of a complete trial."""
    if seeds is None:
        return range(1, 1 + _SEEDS)
    if isinstance(seeds, int):
        return range(1, 1 + seeds)
    # The plan refuses seeds that do not follow each other.
    return range(seeds[0], seeds[0] + len(seeds)) if len(seeds) else range(0)


def _measured(bench: Bench, settings: Settings, seeds: range) -> Measured:
    answer = bench.measure([(settings, seeds)])[0]
    if isinstance(answer, HighwaterError):
        raise answer
    return answer


class _Judge:
    """The end of a search: is the best setting better where no trial has looked?"""

    def __init__(
        self, bench: Bench, search: Search, default: Measured, unseen: int, least: float, seed: int
    ) -> None:
        self.bench, self.search, self.default = bench, search, default
        self.least, self.seed = least, seed
        self.unseen = range(search.seeds.stop, search.seeds.stop + unseen)

    def judged(self, best: Trial | None, neighbours: bool) -> Tuning:
        if best is None:
            return self._tuning({}, None, (), self._nothing())
        if not self._is_gain(best):
            # Other seeds need not be asked.
            return self._tuning(best.settings, None, (), self._no_gain())
        settings, _ = simplified(self.search, best, self.default)
        here = self._check("this machine", settings, {}, self.unseen)
        around = self._around(settings) if neighbours and self._is_worth(here) else ()
        return self._tuning(settings, here, around, self._sentence(settings, here, around))

    def _is_gain(self, best: Trial) -> bool:
        assert best.mean is not None
        mean = self.default.mean if self.default.is_feasible else None
        return mean is None or gain_percent(mean, best.mean, self.search.is_lower_better) > 0

    def _is_worth(self, here: Verdict) -> bool:
        """Better than the default by enough; or it keeps constraints that the default breaks."""
        if here.tuned is None or not here.tuned.is_feasible:
            return False
        if here.default is not None and not here.default.is_feasible:
            return True
        return here.is_better and here.gain is not None and here.gain.mean >= self.least

    def _check(self, name: str, settings: Settings, machine: Settings, seeds: range) -> Verdict:
        """Default and candidate on a machine, with the same seeds."""
        both = [(machine, seeds), ({**machine, **settings}, seeds)]
        default, tuned = self.bench.measure(both)
        if isinstance(default, HighwaterError):
            return Verdict(name, len(seeds), None, None, None, f"does not run: {default}", True)
        if isinstance(tuned, HighwaterError):
            return Verdict(name, len(seeds), default, None, None, f"does not run: {tuned}")
        gain = None
        if None not in default.values and None not in tuned.values:
            gain = paired_bootstrap(
                default.known,
                tuned.known,
                lambda before, after: gain_percent(before, after, self.search.is_lower_better),
                self.seed,
            )
        return Verdict(
            name, len(seeds), default, tuned, gain, tuned.reason, not default.is_feasible
        )

    def _around(self, settings: Settings) -> tuple[Verdict, ...]:
        """The neighbouring machines."""
        machines: dict[str, dict[str, Value]] = {}
        base = dict(self.bench.options.get("set") or {})
        key = next((key for key in _MEMORY if key in base), _MEMORY[0])
        for name, factor in (("half", 0.5), ("twice", 2.0)):
            size = scaled(str(base.get(key, "100%")), factor)
            if size is not None:
                machines[f"{name} the memory"] = {key: size}
        cpus = self.bench.figure.cpus if self.bench.figure is not None else None
        if cpus is not None:
            if cpus > 1:
                machines[f"{cpus // 2} of its {cpus} CPUs"] = {"cpus": cpus // 2}
            machines[f"{2 * cpus} CPUs instead of {cpus}"] = {"cpus": 2 * cpus}
        return tuple(
            self._check(name, settings, machine, self.unseen) for name, machine in machines.items()
        )

    def _tuning(
        self, settings: Settings, here: Verdict | None, around: tuple[Verdict, ...], sentence: str
    ) -> Tuning:
        is_worth = here is not None and self._is_worth(here)
        figure = self.bench.figure
        return Tuning(
            what=_what(self.bench),
            objective=self.bench.objective,
            unit=figure.unit if figure is not None else "",
            is_lower_better=self.search.is_lower_better,
            constraints=tuple(condition.text for condition in self.bench.conditions),
            settings=dict(settings) if is_worth else {},
            is_worth_it=is_worth,
            sentence=sentence,
            trials=tuple(self.search.trials),
            default=self.default,
            unseen=here,
            neighbours=around,
            candidate=dict(settings),
            seeds=len(self.search.seeds),
            units_run=self.bench.units_run,
        )

    def _nothing(self) -> str:
        """The sentence without any candidate."""
        trials = self.search.trials
        worst = next((trial.reason for trial in trials if trial.reason), "")
        kept = "The default keeps them. " if self.default.is_feasible else ""
        return (
            f"Not worth it: none of {len(trials)} settings keeps all constraints (the first:"
            f" {worst})."
            f" {kept}".strip()
        )

    def _no_gain(self) -> str:
        """The sentence if the default is the best setting of the search."""
        nr, seeds = len(self.search.trials), len(self.search.seeds)
        return (
            f"Not worth it: none of {nr} settings has a better mean {self.bench.objective} than the"
            f" defaults, in {seeds} seeds; keep the defaults."
        )

    def _sentence(self, settings: Settings, here: Verdict, around: tuple[Verdict, ...]) -> str:
        said = _said(settings)
        objective = self.bench.objective
        of = f"{objective} on {here.seeds} seeds that no trial saw"
        trials = len(self.search.trials)
        if not self._is_worth(here):
            if here.problem:
                return (
                    f"Not worth it: the best of {trials} settings ({said}) fails there:"
                    f" {here.problem}."
                )
            assert here.gain is not None
            small = f", less than the {self.least:g} % asked for" if here.is_better else ""
            return (
                f"Not worth it: with the best of {trials} settings ({said}) {of} is"
                f" {gain_text(here.gain)}{small}; keep the defaults."
            )
        if here.default is not None and not here.default.is_feasible:
            return (
                f"Worth it: {said} keeps all constraints on {here.seeds} seeds that no trial saw,"
                f" and the default does not ({here.default.reason}){_elsewhere(around)}."
            )
        assert here.gain is not None
        return f"Worth it: with {said} {of} is {gain_text(here.gain)}{_elsewhere(around)}."


def _elsewhere(around: tuple[Verdict, ...]) -> str:
    """The neighbouring machines in words."""
    if not around:
        return ""
    worse = [one for one in around if one.is_worse]
    if worse:
        words = "; ".join(f"with {one.machine} it is {one.words}" for one in worse)
        return f"; not on every similar machine: {words}"
    better = sum(one.is_better for one in around)
    return f"; better on {better} of {len(around)} similar machines, worse on none"


def scaled(size: str, factor: float) -> str | None:
    """A size (`512M`, `50%`) times a factor; none if it has another form."""
    parts = re.fullmatch(r"([0-9.]+)([A-Za-z%]*)", size)
    if parts is None:
        return None
    number = f"{float(parts[1]) * factor:.6f}".rstrip("0").rstrip(".")
    return number + parts[2]


def _said(settings: Settings) -> str:
    return ", ".join(f"{key}={text_of(value)}" for key, value in settings.items())


def _what(bench: Bench) -> str:
    return bench.figure.what if bench.figure is not None else str(bench.options["what"])
