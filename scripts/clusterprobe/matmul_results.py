"""What one device found in one format, as JSON and as text. No torch.

`DtypeResult.as_json` is what a rank hands to rank 0; the functions below turn results into report rows and
lines. A product that failed its check has no figure anywhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from clusterprobe.matmul_samples import MatmulLook, ShapeScore
from clusterprobe.matmul_search import LookJob, MatmulBench
from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.report import Report
from clusterprobe.stats import median, odd_ones
from clusterprobe.telemetry import TelemetrySummary, throttle_text

MOST_ROWS = 2000
SHOWN_DEVICES = 16
OTHER_RANK = "another rank can't measure it"


@dataclass
class StateFigure:
    """A figure in a named state, with what the device did meanwhile."""

    state: str
    shape: MatmulShape
    tflops: Optional[float]
    ci: Optional[List[float]]
    coverage: Optional[float]
    reps: int
    rejected: int
    telemetry: TelemetrySummary
    peak: Optional[float] = None
    wrong: str = ""  # the check's sentence; then there is no figure
    checked: int = 0
    worst_error: Optional[float] = None  # of the checked elements, in units of sqrt(K)

    def as_json(self) -> Dict[str, Any]:
        figure = None if self.wrong else self.tflops
        return {
            "op": "matmul", "kind": "figure", "state": self.state, **shape_json(self.shape), "tflops": figure,
            "ci": None if self.wrong else self.ci, "ci_coverage": self.coverage, "reps": self.reps,
            "rejected": self.rejected, "peak_tflops": self.peak,
            "percent_of_peak": 100 * figure / self.peak if figure and self.peak else None,
            "tflops_per_ghz": per_ghz(figure, self.telemetry.sm_mhz), "telemetry": self.telemetry.as_json(),
            "checked": self.checked, "worst_error_sqrt_k": self.worst_error,
            "status": "wrong" if self.wrong else "ok" if figure else "skipped", "reason": self.wrong or None}


@dataclass
class DtypeResult:
    """Everything from one device in one format. `reason` set: nothing was measured."""

    dtype: str
    reason: str = ""
    wrong: str = ""
    lost: str = ""  # why the sustained figure is missing although finals were held
    sustained: Optional[StateFigure] = None
    burst: Optional[StateFigure] = None
    finals: List[StateFigure] = field(default_factory=list)
    bursts: List[StateFigure] = field(default_factory=list)
    near_ties: List[str] = field(default_factory=list)
    rounds: int = 0
    drift: Optional[float] = None
    steady: Optional[bool] = None
    coverage: str = ""
    timer: str = ""
    precision: str = ""  # torch's float32_matmul_precision: the difference between fp32 and tf32
    failed_shapes: int = 0
    complete: bool = False  # measured and checked; before that, figures may be of a wrong product

    def as_json(self) -> Dict[str, Any]:
        """Small: what other ranks' figures need on rank 0."""
        out: Dict[str, Any] = {"dtype": self.dtype, "reason": self.reason or None, "wrong": self.wrong or None,
                               "lost": self.lost or None, "failed_shapes": self.failed_shapes, "steady": self.steady}
        for name, figure in (("sustained", self.sustained), ("burst", self.burst)):
            out[name] = None if figure is None or figure.wrong else figure.tflops
            if figure is not None:
                seen = figure.telemetry
                out[f"{name}_shape"] = str(figure.shape)
                out[f"{name}_ci"] = None if figure.wrong else figure.ci
                out[f"{name}_sm_mhz"], out[f"{name}_power_w"] = seen.sm_mhz, seen.power_w
                out[f"{name}_temperature_c"], out[f"{name}_throttle"] = seen.temperature_c, seen.throttle
        return out


def shape_json(shape: MatmulShape) -> Dict[str, int]:
    return {"m": shape.m, "n": shape.n, "k": shape.k, "batch": shape.batch}


def per_ghz(tflops: Optional[float], mhz: Optional[float]) -> Optional[float]:
    return tflops / mhz * 1000 if tflops and mhz else None


