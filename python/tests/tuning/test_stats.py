"""Exact tests and intervals against values by hand, and against scipy if it is there."""

from __future__ import annotations

import itertools
import random

import pytest
from highwater.tuning.stats import paired_bootstrap, wilcoxon_greater


def test_small_samples_by_hand() -> None:
    # All positive: only one of 2^n choices of signs is as extreme.
    assert wilcoxon_greater([1.0]) == 1 / 2
    assert wilcoxon_greater([0.1, 2.0, 0.3, 1.0]) == 1 / 16
    assert wilcoxon_greater([-0.1, -2.0, -0.3, -1.0]) == 1.0
    # Ranks 2, 3, 4 are positive: sums of 9 or 10 have 2 of 16 choices.
    assert wilcoxon_greater([-1.0, 2.0, 3.0, 4.0]) == 2 / 16
    assert wilcoxon_greater([]) == wilcoxon_greater([0.0, 0.0]) == 1.0
    assert wilcoxon_greater([0.0, 1.0, 2.0]) == 1 / 4, "a difference of 0 says nothing"


def by_force(differences: list[float]) -> float:
    """All choices of signs, with mean ranks."""
    sizes = sorted(abs(d) for d in differences if d)
    rank = {s: (sizes.index(s) + 1 + len(sizes) - sizes[::-1].index(s)) / 2 for s in sizes}
    ranks = [rank[abs(d)] for d in differences if d]
    seen = sum(rank[abs(d)] for d in differences if d > 0)
    choices = list(itertools.product([0, 1], repeat=len(ranks)))
    sums = [sum(r for r, sign in zip(ranks, signs) if sign) for signs in choices]
    return sum(s >= seen for s in sums) / len(choices)


def test_ties_and_zeros_are_exact() -> None:
    draw = random.Random(7)
    for _ in range(200):
        differences = [float(draw.randint(-3, 4)) for _ in range(draw.randint(1, 9))]
        assert wilcoxon_greater(differences) == pytest.approx(by_force(differences)), differences


def test_it_is_the_test_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(3)
    for n in (1, 5, 12, 20):
        differences = [draw.gauss(0.3, 1.0) for _ in range(n)]
        expected = stats.wilcoxon(differences, alternative="greater", method="exact").pvalue
        assert wilcoxon_greater(differences) == pytest.approx(expected)


def percent(before: float, after: float) -> float:
    return (after / before - 1.0) * 100.0


def test_a_bootstrap_draws_pairs_and_repeats_itself() -> None:
    before = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0]
    # Exactly a tenth more in each seed: with pairs there is nothing that could vary.
    exact = paired_bootstrap(before, [b * 1.1 for b in before], percent)
    assert (exact.mean, exact.low, exact.high) == pytest.approx((10.0, 10.0, 10.0))
    draw = random.Random(1)
    after = [b * (1.1 + draw.uniform(-0.1, 0.1)) for b in before]
    one, two = (paired_bootstrap(before, after, percent) for _ in range(2))
    assert one == two and one.low < one.mean < one.high and not one.is_chance
    chance = paired_bootstrap([1.0, 2.0, 3.0], [1.2, 1.8, 3.0], percent)
    assert chance.is_chance
    alone = paired_bootstrap([1.0], [2.0], percent)
    assert alone.is_chance, "one pair has no interval"
    with pytest.raises(ValueError, match="2 and 1 values are no pairs"):
        paired_bootstrap([1.0, 2.0], [1.0], percent)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draw = random.Random(5)
    hits = 0
    for at in range(60):
        before = [draw.gauss(100.0, 10.0) for _ in range(16)]
        after = [b * 0.9 + draw.gauss(0.0, 5.0) for b in before]
        interval = paired_bootstrap(before, after, percent, seed=at)
        hits += interval.low <= -10.0 <= interval.high
    assert hits >= 51, f"{hits} of 60: a percentile interval of 16 seeds covers about 92 %"
