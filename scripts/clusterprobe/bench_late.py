"""Who came late, and which ranks are odd: judged on rank 0 from the tables of all rows.

First the rule that needs no clocks: where nobody can leave before all have come, the rank that waits
least while the others wait long arrived last. Then the entry stamps give the amount, and may contradict:
a short wait without a late entry is a property of the data path, not of the rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Sequence

from clusterprobe.bench_rows import column
from clusterprobe.stats import median, odd_ones
from clusterprobe.units import format_time, rank_ranges

LATE_SHARE = 0.7  # late in this share of a row's iterations, or it is chance
FEWEST_LATE = 4
LATE_ROWS = 0.34  # and in this share of the rows
CONFIRMED = 0.4  # the entry stamps must show this much of the lateness
ODD_SCORE = 6.0
ODD_FLOOR = 0.10
PER_RANK_KEPT = 256


@dataclass
class RankHistory:
    """Per rank over all rows of the world: late rows, lateness, entry delays, own times relative to the median."""

    world: int
    rows: int = 0
    late_rows: Dict[int, int] = field(default_factory=dict)
    lateness: Dict[int, List[int]] = field(default_factory=dict)
    delays: Dict[int, List[int]] = field(default_factory=dict)
    contradicted: Dict[int, int] = field(default_factory=dict)
    ratios: List[List[float]] = field(default_factory=list)
    entry: List[List[int]] = field(default_factory=list)

    def add(self, table: Any, waits: bool, even: bool, clock_error: int) -> List[int]:
        """Take in one row; returns the ranks that were late in it. A root's own time says nothing about the root."""
        self.rows += 1
        last, delay, lateness, counts = (column(table, name) for name in ("last", "delay", "lateness", "count"))
        if even:
            own = column(table, "own")
            centre = median([value for value in own if value] or [0])
            self.ratios.append([value / centre if centre else 0.0 for value in own])
        self.entry.append(delay)
        late = []
        for rank in range(self.world):
            if not waits or last[rank] < max(FEWEST_LATE, LATE_SHARE * counts[rank]):
                continue
            if clock_error >= 0 and delay[rank] + clock_error < CONFIRMED * lateness[rank]:
                self.contradicted[rank] = self.contradicted.get(rank, 0) + 1
                continue
            late.append(rank)
            self.late_rows[rank] = self.late_rows.get(rank, 0) + 1
            self.lateness.setdefault(rank, []).append(lateness[rank])
            if clock_error >= 0:
                self.delays.setdefault(rank, []).append(delay[rank])
        return late

    def late_ranks(self) -> List[int]:
        """Late in enough rows, the worst first."""
        found = [rank for rank, rows in self.late_rows.items() if rows >= max(1, LATE_ROWS * self.rows)]
        return sorted(found, key=lambda rank: -median(self.lateness[rank]))

    def late_sentences(self, name: Any, most: int = 8) -> List[str]:
        sentences = []
        for rank in self.late_ranks()[:most]:
            text = (f"{name(rank)} came late in {self.late_rows[rank]} of {self.rows} rows: the others waited "
                    f"{format_time(median(self.lateness[rank]) / 1e9)} longer than it did")
            if rank in self.delays:
                text += f"; its entry stamps are {format_time(median(self.delays[rank]) / 1e9)} behind the first rank's"
            sentences.append(text)
        return sentences

    def odd_ranks(self) -> List[Any]:
        """(rank, score, ratio) of ranks whose own times stand apart over all rows."""
        usual = self._usual_ratios()
        if not usual or self.world < 3:
            return []
        return [(rank, score, usual[rank]) for rank, score in odd_ones(usual, ODD_SCORE, ODD_FLOOR, side="high")]

    def _usual_ratios(self) -> List[float]:
        """Each rank's own time relative to the median rank's, over the rows where all have the same to do; empty without any."""
        return [median([row[rank] for row in self.ratios]) for rank in range(self.world)] if self.ratios else []

    def as_json(self, hosts: Sequence[str]) -> List[Dict[str, Any]]:
        """Every rank in a small world; in a large one the spread and those that stand out."""
        if not self.rows:
            return []
        usual = self._usual_ratios()
        behind = [median([row[rank] for row in self.entry]) / 1000 for rank in range(self.world)]

        def entry(rank: int) -> Dict[str, Any]:
            late = self.lateness.get(rank)
            return {"rank": rank, "host": hosts[rank], "time_ratio": round(usual[rank], 4) if usual else None,
                    "entry_delay_us": round(behind[rank], 1), "late_rows": self.late_rows.get(rank, 0),
                    "lateness_us": round(median(late) / 1000, 1) if late else None}
        if self.world <= PER_RANK_KEPT:
            return [entry(rank) for rank in range(self.world)]
        spread = {"ranks": rank_ranges(range(self.world)), **{
            name: {"min": min(values), "median": median(values), "max": max(values)}
            for name, values in (("time_ratio", usual), ("entry_delay_us", behind)) if values}}
        special = list(dict.fromkeys([*self.late_ranks(), *(rank for rank, _, _ in self.odd_ranks())]))
        return [spread, *(entry(rank) for rank in special[:PER_RANK_KEPT])]
