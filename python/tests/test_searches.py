"""`fit`, `bisect`, `explain`: answers of the command, as values."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import highwater as hw
import pytest
from conftest import JOB, SMALL

Command = Callable[..., "subprocess.CompletedProcess[str]"]

CACHE: dict[str, Any] = {
    **JOB,
    "name": "cache",
    "file": [{"name": "data", "size": "48M"}],
}


def test_fit_finds_the_least_memory() -> None:
    search: dict[str, Any] = {"slo": "reader.get.p99<1s", "low": "32M", "high": "128M", "within": 10}
    answer = hw.fit(CACHE, machine=SMALL, progress=False, **search)
    assert answer.value is not None and answer.number is not None
    assert answer.number >= 32 << 20 and answer.value.endswith("M")
    assert answer.verdict.startswith(answer.value) and answer.verdict in answer.table()
    tried = answer.document["points"]
    assert [point["value"] for point in tried] == sorted(point["value"] for point in tried)
    assert tried[-1]["text"] == "128M" and all(tried[-1]["keeps"])
    assert pickle.loads(pickle.dumps(answer)) == answer
    never = hw.fit(CACHE, machine=SMALL, progress=False, **{**search, "slo": "reader.get.max<1ns"})
    assert never.value is None and never.verdict.startswith("not even 128M keeps it")
    with pytest.raises(hw.HighwaterError, match="^--slo: "):
        hw.fit(CACHE, machine=SMALL, slo="reader.nosuch.p99<1s", progress=False)


def test_fit_says_what_the_command_says(command: Command, in_tmp: Path) -> None:
    words = ["--slo", "reader.get.p99<1s", "--from", "32M", "--to", "128M", "--within", "50"]
    plan = hw.plan(CACHE, machine=SMALL)
    for path, text in plan.texts.items():
        Path(path).write_text(text)
    answer = hw.fit(
        CACHE, machine=SMALL, slo=["reader.get.p99<1s"], low="32M", high="128M", within=50, progress=False
    )
    assert command("fit", "cache.toml", *words, "--machine", "small.toml").stdout == answer.table()


def test_bisect_explains_a_change(command: Command) -> None:
    options: dict[str, Any] = {"mem": "64M", "cpus": 2, "quick": True, "seeds": 2, "set": {"unmap.rounds": 1}}
    answer = hw.bisect("5.17", "5.18", "003", metric="time.system", progress=False, **options)
    assert answer.document["schema"].startswith("highwater.bisect/")
    assert answer.document["sentence"] == answer.verdict
    words = ["bisect", "5.17", "5.18", "003", "--metric", "time.system", "--seeds", "2", "--quick"]
    code = 0 if answer.document["is_significant"] else 1
    more = ["--mem", "64M", "--cpus", "2", "--set", "unmap.rounds=1", "--format", "json"]
    ran = command(*words, *more, code=code)
    assert json.loads(ran.stdout) == answer.document
    with pytest.raises(hw.HighwaterError, match="same policy"):
        hw.bisect("6.1", "6.1", "003", metric="time.system", progress=False)


def test_explain_an_experiment_and_its_results(command: Command, in_tmp: Path) -> None:
    options: dict[str, Any] = {"quick": True, "mem": "64M", "cpus": 2, "policies": ["6.1"]}
    explained = hw.explain("003", worst=1, progress=False, **options)
    words = ["explain", "003", "--quick", "--mem", "64M", "--cpus", "2", "--policy", "6.1", "--worst", "1"]
    assert command(*words).stdout == explained.table()
    assert json.loads(command(*words, "--format", "json").stdout) == explained.document
    assert command(*words, "--folded", "-").stdout == explained.folded
    hw.compare("003", progress=False, **options).write("results")
    assert hw.explain("results", worst=1, progress=False).document["runs"]
    with pytest.raises(hw.HighwaterError, match="^--quick: not with a directory; results says"):
        hw.explain("results", quick=True, progress=False)
    with pytest.raises(hw.HighwaterError, match="unknown operation"):
        hw.explain("003", op="nosuch", progress=False, **options)
    explained.report("explained.html")
    assert "<!doctype html>" in Path("explained.html").read_text()
