"""The bench on a real device: blocks of products, timed by device events, queued without gaps (torch).

A block is a few dropped repetitions and then the counted ones. The next block is queued before the last
one is read, so a device at its power limit stays there. Devices without events are timed by the host's
clock around each product, and the report says so.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from clusterprobe.device import Device, device_module, load_torch
from clusterprobe.exits import UNEXPECTED, ProbeFailure
from clusterprobe.matmul_data import MatmulOperands, OperandsTooLarge
from clusterprobe.matmul_plan import SWEEP_SECONDS
from clusterprobe.matmul_samples import MatmulLook, judge_block
from clusterprobe.matmul_search import AS_ASKED, COUNTED, LookJob, MatmulBench
from clusterprobe.matmul_shapes import MatmulShape

FEWEST_REPS = 3
MOST_REPS = 20_000
DROP_SHARE, DROP_SECONDS = 0.3, 0.15  # the power limit reacts within 0.1 s
WAKE_SECONDS = 0.003
BURST_SECONDS = 0.05  # shorter than the power limit's reaction
CALIBRATION_SECONDS = 0.2
FIRST_GUESS = 1e11  # FLOP/s until something was timed


@dataclass
class QueuedBlock:
    """A block on its way: its shape, what to drop, and its events or host times."""

    shape: MatmulShape
    drop: int
    events: List[Any]
    times: List[float]
    paired: bool = False


def error_text(error: BaseException) -> str:
    """The first telling line of torch's error, short enough for a row."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:160]


