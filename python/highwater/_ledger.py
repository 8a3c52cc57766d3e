"""Ledgers: directories of finished units, a file each.

A unit's file is a function of the unit's id alone: the same id has the same bytes, on any computer.
So resuming, caching and merging are differences of sets, and any number of processes may write to
one directory at the same time. A file appears complete or not at all.

The command (`highwater sweep`) reads and writes the same directories.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterable
from pathlib import Path

#: The directory of the units in a directory of results.
UNITS_DIR = "units"
#: The end of a file's name.
SUFFIX = ".parquet"

#: Numbers of temporary files of this process.
_numbers = itertools.count()


class Ledger:
    """The finished units of a directory.

    `dir` is made if it is missing. Executors write to `dir/units`.
    """

    def __init__(self, dir: str | os.PathLike[str]) -> None:
        self.dir = Path(dir)
        self._units = self.dir / UNITS_DIR
        self._units.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"Ledger({str(self.dir)!r})"

    def __fspath__(self) -> str:
        """The directory, so that a ledger can stand for it."""
        return os.fspath(self.dir)

    def path(self, id: str) -> Path:
        """The file of a unit, which need not exist."""
        return self._units / f"{id}{SUFFIX}"

    def has(self, id: str) -> bool:
        """Whether a unit is finished."""
        return self.path(id).is_file()

    def ids(self) -> set[str]:
        """The ids of all finished units, of any plan."""
        with os.scandir(self._units) as entries:
            names = (entry.name for entry in entries)
            # Files that are being written begin with a dot.
            return {
                name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX) and name[0] != "."
            }

    def missing(self, ids: Iterable[str]) -> list[str]:
        """The ids of units that are not finished, each once, in the order given."""
        there = self.ids()
        return [id for id in dict.fromkeys(ids) if id not in there]

    def get(self, id: str) -> bytes:
        """The bytes of a unit's file.

        Raises:
            FileNotFoundError: the unit is not finished.
        """
        return self.path(id).read_bytes()

    def put(self, id: str, data: bytes) -> None:
        """Keeps the bytes of a unit's file. A process that is killed meanwhile leaves at most a
        temporary file, never half of a unit."""
        name = f".{id}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}.tmp"
        temporary = self._units / name
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path(id))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def sync(self) -> None:
        """Called by executors after each finished unit. A ledger in an object store uploads new
        units here."""

    def fetch(self, ids: Iterable[str]) -> None:
        """Makes the files of these units readable below `dir`. Called before results are collected;
        a ledger in an object store downloads them here."""


def open_ledger(out: str | os.PathLike[str]) -> Ledger:
    """The ledger of a directory, or of a URL such as `s3://bucket/sweep`.

    Raises:
        HighwaterError: the URL cannot be opened, or the library for it is not installed.
    """
    if "://" not in os.fspath(out):
        return Ledger(out)
    from ._store import StoreLedger

    return StoreLedger(os.fspath(out))


def as_ledger(place: Ledger | str | os.PathLike[str]) -> Ledger:
    """A ledger, of a ledger or its directory."""
    return place if isinstance(place, Ledger) else open_ledger(place)
