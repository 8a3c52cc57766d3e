"""How much swappiness matters to a database: a sweep in the threads of this process.

Run it with `python examples/swappiness.py [DIR]`. Finished simulations are kept in DIR, so Ctrl-C
loses nothing, and the next call goes on.
"""

from __future__ import annotations

import sys

import highwater as hw


def main(out: str) -> None:
    """Runs the sweep into a directory and prints what it found."""
    grid: dict[str, list[hw.Value | hw.Definition]] = {
        "vm.swappiness": [10, 60, 150],
        "policy": ["5.18", "6.1"],
    }
    results = hw.sweep(grid, job="zipf-reader", quick=True, seeds=range(1, 4), out=out)
    print(results.verdict)
    for point, document in zip(results.points, results.documents):
        print(point["vm.swappiness"], len(document["runs"]), "runs")
    frame = results.to_polars()
    print(frame.head())
    results.report(f"{out}/report.html")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "swappiness")