class WatchedBench(MatmulBench):
    """Passes looks through and keeps the report's screen entry current, so that Ctrl-C loses nothing."""

    def __init__(self, bench: MatmulBench, report: Report, dtype: str, each: Callable[[MatmulLook], None]) -> None:
        self._bench, self._report, self._each = bench, report, each
        self.cool: Dict[MatmulShape, ShapeScore] = {}  # the search's own, once it exists
        self.hot: Dict[MatmulShape, ShapeScore] = {}
        self._saved = time.monotonic()
        self.failed: Dict[MatmulShape, str] = {}
        self.entry: Dict[str, Any] = {
            "op": "matmul", "kind": "screen", "dtype": dtype, "columns": ["m", "n", "k", "cool", "hot", "hot_seconds"],
            "rows": [], "measured": 0, "failed": 0, "failures": [], "status": "running", "reason": None}
        report.add("results", self.entry)

    def now(self) -> float:
        return self._bench.now()

    def rest(self, seconds: float) -> None:
        self._bench.rest(seconds)

    def look(self, jobs: Sequence[LookJob]) -> Iterator[MatmulLook]:
        for look in self._bench.look(jobs):
            if look.reason:
                self.failed.setdefault(look.shape, look.reason)
            self._each(look)
            if time.monotonic() - self._saved > 1.0:
                self.refresh()
            yield look

    def refresh(self, status: str = "running") -> None:
        """New lists each time: the report may be written by another thread meanwhile, and at an early end this
        is called by another thread while looks come in."""
        self._saved = time.monotonic()
        failed = dict(self.failed)
        rows = [self._row(shape) for shape in dict.fromkeys([*self.cool, *self.hot]) if shape not in failed]
        rows.sort(key=lambda row: (-(row[4] or 0.0), -(row[3] or 0.0), row[:3]))
        self.entry.update(
            rows=rows[:MOST_ROWS], measured=len(rows), failed=len(failed), status=status,
            failures=[{**shape_json(shape), "reason": reason} for shape, reason in list(failed.items())[:100]])
        self._report.save()

    def _row(self, shape: MatmulShape) -> List[Any]:
        cool, hot = self.cool.get(shape), self.hot.get(shape)
        return [shape.m, shape.n, shape.k, four(cool.tflops if cool else None), four(hot.tflops if hot else None),
                round(hot.seconds, 4) if hot else 0]


def keep_so_far(report: Report, result: DtypeResult, watched: Optional[WatchedBench]) -> List[str]:
    """At an early end: the last looks into the report, the best of them as text. Figures only once checked."""
    if watched is None:
        return []
    if result.complete:  # the other ranks' are missing
        report.document["results"] += figure_rows(result)
        return [f"on this rank's device: {rates_text(result)}"] if rates_text(result) else []
    watched.refresh("partial" if watched.entry["status"] == "running" else watched.entry["status"])
    best = max((one for one in list(result.finals) if one.tflops), key=lambda one: one.tflops or 0.0, default=None)
    if best is not None:
        return [f"{result.dtype} so far: best final {best.tflops:.4g} TFLOPS at {best.shape}, its product not checked; "
                "the sustained and burst figures are missing"]
    return best_look_lines(watched.entry["rows"], result.dtype)


def best_look_lines(rows: Sequence[List[Any]], dtype: str) -> List[str]:
    """The best single looks, so no result yet."""
    lines = []
    for column, state in ((4, "hot"), (3, "cool")):
        best = max((row for row in rows if row[column]), key=lambda row: row[column], default=None)
        if best is not None:
            shape = MatmulShape(*best[:3])
            lines.append(f"{dtype} so far: best {state} look {best[column]:g} TFLOPS at {shape}, of "
                         f"{sum(bool(row[column]) for row in rows):,} shapes; the finals are missing")
    return lines


def figure_rows(result: DtypeResult) -> List[Dict[str, Any]]:
    """Entries for the report: the two results, then what they were chosen from."""
    figures = [one for one in (result.sustained, result.burst, *result.finals, *result.bursts[1:]) if one]
    return [{"dtype": result.dtype, **figure.as_json(), "rounds": result.rounds, "drift": result.drift,
             "steady": result.steady, "coverage": result.coverage, "timer": result.timer,
             "float32_matmul_precision": result.precision} for figure in figures]


def rates_text(result: DtypeResult) -> str:
    """`bf16 698.9 TFLOPS sustained, 845.7 burst`; empty without a sustained figure."""
    sustained, burst = result.sustained, result.burst
    if sustained is None or not sustained.tflops or sustained.wrong:
        return ""
    found = burst is not None and burst.tflops and not burst.wrong
    return (f"{result.dtype} {sustained.tflops:.4g} TFLOPS sustained, "
            + (f"{burst.tflops:.4g} burst" if burst and found else "no burst figure"))


def four(value: Optional[float]) -> Optional[float]:
    """Four significant digits are more than a look has."""
    return None if value is None else float(f"{value:.4g}")


def figure_cells(figure: StateFigure) -> List[object]:
    seen = figure.telemetry
    number = None if figure.wrong or figure.tflops is None else f"{figure.tflops:.4g}"
    ci = f"{figure.ci[0]:.4g}-{figure.ci[1]:.4g}" if figure.ci and not figure.wrong else None
    ghz = per_ghz(figure.tflops, seen.sm_mhz)
    return [figure.state, str(figure.shape), number, ci,
            f"{100 * figure.tflops / figure.peak:.1f}%" if number and figure.peak and figure.tflops else None,
            f"{ghz:.4g}" if ghz and number else None,
            f"{seen.sm_mhz:.0f}" if seen.sm_mhz else None, f"{seen.power_w:.0f}" if seen.power_w else None,
            f"{seen.temperature_c:.0f}" if seen.temperature_c else None, figure.wrong or throttle_text(seen)]


FIGURE_COLUMNS = ("state", "MxNxK", "TFLOPS", "95% CI", "of peak", "per GHz", "MHz", "W", "C", "throttle")
FIGURE_WIDTHS = (-9, -18, 7, 13, 7, 7, 5, 4, 3, -20)


