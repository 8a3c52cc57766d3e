"""The result of a search, in words, as a table and as a file of `sysctl.d`."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field

from .._options import text_of
from .bench import Measured
from .figures import value_text
from .search import Trial
from .space import Value, sysctl_lines
from .stats import Interval

#: Trials of a table.
_ROWS = 10


@dataclass(frozen=True)
class Verdict:
    """The tuned settings beside the default, with the same seeds on one machine."""

    #: The machine in words: `this machine`, `half the memory`.
    machine: str
    seeds: int
    default: Measured | None = field(repr=False)
    tuned: Measured | None = field(repr=False)
    #: By how many percent the tuned settings are better (negative: worse); none if one of the two
    #: has no value.
    gain: Interval | None
    #: Why it could not be judged, or which constraint does not hold; empty if nothing is wrong.
    problem: str = ""
    #: The problem is one of the default, too.
    is_problem_of_default: bool = False

    @property
    def is_better(self) -> bool:
        """The interval lies above 0, and all constraints hold."""
        return not self.problem and self.gain is not None and self.gain.low > 0.0

    @property
    def is_worse(self) -> bool:
        """The interval lies below 0, or the tuned settings break what the default keeps."""
        if self.problem:
            return not self.is_problem_of_default
        return self.gain is not None and self.gain.high < 0.0

    @property
    def words(self) -> str:
        """`23.1 % better (95 % interval 18.2 % to 27.5 %)`."""
        if self.gain is None:
            return self.problem or "no value"
        text = gain_text(self.gain)
        return f"{text}; but {self.problem}" if self.problem else text


def gain_text(gain: Interval) -> str:
    """A gain in percent with its limits."""
    if gain.is_chance:
        limits = f"{_percent(gain.low)} to {_percent(gain.high)}"
        return f"{_percent(gain.mean)}, which may be chance (95 % interval {limits})"
    word = "better" if gain.mean > 0 else "worse"
    ends = sorted([abs(gain.low), abs(gain.high)])
    limits = " to ".join(map(_percent, ends))
    return f"{_percent(abs(gain.mean))} {word} (95 % interval {limits})"


def _percent(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1
    # No minus before 0.
    return f"{round(value, digits) + 0.0:.{digits}f} %"


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`.

    `print(tuning)` prints the sentence and the table.
    """

    #: The job, the machine and the policy in words: `postgres-like, quick, on small-vm, 6.1`.
    what: str
    #: The objective's name, and its unit (`microseconds`; empty for counts).
    objective: str
    unit: str
    is_lower_better: bool
    constraints: tuple[str, ...]
    #: The settings that were found, without those that are not needed; empty if none is worth it.
    settings: Mapping[str, Value]
    #: Whether the settings are worth it: better on unseen seeds by at least `least` percent.
    is_worth_it: bool
    #: The answer in one sentence.
    sentence: str
    #: All trials, in order.
    trials: tuple[Trial, ...] = field(repr=False)
    #: The default in the seeds of the search.
    default: Measured = field(repr=False)
    #: The candidate against the default, on seeds that no trial saw; none without a candidate.
    unseen: Verdict | None
    #: The same on similar machines.
    neighbours: tuple[Verdict, ...]
    #: The candidate that was judged; equal to `settings` if it is worth it.
    candidate: Mapping[str, Value]
    seeds: int
    #: Units that ran for the search, without those that were there already.
    units_run: int

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{self.table()}"

    @property
    def gain(self) -> Interval | None:
        """By how many percent the candidate is better on unseen seeds; negative: worse."""
        return self.unseen.gain if self.unseen is not None else None

    def sysctl_d(self) -> str:
        """The text of a file for `/etc/sysctl.d`. The comments say where it comes from. If no
        setting is worth it, there is no line but comments."""
        head = [f"# {line}" for line in _wrapped(f"{self.what}: {self.sentence}", 96)]
        return "\n".join([*head, *sysctl_lines(self.settings)]) + "\n"

    def table(self) -> str:
        """The best trials, the counts of the others, and the check of the best one, as text."""
        return "\n\n".join(_text(title, head, rows) for title, head, rows in self._tables())

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(self.sentence)}</p>"]
        for title, head, rows in self._tables():
            cells = [[html.escape(cell) for cell in row] for row in [head, *rows]]
            parts.append(f"<p><b>{html.escape(title)}</b></p><table><tr>")
            parts.append("".join(f"<th>{cell}</th>" for cell in cells[0]) + "</tr>")
            parts += ["<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in cells[1:]]
            parts.append("</table>")
        return "".join(parts)

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        keys = list(self.trials[0].settings) if self.trials else []
        mean = self.default.mean
        shown = "-" if mean is None else value_text(mean, self.unit)
        rows = [["default", *["-"] * len(keys), shown, self.default.reason or "the base"]]
        complete = [trial for trial in self.trials if trial.state == "complete"]
        complete.sort(key=lambda trial: (trial.mean or 0.0) * (1 if self.is_lower_better else -1))
        for trial in complete[:_ROWS]:
            values = [text_of(trial.settings[key]) for key in keys]
            assert trial.mean is not None
            against = "" if mean is None else _against(trial.mean, mean, self.is_lower_better)
            rows.append([str(trial.number), *values, value_text(trial.mean, self.unit), against])
        title = (
            f"{self.objective} of {self.what}: {len(self.trials)} trials of {self.seeds} seeds"
            f" ({self._counts(len(complete))})"
        )
        tables = [(title, ["trial", *keys, "mean", "against the default"], rows)]
        if self.unseen is not None:
            found = " ".join(f"{k}={text_of(v)}" for k, v in self.candidate.items())
            checks = [
                [
                    one.machine,
                    str(one.seeds),
                    _mean(one.default, self.unit),
                    _mean(one.tuned, self.unit),
                    one.words,
                ]
                for one in (self.unseen, *self.neighbours)
            ]
            head = ["machine", "seeds", "default", "tuned", "tuned is"]
            tables.append((f"{found}, on seeds that no trial saw", head, checks))
        return tables

    def _counts(self, complete: int) -> str:
        """How the trials ended, in words."""
        of = {
            "pruned": "stopped early",
            "infeasible": "broke a constraint",
            "failed": "could not run",
        }
        counts = [f"{complete} complete"]
        for state, words in of.items():
            nr = sum(trial.state == state for trial in self.trials)
            if nr:
                counts.append(f"{nr} {words}")
        return ", ".join(counts)


def gain_percent(before: float, after: float, is_lower_better: bool) -> float:
    """By how many percent the second value is better. From 0 nothing can be better in percent."""
    if before == 0.0:
        return 0.0 if after == 0.0 else float("-inf") if is_lower_better else float("inf")
    change = (after / before - 1.0) * 100.0
    return -change if is_lower_better else change


def _against(value: float, default: float, is_lower_better: bool) -> str:
    gain = gain_percent(default, value, is_lower_better)
    return "the same" if gain == 0 else f"{_percent(abs(gain))} {'better' if gain > 0 else 'worse'}"


def _mean(measured: Measured | None, unit: str) -> str:
    mean = None if measured is None else measured.mean
    return "-" if mean is None else value_text(mean, unit)


def _text(title: str, head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    lines = [title]
    for row in [head, *rows]:
        # Words to the left, numbers to the right.
        cells = [
            cell.ljust(width) if at in (0, len(head) - 1) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
