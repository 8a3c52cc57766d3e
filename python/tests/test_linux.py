"""`check`, `replay` and `capture`, beside the command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import highwater as hw
import pytest
from conftest import ROOT

Command = Callable[..., "subprocess.CompletedProcess[str]"]
STATIC = ROOT / "reference/linux-6.1/static"
TREE = ROOT / "crates/highwater/tests/cli/captured"


def test_check_compares_the_model_with_captured_files(command: Command) -> None:
    checked = hw.check(STATIC, progress=False)
    assert checked.agreement == 100.0 and checked.remarks == []
    assert command("check", str(STATIC)).stdout == checked.table()
    assert json.loads(command("check", str(STATIC), "--format", "json").stdout) == checked.document
    assert checked.verdict == checked.table().splitlines()[-1]
    with pytest.raises(hw.HighwaterError, match="nosuch"):
        hw.check("nosuch", progress=False)


def test_replay_is_that_of_the_command(command: Command) -> None:
    traces = sorted((ROOT / "reference/linux-6.1").rglob("*.trace*"))
    assert traces
    trace = min(traces, key=lambda path: path.stat().st_size)
    replayed = hw.replay(trace, policies=["5.17", "6.1"], progress=False)
    words = ["replay", str(trace), "--policy", "5.17", "--policy", "6.1"]
    assert command(*words).stdout == replayed.table()
    assert json.loads(command(*words, "--format", "json").stdout) == replayed.document
    with pytest.raises(hw.HighwaterError, match="named twice"):
        hw.replay(trace, policies=["6.1", "6.1"], progress=False)


def test_diagnose_is_that_of_the_command(command: Command) -> None:
    log = ROOT / "crates/highwater/tests/cli/atomic.log"
    answer = hw.diagnose(log)
    assert command("diagnose", str(log)).stdout == answer.table()
    assert json.loads(command("diagnose", str(log), "--format", "json").stdout) == answer.document
    assert answer.verdict.startswith("node 0 DMA32 has 9200 kB free, ")
    assert answer.document["reports"][0]["cause"] == "at-mark-nowait"
    assert hw.diagnose(text=log.read_text(), report=1).document == answer.document
    with pytest.raises(hw.HighwaterError, match="text has 1, numbered from 1"):
        hw.diagnose(text=log.read_bytes(), report=2)
    with pytest.raises(hw.HighwaterError, match="no report of failed or killed memory"):
        hw.diagnose(text="nothing")
    with pytest.raises(TypeError, match="files or text="):
        hw.diagnose()
    proc = next(path.parent for path in sorted(TREE.rglob("proc/zoneinfo")))
    rest = hw.diagnose(proc)
    assert command("diagnose", str(proc)).stdout == rest.table()
    assert rest.document["schema"] == "highwater.diagnose-snapshot/1"
    order = hw.diagnose(proc, order=3)
    assert command("diagnose", str(proc), "--order", "3").stdout == order.table()
    stalls = ROOT / "docs/src/logs/stalls.txt"
    part = hw.diagnose(stalls, since="03:00", until="03:10")
    words = ("--from", "03:00", "--to", "03:10")
    assert command("diagnose", str(stalls), *words).stdout == part.table()
    for options, reason in [
        ({"since": 1.0}, "only for texts over time"),
        ({"order": 3}, "only for files of /proc"),
        ({"interval": 0.0}, "must be above 0"),
    ]:
        with pytest.raises(hw.HighwaterError, match=reason):
            hw.diagnose(log, **options)


def test_capture_of_a_recorded_tree_makes_files_that_run(in_tmp: Path, command: Command) -> None:
    trees = [path.parent.parent for path in sorted(TREE.rglob("proc/zoneinfo"))]
    assert trees
    captured = hw.capture(root=trees[0], seconds=0)
    command("capture", "--root", str(trees[0]), "--seconds", "0")
    assert set(captured.files) >= {"machine.toml", "static.json"}
    for name, text in captured.files.items():
        assert Path(name).read_text() == text, name
    captured.write("again")
    assert Path("again/machine.toml").read_text() == captured.files["machine.toml"]
    assert captured.document == json.loads(captured.files["static.json"])
    assert hw.plan("003", quick=True, machine="again/machine.toml").units()
