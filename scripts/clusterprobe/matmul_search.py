"""The search for the fastest shape under a time budget. No torch: it talks to a bench, real or recorded.

Comes in: a grid, candidates, a bench that can look at shapes. Goes out: scores in two states and the
finalists. One look is worth little on a device that throttles, so the field is halved in rounds of growing
length, first cool (full clock, short, with rests), then hot (at the power limit, no rests); then the best
are moved along the grid; finalists are measured interleaved, so that drift hits all of them alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from clusterprobe.matmul_samples import (
    MatmulLook,
    ShapeScore,
    clearly_better,
    looks_interval,
    rank_scores,
    round_drift,
    work_over_time,
)
from clusterprobe.matmul_shapes import MatmulShape, ShapeGrid
from clusterprobe.stats import Interval

LookJob = Tuple[MatmulShape, float]
Tell = Callable[[str], None]
STEADY_DRIFT = 0.005  # change over the finals below which the state counts as steady
COUNTED, AS_ASKED = 0.0, -1.0  # in place of seconds: the fewest repetitions, or --num-iterations of them
KEEP_COOL, KEEP_HOT = 4, 4  # of how many one goes on
WIDEN_SHARE, WIDEN_BEST = 0.25, 8  # of the cool screen: the share for neighbours of the best few
COOL_GROUP = 8  # shapes between two rests of the cool screen
OVERRUN = 1.6  # a step that takes this many times its share is cut short
BLOCK_OVERHEAD = 1.35  # a block takes this much more than its timed part: its first repetitions are dropped


class MatmulBench:
    """What the search asks of a device or of a recording."""

    def now(self) -> float:
        raise NotImplementedError

    def look(self, jobs: Sequence[LookJob]) -> Iterator[MatmulLook]:
        """Blocks without pauses, one per (shape, seconds), in order."""
        raise NotImplementedError

    def rest(self, seconds: float) -> None:
        """Let the device cool."""
        raise NotImplementedError


@dataclass(frozen=True)
class SearchPlan:
    """How the budget (seconds of measuring) is divided, and how many shapes each step keeps."""

    budget: float
    candidates: int = 360
    finalists: int = 6
    burst_finalists: int = 4
    rest_ratio: float = 2.0  # rest this many times as long as the cool looks took
    cool: float = 0.13
    heat: float = 0.05
    first: float = 0.11
    second: float = 0.08
    descent: float = 0.12
    semi: float = 0.09
    finals: float = 0.26
    hold: float = 0.07
    burst: float = 0.09

    def seconds(self, step: str) -> float:
        return float(getattr(self, step)) * self.budget


class ShapeSearch:
    """Scores in the cool and in the hot state, filled step by step; usable at any moment."""

    def __init__(self, grid: ShapeGrid, bench: MatmulBench, plan: SearchPlan, chance: random.Random,
                 admits: Callable[[MatmulShape], bool] = lambda shape: True, tell: Tell = lambda text: None) -> None:
        self.grid = grid
        self.bench = bench
        self.plan = plan
        self.cool: Dict[MatmulShape, ShapeScore] = {}
        self.hot: Dict[MatmulShape, ShapeScore] = {}
        self._chance = chance
        self._admits = admits
        self._tell = tell

    def run(self, candidates: Sequence[MatmulShape]) -> List[MatmulShape]:
        """All steps up to the finalists, best first."""
        began = self.bench.now()
        self._screen_cool(candidates, began + (1 - WIDEN_SHARE) * self.plan.seconds("cool"))
        screened = len(self.cool)
        for stride in (2, 1):
            self._screen_cool(self._around_best_cool(stride), began + self.plan.seconds("cool"))
        kept = self._best(self.cool, max(12, len(self.cool) // KEEP_COOL))
        self._tell(f"cool screen: {screened} of {len(candidates)} candidates and {len(self.cool) - screened} around "
                   f"the best, {len(kept)} go on")
        self._heat(kept[:1])
        self._round("first", kept)
        kept = self._best(self.hot, max(8, len(kept) // KEEP_HOT))
        self._round("second", kept, 2)
        before = len(self.hot)
        self._descend(self._best(self.hot, 4))
        self._tell(f"hot rounds: {before} shapes, then {len(self.hot) - before} more around the best four")
        self._round("semi", self._best(self.hot, 2 * self.plan.finalists), 3)
        return self._best(self.hot, self.plan.finalists)

    def sweep(self, shapes: Sequence[MatmulShape], seconds: float, passes: int = 1,
              shuffle: bool = True) -> List[MatmulShape]:
        """Every shape given: once cool, then hot, in a new random order each pass; finalists, best first."""
        order = list(shapes)
        if shuffle:
            self._chance.shuffle(order)
        self._screen_cool(order, float("inf"))
        self._heat(self._best(self.cool, 1))
        for _ in range(passes):
            if shuffle:
                self._chance.shuffle(order)
            for look in self.bench.look([(shape, seconds) for shape in order]):
                self._note(self.hot, look)
        return self._best(self.hot, self.plan.finalists)

    def best_cool(self) -> List[MatmulShape]:
        return self._best(self.cool, self.plan.burst_finalists)

    @property
    def measured(self) -> int:
        """Shapes with a figure."""
        return sum(1 for shape in set(self.cool) | set(self.hot)
                   if any(scores[shape].tflops for scores in (self.cool, self.hot) if shape in scores))

    def _best(self, scores: Dict[MatmulShape, ShapeScore], count: int) -> List[MatmulShape]:
        return [score.shape for score in rank_scores(scores)[:count]]

    def _note(self, scores: Dict[MatmulShape, ShapeScore], look: MatmulLook) -> None:
        scores.setdefault(look.shape, ShapeScore(look.shape, scores is self.hot)).looks.append(look)

    def _screen_cool(self, candidates: Sequence[MatmulShape], end: float) -> None:
        """The fewest repetitions that give a median, in groups with rests, until the share is used."""
        for first in range(0, len(candidates), COOL_GROUP):
            began = self.bench.now()
            if first and began >= end:
                return
            for look in self.bench.look([(shape, COUNTED) for shape in candidates[first:first + COOL_GROUP]]):
                self._note(self.cool, look)
            left = max(0.0, end - self.bench.now())
            self.bench.rest(min(left, self.plan.rest_ratio * (self.bench.now() - began)))

    def _around_best_cool(self, stride: int) -> List[MatmulShape]:
        """Neighbours, not looked at yet, of the best so far; cool looks are cheap."""
        found = [near for shape in self._best(self.cool, WIDEN_BEST) for near in self.grid.neighbours(shape, stride)
                 if near not in self.cool and self._admits(near)]
        return list(dict.fromkeys(found))

    def _heat(self, shapes: Sequence[MatmulShape]) -> None:
        """Reach the power limit before anything hot counts."""
        end = self.bench.now() + self.plan.seconds("heat")
        while shapes and self.bench.now() < end:
            looks = list(self.bench.look([(shapes[0], self.plan.seconds("heat") / 4)]))
            if looks[-1].reason:
                return

    def _round(self, step: str, shapes: Sequence[MatmulShape], passes: int = 1) -> None:
        """The share divided equally, in a new random order each pass, so that swings of the state average out."""
        order = list(shapes)
        share = self.plan.seconds(step)
        for _ in range(passes if order else 0):
            self._chance.shuffle(order)
            self._look_hot(order, share / passes / len(order) / BLOCK_OVERHEAD, self.bench.now() + OVERRUN * share)

    def _look_hot(self, shapes: Sequence[MatmulShape], seconds: float, end: float) -> Dict[MatmulShape, MatmulLook]:
        """Looks until `end`; devices far slower than they first seemed get through fewer shapes."""
        looks = {}
        for look in self.bench.look([(shape, seconds) for shape in shapes]):
            self._note(self.hot, look)
            looks[look.shape] = look
            if self.bench.now() > end:
                break
        return looks

    def _descend(self, starts: List[MatmulShape]) -> None:
        """Move each start along the axes, 4, 2, then 1 grid steps, only on a gain that the intervals show."""
        end = self.bench.now() + self.plan.seconds("descent")
        seconds = self.plan.seconds("descent") / 84 / BLOCK_OVERHEAD  # three batches of four starts and neighbours
        stride = 4
        while starts and stride and self.bench.now() < end:
            around = {start: [one for one in self.grid.neighbours(start, stride) if self._admits(one)]
                      for start in starts}
            batch = sorted({shape for start in starts for shape in (start, *around[start])})
            self._chance.shuffle(batch)
            looks = self._look_hot(batch, seconds, end + self.plan.seconds("descent"))
            moved = [self._step(start, around[start], looks) for start in starts]
            if moved == starts:
                stride //= 2
            starts = list(dict.fromkeys(moved))

    @staticmethod
    def _step(start: MatmulShape, around: Sequence[MatmulShape],
              looks: Dict[MatmulShape, MatmulLook]) -> MatmulShape:
        better = [one for one in around
                  if one in looks and start in looks and clearly_better(looks[one], looks[start])]
        return max(better, key=lambda one: looks[one].mean or 0.0, default=start)


@dataclass
class FinalScore:
    """One finalist: the windows of all its rounds, and its blocks for the telemetry."""

    shape: MatmulShape
    looks: List[MatmulLook] = field(default_factory=list)

    @property
    def tflops(self) -> Optional[float]:
        return work_over_time(self.looks)

    @property
    def interval(self) -> Optional[Interval]:
        return looks_interval(self.looks)


@dataclass(frozen=True)
class FinalTable:
    """Finalists, fastest first, and how the state moved while they were measured."""

    scores: Tuple[FinalScore, ...]
    rounds: int
    drift: Optional[float]

    @property
    def steady(self) -> Optional[bool]:
        return None if self.drift is None else abs(self.drift) < STEADY_DRIFT

    def near_ties(self) -> List[MatmulShape]:
        """Finalists that can't be told from the first: their intervals touch."""
        first = self.scores[0].interval if self.scores else None
        return [score.shape for score in self.scores[1:]
                if first and score.interval and score.interval.high >= first.low]


