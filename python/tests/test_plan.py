"""Plans: options become those of the command, units have ids, and a plan can be sent away."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import highwater as hw
import pytest
from conftest import JOB, SMALL


def test_options_are_those_of_the_command() -> None:
    plan = hw.plan(
        "003",
        quick=True,
        seeds=range(7, 9),
        mem="64M",
        cpus=2,
        disk="nvme",
        swap="32M",
        policies=["5.17", "6.1"],
        set={"unmap.rounds": 1, "policy.watermark.boost": False},
        vary={"vm.swappiness": [0, 60]},
    )
    words = (
        "highwater compare 003 --quick --iterations 2 --seed 7 --mem 64M --cpus 2 --disk nvme --swap 32M"
        " --policy 5.17 --policy 6.1 --set unmap.rounds=1 --set policy.watermark.boost=false"
        " --vary vm.swappiness=0,60"
    )
    assert plan.command_line == words.split()
    assert plan.keys == ["vm.swappiness"]
    assert plan.points == [{"vm.swappiness": "0"}, {"vm.swappiness": "60"}]
    units = plan.units()
    assert len(units) == 2 * 2 * 2 and len({unit.id for unit in units}) == len(units)
    assert {unit.seed for unit in units} == {7, 8}
    assert units[-1].values == {"vm.swappiness": "60"} and units[-1].policy == "6.1"
    assert all(len(unit.id) == 64 for unit in units)


def test_errors_are_the_lines_of_the_command() -> None:
    def error(**options: object) -> str:
        with pytest.raises(hw.HighwaterError) as raised:
            hw.plan(options.pop("what", "003"), **options)  # type: ignore[arg-type]
        return str(raised.value)

    assert error(what="no-such-job").startswith('experiment: unknown experiment "no-such-job"')
    assert error(machine="labtop").startswith("--machine: unknown machine \"labtop\"; did you mean laptop?")
    assert error(set={"vm.swapiness": 1}).startswith("--set vm.swapiness=1: ")
    assert error(seeds=0) == "seeds: must be at least 1, not 0"
    assert error(seeds=[1, 3]).startswith("seeds: must follow each other")
    assert error(quick=True, full=True) == "quick: not with full"
    assert error(mem="64M", machine="laptop") == "machine: not with mem and cpus"
    assert isinstance(hw.HighwaterError("x"), ValueError)
    with pytest.raises(TypeError, match="unknown option 'quik'; there are quick, "):
        hw.plan("003", quik=True)  # type: ignore[call-arg]


def test_definitions_are_names_files_mappings_or_dataclasses(in_tmp: Path) -> None:
    @dataclasses.dataclass
    class Node:
        memory: str
        cpus: str

    @dataclasses.dataclass
    class Machine:
        name: str
        nodes: list[Node] = dataclasses.field(metadata={"key": "node"})
        summary: str | None = None

    of_class = Machine("small", [Node("64M", "0-1")])
    mapping = {"name": "small", "node": [{"memory": "64M", "cpus": "0-1"}]}
    text = 'name = "small"\n[[node]]\nmemory = "64M"\ncpus = "0-1"\n'
    Path("machine.toml").write_text(text)
    options = {"quick": True, "seeds": 1}
    plans = [hw.plan("003", machine=m, **options) for m in (of_class, mapping, "machine.toml")]  # type: ignore[arg-type]
    ids = [[unit.id for unit in plan.units()] for plan in plans]
    assert ids[0] == ids[1] == ids[2]
    assert list(plans[2].texts) == ["machine.toml"] and plans[2].texts["machine.toml"] == text
    policy = {"base": "6.1", "name": "calm", "watermark": {"boost": False}}
    plan = hw.plan(JOB, machine=SMALL, policies=["6.1", policy])
    assert {unit.policy for unit in plan.units()} == {"6.1", "calm"}
    assert sorted(plan.texts) == ["calm.toml", "reader.toml", "small.toml"]
    with pytest.raises(hw.HighwaterError, match=r"^small.toml:\d+: "):
        hw.plan("003", machine={**SMALL, "nosuch": 1})


def test_a_plan_can_be_sent_where_its_files_are_not(in_tmp: Path) -> None:
    (in_tmp / "here").mkdir()
    machine = in_tmp / "here/m.toml"
    costs = hw.plan("003", quick=True).texts
    assert costs == {}
    machine.write_text('[[node]]\nmemory = "64M"\ncpus = "0-1"\n')
    plan = hw.plan("003", quick=True, machine=machine, policies=[{"base": "5.4", "name": "p"}, "6.1"])
    ids = [unit.id for unit in plan.units()]
    sent = pickle.dumps(plan)
    machine.unlink()
    code = "import pickle, sys; plan = pickle.load(sys.stdin.buffer); print(*[u.id for u in plan.units()])"
    there = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, cwd="/", check=True)
    assert there.stdout.decode().split() == ids
    with pytest.raises(hw.HighwaterError, match="m.toml"):
        hw.plan("003", quick=True, machine=machine)


def test_remarks_are_kept() -> None:
    plan = hw.plan("unmap", workload=True, mem="64M", cpus=2, swap="8M")
    assert plan.remarks == ["--swap: on a SATA SSD; --disk says which disk"]
    assert plan.command_line[:3] == ["highwater", "run", "unmap"]


def test_names() -> None:
    assert "003-unmap-accessed" in hw.experiments() and "laptop" in hw.machines()
    assert "6.1" in hw.policies() and "postgres-like" in hw.workloads()
    assert hw.version.count(".") == 2


def test_a_plan_starts_from_a_state(tmp_path: Path) -> None:
    rows = {"DMA": "0 0 0 0 0 0 0 0 0 0 1", "DMA32": "5000 0 0 0 0 0 0 0 0 0 0"}
    text = "".join(f"Node 0, zone {zone} {blocks}\n" for zone, blocks in rows.items())
    (tmp_path / "buddyinfo").write_text(text)
    plan = hw.plan("pagealloc", workload=True, mem="64M", cpus=2, state=tmp_path)
    assert plan.command_line[-2:] == ["--state", str(tmp_path)]
    guessed = "no pagetypeinfo: all free blocks are taken for movable ones"
    assert plan.remarks == [f"--state {tmp_path}: {guessed}"]
