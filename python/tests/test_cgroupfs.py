"""`--cgroupfs`: psutil reads the files of the simulated machine as those of a Linux."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

psutil = pytest.importorskip("psutil")

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MIB = 1 << 20


def test_psutil_reads_the_simulated_machine(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(ROOT / "workloads/two-services.toml")
    command("run", job, "--mem", "1G", "--cpus", "2", "--cgroupfs", str(tmp_path / "files"))
    state = tmp_path / "files/000004.000s"
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(state / "proc"))

    memory = psutil.virtual_memory()
    fields = dict(line.split(":") for line in (state / "proc/meminfo").read_text().splitlines())
    kib = {name: int(value.split()[0]) for name, value in fields.items()}
    assert memory.total == kib["MemTotal"] * 1024 < 1024 * MIB
    assert memory.available == kib["MemAvailable"] * 1024
    assert memory.active == kib["Active"] * 1024

    groups = {path.parent.name: path for path in state.glob("sys/fs/cgroup/**/cgroup.procs")}
    pids = [int(pid) for pid in groups["web"].read_text().split()]
    assert len(pids) == 2 and set(pids) <= set(psutil.pids())
    sizes = [psutil.Process(pid).memory_info() for pid in pids]
    assert all(size.rss <= size.vms for size in sizes)
    (db,) = [int(pid) for pid in groups["db"].read_text().split()]
    process = psutil.Process(db)
    assert process.name() == "db" and process.memory_info().vms == 128 * MIB
    assert process.cpu_times().user + process.cpu_times().system > 0
    assert {psutil.Process(pid).name() for pid in psutil.pids()} >= {"kswapd0", "web/0", "web/1", "db"}
