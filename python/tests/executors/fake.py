"""A plan that simulates nothing, so that tests of executors are fast and can fail on demand.

Processes and Ray workers import this module, so it stands alone.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater import Event, HighwaterError, Stopped
from highwater._ledger import Ledger


@dataclass(frozen=True)
class FakeUnit:
    id: str
    seed: int
    seconds: float | None
    label: str = "6.1"
    machine: str = "small-vm"
    values: Mapping[str, str] = field(default_factory=lambda: {"vm.swappiness": "60"})


@dataclass(frozen=True)
class FakePlan:
    """``count`` units that take ``cost`` seconds each. ``log`` is a directory that has a file for
    each time a unit began."""

    name: str
    count: int
    log: str
    cost: float = 0.0
    #: Seeds whose worker is killed when they run.
    deadly: frozenset[int] = frozenset()
    #: How often such a unit is deadly.
    deaths: int = 1
    #: A seed whose unit fails.
    failing: int | None = None

    def units(self) -> list[FakeUnit]:
        ids = [
            hashlib.sha256(f"{self.name} {seed}".encode()).hexdigest() for seed in range(self.count)
        ]
        return [FakeUnit(id, seed, self.cost or None) for seed, id in enumerate(ids)]

    def bytes_of(self, id: str) -> bytes:
        return f"shard of {id}".encode() * 100

    def starts(self, seed: int) -> int:
        """How often a unit began."""
        return len(list(Path(self.log).glob(f"{self.name}-{seed}-*")))

    def run_units(
        self,
        ids: Sequence[str],
        out: str | os.PathLike[str],
        jobs: int | None = 1,
        progress: Callable[[int, int], object] | None = None,
        stop: Event | None = None,
    ) -> None:
        ledger = Ledger(out)
        units = {unit.id: unit for unit in self.units()}
        for done, id in enumerate(ids, 1):
            if stop is not None and stop.is_set():
                raise Stopped("stopped")
            if not ledger.has(id):
                self._run(units[id])
                ledger.put(id, self.bytes_of(id))
            if progress is not None:
                progress(done, len(ids))

    def _run(self, unit: FakeUnit) -> None:
        before = self.starts(unit.seed)
        Path(self.log, f"{self.name}-{unit.seed}-{time.monotonic_ns()}-{os.getpid()}").touch()
        if unit.seed in self.deadly and before < self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if unit.seed == self.failing:
            raise HighwaterError(f"seed {unit.seed}: it cannot boot")
        time.sleep(self.cost)
