"""The pair matrix without the network: who meets whom in which round, what the rates say, how it is drawn.

Every member meets every other once, all pairs of a round at the same time (circle method). Large worlds
take an even choice of the rounds: each round holds every member, so each gets equally many partners.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.stats import NORMAL_CONSISTENCY, median
from clusterprobe.units import format_rate

BINS = 64  # rows and columns of the matrix that is kept and drawn
SUSPECT_SCORE = 3.5
SUSPECT_FLOOR = 0.05
SUSPECT_RATIO = 0.75
MOST_SUSPECTS = 8
NUMERIC_MEMBERS = 12
SHADES = ((0.9, "."), (0.75, "-"), (0.5, "+"), (0.25, "*"), (0.0, "#"))


def round_count(count: int) -> int:
    """Rounds until all have met."""
    return max(0, count - 1 + count % 2)


def pair_partner(count: int, turn: int, seat: int) -> Optional[int]:
    """Whom `seat` meets in round `turn`; None when it rests. The same schedule as topology.pair_rounds."""
    seats = count + count % 2
    last = seats - 1
    if seat == last:
        partner = turn
    elif seat == turn:
        partner = last
    else:
        partner = (2 * turn - seat) % last
    return partner if partner < count else None


def chosen_rounds(count: int, most: int) -> List[int]:
    """All rounds, or `most` of them evenly spread."""
    total = round_count(count)
    if total <= most:
        return list(range(total))
    return [turn * total // most for turn in range(most)]


def bin_of(seat: int, count: int) -> int:
    return seat if count <= BINS else seat * BINS // count


def binned(rates: Dict[int, float], count: int) -> List[int]:
    """One sender's rates by receiver, in at most BINS columns; the lowest of a bin counts. 0 is not measured."""
    cells = [0] * min(count, BINS)
    for partner, rate in rates.items():
        at = bin_of(partner, count)
        cells[at] = int(rate) if not cells[at] else min(cells[at], int(rate))
    return cells


@dataclass(frozen=True)
class MemberRates:
    """What one member saw, bytes/s: medians and the slowest partner, out of it and into it."""

    out: float
    into: float
    slowest_out: float
    slowest_to: int
    slowest_in: float
    slowest_from: int
    wrong: int


def summary_numbers(out: Dict[int, float], into: Dict[int, float], wrong: int) -> List[int]:
    """A member's numbers for the table; -1 where it met nobody."""
    def side(rates: Dict[int, float]) -> List[int]:
        if not rates:
            return [0, 0, -1]
        slowest = min(rates, key=lambda partner: rates[partner])
        return [int(median(list(rates.values()))), int(rates[slowest]), slowest]
    (a, b, c), (d, e, f) = side(out), side(into)
    return [a, d, b, c, e, f, wrong]


def member_rates(numbers: Sequence[int]) -> MemberRates:
    return MemberRates(*numbers)


@dataclass(frozen=True)
class Suspect:
    """A member whose median rate in one direction stands apart."""

    seat: int
    side: str  # out or into
    rate: float
    usual: float
    score: float


@dataclass(frozen=True)
class Excuse:
    """A suspect whose link is not to blame: its rate in the crowd at a second look, and the share of it spent waiting for a core."""

    suspect: Suspect
    again: float
    core_wait: float


def rate_scores(rates: Sequence[float]) -> List[float]:
    """Robust scores of the logarithms, since links differ by factors: a tenth stands apart among noisy ones."""
    logs = [math.log(max(rate, 1.0)) for rate in rates]
    centre = median(logs)
    scale = max(NORMAL_CONSISTENCY * median([abs(value - centre) for value in logs]), SUSPECT_FLOOR)
    return [(value - centre) / scale for value in logs]


def find_suspects(members: Sequence[MemberRates]) -> List[Suspect]:
    """Worst first. Two members have no majority; then the slower direction is only shown."""
    if len(members) < 3:
        return []
    found: List[Suspect] = []
    for side in ("out", "into"):
        rates = [getattr(member, side) for member in members]
        usual = median(rates)
        scores = rate_scores(rates)
        found += [Suspect(seat, side, rates[seat], usual, score) for seat, score in enumerate(scores)
                  if score < -SUSPECT_SCORE and rates[seat] < SUSPECT_RATIO * usual]
    return sorted(found, key=lambda suspect: suspect.rate)


