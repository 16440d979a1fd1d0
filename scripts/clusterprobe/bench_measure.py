"""Measuring one row on one rank: first call, warm-up, rounds of timed iterations, checked calls.

Each timed iteration starts after an alignment barrier. Three stamps are taken: entry, end of the launch,
end. A row's time is the maximum of end - entry over the ranks, per iteration; end - end of the launch is
the wait, by which a late rank is known.
How many iterations follow is decided by rank 0 after each round, so that all ranks do equally many.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from clusterprobe.bench_clock import ClockOffset
from clusterprobe.bench_exchange import BenchExchange
from clusterprobe.case_ring import MOST_RING_SETS, CaseRing
from clusterprobe.deadline import StagePlace
from clusterprobe.stats import median_interval, summary_of

FIRST_ROUND, LONGEST_ROUND = 10, 1000  # iterations between two collections; an early end keeps what was collected
FEWEST = 5
WANTED_WIDTH = 0.01  # half width of the interval, relative to the median
BATCH = 20  # launches of one sample in the stream and graph modes, at least
SAMPLE_NS, MOST_REPEATS = 10_000_000, 50  # starting and ending a sample costs some 0.1 ms: make it long against that


@dataclass(frozen=True)
class Effort:
    """How long to measure. `fixed` iterations when given, else until precise, at most `most` or `seconds`."""

    warmup: int = 5
    fixed: Optional[int] = None
    most: int = 1000
    seconds: float = 2.0
    check: bool = True
    check_every: int = 0
    batch: Optional[int] = None  # calls a sample; None: BATCH, and as many times BATCH as fill SAMPLE_NS
    sets: Optional[int] = None  # of buffers used in turn; None: by the device's cache

    def calls(self, mode: str) -> int:
        """Calls between two uses of the same buffers that a row can have."""
        return self.unit if mode == "graph" else MOST_RING_SETS

    @property
    def unit(self) -> int:
        """Calls of one graph; a sample is one or more of them."""
        return self.batch or BATCH


@dataclass
class Timeline:
    """Nanoseconds of every timed iteration. `worst` is the group's maximum, the rest is this rank's own."""

    own: List[int] = field(default_factory=list)
    wait: List[int] = field(default_factory=list)  # from the end of the launch to the end
    worst: List[int] = field(default_factory=list)
    delay: List[int] = field(default_factory=list)  # entry after the first rank's entry, by common clock
    last: int = 0  # iterations whose wait was the shortest while the others' were long
    lateness: List[int] = field(default_factory=list)  # longest wait - own wait in those iterations
    shortest: List[int] = field(default_factory=list)  # the group's shortest wait


@dataclass
class Measured:
    """One row on this rank."""

    first_ns: int = 0
    line: Timeline = field(default_factory=Timeline)
    checked: int = 0
    wrong: int = 0
    first_wrong: str = ""
    batch: int = 1
    sets: int = 1  # of buffers, used in turn


class RowMeasurement:
    """Drives one case. All ranks of the world call the same methods in the same order."""

    def __init__(self, case: Optional[CaseRing], exchange: BenchExchange, effort: Effort,
                 clock: Optional[ClockOffset], step: Callable[[str], None], place: StagePlace, mode: str) -> None:
        self._case = case
        self._exchange = exchange
        self._effort = effort
        self._clock = clock
        self._step = step
        self._place = place
        self._mode = mode
        self._group = case.seat.group if case else None
        self._graph: Any = None
        self._last_ns = 0
        self._begun = 0
        self._repeats = 1
        self.result = Measured(batch=1 if mode == "block" else effort.unit, sets=len(case) if case else 1)

    def first_call(self) -> None:
        """Apart from all others, since it sets connections up. Raises what the backend raises."""
        self._step("first call")
        self._exchange.highest([0])  # no barrier: gloo's raises again what a call before it was refused for
        if self._case is None:
            self._launched()
            return
        self._case.probe()
        self._case.prepare()
        start = time.perf_counter_ns()
        works = self._case.launch()
        self._launched()
        self._case.wait_all(works)
        self.result.first_ns = time.perf_counter_ns() - start
        self._check()

    def _launched(self) -> None:
        """Past the call itself: a rank that never gets here is behind those that wait for it."""
        self._place.count += 1

    def capture(self) -> None:
        """Record a batch of calls into a CUDA graph."""
        if self._case is None:
            return
        torch = self._case.torch
        self._case.clear()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._case.launch()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._case.rewind()
        self._graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The CUDA Graph is empty")  # one rank in place: nothing to do
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                for _ in range(self._effort.unit):
                    self._case.launch()
        torch.cuda.synchronize()

    def drop_graph(self) -> None:
        """Before the group goes: destroying it with a live graph hangs."""
        self._graph = None

    def run(self) -> None:
        self._warm_up()
        self._begun = time.monotonic_ns()
        planned, done = self._first_round(), 0
        while planned > 0:
            for _ in range(planned):
                self._step(f"iteration {done + 1}")
                every = self._effort.check_every
                self._iterate(bool(every) and self._effort.check and done % every == 0)
                done += 1
            self._collect(planned)
            planned = self._next_round(done)
        self._checked_call()

    def _warm_up(self) -> None:
        rounds = self._exchange.decide(self._effort.warmup if self.result.first_ns < 2e9 else 1)
        for done in range(rounds):
            self._step(f"warm-up {done + 1}")
            self._exchange.align()
            if self._case is not None:
                self._quiet()
                self._launch_once()
            else:
                self._launched()
        self._choose_repeats()

    def _choose_repeats(self) -> None:
        """So many graphs or batches a sample that its start and end weigh little. On a CPU calls in flight cost memory."""
        if self._mode == "block" or self._effort.batch or self._exchange.on_cpu:
            return
        longest = self._exchange.highest([self._last_ns])[0]
        wanted = SAMPLE_NS // longest if longest else 1
        self._repeats = self._exchange.decide(max(1, min(MOST_REPEATS, wanted)))
        self._last_ns *= self._repeats
        self.result.batch = self._effort.unit * self._repeats

    def _first_round(self) -> int:
        """Short when a call is slow: the last warm-up call tells."""
        if self._effort.fixed:
            return self._exchange.decide(min(self._effort.fixed, FIRST_ROUND))
        longest = max(self._exchange.highest([self._last_ns])[0], 1)
        fits = int(self._effort.seconds * 1e9 / longest)
        return self._exchange.decide(max(FEWEST, min(FIRST_ROUND, fits)))

    def _launch_once(self) -> Tuple[int, int, int]:
        """(entry, end of launch, end)."""
        case = self._case
        entry = time.perf_counter_ns()
        if self._mode == "graph":
            for _ in range(self._repeats):
                self._graph.replay()
            launched = time.perf_counter_ns()
            self._place.count += 1
            case.wait_all([])
        elif self._mode == "stream":
            works = [work for _ in range(self.result.batch) for work in case.launch()]
            launched = time.perf_counter_ns()
            self._place.count += 1
            case.wait_all(works)
        else:
            works = case.launch()
            launched = time.perf_counter_ns()
            self._place.count += 1
            case.wait_all(works)
        end = time.perf_counter_ns()
        self._last_ns = end - entry
        return entry, launched, end

    def _quiet(self) -> None:
        """Inputs that stay finite: restored before each call, zeros where calls follow each other."""
        if not self._case.mutates:
            return
        if self._mode == "block":
            self._case.restore()
        else:
            self._case.clear()

    def _iterate(self, checked: bool) -> None:
        case, line = self._case, self.result.line
        if case is not None and checked and self._mode == "block":
            case.prepare()
        elif case is not None:
            self._quiet()
        self._exchange.align()
        if case is None:
            self._place.count += 1 + (checked and self._mode != "block")
            return
        entry, launched, end = self._launch_once()
        line.own.append(end - entry)
        line.wait.append(end - launched)
        line.delay.append(launched)
        if checked and self._mode == "block":
            self._check()
        elif checked:
            self._checked_single()

    def _checked_call(self) -> None:
        """One more call after the timed ones, on restored data, through the same path."""
        if not self._effort.check:
            return
        self._step("checked call")
        self._exchange.align()
        if self._case is not None:
            self._checked_single()
        else:
            self._launched()

    def _checked_single(self) -> None:
        case = self._case
        replayed = self._mode == "graph" and not case.mutates
        if replayed:  # the recorded calls use every set
            case.prepare_all()
            self._graph.replay()
            works: List[Any] = []
        else:
            case.prepare()
            works = case.launch()
        self._launched()
        case.wait_all(works)
        self._check(replayed)

    def _check(self, everywhere: bool = False) -> None:
        case, result = self._case, self.result
        if not self._effort.check or not case.checkable:
            return
        wrong, first = case.wrong_anywhere() if everywhere else case.wrong()
        result.checked += 1
        result.wrong += wrong
        result.first_wrong = result.first_wrong or first

    def _collect(self, count: int) -> None:
        """After a round: the group's extremes of every iteration, and what they say about this rank."""
        line = self.result.line
        if self._case is None or self._case.seat.n < 2:
            line.worst += line.own[-count:] if self._case is not None else []
            line.delay[len(line.delay) - count:] = [0] * count if self._case is not None else []
            return
        own, wait = line.own[-count:], line.wait[-count:]
        offset = self._clock.offset if self._clock else 0
        entry = [stamp + offset for stamp in line.delay[-count:]]
        numbers = own + wait + [-value for value in wait] + [-value for value in entry]
        top = self._exchange.highest(numbers, self._group)
        worst, longest, least, first = (top[at * count:(at + 1) * count] for at in range(4))
        line.worst += worst
        line.shortest += [-value for value in least]
        late = [stands_out(mine, most, -low, whole) for mine, most, low, whole in zip(wait, longest, least, worst)]
        line.last += sum(late)
        line.lateness += [most - mine for mine, most, is_late in zip(wait, longest, late) if is_late]
        line.delay[len(line.delay) - count:] = [stamp + earliest for stamp, earliest in zip(entry, first)]

    def _next_round(self, done: int) -> int:
        """0 ends the row. The widest group decides; rank 0 says it. A fixed number needs no decision."""
        if self._effort.fixed:
            return min(done, LONGEST_ROUND, self._effort.fixed - done)
        worst = self.result.line.worst
        width = relative_width(worst) if worst else 0.0
        spent = time.monotonic_ns() - self._begun  # barriers and checks count too
        widest, spent_most = self._exchange.highest([int(width * 1e6), spent])
        more = 0
        if widest > WANTED_WIDTH * 1e6 and done < self._effort.most and spent_most < self._effort.seconds * 1e9:
            left = int((self._effort.seconds * 1e9 - spent_most) / max(1, spent_most / done))
            more = min(done, self._effort.most - done, left)
        return self._exchange.decide(more)


LATE_FLOOR_NS = 200_000  # less than this is jitter on any host


def stands_out(own: int, longest: int, shortest: int, whole: int) -> bool:
    """The clock-free rule: whoever waits least while another waits long came last.

    Long is more than half of the `whole` iteration: where calls are queued, hosts launch a batch at paces that differ
    by some percent, and the wait after it is short against the batch.
    """
    return own == shortest and longest - own > max(LATE_FLOOR_NS, whole // 2)


def relative_width(samples: List[int]) -> float:
    interval = median_interval(samples)
    middle = sorted(samples)[len(samples) // 2]
    return (interval.high - interval.low) / 2 / middle if middle else 0.0


def time_fields(samples_ns: List[int], batch: int) -> Dict[str, Any]:
    """Microseconds of one call: median, p99, min, max, interval."""
    return summary_of([sample / 1000.0 / batch for sample in samples_ns]).as_json()
