"""Sweeps in this process: finished units are kept, and only missing ones run."""

from __future__ import annotations

import json
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

    out = tmp_path / "ledger"
    # The same again runs nothing; what the directory holds is what the command writes.
    told: list[tuple[int, int]] = []
    again = hw.sweep(GRID, job=JOB, machine=SMALL, seeds=2, progress=lambda *now: told.append(now), out=out)
    assert again.json() == results.json() and told in ([], [(0, 0)])
    assert (out / "grid.csv").read_text() == results.table("csv")
    assert json.loads((out / "sweep.json").read_text())["keys"] == ["vm.swappiness"]
    with pytest.raises(hw.HighwaterError, match="there is another sweep in it .*force=True"):
        hw.sweep(GRID, job=JOB, machine=SMALL, seeds=3, progress=False, out=out)
    files = {path: path.read_bytes() for path in (out / "units").iterdir()}
    grown = hw.sweep(GRID, job=JOB, machine=SMALL, seeds=3, progress=False, out=out, force=True)
    assert len(grown.documents[0]["runs"][0]["seeds"]) == 3
    assert len(list((out / "units").iterdir())) == len(files) + 4, "a seed, two policies, two points"
    assert all(path.read_bytes() == data for path, data in files.items())


def test_damaged_units_run_again_and_some_are_verified(tmp_path: Path) -> None:
    def sweep(**more: Any) -> hw.Results:
        return hw.sweep(GRID, job=JOB, machine=SMALL, seeds=2, progress=False, out=tmp_path, **more)

    results = sweep()
    first = min((tmp_path / "units").iterdir())
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="the unit runs again"):
        assert sweep().json() == results.json()
    assert first.read_bytes() == whole
    verified: list[tuple[int, int]] = []
    options = {"machine": SMALL, "seeds": 2, "out": tmp_path, "verify": 0.01}
    again = hw.sweep(GRID, job=JOB, progress=lambda *now: verified.append(now), **options)  # type: ignore[arg-type]
    assert again.json() == results.json() and verified[0] == (1, 1), "one of eight ran again"


def test_without_a_directory_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    results = hw.sweep({"vm.swappiness": [0, 60]}, job=JOB, machine=SMALL, progress=False)
    assert results.points == [{"vm.swappiness": "0"}, {"vm.swappiness": "60"}]
    assert not list(tmp_path.iterdir())


def test_machines_of_a_grid_may_be_mappings() -> None:
    large = {**SMALL, "name": "large", "node": [{"memory": "128M", "cpus": "0-1"}]}
    results = hw.sweep({"machine": [SMALL, large]}, job=JOB, progress=False)
    columns = results.observations().columns
    assert columns.count("machine") == 1
    machines = [document["runs"][0]["machine"] for document in results.documents]
    assert machines == ["small", "large"]


def test_a_wrong_grid_is_refused_before_anything_runs() -> None:
    with pytest.raises(hw.HighwaterError, match="^--vary vm.swapiness=0: "):
        hw.sweep({"vm.swapiness": [0]}, job=JOB, machine=SMALL)
    with pytest.raises(hw.HighwaterError, match="expected a list of values"):
        hw.sweep({"vm.swappiness": 10}, job=JOB, machine=SMALL)  # type: ignore[dict-item]
