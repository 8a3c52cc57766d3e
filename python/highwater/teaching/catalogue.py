"""The exercises of the teaching notebooks.

| name | asks |
|---|---|
| `buddy.split`, `buddy.merge` | which free blocks are left, and after the blocks are freed |
| `watermarks.low`, `watermarks.lowest` | where kswapd wakes, and how low free memory falls |
| `lru.loop`, `lru.uniform`, `lru.shape` | how much of a working set stays in memory |
| `dirty.level`, `dirty.sync`, `dirty.lever` | how much is dirty, and how long that takes to write |
"""

from __future__ import annotations

from functools import cache
from statistics import median
from typing import Any

from .._sizes import PAGE
from .grading import Exercise, Number, Trial, Word
from .jobs import BLOCKS, COPY, HEAP, READER, SMALL, SWAPPING, TINY, run, timeline

_MIB = 1 << 20

# Buddy lists


@cache
def _blocks() -> dict[str, list[float]]:
    return timeline(run(BLOCKS, TINY, sample_every_ms=10))


def _free_blocks(order: int, ms: float) -> float:
    """Free blocks of an order at a time."""
    line = _blocks()
    return line[f"node0/DMA32/order{order}"][line["ms"].index(ms)]


#: While the driver has its blocks, and after it has freed them, in milliseconds.
_WHILE, _AFTER = 80.0, 130.0


# Watermarks

#: The scale factor of the exercise, in 1/10000 of a zone.
_SCALE = 300


@cache
def _marks(scale: int) -> dict[str, list[float]]:
    values = {"vm.watermark_scale_factor": scale, "vm.thp": "never"}
    return timeline(run(READER, SMALL, set=values, sample_every_ms=5))


def _mark(name: str, scale: int = _SCALE) -> float:
    return _marks(scale)[f"node0/DMA32/{name}"][0]


def _lowest() -> str:
    """The mark that free memory's lowest value is nearest to."""
    lowest = min(_marks(_SCALE)["node0/DMA32/free"])
    return min(("min", "low", "high"), key=lambda name: abs(_mark(name) - lowest))


# The LRU


@cache
def _hit_ratio(shape: str, mib: int) -> float:
    results = run(HEAP, {**SWAPPING, "mem": f"{mib}M"}, set={"job.var.shape": shape})
    return float(results.metric("program.use.hit-ratio")[0].values[0])


def _loop_fits() -> float:
    """The least memory with which a loop through 64 MiB never waits for swap."""
    short, enough = 64, 128
    while enough - short > 1:
        middle = (short + enough) // 2
        if _hit_ratio("chase", middle) >= 99.9:
            enough = middle
        else:
            short = middle
    return float(enough)


def _worst_shape() -> str:
    shapes = {"loop": "chase", "uniform": "uniform", "zipf": "zipf 0.9"}
    return min(shapes, key=lambda word: _hit_ratio(shapes[word], 40))


# Dirty pages


@cache
def _copied(**values: int) -> tuple[dict[str, list[float]], Any]:
    results = run(
        COPY, SMALL, set={f"vm.{name}": value for name, value in values.items()}, story=True
    )
    return timeline(results), results


