"""Progress of a call: a bar on a terminal or in a notebook, or calls of a function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union

Progress = Union[Callable[[int, int], object], bool, None]
"""`None`: a bar if somebody can see it. `True`: always a bar. `False`: nothing. Or a function, called
with the number of finished units and of all."""

_WIDTH = 30


class _Bar:
    """A line on standard error that is drawn again and again."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.begun = time.monotonic()
        self.is_drawn = False

    def __call__(self, done: int, total: int) -> None:
        elapsed = time.monotonic() - self.begun
        filled = _WIDTH * done // max(total, 1)
        left = f", about {_duration(elapsed * (total - done) / done)} left" if 0 < done < total else ""
        line = f"{'█' * filled}{'░' * (_WIDTH - filled)} {done} of {total} {self.what}{left}"
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        self.is_drawn = True

    def close(self) -> None:
        if self.is_drawn:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


class _Tqdm:
    """The bar of tqdm, which notebooks draw."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def __call__(self, done: int, total: int) -> None:
        self.bar.total = total
        self.bar.n = done
        self.bar.refresh()

    def close(self) -> None:
        self.bar.close()


@contextmanager
def teller(progress: Progress, what: str = "runs") -> Iterator[Callable[[int, int], object] | None]:
    """The function to call with the progress; `None` if nobody looks."""
    if callable(progress):
        yield progress
        return
    bar = None if progress is False else _bar(what, is_wanted=progress is True)
    try:
        yield bar
    finally:
        if bar is not None:
            bar.close()


def _bar(what: str, is_wanted: bool) -> _Bar | _Tqdm | None:
    if _is_notebook():
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            return None
        return _Tqdm(tqdm(unit=f" {what}", leave=False))
    return _Bar(what) if is_wanted or sys.stderr.isatty() else None


def _is_notebook() -> bool:
    """Whether a kernel of Jupyter runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
