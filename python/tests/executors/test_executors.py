"""The same behaviour from every executor, with a plan that simulates nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake import FakePlan
from highwater import HighwaterError, Stopped
from highwater._ledger import Ledger
from highwater.executors import Executor, Processes, Ray, Threads

HERE = Path(__file__).parent


@pytest.fixture(
    params=["threads", "processes", pytest.param("ray", marks=pytest.mark.ray)], scope="module"
)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """Each executor with two workers."""
    if request.param == "threads":
        yield Threads(2)
    elif request.param == "processes":
        with Processes(2) as processes:
            yield processes
    else:
        pytest.importorskip("ray")
        # Workers of Ray do not have this directory on their path.
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        os.environ["PYTHONPATH"] = paths
        with Ray("local", cpus=2) as ray:
            yield ray


def logs(path: Path) -> str:
    path.mkdir()
    return str(path)


def test_a_plan_runs_once(executor: Executor, tmp_path: Path) -> None:
    plan = FakePlan("a", 30, logs(tmp_path / "log"))
    ids = [unit.id for unit in plan.units()]
    ledger = Ledger(tmp_path / "out")
    ledger.put(ids[3], plan.bytes_of(ids[3]))
    seen: list[tuple[int, int]] = []
    executor.run(plan, ids, ledger, lambda *at: seen.append(at))
    assert ledger.ids() == set(ids)
    assert all(ledger.get(id) == plan.bytes_of(id) for id in ids)
    assert [plan.starts(seed) for seed in range(30)] == [1] * 3 + [0] + [1] * 26
    assert seen[-1] == (30, 30) and [done for done, _ in seen] == sorted(done for done, _ in seen)
    executor.run(plan, ids, ledger)
    assert sum(plan.starts(seed) for seed in range(30)) == 29, "nothing ran again"


def test_units_of_several_plans_run_at_once(executor: Executor, tmp_path: Path) -> None:
    log = logs(tmp_path / "log")
    plans = [FakePlan(name, 4, log, cost=0.05) for name in "abc"]
    # The first plan twice, as two settings of a search may be the same.
    jobs = [(plan, [unit.id for unit in plan.units()]) for plan in [*plans, plans[0]]]
    ledger = Ledger(tmp_path / "out")
    seen: list[tuple[int, int]] = []
    executor.run_all(jobs, ledger, lambda *at: seen.append(at))
    assert ledger.ids() == {id for _, ids in jobs for id in ids}
    assert all(plan.starts(seed) == 1 for plan in plans for seed in range(4))
    assert seen[-1] == (12, 12)


def test_a_unit_that_fails_ends_the_call_with_its_error(executor: Executor, tmp_path: Path) -> None:
    plan = FakePlan("a", 8, logs(tmp_path / "log"), failing=5)
    ids = [unit.id for unit in plan.units()]
    ledger = Ledger(tmp_path / "out")
    with pytest.raises(HighwaterError, match="^seed 5: it cannot boot$"):
        executor.run(plan, ids, ledger)
    assert plan.starts(5) == 1, "an error is no death: the unit does not run again"
    assert ids[5] not in ledger.ids()
    # The executor works on.
    executor.run(plan, ids[:5], ledger)
    assert set(ids[:5]) <= ledger.ids()


def test_stop_keeps_what_is_finished(executor: Executor, tmp_path: Path) -> None:
    plan = FakePlan("a", 40, logs(tmp_path / "log"), cost=0.05)
    ids = [unit.id for unit in plan.units()]
    ledger = Ledger(tmp_path / "out")
    stop = threading.Event()
    with pytest.raises(Stopped, match="^stopped"):
        executor.run(plan, ids, ledger, lambda done, _: stop.set() if done == 4 else None, stop)
    kept = ledger.ids()
    assert 4 <= len(kept) < 40
    executor.run(plan, ids, ledger)
    assert ledger.ids() == set(ids)


@pytest.fixture
def dying(executor: Executor) -> Executor:
    """Executors whose workers are other processes."""
    if isinstance(executor, Threads):
        pytest.skip("a unit that kills its process kills this one")
    return executor


def test_a_killed_worker_costs_its_unit_only(dying: Executor, tmp_path: Path) -> None:
    plan = FakePlan("a", 24, logs(tmp_path / "log"), cost=0.02, deadly=frozenset({2, 11}))
    ids = [unit.id for unit in plan.units()]
    ledger = Ledger(tmp_path / "out")
    seen: list[tuple[int, int]] = []
    dying.run(plan, ids, ledger, lambda *at: seen.append(at))
    assert ledger.ids() == set(ids)
    assert all(ledger.get(id) == plan.bytes_of(id) for id in ids)
    assert [done for done, _ in seen] == list(range(1, 25)), "each unit is reported once"
    starts = [plan.starts(seed) for seed in range(24)]
    assert starts[2] == starts[11] == 2
    # Ray's worker may have finished a unit whose bytes had not left yet.
    again = sum(starts) - 26
    assert again <= (0 if isinstance(dying, Processes) else 4), starts


def test_a_unit_that_kills_every_worker_is_named(dying: Executor, tmp_path: Path) -> None:
    log = logs(tmp_path / "log")
    plan = FakePlan("a", 6, log, cost=0.02, deadly=frozenset({4}), deaths=100)
    ids = [unit.id for unit in plan.units()]
    with pytest.raises(HighwaterError, match=r"seed 4: its worker ended 3 times \("):
        dying.run(plan, ids, Ledger(tmp_path / "out"))
    assert plan.starts(4) == 3


def children(pid: int) -> list[int]:
    """The processes that a process started, which still live."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


