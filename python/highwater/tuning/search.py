"""The search: Optuna proposes settings, seeds judge them, a test drops those that are worse.

Each batch of trials runs its seeds in rungs. After a rung a trial stops if a constraint does not
hold in a seed, or if it is worse than the best trial so far in the seeds that both ran: Wilcoxon's
signed-rank test, exact, at a chance of `CHANCE`. So four seeds are the fewest that can stop a
trial, and most bad trials run half of the seeds.

All settings run the same seeds as the default. The study stays in memory; finished units are in the
ledger, so an interrupted search that is called again finds them there and proposes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from .._highwater import HighwaterError
from .bench import Bench, Measured
from .space import SYSCTLS, Choice, Numbers, Range, Value
from .stats import wilcoxon_greater

#: A trial that would look as bad as this by chance once in ten is dropped. A wrong drop costs one
#: of many trials; the end of the search has seeds of its own.
CHANCE = 0.1
#: The fewest seeds that can tell at that chance: 1 / 2^4 is below it.
SEEDS_TO_TELL = 4


@dataclass
class Trial:
    """A setting that was tried."""

    number: int
    #: The chosen values by key.
    settings: dict[str, Value]
    #: `complete`, `pruned` (worse than the best, by Wilcoxon's test), `infeasible` (a constraint
    #: does not hold), `failed` (refused, or cannot boot).
    state: str = "complete"
    #: Why it stopped; empty if it is complete.
    reason: str = ""
    #: The objective in each seed that ran.
    values: tuple[float | None, ...] = ()
    #: Their mean; none if a seed has no value.
    mean: float | None = None
    measured: Measured | None = field(default=None, repr=False)


def rungs(seeds: int) -> list[int]:
    """Numbers of seeds after which trials are judged: 4, then 2 more each time, up to all."""
    if seeds <= SEEDS_TO_TELL:
        return [seeds]
    return [*range(SEEDS_TO_TELL, seeds, 2), seeds]


def is_worse(trial: Measured, best: Measured, is_lower_better: bool) -> bool:
    """Whether a trial is worse than the best in the seeds that both ran, by Wilcoxon's test."""
    pairs = zip(trial.known, best.known)  # the same seeds from the first one on
    differences = [(mine - its) if is_lower_better else (its - mine) for mine, its in pairs]
    return len(differences) >= SEEDS_TO_TELL and wilcoxon_greater(differences) < CHANCE


def optuna() -> Any:
    """The library, quiet.

    Raises:
        HighwaterError: it is not installed.
    """
    try:
        library: Any = import_module("optuna")
    except ImportError as error:
        raise HighwaterError("Optuna is not installed: pip install 'highwater[tune]'") from error
    library.logging.set_verbosity(library.logging.WARNING)
    return library


