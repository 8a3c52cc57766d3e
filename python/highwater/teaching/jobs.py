"""The jobs of the teaching notebooks, as their files would say them, and their machines.

Each is small enough to run in a tenth of a second.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Mapping
from typing import Any

#: A driver takes blocks of 64 pages (order 6) from a machine that has just booted, and keeps
#: them for a while.
BLOCKS: dict[str, Any] = {
    "title": "Blocks of 64 pages for a driver",
    "seconds": 5,
    "var": {"blocks": 2},
    "task": [
        {
            "name": "driver",
            "phase": [
                {"do": "sleep", "us": 50_000},
                {"do": "alloc", "gfp": "kernel", "order": 6, "count": "$blocks", "us": 50_000},
                # It keeps them for 50 ms, and is there for longer.
                {"do": "sleep", "us": 100_000},
            ],
        }
    ],
}

#: A program reads a file of twice the memory, so the page cache fills all of it.
READER: dict[str, Any] = {
    "title": "A file of twice the memory, read once",
    "seconds": 30,
    "file": [{"name": "data", "size": "200%"}],
    "task": [{"name": "reader", "phase": [{"do": "read", "of": "data", "bytes": "256K"}]}],
}

#: A program uses 64 MiB of memory in an order of choice: `chase` (a loop through all pages, in an
#: order that no readahead foresees), `uniform`, or `zipf 0.9` (some pages far more often than
#: others).
HEAP: dict[str, Any] = {
    "title": "Memory, used in an order of choice",
    "seconds": 60,
    "var": {"shape": "zipf 0.9"},
    "task": [
        {
            "name": "program",
            "phase": [
                {"do": "map", "of": "heap", "size": "64M", "advice": "nohugepage"},
                {"do": "touch", "of": "heap", "write": True},
                # Once through without measuring, so that the first use of everything does not
                # count.
                {"do": "touch", "of": "heap", "pattern": "$shape", "passes": 2},
                {"do": "touch", "of": "heap", "pattern": "$shape", "passes": 3, "op": "use"},
            ],
        }
    ],
}

#: A copy of 200 MiB to a USB stick that writes 12 MB/s, and the `sync` behind it.
COPY: dict[str, Any] = {
    "title": "A copy to a slow USB stick, and the sync behind it",
    "seconds": 60,
    "disk": [
        {
            "name": "stick",
            "model": "ssd",
            "size": "4G",
            "channels": 1,
            "read-latency-ns": 500_000,
            "write-latency-ns": 1_000_000,
            "read-bytes-per-s": 80_000_000,
            "write-bytes-per-s": 12_000_000,
            "source": "guess: a USB 2 stick of the cheap kind",
        }
    ],
    "file": [{"name": "film", "size": "0", "disk": "stick"}],
    "task": [
        {
            "name": "copy",
            "phase": [
                {"do": "append", "of": "film", "bytes": "256K", "times": 800, "op": "write"},
                {"do": "fsync", "of": "film", "op": "sync"},
            ],
        }
    ],
}

#: The machine of `BLOCKS`: so small that its free blocks can be counted by hand.
TINY: dict[str, Any] = {"mem": "80M", "cpus": 1}
#: The machine of `READER` and `COPY`.
SMALL: dict[str, Any] = {"mem": "256M", "cpus": 2, "disk": "nvme"}
#: The machine of `HEAP`, but for its memory. Swap is read page by page: no readahead.
SWAPPING: dict[str, Any] = {
    "cpus": 1,
    "disk": "nvme",
    "swap": "256M",
    "set": {"vm.page_cluster": 0},
}


def run(job: Mapping[str, Any], machine: Mapping[str, Any], **options: Any) -> Any:
    """The results of a job on a machine of this module. `options` are those of `highwater.compare`;
    values of `set` come on top of the machine's."""
    from .. import compare

    values = {**machine.get("set", {}), **options.pop("set", {})}
    given: dict[str, Any] = {**machine, **options, "set": values}
    return compare(job, progress=False, **given)


def timeline(results: Any) -> dict[str, list[float]]:
    """Counters over time of results that have them (`story=True`, or `sample_every_ms`): values by
    column. `ms` is the virtual time in milliseconds, `nr_dirty` and its like are lines of
    `/proc/vmstat`, `node0/DMA32/free`, `/min`, `/low`, `/high` and `/order6` are of a zone, in
    pages and free blocks."""
    with tempfile.TemporaryDirectory() as dir:
        results.write(dir)
        names = [name for name in ("samples.csv", "timeline.csv") if name in os.listdir(dir)]
        if not names:
            raise ValueError("these results have no counters over time; run with story=True")
        with open(os.path.join(dir, names[0]), newline="") as file:
            rows = list(csv.DictReader(file))
    texts = ("machine", "policy", "label")
    columns = [column for column in rows[0] if column not in texts]
    return {column: [float(row[column] or "nan") for row in rows] for column in columns}