#: A program that sweeps in two processes.
DRIVER = """
import sys
from fake import FakePlan
from highwater._ledger import Ledger
from highwater.executors import Processes

if __name__ == "__main__":
    log, out = sys.argv[1:]
    plan = FakePlan("a", 60, log, cost=0.05)
    Processes(2).run(plan, [unit.id for unit in plan.units()], Ledger(out))
    print("finished")
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], FakePlan, Ledger]]:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    plan = FakePlan("a", 60, logs(tmp_path / "log"), cost=0.05)
    ledger = Ledger(tmp_path / "out")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    command = [sys.executable, str(script), plan.log, str(ledger.dir)]
    process = subprocess.Popen(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process, plan, ledger
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_a_killed_driver_leaves_whole_units_and_no_process(
    driver: tuple[subprocess.Popen[str], FakePlan, Ledger],
) -> None:
    process, plan, ledger = driver
    wait_for(lambda: len(ledger.ids()) >= 10)
    workers = children(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, workers)), 5.0)
    kept = ledger.ids()
    assert 10 <= len(kept) < 60
    assert all(ledger.get(id) == plan.bytes_of(id) for id in kept), "no half of a unit"
    ids = [unit.id for unit in plan.units()]
    with Processes(2) as processes:
        processes.run(plan, ids, ledger)
    assert ledger.ids() == set(ids)
    starts = [plan.starts(seed) for seed in range(60)]
    assert max(starts) <= 2 and sum(starts) <= 62, "only the running units ran again"


@pytest.mark.slow
def test_ctrl_c_ends_driver_and_workers_within_a_second(
    driver: tuple[subprocess.Popen[str], FakePlan, Ledger],
) -> None:
    process, _, ledger = driver
    wait_for(lambda: len(ledger.ids()) >= 4)
    workers = children(process.pid)
    began = time.monotonic()
    # As a terminal does: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert time.monotonic() - began < 1.5
    assert process.returncode != 0 and errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert errors.count("Traceback") == 1, "workers are silent"
    wait_for(lambda: not any(map(is_alive, workers)), 2.0)


@pytest.mark.slow
def test_a_worker_killed_from_outside_loses_nothing(
    driver: tuple[subprocess.Popen[str], FakePlan, Ledger],
) -> None:
    process, plan, ledger = driver
    wait_for(lambda: len(ledger.ids()) >= 6)
    named = [pid for pid in children(process.pid) if b"spawn_main" in cmdline(pid)]
    assert len(named) == 2
    os.kill(named[0], signal.SIGKILL)
    said, errors = process.communicate(timeout=30)
    assert said.strip() == "finished", errors
    assert ledger.ids() == {unit.id for unit in plan.units()}
    assert sum(plan.starts(seed) for seed in range(60)) <= 61


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