def print_result(report: Report, result: DtypeResult) -> None:
    """The tables of this rank's device."""
    report.line()
    report.line(f"{result.dtype}: {result.coverage}; timed by {result.timer}")
    report.heading(FIGURE_COLUMNS, FIGURE_WIDTHS)
    for figure in result.finals + result.bursts:
        report.row(figure_cells(figure))
    drift = "unknown" if result.drift is None else f"{100 * result.drift:+.2f}%"
    if result.burst and result.burst.ci and result.burst.coverage is not None and result.burst.coverage < 0.95:
        report.line(f"a burst's interval is the range of its looks: {result.burst.coverage:.0%}, not 95%")
    report.line(f"finals: {result.rounds} interleaved rounds, drift {drift}"
                + ("" if result.steady is not False else " (not steady: let the device run longer, --budget)"))
    if result.near_ties:
        report.line(f"not told apart from the first: {', '.join(result.near_ties)}")
    for figure in (result.sustained, result.burst):
        if figure is not None:
            report.line(f"{result.dtype} {figure_sentence(figure)}")


def figure_sentence(figure: StateFigure) -> str:
    """`sustained 724.1 TFLOPS at 2048x2048x12288 (73.2% of 989), 1470 MHz, 692 W, 56 C, throttle power cap 100%`."""
    if figure.wrong or figure.tflops is None:
        return f"{figure.state}: no figure at {figure.shape}: {figure.wrong or 'not measured'}"
    seen = figure.telemetry
    parts = [f"{figure.state} {figure.tflops:.4g} TFLOPS at {figure.shape}"]
    if figure.peak:
        parts[0] += f" ({100 * figure.tflops / figure.peak:.1f}% of {figure.peak:g})"
    parts += [f"{value:.0f} {unit}" for value, unit in (
        (seen.sm_mhz, "MHz"), (seen.power_w, "W"), (seen.temperature_c, "C")) if value is not None]
    if seen.throttle is not None:
        parts.append(f"throttle {throttle_text(seen)}")
    return ", ".join(parts)


def missing_figures(result: DtypeResult, records: Dict[int, Dict[str, Any]], name: Callable[[int], str]) -> List[str]:
    """Devices without a sustained figure in a format that was measured; a gate can't judge them."""
    return [] if result.reason else [
        f"no figure for {name(rank)}: {result.dtype} {one.get('lost') or one.get('reason') or 'not measured'}"
        for rank, one in sorted(records.items()) if not one.get("sustained")]


def why_skipped(result: DtypeResult, records: Dict[int, Dict[str, Any]], name: Callable[[int], str]) -> str:
    """Why a format has no figures: the reason of the first rank that has one of its own."""
    for rank, one in sorted(records.items()):
        if result.reason == OTHER_RANK and (one.get("reason") or OTHER_RANK) != OTHER_RANK:
            return f"{result.dtype}: {name(rank)}: {one['reason']}"
    return f"{result.dtype}: {result.reason}"


def slowest_sentence(records: Dict[int, Dict[str, Any]], name: Callable[[int], str]) -> str:
    """Who is slowest in the sustained state, and by how much; empty with fewer than two figures."""
    known = {rank: one["sustained"] for rank, one in records.items() if one.get("sustained")}
    if len(known) < 2:
        return ""
    middle = median(list(known.values()))
    rank = min(known, key=lambda one: (known[one], one))
    return (f"slowest: {name(rank)} with {known[rank]:.4g} TFLOPS, {100 * (1 - known[rank] / middle):.1f}% below the "
            f"median {middle:.4g} of {len(known):,} devices")


def odd_devices(records: Dict[int, Dict[str, Any]]) -> List[int]:
    """Ranks whose sustained rate stands apart below the others."""
    ranks = [rank for rank, one in sorted(records.items()) if one.get("sustained")]
    return [ranks[place] for place, _ in odd_ones([records[rank]["sustained"] for rank in ranks], side="low")]


def print_devices(report: Report, records: Dict[int, Dict[str, Any]], name: Callable[[int], str]) -> None:
    """One line a device, slowest first; the slowest ones only when there are many."""
    order = sorted(records, key=lambda rank: (records[rank].get("sustained") or 0.0, rank))
    report.heading(("device", "sustained", "MHz", "W", "C", "burst", "shape"), (-28, 9, 5, 4, 3, 7, -20))
    for rank in order[:SHOWN_DEVICES]:
        one = records[rank]
        cells = [one.get(key) for key in ("sustained", "sustained_sm_mhz", "sustained_power_w",
                                          "sustained_temperature_c", "burst")]
        texts = [None if value is None else f"{value:.4g}" for value in cells]
        report.row([name(rank), *texts, one.get("wrong") or one.get("reason") or one.get("lost") or one.get("sustained_shape")])
    if len(order) > SHOWN_DEVICES:
        report.line(f"… {len(order) - SHOWN_DEVICES:,} faster devices are in the report file")
