"""Shared by the tests: small definitions, and the command of the same package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

SMALL: dict[str, Any] = {
    "name": "small",
    "node": [{"memory": "64M", "cpus": "0-1"}],
    "disk": [
        {"name": "data", "model": "nvme", "size": "1G", "source": "test"},
        {"name": "swap", "model": "nvme", "size": "128M", "source": "test"},
    ],
    "swap": [{"disk": "swap"}],
}
"""A machine on which a job of a few seconds takes milliseconds."""

JOB: dict[str, Any] = {
    "name": "reader",
    "title": "Reads a file that is larger than memory",
    "seconds": 1,
    "iterations": 2,
    "file": [{"name": "data", "size": "96M"}],
    "task": [
        {
            "name": "reader",
            "phase": [
                {"do": "read", "of": "data", "bytes": "64K", "pattern": "uniform", "op": "get", "times": 200}
            ],
        }
    ],
}


def pytest_configure() -> None:
    """Tests interrupt themselves. A shell lets commands in the background ignore that, and all that
    they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command of the package that is tested, in a process of its own."""

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        # Not the environment of the process: readline puts the terminal's COLUMNS there.
        ran = subprocess.run(
            [sys.executable, "-m", "highwater", *words], capture_output=True, text=True, env=os.environ
        )
        assert ran.returncode == code, ran.stderr
        return ran

    return run
