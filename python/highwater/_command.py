"""The console script: the command `highwater`, in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from . import _highwater


def main() -> int:
    """Runs the words of this process's command line and returns the exit status."""
    # The command watches for signals itself. Python's handler would only note that one came.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _highwater.main(["highwater", *sys.argv[1:]])


def command(*words: str) -> str:
    """The text that a command prints: `command("zoneinfo", "--mem", "8G", "--cpus", "4")`. It runs in a
    process of its own.

    Raises:
        HighwaterError: If the command refuses its input: its line.
    """
    quiet = [sys.executable, "-m", "highwater", "--quiet", *words]
    # The environment as Python knows it: readline adds the terminal's COLUMNS behind its back.
    ran = subprocess.run(quiet, capture_output=True, text=True, check=False, env=os.environ)
    # 1 is an answer: a check or a comparison failed as asked.
    if ran.returncode not in (0, 1):
        lines = ran.stderr.strip().splitlines()
        raise _highwater.HighwaterError(lines[-1].removeprefix("error: ") if lines else "it ended early")
    return ran.stdout
