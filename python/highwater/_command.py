"""The console script: the command `highwater`, in this process."""

from __future__ import annotations

import signal
import sys

from . import _highwater


def main() -> int:
    """Runs the words of this process's command line and returns the exit status."""
    # The command watches for signals itself. Python's handler would only note that one came.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _highwater.main(["highwater", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