def run_finals(shapes: Sequence[MatmulShape], bench: MatmulBench, seconds: float, rounds: int = 4,
               most_rounds: int = 10) -> FinalTable:
    """A B C, B C A, C A B …: no pause, the same total for each; more rounds while the state still drifts."""
    scores = {shape: FinalScore(shape) for shape in shapes}
    block = seconds / max(1, len(shapes) * rounds) / BLOCK_OVERHEAD
    done = 0
    end = bench.now() + OVERRUN * seconds
    while done < rounds or (done < most_rounds and unsteady(scores.values(), done)):
        if done and bench.now() > end:
            break
        turn = done % max(1, len(shapes))
        order = [*shapes[turn:], *shapes[:turn]]
        for look in bench.look([(shape, block) for shape in order]):
            scores[look.shape].looks.append(look)
        done += 1
    ranked = sorted((one for one in scores.values() if one.tflops is not None),
                    key=lambda one: (-(one.tflops or 0.0), one.shape))
    return FinalTable(tuple(ranked), done, drift_of(scores.values(), done))


def drift_of(scores: Iterable[FinalScore], rounds: int) -> Optional[float]:
    complete = [one for one in scores if sum(look.mean is not None for look in one.looks) == rounds]
    if not complete:
        return None
    return round_drift([[one.looks[turn].mean or 0.0 for one in complete] for turn in range(rounds)])


def unsteady(scores: Iterable[FinalScore], rounds: int) -> bool:
    drift = drift_of(scores, rounds)
    return drift is not None and abs(drift) >= STEADY_DRIFT
