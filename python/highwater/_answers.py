"""Answers of searches, explanations and comparisons with a real Linux."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The result of a command. It can be pickled; `print` shows what the command prints."""

    document: dict[str, Any]
    """Everything as the command's JSON has it."""
    verdict: str
    """The result as a sentence."""
    remarks: list[str]
    """Remarks and warnings, a line each."""
    _text: str = field(repr=False)
    _html: str = field(repr=False)

    def table(self) -> str:
        """The text that the command prints."""
        return self._text

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the tables as an HTML page that needs no other file."""
        title = html.escape(self.verdict)
        head = f'<meta charset="utf-8"><title>{title}</title><body style="font-family: sans-serif">'
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"<!doctype html>{head}<h1>{title}</h1>{self._html}</body>\n")

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        """For notebooks: the tables."""
        return self._html


@dataclass(frozen=True)
class FitAnswer(Answer):
    """The answer of `fit`.

    `document` has the key, the objectives, the values on both sides of the answer (`found`) and every
    value that was tried (`points`): its figures by objective and seed, tasks that were killed or gave
    up, and the seeds that keep it.
    """

    @property
    def value(self) -> str | None:
        """The smallest value that keeps the objectives in every seed, as `set` takes it (`"331M"`);
        `None`: none of the range does."""
        keeps = self.document["found"]["keeps"]
        return None if keeps is None else str(keeps["text"])

    @property
    def number(self) -> int | None:
        """The same as a number; sizes are in bytes."""
        keeps = self.document["found"]["keeps"]
        return None if keeps is None else int(keeps["value"])


@dataclass(frozen=True)
class Explanation(Answer):
    """Where the time of slow operations went; `highwater show schema explanation` describes the
    document, whose times are in nanoseconds."""

    folded: str = field(repr=False, default="")
    """Folded stacks, for flame graphs."""


@dataclass(frozen=True)
class Check(Answer):
    """The model beside captured files. `remarks` are files that cannot be judged, and why."""

    agreement: float | None = None
    """Share of the figures that agree, in percent; `None`: nothing was compared."""


@dataclass(frozen=True)
class Capture(Answer):
    """A captured Linux. `document` is the reference: what its kernel computed."""

    files: dict[str, str] = field(repr=False, default_factory=dict)
    """Texts by file name: `machine.toml`, `job.toml`, `static.json`. A machine that cannot be
    modelled has no machine file; without processes there is no job."""

    def write(self, dir: str | os.PathLike[str]) -> None:
        """Writes the files to a directory, which is made if it is missing. Files are replaced."""
        os.makedirs(dir, exist_ok=True)
        for name, text in self.files.items():
            with open(os.path.join(dir, name), "w", encoding="utf-8") as file:
                file.write(text)