def still_slow(suspect: Suspect, rate: float) -> bool:
    """Whether another look shows the same: slower than the others, and nearer to the first rate than to theirs.

    On a loaded host a healthy link gives half of the usual rate now and then, never a hundredth twice.
    """
    return rate < min(SUSPECT_RATIO * suspect.usual, math.sqrt(suspect.rate * suspect.usual))


def sound_turns(count: int, seat: int, suspects: Sequence[Suspect], most: int) -> List[int]:
    """Rounds in which `seat` meets members above suspicion, evenly chosen; any rounds when there are none."""
    doubtful = {suspect.seat for suspect in suspects}
    partners = {turn: pair_partner(count, turn, seat) for turn in range(round_count(count))}
    turns = [turn for turn, partner in partners.items() if partner is not None and partner not in doubtful]
    turns = turns or [turn for turn, partner in partners.items() if partner is not None]
    return [turns[at * len(turns) // most] for at in range(most)] if len(turns) > most else turns


def witness_of(seat: int, members: Sequence[MemberRates], suspects: Sequence[Suspect]) -> Optional[int]:
    """A healthy partner for the run alone: the best one that is no suspect."""
    doubtful = {suspect.seat for suspect in suspects}
    healthy = [other for other in range(len(members)) if other != seat and other not in doubtful]
    return max(healthy, key=lambda other: members[other].out + members[other].into) if healthy else None


def matrix_rows(rows: Sequence[Sequence[int]], count: int) -> List[List[int]]:
    """Rows of members to rows of bins: the lowest measured value of each cell."""
    width = min(count, BINS)
    cells = [[0] * width for _ in range(width)]
    for seat in range(count):
        line = cells[bin_of(seat, count)]
        for at in range(width):
            value = rows[seat][at]
            if value and (not line[at] or value < line[at]):
                line[at] = value
    return cells


def draw_matrix(cells: Sequence[Sequence[int]], labels: Sequence[str], count: int) -> List[str]:
    """The matrix as text: numbers for a few members, shades for many. Rows send, columns receive."""
    known = [value for line in cells for value in line if value]
    if not known:
        return ["no pair was measured"]
    usual = median(known)
    if count <= NUMERIC_MEMBERS:
        width = max(6, *(len(label) for label in labels)) if len(labels) < 9 else 6
        lines = ["MB/s, rows send, columns receive", " " * width + "".join(f" {str(label)[-width:]:>{width}}" for label in labels)]
        for label, line in zip(labels, cells):
            shown = "".join(f" {value / 1e6:>{width}.{1 if value < 1e8 else 0}f}" if value else f" {'':>{width}}" for value in line)
            lines.append(f"{str(label)[-width:]:<{width}}{shown}")
        return lines
    per = max(1, -(-count // len(cells)))
    legend = "  ".join(f"{shade} >= {share:.0%}" for share, shade in SHADES)
    lines = [f"rows send, columns receive; one cell is {per} x {per} members, its slowest pair counts",
             f"of the median {format_rate(usual)}: {legend}"]
    lines += [f"{bin_label(at, count, len(cells)):>13} |{''.join(shade_of(value, usual) for value in line)}|"
              for at, line in enumerate(cells)]
    return lines


def bin_label(at: int, count: int, bins: int) -> str:
    first, last = -(-at * count // bins), -(-(at + 1) * count // bins) - 1
    return str(first) if first == last else f"{first}-{last}"


def shade_of(value: int, usual: float) -> str:
    if not value:
        return " "
    return next(shade for share, shade in SHADES if value >= share * usual)


def slowest_pairs(members: Sequence[MemberRates], most: int = 16) -> List[Tuple[float, int, int]]:
    """(rate, sender, receiver) of the slowest pairs, each member's slowest only."""
    pairs = {(seat, member.slowest_to): member.slowest_out for seat, member in enumerate(members) if member.slowest_to >= 0}
    pairs.update({(member.slowest_from, seat): member.slowest_in for seat, member in enumerate(members)
                  if member.slowest_from >= 0})
    return sorted((rate, a, b) for (a, b), rate in pairs.items())[:most]


def matrix_json(cells: Sequence[Sequence[int]], count: int) -> Dict[str, Any]:
    return {"bins": len(cells), "members": count, "bytes_per_second": [[value or None for value in line] for line in cells]}
