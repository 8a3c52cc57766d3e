"""Sweeps in this process: finished units are kept, and only missing ones run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import highwater as hw
import pytest
from conftest import JOB, SMALL

GRID: dict[str, Any] = {"vm.swappiness": [0, 60], "policy": ["5.17", "6.1"]}


def test_a_sweep_is_the_comparison_at_each_point(tmp_path: Path) -> None:
    results = hw.sweep(GRID, job=JOB, machine=SMALL, seeds=2, progress=False, out=tmp_path / "ledger")
    policies, vary = GRID["policy"], {"vm.swappiness": GRID["vm.swappiness"]}
    at_once = hw.compare(JOB, machine=SMALL, seeds=2, policies=policies, vary=vary, progress=False)
    assert [results.json(at) for at in (0, 1)] == [at_once.json(at) for at in (0, 1)]
    assert results.table("csv") == at_once.table("csv")

    class Refuses:
        """An executor that must not be asked for more than is missing."""

        asked: list[str] = []

        def run(
            self,
            plan: hw.Plan,
            ids: Sequence[str],
            ledger: Path,
            progress: Callable[[int, int], object] | None,
            stop: hw.Event | None,
        ) -> None:
            self.asked.extend(ids)
            plan.run_units(ids, ledger)

    more = Refuses()
    out = tmp_path / "ledger"
    grown = hw.sweep(GRID, job=JOB, machine=SMALL, seeds=3, on=more, progress=False, out=out)
    assert len(more.asked) == 4, "a seed more, of two policies at two points"
    assert len(grown.documents[0]["runs"][0]["seeds"]) == 3


def test_without_a_directory_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    results = hw.sweep({"vm.swappiness": [0, 60]}, job=JOB, machine=SMALL, progress=False)
    assert results.points == [{"vm.swappiness": "0"}, {"vm.swappiness": "60"}]
    assert not list(tmp_path.iterdir())


def test_machines_of_a_grid_may_be_mappings() -> None:
    large = {**SMALL, "name": "large", "node": [{"memory": "128M", "cpus": "0-1"}]}
    results = hw.sweep({"machine": [SMALL, large]}, job=JOB, progress=False)
    assert [point["machine"] for point in results.points] == ["small.toml", "large.toml"]
    columns = results.observations().columns
    assert columns.count("machine") == 1
    machines = [document["runs"][0]["machine"] for document in results.documents]
    assert machines == ["small", "large"]


def test_a_wrong_grid_is_refused_before_anything_runs() -> None:
    with pytest.raises(hw.HighwaterError, match="^--vary vm.swapiness=0: "):
        hw.sweep({"vm.swapiness": [0]}, job=JOB, machine=SMALL)
    with pytest.raises(hw.HighwaterError, match="expected a list of values"):
        hw.sweep({"vm.swappiness": 10}, job=JOB, machine=SMALL)  # type: ignore[dict-item]
