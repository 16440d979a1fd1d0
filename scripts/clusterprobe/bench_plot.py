"""Pictures of a run: bars as text, and a PNG where matplotlib is installed."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from clusterprobe.strictjson import replace_file
from clusterprobe.units import format_rate, format_size

BAR = 40


def curves_of(rows: Sequence[Mapping[str, Any]]) -> Dict[str, List[Tuple[int, float]]]:
    """(bytes, busbw) by kind of row; of several groups the slowest counts."""
    curves: Dict[str, Dict[int, float]] = {}
    for row in rows:
        if row["status"] != "ok" or not row["busbw"]:
            continue
        words = [row["op"], row["dtype"], row["redop"], row["place"], row["mode"], row["group"]]
        points = curves.setdefault(" ".join(word for word in words if word), {})
        points[row["bytes"]] = min(row["busbw"], points.get(row["bytes"], row["busbw"]))
    return {name: sorted(points.items()) for name, points in curves.items()}


def text_plot(rows: Sequence[Mapping[str, Any]], most: int = 4) -> List[str]:
    """busbw by size as bars, for curves of three points and more."""
    lines: List[str] = []
    curves = {name: points for name, points in curves_of(rows).items() if len(points) >= 3}
    for name, points in list(curves.items())[:most]:
        top = max(rate for _, rate in points)
        lines += ["", f"busbw of {name}"]
        lines += [f"{format_size(size):>10} |{'#' * max(1, round(BAR * rate / top)):<{BAR}}| {format_rate(rate)}"
                  for size, rate in points]
    if len(curves) > most:
        lines.append(f"({len(curves) - most} more curves are in the report)")
    return lines


def png_plot(path: str, rows: Sequence[Mapping[str, Any]], title: str, cells: Optional[Any] = None) -> str:
    """Write a PNG; returns why there is none to write, or an empty string."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return "matplotlib is not installed; the bars above show the same"
    curves = curves_of(rows)
    parts = (1 if curves else 0) + (1 if cells else 0)
    if not parts:
        return "there is nothing to draw"
    figure, axes = pyplot.subplots(1, parts, figsize=(8 * parts, 5.5), squeeze=False)
    if curves:
        draw_curves(axes[0][0], curves, title)
    if cells:
        matrix = axes[0][-1].imshow([[value / 1e9 if value else float("nan") for value in line] for line in cells], cmap="viridis")
        axes[0][-1].set(title="pair matrix, GB/s", xlabel="receives", ylabel="sends")
        figure.colorbar(matrix)
    try:
        figure.tight_layout()
        picture = BytesIO()
        figure.savefig(picture, format="png", dpi=120)
    finally:
        pyplot.close(figure)
    replace_file(path, picture.getvalue())
    return ""


def draw_curves(axis: Any, curves: Mapping[str, Sequence[Tuple[int, float]]], title: str) -> None:
    for name, points in curves.items():
        axis.plot([size for size, _ in points], [rate / 1e9 for _, rate in points], marker="o", label=name)
    axis.set_xscale("log", base=2)
    ticks = sorted({size for points in curves.values() for size, _ in points})
    axis.set_xticks(ticks[::max(1, len(ticks) // 10)])
    axis.set_xticklabels([format_size(size) for size in ticks[::max(1, len(ticks) // 10)]], rotation=45)
    axis.set(title=title, xlabel="S", ylabel="busbw, GB/s", ylim=(0, None))
    axis.grid(True, alpha=0.3)
    axis.legend(fontsize="small")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows for a spreadsheet; times in microseconds, rates in bytes/s."""
    plain = ("op", "dtype", "redop", "place", "mode", "group", "members", "ranks", "wanted_bytes", "bytes", "count",
             "algbw", "busbw", "first_ms", "checked", "wrong", "status", "reason")
    lines = [",".join((*plain, "median_us", "p99_us", "min_us", "max_us", "ci_low_us", "ci_high_us", "iterations"))]
    for row in rows:
        times = row["time_us"] or {}
        low, high = times.get("ci") or (None, None)
        cells = [*(row[name] for name in plain), times.get("median"), times.get("p99"), times.get("min"), times.get("max"),
                 low, high, times.get("count")]
        lines.append(",".join(csv_cell(cell) for cell in cells))
    return os.linesep.join(lines) + os.linesep


def csv_cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\n') else text