@dataclass
class Search:
    """A search over a space of settings."""

    bench: Bench
    space: Mapping[str, Range]
    is_lower_better: bool
    nr_trials: int
    #: Seeds of a complete trial.
    seeds: range
    batch: int
    seed: int
    progress: Callable[[int, int], object] | None = None
    trials: list[Trial] = field(default_factory=list)

    def run(self, default: Measured) -> Trial | None:
        """Tries settings. The best feasible one, which may be worse than the default; none if no
        setting keeps the constraints."""
        study = self._study()
        best: Trial | None = None
        incumbent = default if default.is_feasible else None
        while len(self.trials) < self.nr_trials:
            asked = [study.ask() for _ in range(min(self.batch, self.nr_trials - len(self.trials)))]
            batch = [
                Trial(len(self.trials) + at, {k: r.suggest(one, k) for k, r in self.space.items()})
                for at, one in enumerate(asked)
            ]
            self._judge(batch, incumbent)
            for one, trial in zip(asked, batch):
                self._tell(study, one, trial)
                self.trials.append(trial)
                if trial.state == "complete" and (best is None or self._is_better(trial, best)):
                    best = trial
            if best is not None and best.measured is not None:
                if incumbent is None or self._mean_is_better(best.measured, incumbent):
                    incumbent = best.measured
            if self.progress is not None:
                self.progress(len(self.trials), self.nr_trials)
        return best

    def _judge(self, batch: list[Trial], incumbent: Measured | None) -> None:
        """Runs the seeds of trials, rung by rung."""
        running = batch
        for nr_seeds in rungs(len(self.seeds)):
            seeds = self.seeds[:nr_seeds]
            measured = self.bench.measure([(trial.settings, seeds) for trial in running])
            for trial, one in zip(running, measured):
                if isinstance(one, HighwaterError):
                    trial.state, trial.reason = "failed", str(one)
                    continue
                trial.measured, trial.values, trial.mean = one, one.values, one.mean
                if not one.is_feasible:
                    trial.state, trial.reason = "infeasible", one.reason
                elif nr_seeds < len(self.seeds) and incumbent is not None:
                    if is_worse(one, incumbent, self.is_lower_better):
                        trial.state = "pruned"
                        trial.reason = f"worse than the best in {nr_seeds} seeds"
            running = [trial for trial in running if trial.state == "complete"]
            if not running:
                return

    def _tell(self, study: Any, asked: Any, trial: Trial) -> None:
        """Tells Optuna about a trial. Bad values must not look unknown, so a setting that cannot
        run counts as far from feasible."""
        states = optuna().trial.TrialState
        measured = trial.measured
        excess = 1.0 if measured is None else measured.excess
        asked.set_constraint("excess", max(excess, 1e-6) if trial.state == "infeasible" else excess)
        if trial.mean is None:
            study.tell(asked, state=states.FAIL)
        elif trial.state == "pruned":
            asked.report(trial.mean, step=len(trial.values))
            study.tell(asked, state=states.PRUNED)
        else:
            study.tell(asked, trial.mean)

    def _study(self) -> Any:
        library = optuna()
        sampler = library.samplers.TPESampler(seed=self.seed, constant_liar=True)
        direction = "minimize" if self.is_lower_better else "maximize"
        study = library.create_study(direction=direction, sampler=sampler)
        # The kernel's defaults are a good place to start from.
        usual = {key: SYSCTLS[key].default for key in self.space if key in SYSCTLS}
        usual = {key: value for key, value in usual.items() if _holds(self.space[key], value)}
        if len(usual) == len(self.space):
            study.enqueue_trial(usual)
        return study

    def _is_better(self, one: Trial, other: Trial) -> bool:
        assert one.measured is not None and other.measured is not None
        return self._mean_is_better(one.measured, other.measured)

    def _mean_is_better(self, one: Measured, other: Measured) -> bool:
        mine, its = one.mean, other.mean
        if mine is None or its is None:
            return its is None and mine is not None
        return mine < its if self.is_lower_better else mine > its


def _holds(range_: Range, value: Value) -> bool:
    """Whether a range has a value."""
    if isinstance(range_, Choice):
        return value in range_.values
    if not isinstance(range_, Numbers) or not isinstance(value, (int, float)):
        return False
    return range_.low <= value <= range_.high


def simplified(
    search: Search, best: Trial, default: Measured, keep: float = 0.9
) -> tuple[dict[str, Value], Measured]:
    """The best setting without the keys that it does not need.

    Keys go one by one, the one whose removal costs least first, as long as the rest keeps `keep` of
    the gain over the default, and all constraints. The seeds are those of the search.
    """
    assert best.measured is not None
    settings, measured = dict(best.settings), best.measured
    base = default.mean if default.is_feasible else None
    sign = 1.0 if search.is_lower_better else -1.0
    while len(settings) > 1:
        without = [{k: v for k, v in settings.items() if k != key} for key in settings]
        found = search.bench.measure([(one, search.seeds) for one in without])
        rest: list[tuple[float, dict[str, Value], Measured]] = []
        for one, answer in zip(without, found):
            if isinstance(answer, Measured) and answer.is_feasible and answer.mean is not None:
                rest.append((sign * answer.mean, one, answer))
        if not rest:
            break
        cost, one, answer = min(rest, key=lambda candidate: candidate[0])
        best_cost = sign * (best.measured.mean or 0.0)
        # Without a default that counts, only what costs nothing goes.
        limit = best_cost if base is None else sign * base + keep * (best_cost - sign * base)
        if cost > max(limit, best_cost):
            break
        settings, measured = one, answer
    return settings, measured
