"""Chunks, retries and the ledger, without any worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fake import FakePlan
from highwater import HighwaterError, Stopped
from highwater._ledger import Ledger
from highwater.executors import Executor, Processes, Ray, Threads
from highwater.executors.schedule import Chunk, Schedule


@dataclass
class Workers:
    """Workers that take virtual time: `costs` seconds for each unit by its seed."""

    schedule: Schedule
    costs: list[float]
    now: list[float]
    #: The lengths of chunks, in the order in which they began.
    sizes: list[int] = field(default_factory=list)
    #: Seconds at which each worker ended.
    ends: list[float] = field(default_factory=list)

    def run(self, plan: FakePlan, nr: int) -> None:
        cost_of = {unit.id: self.costs[unit.seed] for unit in plan.units()}
        # Each worker: when it is done with its unit, and the units after that.
        busy: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(nr)]
        while busy:
            busy.sort()
            at, ids = busy.pop(0)
            self.now[0] = at
            if ids:
                self.schedule.finished(ids.pop(0))
            if not ids:
                chunk = self.schedule.next()
                if chunk is None:
                    self.ends.append(at)
                    continue
                ids = list(chunk.ids)
                self.sizes.append(len(ids))
            busy.append((at + cost_of[ids[0]], ids))


def scheduled(
    tmp_path: Path, costs: list[float], estimate: float | None, workers: int, seconds: float = 20.0
) -> Workers:
    """A run of as many units as there are costs."""
    plan = FakePlan("a", len(costs), str(tmp_path), cost=estimate or 0.0)
    ids = [unit.id for unit in plan.units()]
    now = [0.0]
    schedule = Schedule(
        [(plan, ids)], Ledger(tmp_path), None, None, workers, seconds, clock=lambda: now[0]
    )
    found = Workers(schedule, costs, now)
    found.run(plan, workers)
    assert schedule.done == schedule.total == len(costs) == sum(found.sizes)
    assert schedule.is_finished and schedule.next() is None
    return found


def test_chunks_have_their_seconds_and_become_small_towards_the_end(tmp_path: Path) -> None:
    found = scheduled(tmp_path, [0.5] * 400, 0.5, workers=2)
    assert found.sizes[0] == 40, "20 s of 200"
    assert found.sizes[-1] == 1 and max(found.sizes) == 40
    assert len(found.sizes) <= 25
    assert max(found.ends) - min(found.ends) <= 0.5


def test_estimates_are_corrected_by_the_pace(tmp_path: Path) -> None:
    # The units take ten times as long as estimated.
    found = scheduled(tmp_path, [5.0] * 200, 0.5, workers=2)
    assert max(found.sizes[2:]) == 4, "20 s of them"
    assert max(found.ends) - min(found.ends) <= 5.0


@pytest.mark.parametrize("cost", [0.001, 0.1, 30.0])
def test_without_estimates_the_first_units_go_one_by_one(tmp_path: Path, cost: float) -> None:
    found = scheduled(tmp_path, [cost] * 300, None, workers=3)
    assert found.sizes[:3] == [1, 1, 1]
    most = max(found.sizes)
    assert most <= max(20.0 / cost * 1.01, 1) and most <= 50, "20 s, and a sixth of what is left"
    assert most == 1 if cost == 30.0 else most > 40
    assert max(found.ends) - min(found.ends) <= cost * 1.01


def test_the_longest_units_run_first(tmp_path: Path) -> None:
    plans = [FakePlan("a", 3, str(tmp_path), 1.0), FakePlan("b", 3, str(tmp_path), 9.0)]
    jobs = [(plan, [unit.id for unit in plan.units()]) for plan in plans]
    schedule = Schedule(jobs, Ledger(tmp_path), None, None, workers=1)
    first = schedule.next()
    assert first is not None and first.plan == 1
    assert len(first.ids) == 1, "a unit of 9 s, half of what is left are 15"


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
    schedule.finished(ids[1])
    assert counts[-1] == (2, 6)


def test_a_lost_chunk_waits_again_and_its_first_unit_is_blamed(tmp_path: Path) -> None:
    plan = FakePlan("a", 4, str(tmp_path))
    ids = [unit.id for unit in plan.units()]
    schedule = Schedule([(plan, ids)], Ledger(tmp_path / "out"), None, None, workers=1)
    while schedule.next() is not None:
        pass
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
