"""One device, one format: probe, search or sweep, finals, hold, burst, check (torch).

Steps that all ranks take together (agreeing on the finalists) come in as the `agree` function.
"""

from __future__ import annotations

import argparse
import random
from typing import Callable, Dict, List, Optional, Sequence

from clusterprobe.device import Device, free_memory
from clusterprobe.matmul_data import MatmulOperands, OperandsTooLarge
from clusterprobe.matmul_dtypes import MatmulDtype
from clusterprobe.matmul_peaks import dense_peak
from clusterprobe.matmul_plan import (
    DEFAULT_LAST_CACHE,
    SWEEP_SECONDS,
    MatmulRequest,
    longest_flop,
    shape_limits,
)
from clusterprobe.matmul_results import DtypeResult, StateFigure, WatchedBench
from clusterprobe.matmul_run import DeviceBench, error_text
from clusterprobe.matmul_samples import MatmulLook, looks_interval, work_over_time
from clusterprobe.matmul_search import (
    AS_ASKED,
    OVERRUN,
    FinalTable,
    SearchPlan,
    ShapeSearch,
    run_finals,
)
from clusterprobe.matmul_shapes import MatmulShape, draw_candidates
from clusterprobe.report import Report
from clusterprobe.stats import median, median_interval
from clusterprobe.telemetry import Telemetry, TelemetrySummary, summarize_samples

PROBE_SHAPE = MatmulShape(256, 256, 512)
TF32_LEAST_ERROR = 2e-5  # in sqrt(K): fp32 stays far below, TF32's 11-bit operands lie far above
BURST_ROUNDS = 3
Agree = Callable[[str, List[MatmulShape]], List[MatmulShape]]


