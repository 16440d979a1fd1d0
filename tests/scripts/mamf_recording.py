"""A recorded sweep as a bench: the search runs against it with injected noise, without a device.

The recorded cool column is nearly free of noise (full clock). The hot one moves by some 2% a cell, because
the power limit's control swings within the few milliseconds that a cell lasted; so the surface that the
hot state is taken from is the line through cool and hot plus a quarter of the cell's own distance from it.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from clusterprobe.matmul_samples import MatmulLook
from clusterprobe.matmul_search import LookJob, MatmulBench
from clusterprobe.matmul_shapes import MatmulShape, ShapeGrid
from clusterprobe.stats import Interval

SWEEP = Path(__file__).parent / "fixtures" / "mamf_h200_sweep.json"
SWINGS = Path(__file__).parents[2] / "chapters/hardware/measurements/h200_ceilings.rates.csv"
SWING_STEP = 0.01
OWN_SHARE = 0.25
WINDOW = 0.05
COOL_NOISE = 0.004


def load_sweep() -> tuple[ShapeGrid, dict[MatmulShape, float], dict[MatmulShape, float]]:
    """(grid, cool TFLOPS, hot TFLOPS as recorded)."""
    rows = json.loads(SWEEP.read_text())["rows"]
    axes = [tuple(sorted({row[place] for row in rows})) for place in range(3)]
    shapes = [MatmulShape(*row[:3]) for row in rows]
    return (ShapeGrid(*axes), {shape: row[3] for shape, row in zip(shapes, rows, strict=True)},
            {shape: row[4] for shape, row in zip(shapes, rows, strict=True)})


def smooth_hot(cool: dict[MatmulShape, float], hot: dict[MatmulShape, float]) -> dict[MatmulShape, float]:
    n = len(cool)
    mean_x, mean_y = sum(cool.values()) / n, sum(hot.values()) / n
    slope = (sum((cool[one] - mean_x) * (hot[one] - mean_y) for one in cool)
             / sum((value - mean_x) ** 2 for value in cool.values()))
    line = {one: mean_y + slope * (cool[one] - mean_x) for one in cool}
    return {one: line[one] + OWN_SHARE * (hot[one] - line[one]) for one in cool}


def load_swings() -> list[float]:
    """The rate of one product held for 30 s at the power limit, every 10 ms, relative to its mean."""
    with SWINGS.open(encoding="utf-8") as file:
        rates = [float(row["tflops"]) for row in csv.DictReader(file) if float(row["seconds"]) > 3]
    mean = sum(rates) / len(rates)
    return [rate / mean for rate in rates]


class RecordedBench(MatmulBench):
    """Hot blocks take their noise from the recorded swings, at the moment they would have run."""

    def __init__(self, cool: dict[MatmulShape, float], hot: dict[MatmulShape, float], seed: int) -> None:
        self.cool, self.hot = cool, hot
        self.chance = random.Random(seed)
        self.swings = load_swings()
        self.clock = self.chance.random() * len(self.swings) * SWING_STEP
        self.began = self.clock
        self.asked: set[MatmulShape] = set()

    def now(self) -> float:
        return self.clock

    def rest(self, seconds: float) -> None:
        self.clock += seconds

    def swing(self, start: float, seconds: float) -> float:
        first = int(start / SWING_STEP)
        count = max(1, round(seconds / SWING_STEP))
        return sum(self.swings[(first + place) % len(self.swings)] for place in range(count)) / count

    def look(self, jobs: Sequence[LookJob]) -> Iterator[MatmulLook]:
        for shape, seconds in jobs:
            self.asked.add(shape)
            truth = (self.cool if seconds <= 0 else self.hot)[shape]
            each = shape.flop / truth / 1e12
            reps = max(3, round(seconds / each))
            spent = reps * each
            start = self.clock + 0.3 * max(0.0, seconds) + each
            self.clock = start + spent
            if seconds <= 0:
                windows = [truth * (1 + self.chance.gauss(0, COOL_NOISE))]
            else:
                count = max(6, round(spent / WINDOW))
                windows = [truth * self.swing(start + place * spent / count, spent / count) for place in range(count)]
            rate = sum(windows) / len(windows)
            # work over time is what counts: the block's time follows from its rate
            yield MatmulLook(shape, rate, Interval(rate, rate, 0.95), rate, rate, rate, reps, 0,
                             reps * shape.flop / rate / 1e12, windows=tuple(windows))
