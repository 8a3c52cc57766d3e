"""Statistics of a search: exact tests and intervals for few seeds, without a dependency.

Seeds are pairs: every setting runs the same ones, so differences are taken seed by seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

#: Resamples of a bootstrap: the limits of 95 % are then right to about half a percent of their
#: rank.
_RESAMPLES = 10_000


def wilcoxon_greater(differences: Sequence[float]) -> float:
    """The chance of differences as large as these, or larger, if their signs were chance alone.

    Wilcoxon's signed-rank test, one-sided and exact. The distribution is that of all 2^n signs of
    the ranks that were seen, so ties (which share their mean rank) are exact too. Differences of 0
    say nothing about a direction and are left out. Without any other, the answer is 1.

    Equal to `scipy.stats.wilcoxon(d, alternative="greater", method="exact")` if there are no ties.
    """
    nonzero = sorted((d for d in differences if d != 0.0), key=abs)
    # Twice the ranks, so that mean ranks of ties are whole numbers.
    ranks: list[int] = []
    while len(ranks) < len(nonzero):
        first = len(ranks)
        last = first
        while last + 1 < len(nonzero) and abs(nonzero[last + 1]) == abs(nonzero[first]):
            last += 1
        ranks += [first + last + 2] * (last - first + 1)
    seen = sum(rank for rank, d in zip(ranks, nonzero) if d > 0.0)
    # ways[s]: choices of signs whose positive ranks add up to s.
    ways = [1] + [0] * sum(ranks)
    for rank in ranks:
        for s in range(len(ways) - 1, rank - 1, -1):
            ways[s] += ways[s - rank]
    return float(sum(ways[seen:])) / float(2 ** len(ranks))


@dataclass(frozen=True)
class Interval:
    """An estimate with the limits of 95 % if other seeds had been run."""

    mean: float
    low: float
    high: float

    @property
    def is_chance(self) -> bool:
        """The interval holds 0."""
        return self.low <= 0.0 <= self.high


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    change: Callable[[float, float], float],
    seed: int = 1,
) -> Interval:
    """The change from one mean to another, with the limits of 95 %.

    Seeds are drawn with replacement, both values of a seed together. The same `seed` gives the same
    limits. With one pair there is no interval: both limits are infinite.

    Raises:
        ValueError: the lists have different lengths, or none.
    """
    if len(before) != len(after) or not before:
        raise ValueError(f"{len(before)} and {len(after)} values are no pairs")
    estimate = change(fmean(before), fmean(after))
    n = len(before)
    if n == 1:
        return Interval(estimate, float("-inf"), float("inf"))
    draw = random.Random(seed)
    changes = []
    for _ in range(_RESAMPLES):
        at = [draw.randrange(n) for _ in range(n)]
        changes.append(change(sum(before[i] for i in at) / n, sum(after[i] for i in at) / n))
    changes.sort()
    tail = round(_RESAMPLES * 0.025)
    return Interval(estimate, changes[tail], changes[-1 - tail])