class DtypeRun:
    """The life of one format on this rank's device."""

    def __init__(self, args: argparse.Namespace, request: MatmulRequest, device: Device, dtype: MatmulDtype,
                 telemetry: Telemetry, report: Report, step: Callable[[str], None],
                 pulse: Callable[[], None] = lambda: None) -> None:
        self.args, self.request, self.device, self.dtype = args, request, device, dtype
        self.telemetry, self.report, self.step, self.pulse = telemetry, report, step, pulse
        self.chance = random.Random(args.seed)
        self.peak = dense_peak(device.name, dtype.name)
        self.result = DtypeResult(dtype.name)
        self.cache_bytes = 0 if args.cache == "none" else device.l2_bytes or DEFAULT_LAST_CACHE
        self.plan = SearchPlan(args.budget, candidates=args.candidates, finalists=args.finalists,
                               rest_ratio=0.0 if device.kind == "cpu" else 2.0)
        self.operands: Optional[MatmulOperands] = None
        self.search: Optional[ShapeSearch] = None
        self.watched: Optional[WatchedBench] = None

    # -- probe

    def probe(self) -> str:
        """Why this device can't measure this format; empty when it can. A wrong product is remembered."""
        try:
            self.operands = MatmulOperands(self.device, self.dtype, self.args.data, self.args.layout,
                                           self.cache_bytes if self.args.cache == "rotate" else 0,
                                           self.args.seed, not self.args.slow_accum)
            check = self.operands.check(PROBE_SHAPE, self.chance)
        except (RuntimeError, AttributeError, TypeError, ValueError, OperandsTooLarge) as error:
            self.result.reason = f"not supported here: {error_text(error)}"
            return self.result.reason
        if not check.ok:
            self.result.wrong = f"{self.dtype.name} {PROBE_SHAPE}: {check.sentence()}"
        elif self.dtype.name == "tf32" and self.args.data == "randn" and check.worst < TF32_LEAST_ERROR:
            self.result.reason = "TF32 is not in effect: the products are as exact as fp32's"
        return self.result.reason

    # -- search or sweep

    def find(self, each: Callable[[MatmulLook], None]) -> List[MatmulShape]:
        """Finalists of this device, best first; may be empty when every shape failed."""
        self.bench = DeviceBench(self.device, self.operands, self.peak, self.args.cache,
                                 self.args.num_iterations, self.args.num_warmup_iterations, pulse=self.pulse)
        self.result.timer = self.bench.timer
        self.result.precision = self.operands.torch.get_float32_matmul_precision()
        sides = (256, 512, 1024, 2048, 4096)
        rate = self.bench.calibrate([MatmulShape(side, side, side) for side in sides])
        self.watched = WatchedBench(self.bench, self.report, self.dtype.name, each)
        grid = self.request.grid(longest_flop(self.device.kind, rate))
        restricted = any(self.request.axes)
        limits = shape_limits(self.device.kind, self.dtype, rate, free_memory(self.device.kind), restricted)

        def admits(shape: MatmulShape) -> bool:
            return limits.admits(shape) and not self.dtype.refusal(shape, self.device.kind)

        self.search = ShapeSearch(grid, self.watched, self.plan, self.chance, admits,
                                  lambda text: self.report.line(f"{self.dtype.name}: {text}"))
        self.watched.cool, self.watched.hot = self.search.cool, self.search.hot
        began = self.bench.now()
        if self.request.search:
            drawn = draw_candidates(grid, limits, self.device.units, self.plan.candidates, self.chance)
            candidates = [shape for shape in drawn if admits(shape)]
            self._reserve(candidates)
            finalists = self.search.run(candidates)
            self.result.coverage = f"search, {self.search.measured:,} shapes of {len(grid):,} on the grid"
        else:
            self._reserve(self.request.shapes)
            counted = self.args.num_iterations is not None or self.args.num_warmup_iterations is not None
            finalists = self.search.sweep(self.request.shapes, AS_ASKED if counted else SWEEP_SECONDS,
                                          self.args.passes, self.args.order == "shuffled")
            self.result.coverage = f"sweep, {len(self.request.shapes):,} shape(s)"
        self.result.coverage += f", {self.bench.now() - began:.0f} s"
        # A search passes over what does not fit; shapes that the user named are missed.
        self.result.failed_shapes = 0 if self.request.search else len(self.watched.failed)
        self.watched.refresh("ok" if finalists else "skipped")
        return finalists

    def _reserve(self, shapes: Sequence[MatmulShape]) -> None:
        """One allocation for all shapes that surely fit; the others try alone and become rows."""
        free = free_memory(self.device.kind)
        fitting = [shape for shape in shapes if free is None or shape.touched_bytes(
            self.dtype.in_bytes, self.dtype.out_bytes) < 0.5 * free]
        try:
            self.operands.reserve(fitting)
        except (OperandsTooLarge, RuntimeError) as error:
            self.report.line(f"{self.dtype.name}: operands are allocated shape by shape ({error_text(error)})")

    # -- finals

    def finish(self, finalists: List[MatmulShape], agree: Agree) -> DtypeResult:
        """Finals, hold of the winner, burst, checks; fills and returns the result."""
        cool = self.search.best_cool() if self.search else []
        shared = agree("finalists", finalists)
        burst_shapes = agree("burst", list(dict.fromkeys([*cool, *finalists[:3]])))[:self.plan.burst_finalists + 3]
        if not shared:
            self.result.reason = "no shape could be measured" + self._first_failure()
            return self.result
        self.step(f"{self.dtype.name} finals")
        table = run_finals(shared, self.bench, self.plan.seconds("finals"))
        self._keep_finals(table)
        winners = agree("winner", [score.shape for score in table.scores])
        if not winners:
            self.result.reason = "no finalist could be measured"
            return self.result
        winner = winners[0]
        self.step(f"{self.dtype.name} hold {winner}")
        held = self.bench.hold(winner, self.plan.seconds("hold") / 1.1)
        self.result.sustained = self._figure("sustained", winner, [held])
        self.result.lost = "" if held.tflops else f"{winner}: {held.reason}"
        self.step(f"{self.dtype.name} burst")
        self._burst(burst_shapes or shared)
        self.step(f"{self.dtype.name} check")
        self._check()
        self.result.complete = True
        return self.result

    def _first_failure(self) -> str:
        failures = list(self.watched.failed.items()) if self.watched else []
        return f"; {failures[0][0]}: {failures[0][1]}" if failures else ""

    def _keep_finals(self, table: FinalTable) -> None:
        self.result.finals = [self._figure("final", score.shape, score.looks) for score in table.scores]
        self.result.near_ties = [str(shape) for shape in table.near_ties()]
        self.result.rounds, self.result.drift, self.result.steady = table.rounds, table.drift, table.steady

    def _burst(self, shapes: Sequence[MatmulShape]) -> None:
        """Every shape after a rest, in rounds, so that the slow warming of the device hits all alike."""
        share = self.plan.seconds("burst") / (BURST_ROUNDS * len(shapes))
        rest = 0.0 if self.device.kind == "cpu" else min(0.6, max(0.05, share - 0.06))
        looks: Dict[MatmulShape, List[MatmulLook]] = {shape: [] for shape in shapes}
        end = self.bench.now() + OVERRUN * self.plan.seconds("burst")
        for turn in range(BURST_ROUNDS):
            if turn and self.bench.now() > end:
                break
            for shape in shapes:
                looks[shape].append(self.bench.burst(shape, rest))
        self.result.bursts = [self._figure("burst", shape, found) for shape, found in looks.items()]
        self._rank_bursts()

    def _figure(self, state: str, shape: MatmulShape, looks: Sequence[MatmulLook]) -> StateFigure:
        """Burst: the median of the blocks' medians, with their range. Otherwise all work over all time."""
        good = [look for look in looks if look.tflops is not None]
        if state == "burst":
            rates = [look.tflops for look in good if look.tflops is not None]
            rate = median(rates) if rates else None
            interval = median_interval(rates) if len(rates) > 1 else None  # one look has no range
        else:
            rate = work_over_time(good)
            interval = looks_interval(good)
        ci = [interval.low, interval.high] if interval else None
        return StateFigure(state, shape, rate, ci, interval.coverage if interval else None,
                           sum(look.reps for look in looks), sum(look.rejected for look in looks),
                           self._seen(good), self.peak)

    def _seen(self, looks: Sequence[MatmulLook]) -> TelemetrySummary:
        samples = [one for one in list(self.telemetry.samples)
                   if any(look.began <= one.when <= look.ended for look in looks)]
        return summarize_samples(samples)

    def _check(self) -> None:
        """Sampled rows of every shape that has a figure; the hot device is the one that must be right."""
        figures = [*self.result.finals, *self.result.bursts, self.result.sustained]
        for shape in dict.fromkeys(one.shape for one in figures if one is not None and one.tflops):
            try:
                check = self.operands.check(shape, self.chance)
            except (RuntimeError, OperandsTooLarge) as error:  # its copies may not fit beside the operands
                self._forget(shape, error_text(error))
                continue
            for one in figures:
                if one is not None and one.shape == shape:
                    one.checked, one.worst_error = check.checked, check.worst
                    one.wrong = "" if check.ok else check.sentence()
            if check.ok:
                continue
            self.result.wrong = self.result.wrong or f"{self.dtype.name} {shape}: {check.sentence()}"
        self._rank_bursts()

    def _rank_bursts(self) -> None:
        """The fastest first; what lost its figure last."""
        self.result.bursts.sort(key=lambda one: -(one.tflops or 0.0))
        self.result.burst = self.result.bursts[0]

    def _forget(self, shape: MatmulShape, why: str) -> None:
        """What could not be checked is no figure."""
        for one in [*self.result.finals, *self.result.bursts, self.result.sustained]:
            if one is not None and one.shape == shape:
                one.tflops = one.ci = None
        if self.result.sustained is not None and self.result.sustained.shape == shape:
            self.result.lost = f"{shape} could not be checked: {why}"
        self.report.warn(f"{self.dtype.name} {shape} could not be checked: {why}")

    def close(self) -> None:
        if self.operands is not None:
            self.operands.close()
