"""Statistics in plain Python: medians with an interval, percentiles, and who is odd.

Times are skewed and have outliers, so the tools report medians with an order-statistic interval and
judge ranks by the median absolute deviation. The deviation has a relative floor: in a group whose
members are nearly equal the raw deviation is near zero and every last digit would look like a fault.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

NORMAL_CONSISTENCY = 1.4826  # makes the MAD of a normal sample estimate its standard deviation


@dataclass(frozen=True)
class Interval:
    """A confidence interval; `coverage` is what the sample size allows, at most the wanted level."""

    low: float
    high: float
    coverage: float


@dataclass(frozen=True)
class Summary:
    """What a row of a table says about its samples."""

    count: int
    median: float
    p99: float
    minimum: float
    maximum: float
    interval: Interval

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the median: the precision reached."""
        return (
            (self.interval.high - self.interval.low) / 2 / self.median if self.median else math.inf
        )

    def as_json(self) -> Dict[str, object]:
        return {
            "median": self.median,
            "p99": self.p99,
            "min": self.minimum,
            "max": self.maximum,
            "ci": [self.interval.low, self.interval.high],
            "count": self.count,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between order statistics; 50 is the median."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100.0
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    return percentile(values, 50.0)


def binomial_below(n: int, k: int) -> float:
    """P(X <= k) for n fair coins, from log-gammas, so that large n does not overflow."""
    if k < 0:
        return 0.0
    half = n * math.log(2.0)
    terms = (
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - half
        for i in range(min(k, n) + 1)
    )
    return min(1.0, sum(math.exp(term) for term in terms))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Distribution-free interval for the median: the k-th smallest to the k-th largest value.

    Below six values no such pair covers 95%; the whole range is returned with its true coverage.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n == 0:
        raise ValueError("no values")
    if n > 1000:  # the normal approximation is exact enough and does not sum a thousand terms
        spread = 1.959964 if confidence == 0.95 else _normal_quantile(0.5 + confidence / 2)
        k = max(0, math.floor(n / 2 - spread * math.sqrt(n) / 2) - 1)
        return Interval(ordered[k], ordered[n - 1 - k], confidence)
    k = 0
    while k + 1 < n - 1 - k and 1 - 2 * binomial_below(n, k + 1) >= confidence:
        k += 1
    return Interval(ordered[k], ordered[n - 1 - k], max(0.0, 1 - 2 * binomial_below(n, k)))


def _normal_quantile(p: float) -> float:
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < p else (low, middle)
        )
    return low


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, rounds: int = 1000, seed: int = 0
) -> Interval:
    """Percentile bootstrap of the median, for small samples where order statistics are too wide."""
    if not values:
        raise ValueError("no values")
    chance = random.Random(seed)
    medians = [median(chance.choices(values, k=len(values))) for _ in range(rounds)]
    tail = (1 - confidence) / 2 * 100
    return Interval(percentile(medians, tail), percentile(medians, 100 - tail), confidence)


def summary_of(values: Sequence[float]) -> Summary:
    return Summary(
        len(values),
        median(values),
        percentile(values, 99.0),
        min(values),
        max(values),
        median_interval(values),
    )


def robust_scores(values: Sequence[float], relative_floor: float = 0.02) -> List[float]:
    """Distance of each value from the median in robust standard deviations.

    The deviation is never taken below `relative_floor` of the median's size.
    """
    if not values:
        return []
    centre = median(values)
    spread = NORMAL_CONSISTENCY * median([abs(value - centre) for value in values])
    scale = max(spread, relative_floor * abs(centre))
    return [(value - centre) / scale if scale else 0.0 for value in values]


def odd_ones(
    values: Sequence[float],
    threshold: float = 3.5,
    relative_floor: float = 0.02,
    side: str = "both",
) -> List[Tuple[int, float]]:
    """(index, score) of values that stand apart, worst first; `side` is low, high or both.

    Fewer than three values have no majority, so nothing is odd among them.
    """
    if len(values) < 3:
        return []
    found = [
        (index, score)
        for index, score in enumerate(robust_scores(values, relative_floor))
        if (side != "high" and score < -threshold) or (side != "low" and score > threshold)
    ]
    return sorted(found, key=lambda pair: -abs(pair[1]))


def relative_slope(times: Sequence[float], values: Sequence[float]) -> Optional[float]:
    """Least-squares change over the window, as a share of the mean; None with fewer than three points."""
    n = len(values)
    if n < 3 or times[-1] == times[0]:
        return None
    mean_t, mean_v = sum(times) / n, sum(values) / n
    above = sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values))
    below = sum((t - mean_t) ** 2 for t in times)
    return above / below * (times[-1] - times[0]) / mean_v if below and mean_v else None
