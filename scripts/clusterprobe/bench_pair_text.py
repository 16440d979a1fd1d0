"""The pair matrix in the report: text, JSON, and the members that stand apart, by host."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.bench_pairs import (
    BINS,
    Excuse,
    MemberRates,
    Suspect,
    draw_matrix,
    matrix_json,
    matrix_rows,
    slowest_pairs,
    still_slow,
)
from clusterprobe.stats import median
from clusterprobe.units import counted, format_rate, format_size, shorten_list

MEMBERS_KEPT = 256


def pair_report(report: Any, level: str, names: Sequence[str], members: Sequence[MemberRates], rows: Sequence[Sequence[int]],
                alone: Sequence[Tuple[Suspect, Optional[float]]], size: int, rounds: int,
                excused: Sequence[Excuse] = ()) -> List[List[int]]:
    """Print and keep everything; returns the cells for a picture."""
    count = len(names)
    cells = matrix_rows(rows, count)
    report.line()
    report.line(f"pairs: {counted(count, level)}, {counted(rounds, 'round')} of disjoint pairs at the same time, one way at a "
                f"time, {format_size(size)}, timed by the receiver, fastest of 3")
    for line in draw_matrix(cells, names if count <= BINS else [], count):
        report.line(line)
    outs = [member.out for member in members if member.slowest_to >= 0]
    report.line(f"median of all: {format_rate(median(outs)) if outs else '-'}; slowest pairs: " + "; ".join(
        f"{names[a]} to {names[b]} {format_rate(rate)}" for rate, a, b in slowest_pairs(members, 3)))
    sentences = suspect_sentences(names, alone)
    drain = hosts_to_drain(names, alone)
    if drain:
        report.line(f"hosts to drain: {','.join(drain)}")
    if excused:
        report.line("slow, and no fault of a link: " + shorten_list([excuse_text(names, excuse) for excuse in excused], 3))
    if count == 2:
        report.line("two members have no majority: compare the two directions with the link's rate")
    report.add("pairs", {
        "level": level, "bytes": size, "rounds": rounds, "matrix": matrix_json(cells, count),
        "members": member_entries(names, members, {suspect.seat for suspect, _ in alone}),
        "slowest": [{"from": names[a], "to": names[b], "bytes_per_second": rate} for rate, a, b in slowest_pairs(members)],
        "drain": drain,
        "excused": [{"member": names[excuse.suspect.seat], "side": excuse.suspect.side, "again": excuse.again,
                     "bytes_per_second": excuse.suspect.rate, "core_wait": excuse.core_wait} for excuse in excused],
        "wrong_members": [names[seat] for seat, member in enumerate(members) if member.wrong],
        "suspects": [{"member": names[suspect.seat], "side": suspect.side, "bytes_per_second": suspect.rate,
                      "usual": suspect.usual, "alone": rate} for suspect, rate in alone]})
    for sentence in sentences:
        report.warn(sentence)
    return cells


def excuse_text(names: Sequence[str], excuse: Excuse) -> str:
    name = names[excuse.suspect.seat]
    if still_slow(excuse.suspect, excuse.again):
        return f"{name} waited for a core {excuse.core_wait:.0%} of the time"
    return f"{name} was as fast as the others when looked at again"


def member_entries(names: Sequence[str], members: Sequence[MemberRates], special: Any) -> List[Dict[str, Any]]:
    """Every member of a small matrix; of a large one those that stand apart."""
    def entry(seat: int) -> Dict[str, Any]:
        member = members[seat]
        return {"member": names[seat], "out": member.out or None, "into": member.into or None,
                "slowest_out": member.slowest_out or None, "slowest_in": member.slowest_in or None,
                "wrong": member.wrong}
    seats = range(len(names)) if len(names) <= MEMBERS_KEPT else sorted(special)
    return [entry(seat) for seat in seats]


def hosts_to_drain(names: Sequence[str], alone: Sequence[Tuple[Suspect, Optional[float]]]) -> List[str]:
    """Hosts whose own link is slow: alone too. What is slow only under load points at a switch, not at them."""
    own = [names[suspect.seat] for suspect, rate in alone if rate is not None and still_slow(suspect, rate)]
    return list(dict.fromkeys(name.rpartition("@")[2] for name in own))


def suspect_sentences(names: Sequence[str], alone: Sequence[Tuple[Suspect, Optional[float]]]) -> List[str]:
    """One sentence a suspect: what it does in the crowd, and alone."""
    words = {"out": "sends", "into": "receives"}
    sentences = []
    for suspect, rate in alone:
        text = (f"slow: {names[suspect.seat]} {words[suspect.side]} at {format_rate(suspect.rate)}, the others at "
                f"{format_rate(suspect.usual)}")
        if rate is None:
            text += "; no healthy partner for a run alone"
        elif still_slow(suspect, rate):
            text += f"; alone {format_rate(rate)}: its own link"
        else:
            text += f"; alone {format_rate(rate)}: only under load, a shared link or switch"
        sentences.append(text)
    return sentences
