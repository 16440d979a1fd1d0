"""all_reduce_bench: how fast the ranks of a job exchange data, whether it arrives right, and who holds it up.

From the joined world to the verdict: groups, rows of each collective, the pair matrix, findings.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.backend import open_group
from clusterprobe.bench_baseline import load_baseline
from clusterprobe.bench_checks import refuse_unwritable
from clusterprobe.bench_clock import ClockOffset, agree_on_clocks, node_leaders
from clusterprobe.bench_exchange import BenchExchange
from clusterprobe.bench_findings import judge_run
from clusterprobe.bench_groups import Partition, open_partition, partition_of
from clusterprobe.bench_late import RankHistory
from clusterprobe.bench_options import (
    BENCH_NAME,
    bench_parser,
    effort_of,
    refuse_contradictions,
    wanted_sizes,
    wanted_specs,
)
from clusterprobe.bench_pair_run import PairRun
from clusterprobe.bench_pair_text import pair_report
from clusterprobe.bench_plan import bench_plan, row_limit
from clusterprobe.bench_plot import csv_text, png_plot, text_plot
from clusterprobe.bench_row_run import CHUNK_MEMORY, RowRunner
from clusterprobe.bench_table import BenchTable
from clusterprobe.collective_cases import CaseSpec, GroupSeat
from clusterprobe.device import free_memory, load_torch, shared_devices
from clusterprobe.exits import CANNOT_RUN, OK, PARTIAL, WRONG_DATA, ProbeFailure
from clusterprobe.join import join_world, warn_of_nodes
from clusterprobe.probe import run_probe
from clusterprobe.session import Session
from clusterprobe.strictjson import replace_file
from clusterprobe.transport_watch import TransportWatch, report_transport
from clusterprobe.units import counted, format_size, shorten_list

MEMORY_SHARE = {"cpu": 0.5, "device": 0.85}
ONE_RANK_SIZES = (8, 64 << 10, 1 << 20)
PAIR_BYTES = {"cpu": 1 << 20, "device": 64 << 20}
RANK_PAIRS_UP_TO = 64


def bench_main(argv: Optional[Sequence[str]] = None) -> int:
    return run_probe(bench_parser(), bench_body, argv, bench_plan)


def bench_body(session: Session) -> Tuple[int, str]:
    return CollectiveBench(session).run()


class CollectiveBench:
    """The run on one rank. Rank 0 prints, keeps the rows and judges."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.args = session.args
        self.env = session.env
        self.report = session.report
        self.kind = "cpu"
        self.clock: Optional[ClockOffset] = None
        self.history = RankHistory(self.env.world_size)
        self.exchange: Any = None
        self.runner: Any = None
        self.table: Any = None
        self.places: List[int] = []
        self.hosts: List[str] = []
        self.cells: Any = None
        self.gaps: List[str] = []  # asked for and left out, apart from rows

    def run(self) -> Tuple[int, str]:
        session, args = self.session, self.args
        watch = TransportWatch(args.transports is not None or bool(args.require_transport), args.transports or None)
        watch.ask()
        with session.stage("device"):
            device = session.open_device()
            self.kind = "cpu" if device.kind == "cpu" else "device"
            sizes = wanted_sizes(args, device.kind)
            refuse_contradictions(args, sizes)
        join_world(session)
        with session.stage("sharing"):
            self._refuse_shared_devices(args.backend or device.backend)
        with session.stage("preflight"):
            warn_of_nodes(session)
        with session.stage("baseline"):  # with the others joined: what rank 0 refuses ends them all
            if session.rank0:
                refuse_unwritable(args)
            old = load_baseline(args.baseline, BENCH_NAME) if args.baseline and session.rank0 else None
        with session.stage("backend"):
            seconds = open_group(session, args.backend)
            self.report.add("stages", {"stage": "backend", "status": "ok", "seconds": round(seconds, 3),
                                         "detail": args.backend or device.backend})
        self._meet()
        if self.env.world_size == 1 and not (args.sizes or args.payload_size_in_gib or args.max_bytes):
            wanted = list(ONE_RANK_SIZES)
        else:
            wanted = sizes.sizes
        self.table.head()
        for name in args.group:
            self._one_group(name, wanted)
        with session.stage("transport"):
            transport = report_transport(session, watch, self.places)
        return self._verdict(old, sizes.named, transport)

    def _refuse_shared_devices(self, backend: str) -> None:
        """NCCL fails late and badly when two ranks hold one device."""
        if not self.session.rank0 or backend == "gloo":
            return
        records = self.session.control.census.records
        shared = shared_devices([{"rank": rank, **record} for rank, record in sorted(records.items())])
        if shared:
            raise ProbeFailure(CANNOT_RUN, shorten_list(shared, 3), "start one rank per device, or check CUDA_VISIBLE_DEVICES",
                               named=True)

    def _meet(self) -> None:
        """Exchange, clocks and memory."""
        session = self.session
        torch = load_torch()
        self.exchange = BenchExchange(torch, session.device, self.env.world_size)
        self.places = session.control.places
        if session.rank0:
            census = session.control.census
            self.hosts = [census.host_of(rank) or "?" for rank in range(self.env.world_size)]
        with session.stage("clocks"):
            self.clock = agree_on_clocks(session, self.places)
        with session.stage("memory"):
            free = free_memory(session.device.kind) or (1 << 62)
            if self.kind == "cpu":
                free //= max(1, self.places.count(self.places[self.env.rank]))
            table = self.exchange.table([int(free * MEMORY_SHARE[self.kind]), self.clock.error if self.clock else -1])
            errors = table[:, 1].tolist()
            self.clock_error = -1 if min(errors) < 0 else max(errors)
            memory = min(table[:, 0].tolist())
        self.runner = RowRunner(torch, session, self.exchange, effort_of(self.args), self.clock, memory)
        self.table = BenchTable(session, self.runner, self.history, self.places, self.hosts, self.clock_error)
        self.report.before_verdict = self.table.keep_unfinished

    def _one_group(self, name: str, sizes: Sequence[int]) -> None:
        if name == "pairs":
            if self.env.world_size > 1:
                self._pairs()
            return
        partition = partition_of(name, self.places)
        if self.env.world_size > 1 and not partition.measured:
            self.report.warn(f"--group {name}: every group has one rank; nothing to measure there")
            return
        with self.session.stage(f"groups by {name}"):
            seat = open_partition(partition, self.env.rank)
        for spec in wanted_specs(self.args):
            self._curve(spec, partition, seat, sizes)

    def _curve(self, spec: CaseSpec, partition: Partition, seat: GroupSeat, sizes: Sequence[int]) -> None:
        """All sizes of one kind of row; what is unsupported at one size is so at all."""
        self.table.curve_head(spec, partition)
        for wanted in (sizes if spec.op != "barrier" else (0,)):
            label = f"{spec.op} {format_size(wanted)}" + ("" if partition.name == "world" else f" by {partition.name}")
            with self.session.stage(label, row_limit(self.args)):
                outcome = self.runner.run(spec, partition, seat, wanted)
            if outcome.status != "ok":
                self.table.left_out(spec, partition, wanted, outcome)
                if outcome.status == "unsupported" or spec.op == "barrier":
                    return
                continue
            if self.session.rank0:
                self.table.show(spec, partition, wanted, outcome)

    def _pairs(self) -> None:
        """The pair matrix; ends with the members whose rate stands apart."""
        level = self.args.pair_level
        if level == "auto":
            level = "rank" if self.env.world_size <= RANK_PAIRS_UP_TO else "node"
        members = list(range(self.env.world_size)) if level == "rank" else list(node_leaders(self.places))
        if len(members) < 2:
            self.report.warn("--group pairs by node: there is one node")
            return
        size = self.args.pair_bytes or PAIR_BYTES[self.kind]
        if 2 * size + CHUNK_MEMORY > self.runner.memory:
            self.gaps.append(f"pairs: two buffers of {format_size(size)} need more than the {format_size(self.runner.memory)} "
                             "that are free on the rank with the least")
            self.report.warn(self.gaps[-1])
            return
        run = PairRun(load_torch(), self.session, self.exchange, members, size, not self.args.no_check)
        turns = run.run(self.args.pair_rounds)
        rates, rows = run.gather()
        alone, excused = run.look_again(rates)
        if self.session.rank0:
            names = [f"rank {rank}@{self.hosts[rank]}" if level == "rank" else self.hosts[rank] for rank in members]
            self.cells = pair_report(self.report, level, names, rates, rows, alone, run.bytes, len(turns), excused)

    def _verdict(self, old: Any, sizes_named: bool, transport: Tuple[int, str] = (OK, "")) -> Tuple[int, str]:
        if not self.session.rank0:
            return OK, ""
        report, args = self.report, self.args
        document = report.document
        report.put("per_rank", self.history.as_json(self.hosts))
        for sentence in self.history.late_sentences(self.session.control.name):
            report.warn(sentence)
        for rank, _, ratio in self.history.odd_ranks()[:4]:
            report.warn(f"{self.session.control.name(rank)} takes {ratio:.2f} x the median rank's time")
        for text in text_plot(document["results"]):
            report.line(text)
        unwritten = self._files(document["results"])
        rc, reason, lines = judge_run(args, document, old, sizes_named, transport, self.gaps)
        report.line()
        for text in lines:
            report.line(text)
        if self.env.world_size == 1 and rc != WRONG_DATA and not args.allow_one:
            checked = counted(sum(row["status"] == "ok" for row in document["results"]), "row")
            return CANNOT_RUN, f"one rank: there is nothing to measure between ranks ({checked} checked)"
        if unwritten and rc == OK:
            return PARTIAL, f"{reason}; {unwritten} could not be written"
        return rc, reason

    def _files(self, rows: Sequence[Dict[str, Any]]) -> str:
        """Plot and CSV; returns what was asked for and can't be written."""
        unwritten = []
        for path, write in ((self.args.plot, self._plot), (self.args.csv, lambda path, rows: replace_file(path, csv_text(rows)))):
            try:
                if path:
                    write(path, rows)
            except OSError as error:
                self.report.warn(f"cannot write {path}: {error.strerror or error}")
                unwritten.append(path)
        return " and ".join(unwritten)

    def _plot(self, path: str, rows: Sequence[Dict[str, Any]]) -> None:
        """Without matplotlib the bars stand for it."""
        why_not = png_plot(path, rows, f"{BENCH_NAME}, {counted(self.env.world_size, 'rank')}", self.cells)
        if why_not:
            self.report.warn(f"no plot in {path}: {why_not}")
        else:
            self.report.line(f"plot: {os.path.abspath(path)}")