class DeviceBench(MatmulBench):
    """Looks at shapes on one device in one format."""

    def __init__(self, device: Device, operands: MatmulOperands, peak: Optional[float] = None,
                 cache: str = "rotate", iterations: Optional[int] = None, warmups: Optional[int] = None,
                 clock: Callable[[], float] = time.perf_counter, pulse: Callable[[], None] = lambda: None) -> None:
        self.torch = load_torch()
        self.device, self.operands, self.peak = device, operands, peak
        self.module = device_module(device.kind)
        self.iterations, self.warmups = iterations, warmups
        self._clock = clock
        self._pulse = pulse  # says for each block that this rank is at work
        self._per_rep: Dict[MatmulShape, float] = {}
        self._rate = FIRST_GUESS
        self._event = getattr(self.module, "Event", None) if device.kind != "cpu" else None
        self._spare: List[Any] = []
        self._flush = self._flush_buffer() if cache == "flush" else None

    @property
    def timer(self) -> str:
        return "device events" if self._event else "host clock around each product"

    def now(self) -> float:
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def look(self, jobs: Sequence[LookJob]) -> Iterator[MatmulLook]:
        began = self.now()
        waiting: Optional[QueuedBlock] = None
        for shape, seconds in jobs:
            block = self._launch(shape, seconds)
            if waiting is not None:
                look = self._collect(waiting, began)
                began = look.ended
                yield look
            waiting = block if isinstance(block, QueuedBlock) else None
            if isinstance(block, MatmulLook):
                yield block
        if waiting is not None:
            yield self._collect(waiting, began)

    def hold(self, shape: MatmulShape, seconds: float) -> MatmulLook:
        """One long block for the sustained figure."""
        return next(self.look([(shape, seconds)]))

    def burst(self, shape: MatmulShape, rest: float) -> MatmulLook:
        """After a rest: a few ms dropped, then as many as end before the power limit reacts."""
        self.rest(rest)
        drop = 2 + int(WAKE_SECONDS / self.expected(shape))  # a device that slept raises its clock first
        reps = max(FEWEST_REPS, int(BURST_SECONDS / self.expected(shape)))
        began = self.now()
        block = self._guarded(shape, lambda: self._queue(shape, drop, min(reps, MOST_REPS)))
        return self._collect(block, began) if isinstance(block, QueuedBlock) else block

    def calibrate(self, shapes: Sequence[MatmulShape], enough: float = 2e-3) -> float:
        """FLOP/s from growing products, until one takes long enough to say something about large ones."""
        for shape in shapes:
            look = next(self.look([(shape, COUNTED)]))
            if look.tflops:
                self._rate = look.tflops * 1e12
            if shape.flop / self._rate >= enough or look.ended - look.began > CALIBRATION_SECONDS:
                break
        return self._rate

    def expected(self, shape: MatmulShape) -> float:
        """Seconds of one product, from its own last look or from the general rate."""
        return self._per_rep.get(shape) or max(shape.flop / self._rate, 1e-6)

    def _launch(self, shape: MatmulShape, seconds: float) -> Any:
        refusal = self.operands.dtype.refusal(shape, self.device.kind)
        if refusal:
            return MatmulLook(shape, reason=refusal)
        each = self.expected(shape)
        drop = 1 + min(MOST_REPS, int(min(DROP_SHARE * seconds, DROP_SECONDS) / each))
        reps = max(FEWEST_REPS, min(MOST_REPS, round(seconds / each)))
        if seconds == COUNTED:
            drop, reps = 1, FEWEST_REPS
        elif seconds == AS_ASKED:
            drop = self.warmups if self.warmups is not None else 1
            reps = self.iterations or max(FEWEST_REPS, min(MOST_REPS, round(SWEEP_SECONDS / each)))
        return self._guarded(shape, lambda: self._queue(shape, drop, reps))

    def _guarded(self, shape: MatmulShape, action: Callable[[], QueuedBlock]) -> Any:
        """A shape that can't be measured is a row with a reason; a dead device ends the run."""
        self._pulse()
        try:
            return action()
        except OperandsTooLarge as error:
            return MatmulLook(shape, reason=f"does not fit: {error}")
        except RuntimeError as error:
            text = error_text(error)
            self._still_alive(text)
            short = "out of memory" in str(error).lower()
            return MatmulLook(shape, reason="out of device memory" if short else text)

    def _still_alive(self, text: str) -> None:
        try:
            if self.module is not None:
                self.module.synchronize()
        except RuntimeError:
            raise ProbeFailure(UNEXPECTED, f"{self.device.label} stopped working: {text}",
                               "look for Xid or ECC messages in the kernel log") from None

    def _queue(self, shape: MatmulShape, drop: int, reps: int) -> QueuedBlock:
        sets = self.operands.sets(shape)
        multiply = self.operands.multiply
        if self._event is None:
            return QueuedBlock(shape, drop, [], self._host_times(sets, drop, reps, self.expected(shape)))
        block = QueuedBlock(shape, drop, [], [], self._flush is not None)
        if not block.paired:
            block.events.append(self._mark())
        for turn in range(drop + reps):
            if block.paired:
                self._flush.zero_()
                block.events.append(self._mark())
            multiply(*sets[turn % len(sets)])
            block.events.append(self._mark())
        return block

    def _mark(self) -> Any:
        event = self._spare.pop() if self._spare else self._event(enable_timing=True)
        event.record()
        return event

    def _host_times(self, sets: List[Tuple[Any, Any, Any]], drop: int, reps: int, each: float) -> List[float]:
        """As many as planned, fewer when they turn out far slower than expected."""
        times: List[float] = []
        end = self.now() + max(0.5, 3 * (drop + reps) * each)
        while len(times) < drop + reps and (len(times) < drop + FEWEST_REPS or self.now() < end):
            turn = len(times)
            if self._flush is not None:
                self._flush.zero_()
            self._wait()
            start = self._clock()
            self.operands.multiply(*sets[turn % len(sets)])
            self._wait()
            times.append(self._clock() - start)
        return times

    def _wait(self) -> None:
        if self.module is not None:
            self.module.synchronize()

    def _collect(self, block: QueuedBlock, began: float) -> MatmulLook:
        times = block.times
        if block.events:
            try:
                block.events[-1].synchronize()
                step = 2 if block.paired else 1
                times = [block.events[place].elapsed_time(block.events[place + 1]) / 1000.0
                         for place in range(0, len(block.events) - 1, step)]
            except RuntimeError as error:
                self._still_alive(error_text(error))
                return MatmulLook(block.shape, reason=error_text(error))
            self._spare.extend(block.events)
        look = judge_block(block.shape, times[block.drop:], self.peak, began, self.now())
        if look.tflops:
            self._per_rep[block.shape] = block.shape.flop / look.tflops / 1e12
        return look

    def _flush_buffer(self) -> Any:
        size = max(4 * (self.device.l2_bytes or 0), 64 << 20)
        return self.torch.empty(size, dtype=self.torch.uint8, device=self.device.label)
