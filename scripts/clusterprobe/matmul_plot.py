"""Bars as text for mamf-finder's --plot: the finalists in both states, and the best rate by work per call."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from clusterprobe.matmul_results import DtypeResult

PLOT_BAR = 44


def screen_rows(results: Sequence[Mapping[str, Any]], dtype: str) -> List[Sequence[Any]]:
    """The looks of one format, from the report's screen entry."""
    return next((one["rows"] for one in results if one.get("kind") == "screen" and one.get("dtype") == dtype), [])


def bar_line(label: str, value: float, top: float, low: float) -> str:
    """From `low` to `top`: differences of some percent would not show on a bar from zero."""
    share = (value - low) / (top - low) if top > low else 1.0
    return f"{label:>20} |{'#' * max(1, round(PLOT_BAR * share)):<{PLOT_BAR}}| {value:.4g}"


def bars(title: str, points: Sequence[Tuple[str, float]]) -> List[str]:
    """Nothing for fewer than two points. The bar's left end is said in the title."""
    if len(points) < 2:
        return []
    values = [value for _, value in points]
    low = max(0.0, min(values) - 0.25 * (max(values) - min(values)))
    return ["", f"{title}; TFLOPS, bars from {low:.4g} to {max(values):.4g}",
            *(bar_line(label, value, max(values), low) for label, value in points)]


def by_work(rows: Sequence[Sequence[Any]], batch: int) -> List[Tuple[str, float]]:
    """Best rate by GFLOP per call, two bins an octave; the hot look where there is one."""
    best: Dict[int, float] = {}
    for m, n, k, cool, hot, _ in rows:
        rate: Optional[float] = hot if hot is not None else cool
        if rate is None:
            continue
        place = math.floor(2 * math.log2(2.0 * batch * m * n * k / 1e9))
        best[place] = max(best.get(place, 0.0), rate)
    return [(f"{2 ** (place / 2):.3g} GFLOP", rate) for place, rate in sorted(best.items())]


def matmul_plot(result: DtypeResult, rows: Sequence[Sequence[Any]]) -> List[str]:
    """All bars of one format."""
    lines: List[str] = []
    for state, figures in (("sustained", result.finals), ("burst", result.bursts)):
        points = [(str(one.shape), one.tflops) for one in figures if one.tflops and not one.wrong]
        lines += bars(f"{result.dtype} {state}, finalists", points)
    batch = result.finals[0].shape.batch if result.finals else 1
    return lines + bars(f"{result.dtype}, best of all looks by work per call", by_work(rows, batch))
