"""Statistics against brute force and known values."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from clusterprobe.stats import (
    binomial_below,
    bootstrap_interval,
    median,
    median_interval,
    odd_ones,
    percentile,
    relative_slope,
    robust_scores,
    summary_of,
)


def test_median_and_percentiles():
    chance = random.Random(1)
    for size in (1, 2, 5, 100, 1001):
        values = [chance.expovariate(1) for _ in range(size)]
        assert median(values) == pytest.approx(statistics.median(values))
        assert percentile(values, 0) == min(values)
        assert percentile(values, 100) == max(values)
    assert percentile([1, 2, 3, 4], 25) == 1.75
    with pytest.raises(ValueError, match="no values"):
        median([])


def test_binomial_is_exact():
    for n in (5, 20, 61):
        for k in range(-1, n + 1):
            exact = sum(math.comb(n, i) for i in range(k + 1)) / 2**n
            assert binomial_below(n, k) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("size", [6, 9, 25, 200])
def test_interval_covers_the_median(size):
    """Over many samples the true median lies inside at least as often as promised."""
    chance, inside, rounds = random.Random(size), 0, 600
    for _ in range(rounds):
        interval = median_interval([chance.expovariate(1) for _ in range(size)])
        inside += interval.low <= math.log(2) <= interval.high
        assert interval.coverage >= 0.95
    assert inside / rounds > 0.93


def test_interval_is_as_narrow_as_it_may():
    """For 25 values the textbook pair is the 8th and the 18th (95.7%)."""
    interval = median_interval(list(range(1, 26)))
    assert (interval.low, interval.high) == (8, 18)
    assert interval.coverage == pytest.approx(0.9567, abs=1e-3)


def test_interval_of_few_and_of_many():
    few = median_interval([3.0, 1.0, 2.0])
    assert (few.low, few.high, few.coverage) == (1.0, 3.0, pytest.approx(0.75))
    one = median_interval([4.0])
    assert (one.low, one.high, one.coverage) == (4.0, 4.0, 0.0)
    many = median_interval(list(range(100_001)))
    assert many.low < 50_000 < many.high
    assert many.high - many.low < 800


def test_bootstrap_repeats_and_contains():
    values = [1.0, 1.1, 0.9, 1.05, 0.95, 5.0]
    first, second = bootstrap_interval(values, seed=3), bootstrap_interval(values, seed=3)
    assert first == second
    assert first.low <= median(values) <= first.high < 5.0


def test_summary():
    found = summary_of([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (found.count, found.median, found.minimum, found.maximum) == (5, 3.0, 1.0, 100.0)
    assert found.p99 == pytest.approx(96.16)
    assert found.as_json()["ci"] == [1.0, 100.0]
    assert summary_of([2.0] * 20).half_width == 0


def test_no_alarm_on_equal_values():
    assert robust_scores([5.0] * 16) == [0.0] * 16
    assert odd_ones([5.0] * 16) == []
    assert odd_ones([5.0 + 1e-9 * i for i in range(16)]) == []


def test_one_rank_below_a_zero_deviation():
    """15 equal values and one 12% lower: the raw deviation is 0, the floor makes it a finite score."""
    values = [100.0] * 15 + [88.0]
    assert odd_ones(values) == [(15, pytest.approx(-6.0))]
    assert odd_ones(values, side="high") == []
    assert odd_ones(values, relative_floor=0.05) == []


def test_two_values_have_no_majority():
    assert odd_ones([1.0, 100.0]) == []


def test_noise_raises_few_alarms():
    chance = random.Random(7)
    alarms = sum(
        bool(odd_ones([chance.gauss(100, 5) for _ in range(64)], threshold=5)) for _ in range(200)
    )
    assert alarms < 4


def test_slope():
    times = [0.0, 1.0, 2.0, 3.0]
    assert relative_slope(times, [10, 10, 10, 10]) == 0
    assert relative_slope(times, [100, 101, 102, 103]) == pytest.approx(3 / 101.5)
    assert relative_slope([0, 1], [1, 2]) is None
    assert relative_slope([1, 1, 1], [1, 2, 3]) is None
