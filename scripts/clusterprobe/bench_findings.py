"""The verdict of a run from its rows: wrong data, gates, baseline, line rate, what was left out. On rank 0."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from clusterprobe.bench_baseline import FEWEST_COMPARED, compare_rows, world_differences
from clusterprobe.bench_options import BENCH_MODES
from clusterprobe.collective_table import COLLECTIVES
from clusterprobe.collective_values import REDUCE_OPS, TYPE_TRAITS
from clusterprobe.exits import CANNOT_RUN, OK, PARTIAL, TOO_SLOW, WRONG_DATA
from clusterprobe.units import counted, format_rate, format_size, shorten_list


def curve_key(row: Mapping[str, Any]) -> Tuple[Any, ...]:
    return tuple(row[name] for name in ("op", "dtype", "redop", "place", "mode", "group"))


def gate_rows(rows: Sequence[Mapping[str, Any]], least: Optional[int]) -> List[Mapping[str, Any]]:
    """Rows that a bandwidth gate may judge: from --gate-bytes on, else the largest size of each curve.

    What was asked for counts as well as what was done: a share for each of three ranks makes 1G a few bytes less.
    """
    rated = [row for row in rows if row["status"] == "ok" and row["busbw"]]
    if least is not None:
        return [row for row in rated if max(row["bytes"], row["wanted_bytes"]) >= least]
    largest: Dict[Tuple[Any, ...], int] = {}
    for row in rated:
        largest[curve_key(row)] = max(largest.get(curve_key(row), 0), row["bytes"])
    return [row for row in rated if row["bytes"] == largest[curve_key(row)]]


def row_title(row: Mapping[str, Any]) -> str:
    words = [row["op"], row["dtype"], row["redop"], format_size(row["bytes"] or 0), row["mode"], row["members"] or row["group"]]
    return " ".join(word for word in words if word)


def judge_gate(rows: Sequence[Mapping[str, Any]], below: Optional[float], least: Optional[int]) -> Tuple[int, str]:
    """(exit code, sentence) of --fail-below, in GB/s."""
    if below is None:
        return OK, ""
    judged = gate_rows(rows, least)
    if not judged:
        return PARTIAL, "no row could be held against --fail-below"
    slow = [row for row in judged if row["busbw"] < below * 1e9]
    if not slow:
        return OK, ""
    worst = min(slow, key=lambda row: row["busbw"])
    return TOO_SLOW, (f"busbw {format_rate(worst['busbw'])} is below {below:g} GB/s: {row_title(worst)}"
                      + (f", and {counted(len(slow) - 1, 'more row')}" if len(slow) > 1 else ""))


def judge_baseline(document: Mapping[str, Any], old: Optional[Mapping[str, Any]], percent: float) -> Tuple[int, List[str]]:
    """(exit code, lines): the first line sums up, then what differs."""
    if old is None:
        return OK, []
    changes, unmatched = compare_rows(old["results"], document["results"], percent / 100)
    slower = sorted((change for change in changes if change.verdict == "slower"), key=lambda change: -change.change)
    faster = [change for change in changes if change.verdict == "faster"]
    unknown = sum(change.verdict == "unknown" for change in changes)
    head = (f"baseline of {old.get('started')}: {counted(len(changes) - unknown, 'row')} compared, {len(slower)} slower, "
            f"{len(faster)} faster, {unmatched} without a match"
            + (f", {unknown} of fewer than {FEWEST_COMPARED} iterations" if unknown else ""))
    lines = [head, *(f"  {change.sentence()}" for change in (*slower[:8], *faster[:4]))]
    lines += [f"  note: {text}" for text in world_differences(old, document)]
    if len(changes) == unknown:
        return PARTIAL, [f"{head}: nothing could be compared", *lines[1:]]
    return (TOO_SLOW if slower else OK), lines


def above_line(row: Mapping[str, Any], line_rate: Optional[float]) -> bool:
    return bool(line_rate and row["busbw"] and row["busbw"] > line_rate * 1e9)


def lacked_by_name(args: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Unsupported rows that are a gap in what was asked for.

    Where `all` was asked for, what the backend lacks is none, as long as every word that was named has a row that
    could be measured: `--collective all --dtype float32,int16` is a gap when int16 has none.
    """
    lacking = [row for row in rows if row["status"] == "unsupported"]
    asked = {"op": (args.collective, COLLECTIVES), "dtype": (args.dtype, TYPE_TRAITS), "redop": (args.redop, REDUCE_OPS),
             "mode": (args.mode, BENCH_MODES)}
    named = {name: words for name, (words, known) in asked.items() if len(words) < len(known)}
    if len(named) == len(asked):
        return lacking
    done = [row for row in rows if row["status"] != "unsupported"]
    return [row for row in lacking if any(row[name] in words and row[name] not in [other[name] for other in done]
                                          for name, words in named.items())]


def judge_run(args: argparse.Namespace, document: Mapping[str, Any], old: Optional[Mapping[str, Any]],
              sizes_named: bool, transport: Tuple[int, str] = (OK, ""), gaps: Sequence[str] = ()) -> Tuple[int, str, List[str]]:
    """(exit code, reason, lines about the baseline). `gaps` were asked for and have no row to show it."""
    rows = document["results"]
    wrong = [row for row in rows if row["status"] == "wrong"]
    baseline_rc, lines = judge_baseline(document, old, args.baseline_tolerance)
    wrong_pairs = [entry["wrong_members"] for entry in document["pairs"] if entry.get("wrong_members")]
    if wrong:
        return WRONG_DATA, f"wrong data in {counted(len(wrong), 'row')}: {row_title(wrong[0])}: {wrong[0]['reason']}", lines
    if wrong_pairs:
        return WRONG_DATA, f"wrong data between pairs: received by {shorten_list(wrong_pairs[0])}", lines
    gate_rc, gate = judge_gate(rows, args.fail_below, args.gate_bytes)
    if gate_rc == TOO_SLOW:
        return gate_rc, gate, lines
    if baseline_rc == TOO_SLOW:
        return baseline_rc, lines[0], lines
    if transport[0]:
        return (*transport, lines)
    measured = [row for row in rows if row["status"] == "ok"]
    left_out = lacked_by_name(args, rows) + [row for row in rows if row["status"] == "skipped" and sizes_named]
    if not measured and not document["pairs"]:
        reason = rows[0]["reason"] if rows else gaps[0] if gaps else "no rows"
        return CANNOT_RUN, f"nothing could be measured: {reason}", lines
    if left_out:
        return PARTIAL, f"{counted(len(left_out), 'row')} of {len(rows)} left out: {row_title(left_out[0])}: {left_out[0]['reason']}", lines
    if gaps:
        return PARTIAL, f"left out: {gaps[0]}", lines
    if gate_rc or baseline_rc:
        return PARTIAL, gate or lines[0], lines
    return OK, best_of(measured, len(document["pairs"])), lines


def best_of(rows: Sequence[Mapping[str, Any]], pairs: int) -> str:
    """The closing sentence: the highest rate and where it was; never a mean over sizes."""
    rated = [row for row in rows if row["busbw"]]
    text = [counted(len(rows), "row") + " measured"] if rows or not pairs else []
    if rated:
        top = max(rated, key=lambda row: row["busbw"])
        text.append(f"highest busbw {format_rate(top['busbw'])}: {row_title(top)}")
    return "; ".join(text + ["pair matrix taken"] * bool(pairs))