def _dirty_mib(ratio: int) -> float:
    """MiB that are dirty or under writeback while the copy is throttled."""
    line, _ = _copied(dirty_ratio=ratio)
    pages = [dirty + back for dirty, back in zip(line["nr_dirty"], line["nr_writeback"])]
    # The second quarter: the limit is reached, and the copy goes on.
    return median(pages[len(pages) // 4 : len(pages) // 2]) * PAGE / _MIB


def _sync_seconds(**values: int) -> float:
    _, results = _copied(**values)
    return float(results.metric("copy.sync.max")[0].values[0]) / 1e6


#: Seconds that the sync may take in the exercise.
_SYNC_LIMIT = 1.0
#: Bytes below which the limit is of no use: Linux refuses less than two pages.
_DIRTY_LEAST = 2 * PAGE


def _lever(answer: Any) -> tuple[bool, str]:
    try:
        limit = int(answer)
    except (TypeError, ValueError):
        return False, f"{answer!r} is no number of bytes; vm.dirty_bytes takes 8388608 for 8 MiB"
    if limit < _DIRTY_LEAST:
        return False, f"Linux refuses vm.dirty_bytes below {_DIRTY_LEAST}; did you give MiB?"
    sync = _sync_seconds(dirty_bytes=limit)
    took = f"with vm.dirty_bytes={limit} the sync takes {sync:.2f} s"
    if sync >= _SYNC_LIMIT:
        return False, f"{took}; how many bytes does the stick write in a second?"
    if limit < 2 * _MIB:
        return (
            False,
            f"{took}, but the limit is needlessly small: find a larger one that still does",
        )
    return (
        True,
        f"{took}. The stick writes 12 MB a second, so a second's worth may be dirty at most.",
    )


_ALL: list[Exercise] = [
    Number(
        "buddy.split",
        "Two blocks of order 6 are taken. How many free blocks of order 6 are left in zone DMA32?",
        "blocks",
        lambda: _free_blocks(6, _WHILE),
        0.0,
        "The only block of order 6 went first. Then a block of order 7 was split, and its other"
        " half is free.",
        "the second block came from somewhere: what becomes of the rest of what was split?",
        "blocks that the driver has are on no list",
    ),
    Number(
        "buddy.merge",
        "The driver frees its two blocks. How many free blocks of order 7 are there then?",
        "blocks",
        lambda: _free_blocks(7, _AFTER),
        0.0,
        "The two halves are free again and become one block of order 7.",
        "a freed block looks at its buddy: is it free, and of the same order?",
        "count only pairs whose first frame is a multiple of 128",
    ),
    Number(
        "watermarks.low",
        f"The machine has vm.watermark_scale_factor={_SCALE}. At how many free pages of zone"
        " DMA32 does kswapd wake?",
        "pages",
        lambda: _mark("low"),
        0.01,
        "It is min plus the larger of a quarter of min and the zone's share.",
        "low lies above min by the larger of min/4 and managed x factor / 10000",
        "low lies above min by the larger of min/4 and managed x factor / 10000, and that only"
        " once",
        (
            (lambda: _mark("min"), "that is min, where allocations begin to reclaim themselves"),
            (lambda: _mark("high"), "that is high, where kswapd goes back to sleep"),
            (lambda: _mark("low", 10), "that is low with the default factor of 10"),
            (lambda: _mark("low") * 4, "that is KiB; the marks are in pages of 4 KiB"),
        ),
    ),
    Word(
        "watermarks.lowest",
        "The reader fills all memory. Which mark is the lowest value of free memory nearest to:"
        " min, low or high?",
        ("min", "low", "high"),
        _lowest,
        "kswapd wakes at low and frees pages faster than one reader takes them.",
        {
            "min": "it falls to min only if kswapd cannot keep up",
            "low": "what happens between the moment when kswapd wakes and its first freed page?",
            "high": "at high kswapd sleeps, and memory goes on falling",
        },
    ),
    Number(
        "lru.loop",
        "With how much memory does the loop through 64 MiB never wait for swap, in MiB?",
        "MiB",
        _loop_fits,
        0.03,
        "All of the loop must fit, and what the kernel needs besides: its reserves and its image.",
        "below the cliff nearly every use waits; the machine also needs memory for the kernel",
        "less is enough: where does the curve of the loop reach 100 %?",
        ((lambda: 64.0, "that is the loop alone: where is the kernel's own memory?"),),
    ),
    Number(
        "lru.uniform",
        "Which share of the uniform program's uses finds its page in memory at 56 MiB, in percent?",
        "percent",
        lambda: _hit_ratio("uniform", 56),
        0.05,
        "All pages are equally likely, so the share is that of the pages that are in memory.",
        "every page is equally likely: read the curve between 48 and 64 MiB",
        "every page is equally likely: read the curve between 48 and 64 MiB",
    ),
    Word(
        "lru.shape",
        "At 40 MiB, which order of use suffers most: loop, uniform or zipf?",
        ("loop", "uniform", "zipf"),
        _worst_shape,
        "The page that was not used for longest is the one that a loop needs next, and LRU evicts"
        " it.",
        {
            "uniform": "any page may come next, so those that are in memory are worth something",
            "zipf": "the popular pages stay in memory, and most uses are of these",
        },
    ),
    Number(
        "dirty.level",
        "With vm.dirty_ratio=10, how much is dirty or under writeback while the copy goes on, in"
        " MiB?",
        "MiB",
        lambda: _dirty_mib(10),
        0.15,
        "It hovers below a tenth of the memory that may be dirty: free memory and page cache.",
        "a tenth of free memory and page cache is the limit; writers are slowed down before it",
        "writers sleep before the limit is reached, and not all memory may be dirty",
        ((lambda: _dirty_mib(20), "that is the level with the default, 20"),),
    ),
    Number(
        "dirty.sync",
        "With vm.dirty_bytes=16777216 (16 MiB), how long does the sync take, in seconds?",
        "seconds",
        lambda: _sync_seconds(dirty_bytes=16 * _MIB),
        0.15,
        "Pages that are dirty at the end of the copy leave at 12 MB a second.",
        "how many seconds does the stick need for 16 MiB?",
        "how many seconds does the stick need for 16 MiB?",
        ((lambda: _sync_seconds(), "that is the time with the default limit"),),
    ),
    Trial(
        "dirty.lever",
        f"Give a value of vm.dirty_bytes with which the sync takes less than {_SYNC_LIMIT:g} s.",
        _lever,
    ),
]

#: All exercises by name.
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
