"""Real simulations: the bytes of units do not depend on where they ran, nor on who was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import highwater as hw
import pytest
from conftest import JOB, SMALL
from highwater._ledger import Ledger

#: 2 settings, 2 policies, 8 seeds: 32 units.
GRID: dict[str, Any] = {"vm.swappiness": [0, 60], "policy": ["5.17", "6.1"]}
SWEEP: dict[str, Any] = {"job": JOB, "machine": SMALL, "seeds": 8, "progress": False}


def shards(out: Path) -> dict[str, bytes]:
    """The files of all units."""
    ledger = Ledger(out)
    return {id: ledger.get(id) for id in ledger.ids()}


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], hw.Results]:
    """The sweep in threads of this process."""
    out = tmp_path_factory.mktemp("threads")
    results = hw.sweep(GRID, out=out, on=hw.Threads(2), **SWEEP)
    found = shards(out)
    assert len(found) == 32
    return found, results


def test_processes_write_the_bytes_of_threads(
    by_threads: tuple[dict[str, bytes], hw.Results], tmp_path: Path
) -> None:
    with hw.Processes(2, chunk_seconds=0.2) as processes:
        results = hw.sweep(GRID, out=tmp_path, on=processes, **SWEEP)
    assert shards(tmp_path) == by_threads[0]
    assert [results.json(at) for at in (0, 1)] == [by_threads[1].json(at) for at in (0, 1)]


def test_several_plans_at_once_write_the_same(
    by_threads: tuple[dict[str, bytes], hw.Results], tmp_path: Path
) -> None:
    options = {"machine": SMALL, "seeds": 8, "policies": GRID["policy"]}
    plans = [hw.plan(JOB, set={"vm.swappiness": value}, **options) for value in (0, 60)]
    ledger = Ledger(tmp_path)
    hw.Threads(2).run_all([(plan, [unit.id for unit in plan.units()]) for plan in plans], ledger)
    assert shards(tmp_path) == by_threads[0]


def descendants(pid: int) -> list[int]:
    """The processes below a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


@pytest.mark.ray
@pytest.mark.gate
def test_ray_loses_a_worker_and_writes_the_same_bytes(
    by_threads: tuple[dict[str, bytes], hw.Results], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    killed: list[int] = []

    def kill_one(done: int, _: int) -> None:
        """After a few units, one of the two workers dies."""
        if done >= 3 and not killed:
            titles = {
                pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(os.getpid())
            }
            workers = [pid for pid, title in titles.items() if title.startswith(b"ray::_units")]
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    with hw.Ray("local", cpus=2, chunk_seconds=0.2) as ray:
        hw.sweep(GRID, out=tmp_path, on=ray, **{**SWEEP, "progress": kill_one})
    assert len(killed) == 1
    assert shards(tmp_path) == by_threads[0]


@pytest.mark.ray
def test_ray_loses_a_node_and_writes_the_same_bytes(
    by_threads: tuple[dict[str, bytes], hw.Results], tmp_path: Path
) -> None:
    """Two nodes on this computer; the one without this program is lost, and another one comes."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    lost: list[int] = []

    def lose_one(done: int, _: int) -> None:
        if done >= 3 and not lost:
            lost.append(done)
            cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(num_cpus=1)

    try:
        with hw.Ray(cluster.address, chunk_seconds=0.2) as ray:
            hw.sweep(GRID, out=tmp_path, on=ray, **{**SWEEP, "progress": lose_one})
    finally:
        cluster.shutdown()
    assert len(lost) == 1
    assert shards(tmp_path) == by_threads[0]


#: Prints where the package of a worker lies, and what a second connection says.
SENT = """
import sys
import highwater as hw
import ray

def place():
    import highwater
    return highwater.__file__

with hw.Ray("local", cpus=1, ship=True) as executor:
    plan = hw.plan("log-writers", quick=True, set={"job.seconds": 1})
    executor.run(plan, [unit.id for unit in plan.units()], sys.argv[1])
    print(ray.get(ray.remote(place).remote()))
    try:
        hw.Ray(ship=True).run(plan, [], sys.argv[1])
    except hw.HighwaterError as error:
        print(error)
"""


@pytest.mark.ray
def test_ray_sends_the_package_to_workers(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    # Not in this directory, where workers would find the sources before the package that was sent.
    program = tmp_path / "program.py"
    program.write_text(SENT)
    command = [sys.executable, str(program), str(tmp_path / "out")]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    place, error = said.splitlines()
    assert "py_modules" in place and place != hw.__file__
    assert error.startswith("Ray(ship=...): this program is connected already")
    assert len(Ledger(tmp_path / "out").ids()) == 1


#: The same sweep as a program.
PROGRAM = """
import sys
import highwater as hw
sys.path[:0] = sys.argv[1:3]
from test_same_bytes import GRID, SWEEP

if __name__ == "__main__":
    hw.sweep(GRID, out=sys.argv[3], on=hw.Processes(2, chunk_seconds=0.2), **SWEEP)
"""


@pytest.mark.slow
def test_a_sweep_killed_three_times_has_every_row_once(
    by_threads: tuple[dict[str, bytes], hw.Results], tmp_path: Path
) -> None:
    program, out = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM)
    here = Path(__file__).parent
    command = [sys.executable, str(program), str(here), str(here.parent), str(out)]
    ledger = Ledger(out)
    for kills in (1, 2, 3):
        before = len(ledger.ids())
        with subprocess.Popen(command, start_new_session=True) as process:
            end = time.monotonic() + 60
            while len(ledger.ids()) < before + 3 and process.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.01)
            process.kill()
        assert kills == 3 or len(ledger.ids()) < 32, "it was killed before its end"
    again = hw.sweep(GRID, out=out, on=hw.Threads(2), **SWEEP)
    assert shards(out) == by_threads[0]
    assert again.table("csv") == by_threads[1].table("csv")
    assert len(again.observations()) == len(by_threads[1].observations())
    documents = zip(again.documents, by_threads[1].documents)
    assert all(one["runs"] == other["runs"] for one, other in documents)
