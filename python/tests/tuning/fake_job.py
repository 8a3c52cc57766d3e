"""A job whose figures are formulas of its settings and seeds, so a search has a known answer."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater import HighwaterError
from highwater._ledger import Ledger
from highwater._metric import Metric

#: Figures of a run by name, from settings and a seed's own random numbers.
Formula = Callable[[Mapping[str, Any], random.Random], dict[str, float | None]]

KEYS = ("vm.swappiness", "vm.page_cluster", "vm.dirty_ratio", "mem", "cpus")


@dataclass(frozen=True)
class Unit:
    id: str
    seed: int
    settings: tuple[tuple[str, Any], ...]
    seconds: float | None = 0.1
    label: str = "6.1"
    machine: str = "small-vm"

    @property
    def values(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.settings}


@dataclass(frozen=True)
class Plan:
    formula: Formula
    settings: tuple[tuple[str, Any], ...]
    seeds: tuple[int, ...]

    def units(self) -> list[Unit]:
        ids = [f"{self.settings} {seed}" for seed in self.seeds]
        hashes = [hashlib.sha256(id.encode()).hexdigest() for id in ids]
        return [Unit(id, seed, self.settings) for id, seed in zip(hashes, self.seeds)]

    def run_units(
        self,
        ids: Sequence[str],
        out: str | os.PathLike[str],
        jobs: int | None = 1,
        progress: Callable[[int, int], object] | None = None,
        stop: object = None,
    ) -> None:
        ledger = Ledger(out)
        units = {unit.id: unit for unit in self.units()}
        for done, id in enumerate(ids, 1):
            if not ledger.has(id):
                if dict(self.settings).get("vm.page_cluster") == 9:
                    raise HighwaterError("the machine cannot boot")
                # Paired: a seed has the same random numbers under every setting.
                figures = self.formula(dict(self.settings), random.Random(units[id].seed))
                ledger.put(id, json.dumps(figures).encode())
            if progress is not None:
                progress(done, len(ids))

    def collect(self, out: str | os.PathLike[str]) -> Results:
        ledger = Ledger(out)
        return Results([(unit.seed, json.loads(ledger.get(unit.id))) for unit in self.units()])


@dataclass(frozen=True)
class Results:
    figures: list[tuple[int, dict[str, float | None]]]

    def metric(self, name: str) -> list[Metric]:
        if name not in self.figures[0][1]:
            raise HighwaterError(f'"{name}" is no figure')
        of_time = name.endswith("p99")
        return [
            Metric(
                point={},
                machine="small-vm",
                policy="6.1",
                label="6.1",
                seeds=[seed for seed, _ in self.figures],
                values=[of[name] for _, of in self.figures],
                unit="microseconds" if of_time else "",
                better="lower" if of_time else "neither",
            )
        ]

    @property
    def documents(self) -> list[dict[str, Any]]:
        def early(of: Mapping[str, float | None]) -> list[dict[str, Any]]:
            killed = int(of.get("killed") or 0)
            return [{"task": "db", "killed": killed, "failed": 0, "started": 4}] if killed else []

        seeds = [{"seed": seed, "ended_early": early(of)} for seed, of in self.figures]
        return [
            {
                "experiment": "fake",
                "command_line": ["highwater", "compare", "fake", "--quick"],
                "machines": [{"definition": '[[node]]\nmemory = "1G"\ncpus = "0-1,4"\n'}],
                "runs": [{"machine": "small-vm", "policy": "6.1", "per_seed": seeds}],
            }
        ]


def make_of(formula: Formula) -> Callable[..., Plan]:
    """A function like ``highwater.plan``."""

    def make(*, set: Mapping[str, Any], seeds: range, **_: Any) -> Plan:
        unknown = [key for key in set if key not in KEYS]
        if unknown:
            raise HighwaterError(f"--set {unknown[0]}: there is no such key")
        if int(set.get("vm.swappiness", "60")) > 200:
            raise HighwaterError("--set vm.swappiness=201: 201 is not between 0 and 200")
        return Plan(formula, tuple(sorted(set.items())), tuple(seeds))

    return make
