"""What rank 0 makes of all ranks' values in torch-distributed-gpu-test: a line, and who is odd.

Odd is a warning, not a fault: this test moves little data. Wrong data is a fault.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from clusterprobe.exits import WRONG_DATA, ProbeFailure
from clusterprobe.join import node_warnings
from clusterprobe.ring_links import LinkLook, link_rate_range, slow_links
from clusterprobe.session import Session
from clusterprobe.stats import median, odd_ones
from clusterprobe.units import format_rate, format_time, shorten_list

RANK_ODD_SCORE = 6.0
RANK_ODD_FLOOR = 0.10
RANK_ODD_RATIO = (
    1.5  # shared machines jitter: below this ratio to the median nothing is called slow
)

SLOW_LINKS_TOLD = 8
INTERFACES_TOLD = 3
CONTROL_GROUP_WHOLE = 512  # ranks that open one gloo group of all
CONTROL_GROUP_SIZE = 128

Verdict = Tuple[str, List[str]]


def judge_preflight(session: Session, values: Dict[int, Any]) -> Verdict:
    """Findings of all nodes, equal ones told once."""
    census = session.control.census
    warnings = node_warnings(census, len(set(session.control.places)), values)
    alike = len({record["facts"] for record in census.records.values()}) == 1
    return (
        "software and variables are equal on all ranks"
        if alike
        else "ranks differ, see the warnings"
    ), warnings


def judge_control_group(session: Session, values: Dict[int, Any]) -> Verdict:
    """Each host has its own name for the interface that leads to rank 0."""
    world = session.env.world_size
    by_name: Dict[str, List[int]] = {}
    for rank, (_, interface) in sorted(values.items()):
        by_name.setdefault(interface or "what the host's name resolves to", []).append(rank)
    common, *others = sorted(by_name, key=lambda name: -len(by_name[name]))
    named = [f"{name} on {session.control.census.names(by_name[name], 2)}" for name in others]
    return (
        f"gloo opened in {max(seconds for seconds, _ in values.values()):.2f} s and adds right"
        + ("" if world <= CONTROL_GROUP_WHOLE else f", in overlapping groups of {CONTROL_GROUP_SIZE}")
        + f", on {common}"
        + (f", {shorten_list(named, INTERFACES_TOLD)}" if named else "")
    ), []


def judge_matmul(session: Session, values: Dict[int, Any]) -> Verdict:
    ranks = sorted(values)
    times = [values[rank] for rank in ranks]
    slow = [
        (ranks[at], times[at])
        for at, _ in odd_ones(times, RANK_ODD_SCORE, RANK_ODD_FLOOR, side="high")
        if times[at] > RANK_ODD_RATIO * median(times)
    ]
    warnings = []
    if slow:
        names = session.control.census.names([rank for rank, _ in slow], 4)
        warnings.append(
            f"slow in matmul: {names}, {format_time(slow[0][1])} against a median of "
            f"{format_time(median(times))}; check clocks and temperature there"
        )
    return (
        f"right on every device, {format_time(median(times))} median, {format_time(max(times))} slowest",
        warnings,
    )


def judge_backend(session: Session, values: Dict[int, Any]) -> Verdict:
    name = values[0][0]
    opened, first = max(v[1] for v in values.values()), max(v[2] for v in values.values())
    return f"{name} opened in {opened:.2f} s, first call {format_time(first)} (slowest rank)", []


def judge_links(session: Session, values: Dict[int, Any]) -> Verdict:
    """Links by receiver; rows of the report's `pairs` hold the odd ones and the range only."""
    parts, warnings = [], []
    control = session.control
    for kind in ("node", "across"):
        looks = {
            rank: LinkLook(kind, v[kind][0], v[kind][1], v[kind][2], 0)
            for rank, v in values.items()
            if kind in v
        }
        span = link_rate_range(looks)
        if span is None:
            continue
        low, middle, high = span
        title = "inside nodes" if kind == "node" else "between nodes"
        parts.append(
            f"{title} {format_rate(middle)} median ({format_rate(low)} to {format_rate(high)})"
        )
        session.report.add(
            "pairs",
            {
                "kind": kind,
                "links": len(looks),
                "bytes": next(iter(looks.values())).bytes,
                "rate": {"min": low, "median": middle, "max": high},
            },
        )
        slow = sorted(slow_links(looks), key=lambda link: link[2])  # the slowest first
        for sender, receiver, rate, usual in slow[:SLOW_LINKS_TOLD]:
            warnings.append(
                f"slow link {control.name(sender)} → {control.name(receiver)}: {format_rate(rate)}, "
                f"others {format_rate(usual)}"
            )
            session.report.add(
                "pairs", {"kind": kind, "sender": sender, "receiver": receiver, "rate_slow": rate}
            )
        if len(slow) > SLOW_LINKS_TOLD:
            rest = [receiver for _, receiver, _, _ in slow[SLOW_LINKS_TOLD:]]
            warnings.append(f"{len(rest):,} more slow links, into {control.census.names(rest, 4)}")
    return "; ".join(parts) or "one rank, no link", warnings


def judge_collectives(
    session: Session, values: Dict[int, Any], rows: Sequence[Tuple[str, int]]
) -> Verdict:
    """Rows by operation and size: the slowest rank's time; wrong data ends the run."""
    census = session.control.census
    wrong: Dict[str, List[int]] = {}
    unsupported = []
    for place, (op, size) in enumerate(rows):
        times = [value["us"][place] for value in values.values()]
        told = {
            rank: value["wrong"][str(place)]
            for rank, value in values.items()
            if str(place) in value["wrong"]
        }
        for rank, text in sorted(told.items()):
            wrong.setdefault(text, []).append(rank)
        refused = values[0]["no"].get(str(place))
        if refused and op not in unsupported:
            unsupported.append(op)
        session.report.add(
            "results",
            {
                "op": op,
                "bytes": size,
                "dtype": "float32",
                "group": "world",
                "checked": not refused and op != "barrier",
                "wrong": len(told),
                "status": "unsupported" if refused else "wrong" if told else "ok",
                "reason": refused,
                "time_us": None if refused else {"median": median(times), "max": max(times)},
            },
        )
    if wrong:
        text = "; ".join(
            f"{census.names(ranks, 4)}: {why}" for why, ranks in list(wrong.items())[:3]
        )
        raise ProbeFailure(
            WRONG_DATA,
            text,
            "run it again on halves of the ranks to find the host or link",
            named=True,
        )
    sizes = len({size for _, size in rows})
    done = len(rows) // sizes - len(unsupported)
    note = f"; not offered by this backend: {shorten_list(unsupported)}" if unsupported else ""
    return f"{done} collectives at {sizes} sizes, every value checked{note}", []
