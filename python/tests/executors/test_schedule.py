"""Chunks, retries and the ledger, without any worker."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fake import FakePlan
from highwater import HighwaterError, Stopped
from highwater._ledger import Ledger
from highwater.executors.base import Executor, Schedule, chunks
from highwater.executors import Processes, Ray, Threads


def test_chunks_have_every_unit_once_the_longest_first() -> None:
    units: list[tuple[str, float | None]] = [(f"u{n}", float(n % 7 + 1)) for n in range(200)]
    cut = chunks(units, 2, seconds=20.0)
    ids = [id for chunk in cut for id in chunk]
    assert sorted(ids) == sorted(id for id, _ in units)
    costs = dict(units)
    sums = [sum(costs[id] or 0.0 for id in chunk) for chunk in cut]
    assert all(14.0 <= cost <= 20.0 for cost in sums[:-1]), sums
    assert [costs[id] for id in ids] == sorted((c or 0.0 for c in costs.values()), reverse=True)


def test_few_units_are_cut_so_that_every_worker_has_some() -> None:
    # 8 seconds in all: one chunk of 20 s would leave all workers but one idle.
    assert [len(chunk) for chunk in chunks([(str(n), 1.0) for n in range(8)], 4)] == [1] * 8
    # A unit longer than a chunk is one by itself; one without an estimate counts as a second.
    cut = chunks([("long", 100.0), ("short", 0.1), ("unknown", None)], 1, seconds=20.0)
    assert cut == [["long"], ["unknown", "short"]]
    assert chunks([], 4) == []


def test_a_schedule_counts_what_is_there_and_runs_shared_units_once(tmp_path: Path) -> None:
    plan = FakePlan("a", 6, str(tmp_path))
    ids = [unit.id for unit in plan.units()]
    ledger = Ledger(tmp_path / "out")
    ledger.put(ids[0], b"there")
    counts: list[tuple[int, int]] = []
    jobs = [(plan, ids[:4]), (plan, ids[2:])]
    schedule = Schedule(jobs, ledger, lambda *at: counts.append(at), None, workers=2)
    waiting = []
    while (chunk := schedule.next()) is not None:
        waiting += chunk.ids
    assert sorted(waiting) == sorted(ids[1:])
    assert counts == [(1, 6)]
    schedule.finished()
    assert counts[-1] == (2, 6)


def test_a_lost_chunk_waits_again_and_its_first_unit_is_blamed(tmp_path: Path) -> None:
    plan = FakePlan("a", 4, str(tmp_path))
    ids = [unit.id for unit in plan.units()]
    schedule = Schedule(
        [(plan, ids)], Ledger(tmp_path / "out"), None, None, workers=1, chunk_seconds=100.0
    )
    schedule._waiting.clear()
    from highwater.executors.base import Chunk

    schedule.lost(Chunk(0, ids), {ids[0]}, "SIGKILL")
    suspect, rest = schedule.next(), schedule.next()
    assert suspect is not None and suspect.ids == [ids[1]]
    assert rest is not None and rest.ids == ids[2:]
    schedule.lost(suspect, set(), "SIGKILL")
    with pytest.raises(HighwaterError) as error:
        schedule.lost(suspect, set(), "SIGKILL")
    assert str(error.value).startswith(
        "vm.swappiness=60, 6.1 on small-vm, seed 1: its worker ended 3 times (SIGKILL)"
    )


def test_unknown_units_and_stop_are_errors_of_one_line(tmp_path: Path) -> None:
    plan = FakePlan("a", 2, str(tmp_path))
    with pytest.raises(HighwaterError, match="ffff: the plan has no such unit; it has 2"):
        Schedule([(plan, ["ffff"])], Ledger(tmp_path), None, None, workers=1)
    stop = threading.Event()
    stop.set()
    schedule = Schedule([(plan, [plan.units()[0].id])], Ledger(tmp_path), None, stop, workers=1)
    with pytest.raises(Stopped, match="stopped: 0 of 1 units are finished"):
        schedule.check()
    with pytest.raises(HighwaterError, match="at least 1"):
        Processes(0)


def test_a_ledger_keeps_bytes_and_shows_no_half_written_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.put("a" * 64, b"one")
    (tmp_path / "units" / f".{'b' * 64}.host.1.0.tmp").write_bytes(b"half")
    (tmp_path / "units" / f".{'c' * 64}.parquet").write_bytes(b"hidden")
    assert ledger.ids() == {"a" * 64}
    assert ledger.missing(["b" * 64, "a" * 64, "b" * 64]) == ["b" * 64]
    assert ledger.get("a" * 64) == b"one"
    with pytest.raises(FileNotFoundError):
        ledger.get("b" * 64)


def test_all_executors_have_the_interface() -> None:
    for executor in (Threads(), Processes(1), Ray()):
        assert isinstance(executor, Executor)
