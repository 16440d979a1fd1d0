"""What rank 0 of all_reduce_bench prints and keeps while rows are measured: the head, each curve's head, rows with notes.

Comes in: the outcome of a row with the numbers of all ranks. Goes out: lines of text, and entries of the report's `results`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from clusterprobe.bench_findings import above_line
from clusterprobe.bench_groups import Partition, members_text
from clusterprobe.bench_late import RankHistory
from clusterprobe.bench_options import BENCH_NAME
from clusterprobe.bench_row_run import RowOutcome, RowRunner
from clusterprobe.bench_rows import (
    GROUPS_KEPT,
    ROW_HEADS,
    ROW_WIDTHS,
    GroupResult,
    group_results,
    odd_groups,
    row_cells,
    row_json,
    slowest_first,
    unfinished_result,
)
from clusterprobe.collective_cases import CaseSpec
from clusterprobe.collective_table import COLLECTIVES, bus_factor
from clusterprobe.session import Session
from clusterprobe.stats import median
from clusterprobe.units import counted, format_rate, format_size, format_time, shorten_list


class BenchTable:
    """The text and the rows of one run. Every rank holds one; rank 0's alone says something."""

    def __init__(self, session: Session, runner: RowRunner, history: RankHistory, places: Sequence[int], hosts: Sequence[str],
                 clock_error: int) -> None:
        self._session, self._report = session, session.report
        self._args, self._env = session.args, session.env
        self._runner, self._history = runner, history
        self._places, self._hosts = places, hosts
        self._clock_error = clock_error  # nanoseconds; -1: the hosts' clocks could not be compared

    def head(self) -> None:
        """What is measured, where, and what the numbers mean."""
        if not self._session.rank0:
            return
        line, device = self._report.line, self._session.device
        env = self._report.document["env"]
        line(f"{BENCH_NAME}: {counted(self._env.world_size, 'rank')} on {counted(len(set(self._places)), 'node')} "
             f"({shorten_list(dict.fromkeys(self._hosts), 6)}), launcher {self._env.launcher}")
        line(f"device {device.name}, backend {self._args.backend or device.backend}, torch {env.get('torch')}, "
             f"cuda {env.get('cuda')}, nccl {env.get('nccl')}, driver {env.get('driver')}; started {self._report.document['started']}")
        line("time: per iteration the slowest rank of the group; median with 95% interval (+-%), in us; iterations start "
             "together after a barrier that is not timed")
        line("rate: algbw = S / median time, busbw = algbw x factor; 1 GB/s is 1e9 bytes/s. Data: small integers that differ "
             "by rank and place, checked " + ("not at all" if self._args.no_check else "on the first and last call of each row"
             + (f" and every {self._args.check_every} iterations" if self._args.check_every else "")))
        if device.l2_bytes and not self._args.buffer_sets:
            line(f"buffers: enough sets in turn to fill twice the cache of {format_size(device.l2_bytes)}, so that data comes from memory")
        if self._clock_error > 0:
            line(f"clocks of the hosts agree within {format_time(self._clock_error / 1e9)} after correction")
        if self._env.world_size == 1:
            line("one rank: there is nothing to measure between ranks; calls are made and checked, there are no rates")

    def curve_head(self, spec: CaseSpec, partition: Partition) -> None:
        if not self._session.rank0:
            return
        kind, groups = COLLECTIVES[spec.op], partition.measured
        widths = sorted({len(group) for group in groups})
        factor = bus_factor(spec.op, widths[-1])
        who = (counted(self._env.world_size, "rank") if partition.name == "world" else
               f"{counted(len(groups), partition.name + ' group')} of {'-'.join(map(str, widths[:1] + widths[-1:] if len(widths) > 1 else widths))} "
               "ranks at the same time, the slowest shown")
        words = [spec.op, spec.dtype if spec.op not in ("barrier", "all_gather_object") else "", spec.redop,
                 {"in": "in place", "out": "out of place"}.get(spec.place, ""), spec.mode]
        self._report.line()
        self._report.line(f"{' '.join(filter(None, words))}; {who}; S = {kind.size_text}"
                         + (f"; factor {factor:.4g}" if factor is not None else ""))
        if kind.remark:
            self._report.line(f"note: {kind.remark}")
        self._report.heading((*ROW_HEADS, ""), (*ROW_WIDTHS, -1))

    def left_out(self, spec: CaseSpec, partition: Partition, wanted: int, outcome: RowOutcome) -> None:
        if not self._session.rank0:
            return
        self._report.line(f"{format_size(wanted):>10}  {outcome.status}: {outcome.reason}")
        self._report.add("results", row_json(spec, partition.name, wanted, outcome.extents[0], outcome.status, outcome.reason))

    def show(self, spec: CaseSpec, partition: Partition, wanted: int, outcome: RowOutcome) -> None:
        results = slowest_first(group_results(outcome.table, partition, spec, outcome.extents, self._args.min_busbw_payload or 0))
        late: List[int] = []
        if partition.name == "world":
            kind = COLLECTIVES[spec.op]
            late = self._history.add(outcome.table, kind.waits, kind.even, self._clock_error)
        extents = {id(group): extent for group, extent in zip(partition.measured, outcome.extents)}
        kept = results if len(results) <= GROUPS_KEPT else results[:GROUPS_KEPT // 4]
        for number, result in enumerate(kept):
            entry = self._entry(spec, partition, wanted, extents[id(result.members)], result)
            if number == 0:
                self._more_fields(entry, results, outcome, late)
                notes = self._notes(entry, result, late, partition)
                self._report.row((*row_cells(extents[id(result.members)], result), notes))
                if self._args.profile_stability:
                    self._samples(entry)
            self._report.add("results", entry)
        self._odd_groups(spec, partition, results)

    def keep_unfinished(self) -> List[str]:
        """At an end in the middle of a row: what this row had measured, with its status saying so."""
        row = self._runner.open_row
        if row is None or not self._session.rank0:
            return []
        result = unfinished_result(row.seat.members, row.spec.op, row.extent, self._env.rank, row.result)
        if result is None:
            return []
        members = "" if row.partition.name == "world" else members_text(row.seat.members)
        count = f"{result.time_us['count']:,} iterations"
        entry = row_json(row.spec, row.partition.name, row.wanted, row.extent, "wrong" if result.wrong else "unfinished",
                         f"the run ended after {count}; checked by rank 0 alone", result, members)
        if self._args.profile_stability:
            entry["samples_us"] = [sample / 1000 / row.result.batch for sample in row.result.line.worst]
        self._report.document["results"].append(entry)
        return [self._report.row_text((*row_cells(row.extent, result), f"unfinished: {count}"))]

    def _entry(self, spec: CaseSpec, partition: Partition, wanted: int, extent: Any, result: GroupResult) -> Dict[str, Any]:
        reason = None
        if result.wrong:
            names = [self._session.control.name(rank) for rank in result.wrong_ranks]
            first = self._session.control.client.look(f"wrong/{self._runner.rows}/{result.wrong_ranks[0]}")
            reason = f"{result.wrong:,} wrong values seen by {shorten_list(names, 4)}; {first or 'no details'}"
        members = "" if partition.name == "world" else members_text(result.members)
        return row_json(spec, partition.name, wanted, extent, "wrong" if result.wrong else "ok", reason, result, members)

    def _more_fields(self, entry: Dict[str, Any], results: Sequence[GroupResult], outcome: RowOutcome, late: Sequence[int]) -> None:
        entry["buffer_sets"] = outcome.own.sets if outcome.own else None
        if len(results) > 1:
            entry["groups"] = len(results)
            entry["groups_median_us"] = median([result.time_us["median"] for result in results])
        if late:
            entry["late"] = [self._session.control.name(rank) for rank in late[:8]]
            entry["shortest_wait_us"] = outcome.table[:, -1].max().item() / 1000
        if self._args.profile_stability:
            entry["samples_us"] = [sample / 1000 / outcome.own.batch for sample in outcome.own.line.worst]

    def _notes(self, entry: Dict[str, Any], result: GroupResult, late: Sequence[int], partition: Partition) -> str:
        notes = []
        if partition.name != "world":
            notes.append(shorten_list([f"{members_text(result.members)}@"
                                       + shorten_list(list(dict.fromkeys(self._hosts[rank] for rank in result.members)), 3)]))
        if result.wrong:
            notes.append(f"WRONG: {entry['reason']}")
        if late:
            notes.append("late: " + shorten_list([self._session.control.name(rank) for rank in late], 3))
        if above_line(entry, self._args.line_rate):
            notes.append("above line rate: in-network reduction or an intra-node path, else a mistake in --line-rate")
        entry["above_line_rate"] = above_line(entry, self._args.line_rate) if self._args.line_rate else None
        return "; ".join(notes)

    def _samples(self, entry: Dict[str, Any]) -> None:
        for number, sample in enumerate(entry["samples_us"], 1):
            rate = entry["busbw"] * entry["time_us"]["median"] / sample if entry["busbw"] and sample else None
            self._report.line(f"  iteration {number:>4}: {sample:,.1f} us, busbw {format_rate(rate)}")

    def _odd_groups(self, spec: CaseSpec, partition: Partition, results: Sequence[GroupResult]) -> None:
        """Groups that stand apart from the others of their kind and width at this size; more ranks take longer."""
        for result, usual in odd_groups(results)[:3]:
            hosts = shorten_list(list(dict.fromkeys(self._hosts[rank] for rank in result.members)), 4)
            self._report.warn(f"{spec.op} by {partition.name}: {members_text(result.members)} on {hosts} need "
                             f"{result.time_us['median'] / usual:.1f} x the median of the groups")
