"""From measured numbers to rows: the table of all ranks, one result per group, JSON and text.

Every rank packs its numbers into a fixed list (`pack_numbers`); rank 0 reads the table of all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.bench_groups import Partition
from clusterprobe.bench_measure import Measured, time_fields
from clusterprobe.collective_cases import CaseSpec
from clusterprobe.collective_table import Extent, rates_of
from clusterprobe.stats import median, odd_ones
from clusterprobe.units import format_rate, format_size

COLUMNS = ("own", "own_max", "wait", "last", "lateness", "delay", "delay_max", "wrong", "checked",
           "first", "count", "low", "high", "median", "p99", "least", "most", "shortest")
ODD_GROUP_SCORE, ODD_GROUP_FLOOR = 6.0, 0.10  # of the robust score, and of the deviation relative to the median
GROUPS_KEPT = 64  # results of more groups than these are summed up
ROW_HEADS = ("size", "median", "+-%", "p99", "min", "max", "algbw", "busbw", "checked", "first ms", "n")
ROW_WIDTHS = (10, 11, 5, 11, 11, 11, 11, 11, 8, 9, 5)


def middle_of(numbers: Sequence[int]) -> int:
    return int(median(numbers)) if numbers else 0


def pack_numbers(result: Measured) -> List[int]:
    """This rank's entry of the table: nanoseconds and counts, in the order of COLUMNS."""
    line = result.line
    worst = time_fields(line.worst, result.batch) if line.worst else None
    span = [int(1000 * value) for value in (
        *worst["ci"], worst["median"], worst["p99"], worst["min"], worst["max"])] if worst else [0] * 6
    return [middle_of(line.own) // result.batch, max(line.own, default=0) // result.batch, middle_of(line.wait), line.last,
            middle_of(line.lateness), middle_of(line.delay), max(line.delay, default=0),
            result.wrong, result.checked, result.first_ns, len(line.own), *span, middle_of(line.shortest)]


def column(table: Any, name: str) -> List[int]:
    """One quantity of all ranks."""
    return table[:, COLUMNS.index(name)].tolist()


@dataclass(frozen=True)
class GroupResult:
    """One group's row. Times in microseconds."""

    members: Sequence[int]
    time_us: Dict[str, Any]
    algbw: Optional[float]
    busbw: Optional[float]
    first_ms: float
    checked: int
    wrong: int
    wrong_ranks: List[int]


def group_results(table: Any, partition: Partition, spec: CaseSpec, extents: Sequence[Extent],
                  least_rated: int = 0) -> List[GroupResult]:
    """Each group's result; `extents` belong to the groups in the same order. Sizes below `least_rated` have times only."""
    found = []
    columns = {name: column(table, name) for name in COLUMNS}
    for members, extent in zip(partition.measured, extents):
        first = members[0]
        times = {"median": columns["median"][first] / 1000, "p99": columns["p99"][first] / 1000,
                 "min": columns["least"][first] / 1000, "max": columns["most"][first] / 1000,
                 "ci": [columns["low"][first] / 1000, columns["high"][first] / 1000], "count": columns["count"][first]}
        rates = (None, None)
        if extent.size >= least_rated:
            rates = rates_of(spec.op, len(members), extent.size, times["median"] / 1e6)
        bad = [rank for rank in members if columns["wrong"][rank]]
        found.append(GroupResult(members, times, *rates, max(columns["first"][rank] for rank in members) / 1e6,
                                 sum(columns["checked"][rank] for rank in members),
                                 sum(columns["wrong"][rank] for rank in members), bad))
    return found


def unfinished_result(members: Sequence[int], op: str, extent: Extent, rank: int, measured: Measured) -> Optional[GroupResult]:
    """The rounds that were collected before an early end: the group's times, and what this rank alone checked."""
    worst = list(measured.line.worst)
    if not worst:
        return None
    times = time_fields(worst, measured.batch)
    return GroupResult(members, times, *rates_of(op, len(members), extent.size, times["median"] / 1e6), measured.first_ns / 1e6,
                       measured.checked, measured.wrong, [rank] if measured.wrong else [])


def slowest_first(results: Sequence[GroupResult]) -> List[GroupResult]:
    return sorted(results, key=lambda result: -result.time_us["median"])


def odd_groups(results: Sequence[GroupResult]) -> List[Tuple[GroupResult, float]]:
    """Groups much slower than those of the same width, the worst first, each with the median of these."""
    found = []
    for width in sorted({len(result.members) for result in results}):
        alike = [result for result in results if len(result.members) == width]
        times = [result.time_us["median"] for result in alike]
        found += [(alike[at], median(times), score) for at, score in odd_ones(times, ODD_GROUP_SCORE, ODD_GROUP_FLOOR, side="high")]
    return [(result, usual) for result, usual, _ in sorted(found, key=lambda entry: -entry[2])]


def row_json(spec: CaseSpec, partition: str, wanted: int, extent: Optional[Extent], status: str, reason: Optional[str],
             result: Optional[GroupResult] = None, name_group: str = "") -> Dict[str, Any]:
    """One entry of `results`; unknown is null."""
    return {
        "op": spec.op, "dtype": spec.dtype, "redop": spec.redop or None, "place": spec.place, "mode": spec.mode,
        "group": partition, "members": name_group or None, "ranks": len(result.members) if result else None,
        "wanted_bytes": wanted, "bytes": extent.size if extent else None, "count": extent.count if extent else None,
        "time_us": result.time_us if result else None, "algbw": result.algbw if result else None,
        "busbw": result.busbw if result else None, "first_ms": result.first_ms if result else None,
        "checked": result.checked if result else 0, "wrong": result.wrong if result else 0,
        "status": status, "reason": reason}


def row_cells(extent: Extent, result: GroupResult) -> List[str]:
    """The same as text; microseconds and rates."""
    times = result.time_us
    half = (times["ci"][1] - times["ci"][0]) / 2
    enough = times["count"] >= 6  # fewer samples have no 95% interval; the report keeps their range
    width = f"{100 * half / times['median']:.0f}" if times["median"] and enough else "-"
    checked = "wrong" if result.wrong else f"{result.checked} ok" if result.checked else "no"
    return [format_size(extent.size) if extent.size else "-", *micros(times["median"]), width, *micros(times["p99"]), *micros(times["min"]),
            *micros(times["max"]), format_rate(result.algbw), format_rate(result.busbw), checked,
            f"{result.first_ms:.1f}", str(times["count"])]


def micros(value: float) -> List[str]:
    return [f"{value:,.1f}" if value < 1e4 else f"{value:,.0f}"]
