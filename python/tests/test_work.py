"""Interrupts, progress, stopping."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import highwater as hw
import pytest

LONG: dict[str, object] = {"machine": "stutterp-16g", "seeds": 1, "policies": ["6.1"]}
"""A simulation of minutes."""


def test_ctrl_c_is_a_keyboard_interrupt_within_a_second() -> None:
    code = f"""
        import highwater as hw, os, signal, threading, time
        threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        try:
            hw.compare("001", progress=False, **{LONG!r})
        except KeyboardInterrupt:
            print(time.monotonic() - begun - 1.5)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) < 1.0
    assert ran.stderr == ""


def test_an_interrupted_simulation_ends_and_does_not_go_on_behind_ones_back() -> None:
    def of_highwater() -> list[str]:
        names = []
        for task in Path("/proc/self/task").iterdir():
            # A thread may end between the two.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                names.append(Path(task, "comm").read_text().strip())
        return [name for name in names if name == "highwater"]

    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        hw.compare("001", progress=False, jobs=2, **LONG)  # type: ignore[arg-type]
    for _ in range(100):
        if not of_highwater():
            break
        time.sleep(0.05)
    assert of_highwater() == []


def test_the_caller_may_stop_and_finished_units_stay(tmp_path: Path) -> None:
    plan = hw.plan("003", quick=True, seeds=30, mem="64M", cpus=2, set={"unmap.rounds": 30})
    ids = [unit.id for unit in plan.units()]
    stop = threading.Event()

    def tell(done: int, total: int) -> None:
        assert total == len(ids)
        if done >= 2:
            stop.set()

    with pytest.raises(hw.Stopped):
        plan.run_units(ids, tmp_path, progress=tell, stop=stop)
    with pytest.raises(hw.HighwaterError, match=f" of {len(ids)} units are not in the stores"):
        plan.collect(tmp_path)
    plan.run_units(ids[:2], tmp_path)


def test_an_error_of_the_progress_function_ends_the_run() -> None:
    def tell(done: int, total: int) -> None:
        raise LookupError(f"{done} of {total}")

    with pytest.raises(LookupError, match=r"\d+ of 8"):
        hw.compare("003", quick=True, seeds=4, mem="64M", cpus=2, policies=["5.17", "6.1"], progress=tell)


def test_progress_goes_to_the_end_and_a_bar_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    hw.compare("003", quick=True, seeds=2, mem="64M", cpus=2, progress=lambda *now: told.append(now))
    assert told[-1][0] == told[-1][1] > 1 and told == sorted(told)
    hw.compare("003", quick=True, seeds=2, mem="64M", cpus=2, progress=True)
    drawn = capsys.readouterr().err
    assert "runs" in drawn and drawn.endswith("\r\x1b[2K")
    hw.compare("003", quick=True, seeds=2, mem="64M", cpus=2)
    assert capsys.readouterr().err == "", "nobody looks"


def test_pythons_lock_is_free_while_simulations_run() -> None:
    counted = [0]
    over = threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begun = time.monotonic()
    hw.compare("003", quick=True, seeds=2, mem="64M", cpus=2, jobs=1, progress=False)
    elapsed = time.monotonic() - begun
    over.set()
    thread.join()
    assert counted[0] > 50 * elapsed
