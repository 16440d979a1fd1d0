"""Compare a run with an earlier report: which rows are slower by more than noise and tolerance.

A row counts as slower when its interval lies above the old one's and its median is beyond the tolerance;
two overlapping intervals are never a difference, and rows of a few iterations have no interval.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from clusterprobe.exits import USAGE, ProbeFailure
from clusterprobe.units import format_size

FEWEST_COMPARED = 5  # iterations; the range of fewer covers the median too seldom to call a row slower
ROW_KEY = ("op", "dtype", "redop", "place", "mode", "group", "members", "ranks", "bytes")


@dataclass(frozen=True)
class BaselineChange:
    """One row that is in both reports; `change` is new / old - 1 of the median time."""

    key: Tuple[Any, ...]
    change: float
    verdict: str  # slower, faster, same, or unknown with too few iterations

    def sentence(self) -> str:
        fields = dict(zip(ROW_KEY, self.key))
        words = [fields["op"], fields["dtype"], fields["redop"] or "", format_size(fields["bytes"] or 0), fields["mode"],
                 fields["group"]]
        return f"{' '.join(word for word in words if word)}: {abs(self.change):.0%} {self.verdict}"


def load_baseline(path: str, tool: str) -> Dict[str, Any]:
    """An earlier report of the same tool; anything else is wrong use."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise ProbeFailure(USAGE, f"--baseline {path} can't be read: {error}", named=True) from None
    if not isinstance(document, dict) or document.get("tool") != tool or not isinstance(document.get("results"), list):
        raise ProbeFailure(USAGE, f"--baseline {path} is not a report of {tool}", named=True)
    for number, row in enumerate(document["results"], 1):
        if not is_comparable(row):
            raise ProbeFailure(USAGE, f"--baseline {path} is damaged: result {number} has no status, or times that are no times",
                               "take a report as the tool wrote it", named=True)
    return document


def is_comparable(row: Any) -> bool:
    """Whether a result has what the comparison reads: a status and, when measured, a median with its interval."""
    if not isinstance(row, dict) or not isinstance(row.get("status"), str):
        return False
    times = row.get("time_us")
    if row["status"] != "ok" or times is None:
        return True
    numbers = [times.get("median"), *(times.get("ci") or [None])] if isinstance(times, dict) else [None]
    return len(numbers) == 3 and all(isinstance(number, (int, float)) and number >= 0 for number in numbers)


def baseline_key(row: Mapping[str, Any]) -> Tuple[Any, ...]:
    return tuple(row.get(name) for name in ROW_KEY)


def measured_rows(rows: Any) -> Dict[Tuple[Any, ...], Mapping[str, Any]]:
    return {baseline_key(row): row for row in rows
            if row.get("status") == "ok" and row.get("time_us") and row["time_us"].get("median")}


def compare_rows(old: Any, new: Any, tolerance: float) -> Tuple[List[BaselineChange], int]:
    """(changes of the rows in both, new rows without an old one)."""
    before, after = measured_rows(old), measured_rows(new)
    changes = []
    for key, row in after.items():
        if key not in before:
            continue
        was, now = before[key]["time_us"], row["time_us"]
        change = now["median"] / was["median"] - 1.0
        verdict = "same"
        if min(was.get("count") or 0, now.get("count") or 0) < FEWEST_COMPARED:
            verdict = "unknown"
        elif now["ci"][0] > was["ci"][1] and change > tolerance:
            verdict = "slower"
        elif now["ci"][1] < was["ci"][0] and change < -tolerance:
            verdict = "faster"
        changes.append(BaselineChange(key, change, verdict))
    return changes, len(after) - len(changes)


def world_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> List[str]:
    """What else changed between the two runs, for the reader of the comparison."""
    found = []
    if old.get("rc") not in (0, None) or old.get("status") == "running":
        found.append(f"that run ended with status {old.get('status')}" + (f", rc {old['rc']}" if old.get("rc") else ""))
    for field, names in (("env", ("torch", "cuda", "nccl", "driver")), ("world", ("size", "node_count")),
                         ("config", ("backend", "allocator", "buffer_sets", "offset", "batch"))):
        before, after = old.get(field) or {}, new.get(field) or {}
        found += [f"{name} was {before.get(name)}, is {after.get(name)}" for name in names
                  if before.get(name) != after.get(name)]
    return found
