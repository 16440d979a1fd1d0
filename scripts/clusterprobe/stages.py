"""Numbered stages of a check: one line each, a deadline each, and all ranks' outcomes on rank 0.

Before the store is open a stage is local; its outcome travels with the census. Afterwards every rank
reports each stage and rank 0 prints one line for all, naming the ranks that failed or are odd.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from clusterprobe.exits import ProbeFailure, worst_exit
from clusterprobe.session import Session


@dataclass(frozen=True)
class Outcome:
    """How a stage ended on one rank. `value` is what rank 0 compares between ranks."""

    detail: str = ""
    value: Any = None
    rc: int = 0
    reason: str = ""
    hint: str = ""

    def record(self) -> Dict[str, Any]:
        return {"v": self.value, "rc": self.rc, "why": self.reason, "hint": self.hint}


# From all ranks' values to (line for the table, warnings).
Judge = Callable[[Dict[int, Any]], Tuple[str, List[str]]]


class StageTable:
    """Prints `[4] consistency  ok  0.3 s  …` and fills the report's `stages`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.local_failure: Optional[ProbeFailure] = None
        self.warned = 0

    def local(
        self, number: int, name: str, work: Callable[[], str], limit: Optional[float] = None
    ) -> None:
        """A stage before the store: a failure is kept until the ranks can tell each other."""
        start = time.monotonic()
        with self.session.stage(f"[{number}] {name}", limit):
            try:
                detail, status = work(), "ok"
            except ProbeFailure as failure:
                self.local_failure = self.local_failure or failure
                detail, status = failure.reason, "fail"
        self._print(number, name, status, time.monotonic() - start, detail)

    def shared(
        self,
        number: int,
        name: str,
        work: Callable[[], Outcome],
        judge: Optional[Judge] = None,
        limit: Optional[float] = None,
    ) -> None:
        """A stage of all ranks: gather the outcomes, print, and end together when one failed."""
        start, label = time.monotonic(), f"[{number}] {name}"
        with self.session.stage(label, limit):
            try:
                outcome = work()
            except ProbeFailure as failure:
                if (
                    failure.named or self.session.control is None
                ):  # it is about all ranks, or nobody can be told
                    self._print(number, name, "fail", time.monotonic() - start, failure.reason)
                    raise
                outcome = Outcome(failure.reason, None, failure.rc, failure.reason, failure.hint)
            self.session.step("report")
            control, patience = self.session.control, self.session.patience()
            records = control.gather_all(label, outcome.record(), patience)
            if records is not None:
                self._judge(number, name, time.monotonic() - start, outcome, records, judge)
            control.from_rank0(label, True, patience)

    def _judge(
        self,
        number: int,
        name: str,
        seconds: float,
        mine: Outcome,
        records: Dict[int, Dict[str, Any]],
        judge: Optional[Judge],
    ) -> None:
        failure = merge_failures(self.session.control.census, records)
        if failure:
            self._print(number, name, "fail", seconds, failure.reason)
            raise failure
        detail, warnings = (
            judge({rank: record["v"] for rank, record in records.items()})
            if judge
            else (mine.detail, [])
        )
        self._print(number, name, "warn" if warnings else "ok", seconds, detail)
        for text in warnings:
            self.warned += 1
            self.session.report.warn(text)

    def _print(self, number: int, name: str, status: str, seconds: float, detail: str) -> None:
        report = self.session.report
        report.line(f"[{number}] {name:<14} {status:<5} {seconds:6.2f} s  {detail}")
        report.add(
            "stages",
            {
                "stage": name,
                "number": number,
                "status": status,
                "seconds": round(seconds, 6),
                "detail": detail,
            },
        )


def merge_failures(census: Any, records: Dict[int, Dict[str, Any]]) -> Optional[ProbeFailure]:
    """One failure for all ranks: equal reasons are told once, with the ranks that have them."""
    groups: Dict[Tuple[str, str], List[int]] = {}
    for rank, record in sorted(records.items()):
        if record["rc"]:
            groups.setdefault((record["why"], record["hint"]), []).append(rank)
    if not groups:
        return None
    rc = worst_exit(record["rc"] for record in records.values())
    ordered = sorted(
        groups.items(), key=lambda item: (records[item[1][0]]["rc"] != rc, -len(item[1]))
    )
    text = "; ".join(f"{census.names(ranks, 4)}: {why}" for (why, _), ranks in ordered[:3])
    more = f"; and {len(ordered) - 3} other reasons" if len(ordered) > 3 else ""
    return ProbeFailure(rc, text + more, ordered[0][0][1], named=True)
