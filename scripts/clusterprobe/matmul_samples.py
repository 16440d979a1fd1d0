"""From times of repetitions to a figure: rejection of impossible samples, rate, interval, steadiness. No torch.

Two rates, for two states. At full clock the repetitions are alike but for outliers: the median. At the power
limit the clock swings between steps several times a second, the times have two humps, and the median jumps
from one to the other; what a long job gets is all work over all time. (On an H200, blocks of 0.3 s: medians
scatter by 1.1%, means by 0.5%.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.stats import Interval, median, median_interval, relative_slope

WINDOWS = 6  # a block is cut into this many windows, or into more of at most WINDOW_SECONDS
WINDOW_SECONDS = 0.05
WINDOW_CORRELATION = 1.2  # neighbouring windows share a clock; measured correlation 0.16
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)  # by degrees of freedom from 1
ABOVE_PEAK = 1.05  # a sample faster than the vendor's peak by more than this is a broken clock


@dataclass(frozen=True)
class MatmulLook:
    """One look at one shape: a block of repetitions without a pause. No figure when `reason` is set.

    `tflops` and `interval` are of the median repetition, `mean` is all work over all time, and `windows` are
    the means of consecutive parts of the block.
    """

    shape: MatmulShape
    tflops: Optional[float] = None
    interval: Optional[Interval] = None
    mean: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    reps: int = 0
    rejected: int = 0
    seconds: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    reason: str = ""
    windows: Tuple[float, ...] = ()
    window_seconds: Tuple[float, ...] = ()


def split_samples(seconds: Sequence[float], flop: float, peak_tflops: Optional[float]) -> Tuple[List[float], int]:
    """(usable times, number rejected): nothing at or below zero, nothing faster than the hardware can be."""
    fastest = flop / (peak_tflops * ABOVE_PEAK * 1e12) if peak_tflops else 0.0
    usable = [value for value in seconds if value > 0 and value >= fastest]
    return usable, len(seconds) - len(usable)


def judge_block(shape: MatmulShape, seconds: Sequence[float], peak_tflops: Optional[float] = None,
                began: float = 0.0, ended: float = 0.0) -> MatmulLook:
    """The look that a block of per-repetition times gives."""
    usable, rejected = split_samples(seconds, shape.flop, peak_tflops)
    if not usable:
        return MatmulLook(shape, rejected=rejected, began=began, ended=ended,
                          reason="no usable time: the clock gave values that no device can reach")
    times = median_interval(usable)
    rate = shape.flop / 1e12
    total = sum(usable)
    windows, spans = cut_windows(shape, usable, min(WINDOW_SECONDS, total / WINDOWS))
    return MatmulLook(shape, rate / median(usable), Interval(rate / times.high, rate / times.low, times.coverage),
                      rate * len(usable) / total, rate / max(usable), rate / min(usable), len(usable), rejected,
                      total, began, ended, windows=tuple(windows), window_seconds=tuple(spans))


def mean_interval(windows: Sequence[float], seconds: Sequence[float] = ()) -> Optional[Interval]:
    """95% of the mean of windows, by Student's t, widened for what neighbouring windows share.

    Each window counts with its seconds: the mean is then all work over all time, the figure that the interval
    is of. A window is longer than the others where one repetition was held up.
    """
    n = len(windows)
    if n < 2:
        return None
    weights = seconds or [1.0] * n
    total = sum(weights)
    mean = sum(value * weight for value, weight in zip(windows, weights)) / total
    squares = sum((weight * (value - mean)) ** 2 for value, weight in zip(windows, weights))
    factor = STUDENT_95[n - 2] if n - 2 < len(STUDENT_95) else 1.96 + 2.6 / (n - 1)
    half = WINDOW_CORRELATION * factor * math.sqrt(squares * n / (n - 1)) / total
    return Interval(max(0.0, mean - half), mean + half, 0.95)


def looks_interval(looks: Sequence[MatmulLook]) -> Optional[Interval]:
    """The interval of `work_over_time` of the same blocks."""
    windows = [rate for look in looks for rate in look.windows]
    seconds = [span for look in looks for span in look.window_seconds]
    return mean_interval(windows, seconds if len(seconds) == len(windows) else ())


def work_over_time(looks: Sequence[MatmulLook]) -> Optional[float]:
    """TFLOPS of all counted repetitions of several blocks together."""
    good = [look for look in looks if look.mean]
    seconds = sum(look.seconds for look in good)
    return sum(look.shape.flop * look.reps for look in good) / seconds / 1e12 if seconds else None


@dataclass
class ShapeScore:
    """All looks at one shape in one state: hot counts all work over all time, cool the median of medians."""

    shape: MatmulShape
    hot: bool = True
    looks: List[MatmulLook] = field(default_factory=list)

    @property
    def tflops(self) -> Optional[float]:
        if self.hot:
            return work_over_time(self.looks)
        medians = [look.tflops for look in self.looks if look.tflops is not None]
        return median(medians) if medians else None

    @property
    def seconds(self) -> float:
        return sum(look.seconds for look in self.looks)

    @property
    def reason(self) -> str:
        return next((look.reason for look in self.looks if look.reason), "")


def rank_scores(scores: Dict[MatmulShape, ShapeScore]) -> List[ShapeScore]:
    """Shapes with a figure, fastest first; equal figures in the order of their sizes."""
    return sorted((score for score in scores.values() if score.tflops is not None),
                  key=lambda score: (-(score.tflops or 0.0), score.shape))


def clearly_better(new: MatmulLook, old: MatmulLook) -> bool:
    """The intervals of the two means do not touch."""
    here, there = looks_interval([new]), looks_interval([old])
    return bool(here and there and here.low > there.high)


def cut_windows(shape: MatmulShape, seconds: Sequence[float], width: float) -> Tuple[List[float], List[float]]:
    """(TFLOPS, seconds) of consecutive windows of about `width` seconds; a short rest belongs to the last one.

    Neighbouring repetitions share a clock, so intervals are taken over windows.
    """
    counts: List[int] = []
    spans: List[float] = []
    total, count = 0.0, 0
    for value in seconds:
        total += value
        count += 1
        if total >= width:
            counts.append(count)
            spans.append(total)
            total, count = 0.0, 0
    if count and spans:
        counts[-1] += count
        spans[-1] += total
    return [shape.flop * count / span / 1e12 for count, span in zip(counts, spans)], spans


def round_drift(rounds: Sequence[Sequence[float]]) -> Optional[float]:
    """Change from the first round to the last as a share, from rates[round][shape], each shape against its mean."""
    if len(rounds) < 3:
        return None
    means = [sum(one[place] for one in rounds) / len(rounds) for place in range(len(rounds[0]))]
    relative = [sum(rate / mean for rate, mean in zip(one, means)) / len(means) for one in rounds]
    return relative_slope(list(range(len(rounds))), relative)
