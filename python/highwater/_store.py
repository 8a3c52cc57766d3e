"""Ledgers in an object store: S3, Google Cloud Storage, Azure, or whatever fsspec knows.

Units run into a directory of this computer, which is the ledger's cache. Each finished unit is
uploaded, and before results are collected, units that others finished are downloaded. A unit's
bytes follow from its id, so there is nothing to lock: two writers of one object write the same.

`obstore <https://developmentseed.org/obstore>`_ is preferred; with `fsspec` alone its URLs work
too. Both are optional, and read credentials as they usually do (environment, files of the
provider's tools).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ._highwater import HighwaterError
from ._ledger import SUFFIX, UNITS_DIR, Ledger


class _Store(Protocol):
    """The three operations that a ledger needs. Names are relative to the URL."""

    def names(self) -> Iterable[str]: ...
    def get(self, name: str) -> bytes: ...
    def put(self, name: str, data: bytes) -> None: ...


class StoreLedger(Ledger):
    """The ledger of a URL.

    Args:
        url: `s3://bucket/prefix`, `gs://..`, `az://..`, `file:///..`, or a URL of fsspec.
        cache: the directory of this computer; none: one for the URL below `~/.cache/highwater`.
    """

    def __init__(self, url: str, cache: str | os.PathLike[str] | None = None) -> None:
        name = hashlib.sha256(url.encode()).hexdigest()[:16]
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        super().__init__(cache if cache is not None else Path(home, "highwater", name))
        self.url = url
        self._store = _open(url)
        #: Units that the store has, as far as known. Units are never removed, so it only grows.
        self._there: set[str] = set()
        self._list()

    def __repr__(self) -> str:
        return f"StoreLedger({self.url!r})"

    def has(self, id: str) -> bool:
        return super().has(id) or id in self._there

    def ids(self) -> set[str]:
        self._list()
        return super().ids() | self._there

    def get(self, id: str) -> bytes:
        if not super().has(id) and id in self._there:
            self.fetch([id])
        return super().get(id)

    def sync(self) -> None:
        """Uploads units that the store does not have."""
        for id in super().ids() - self._there:
            self._store.put(_name(id), super().get(id))
            self._there.add(id)

    def fetch(self, ids: Iterable[str]) -> None:
        """Downloads units that this computer does not have."""
        here = super().ids()
        for id in dict.fromkeys(ids):
            if id not in here and id in self._there:
                self.put(id, self._store.get(_name(id)))

    def _list(self) -> None:
        names = (name for name in self._store.names() if name.endswith(SUFFIX))
        self._there.update(name.rsplit("/", 1)[-1][: -len(SUFFIX)] for name in names)


def _name(id: str) -> str:
    return f"{UNITS_DIR}/{id}{SUFFIX}"


def _open(url: str) -> _Store:
    problems = []
    for kind in (_Obstore, _Fsspec):
        try:
            return kind(url)
        except ImportError:
            problems.append(f"{kind.library} is not installed")
        except Exception as error:  # each library has many of its own
            problems.append(f"{kind.library}: {str(error).strip().splitlines()[0]}")
    raise HighwaterError(f"{url}: {'; '.join(problems)}; pip install obstore, or name a directory")


class _Obstore:
    library = "obstore"

    def __init__(self, url: str) -> None:
        self._library = import_module("obstore")
        options = {"mkdir": True} if url.startswith("file:") else {}
        self._store: Any = import_module("obstore.store").from_url(url, **options)

    def names(self) -> Iterable[str]:
        for part in self._library.list(self._store, prefix=UNITS_DIR):
            yield from (one["path"] for one in part)

    def get(self, name: str) -> bytes:
        return bytes(self._library.get(self._store, name).bytes())

    def put(self, name: str, data: bytes) -> None:
        self._library.put(self._store, name, data)


class _Fsspec:
    library = "fsspec"

    def __init__(self, url: str) -> None:
        self._files: Any
        self._files, root = import_module("fsspec").core.url_to_fs(url)
        self._root = str(root).rstrip("/")

    def names(self) -> Iterable[str]:
        below = f"{self._root}/{UNITS_DIR}"
        return list(self._files.find(below)) if self._files.exists(below) else []

    def get(self, name: str) -> bytes:
        return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        self._files.pipe_file(path, data)
