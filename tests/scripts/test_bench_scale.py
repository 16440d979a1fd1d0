"""Rank 0's work with 16,384 simulated ranks: rows, late ranks, groups, pair matrix, verdict, report. No torch.

The tables are what the ranks would have sent; everything after them is the tool's own code.
"""

from __future__ import annotations

import json
import random
import resource
import time
from types import SimpleNamespace

import pytest

from clusterprobe.bench import CollectiveBench
from clusterprobe.bench_groups import partition_of
from clusterprobe.bench_options import BENCH_NAME, bench_parser
from clusterprobe.bench_pair_text import pair_report
from clusterprobe.bench_pairs import (
    binned,
    chosen_rounds,
    find_suspects,
    member_rates,
    pair_partner,
    summary_numbers,
)
from clusterprobe.bench_row_run import RowOutcome
from clusterprobe.bench_rows import COLUMNS
from clusterprobe.bench_table import BenchTable
from clusterprobe.collective_cases import CaseSpec
from clusterprobe.collective_table import extent_of
from clusterprobe.launch import RankEnv
from clusterprobe.report import Report

RANKS, PER_NODE = 16384, 8
NODES = RANKS // PER_NODE
LATE, FLIPPED, CAPPED, SLOW_NODE = 5000, 9001, 77, 1234
SIZES = [8 * 4 ** step for step in range(16)]


class Table:
    """What the exchange returns, by columns; stands for the tensor of world x columns."""

    def __init__(self, columns: dict[str, list[int]]) -> None:
        self._columns = [columns[name] for name in COLUMNS]

    def __getitem__(self, place):
        values = self._columns[place[1]]
        return SimpleNamespace(tolist=lambda: values, max=lambda: SimpleNamespace(item=lambda: max(values)))


def table_of(median_ns, chance, late: bool = True, wrong: bool = False) -> Table:
    """median_ns(rank) is the group's time."""
    centre = [median_ns(rank) for rank in range(RANKS)]
    own = [int(value * chance.uniform(0.97, 1.0)) for value in centre]
    columns = {name: [0] * RANKS for name in COLUMNS}
    columns |= {"own": own, "own_max": [value * 2 for value in own], "wait": [value * 9 // 10 for value in own],
                "count": [40] * RANKS, "checked": [6] * RANKS, "first": [80_000_000] * RANKS,
                "median": [value * 1000 // 1000 for value in centre], "low": [value * 99 // 100 for value in centre],
                "high": [value * 101 // 100 for value in centre], "p99": [value * 2 for value in centre],
                "least": [value * 8 // 10 for value in centre], "most": [value * 3 for value in centre],
                "delay": [int(chance.uniform(0, 20_000)) for _ in range(RANKS)]}
    if late:
        columns["last"][LATE], columns["lateness"][LATE], columns["delay"][LATE] = 39, 50_000_000, 50_300_000
    if wrong:
        columns["wrong"][FLIPPED] = 1
    return Table(columns)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    folder = tmp_path_factory.mktemp("big")
    words = ["--group", "world,node,rail,pairs", "--json", str(folder / "r.json")]
    args = bench_parser().parse_args(words)
    report = Report(BENCH_NAME, words, {}, args.json)
    lines: list[str] = []
    report.line = lambda text="": lines.append(text)
    hosts = [f"node{rank // PER_NODE:05d}" for rank in range(RANKS)]
    control = SimpleNamespace(name=lambda rank: f"rank {rank}@{hosts[rank]}",
                              client=SimpleNamespace(look=lambda key: "the first at 7 of 16,384: 5 instead of 4"))
    session = SimpleNamespace(args=args, env=RankEnv("slurm", 0, RANKS, 0), report=report, control=control, rank0=True)
    bench = CollectiveBench(session)
    bench.places, bench.hosts, bench.clock_error = [rank // PER_NODE for rank in range(RANKS)], hosts, 10_000
    bench.table = BenchTable(session, SimpleNamespace(rows=1), bench.history, bench.places, hosts, bench.clock_error)
    chance, times = random.Random(0), {}
    start = time.monotonic()
    world(bench, chance)
    times["world rows"], start = time.monotonic() - start, time.monotonic()
    groups(bench, chance)
    times["group rows"], start = time.monotonic() - start, time.monotonic()
    members, rows = pairs_of(chance)
    times["pair schedule and summaries of all members"], start = time.monotonic() - start, time.monotonic()
    names = [f"node{number:05d}" for number in range(NODES)]
    alone = [(suspect, 1.25e9) for suspect in find_suspects(members)[:8]]
    pair_report(report, "node", names, members, rows, alone, 64 << 20, 256)
    times["pair report"], start = time.monotonic() - start, time.monotonic()
    rc, reason = bench._verdict(None, False)
    report.finish(rc, reason)
    times["verdict and report"] = time.monotonic() - start
    text = (folder / "r.json").read_text()
    found = {"times": times, "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "report_bytes": len(text),
             "lines": len(lines), "widest": max(map(len, lines)), "rc": rc, "reason": reason}
    print(json.dumps(found, indent=1))
    return SimpleNamespace(**found, text=lines, document=json.loads(text))


def world(bench, chance) -> None:
    partition = partition_of("world", bench.places)
    spec = CaseSpec("all_reduce", "float32", "sum", "in")
    bench.table.curve_head(spec, partition)
    for size in SIZES:
        extents = [extent_of(spec.op, size, 4, RANKS, True)]
        table = table_of(lambda rank, size=size: 60_000 + size // 300, chance, wrong=size == SIZES[5])
        bench.table.show(spec, partition, size, RowOutcome("ok", None, extents, table, None))


def groups(bench, chance) -> None:
    for name in ("node", "rail"):
        partition = partition_of(name, bench.places)
        spec = CaseSpec("all_reduce", "float32", "sum", "in")
        bench.table.curve_head(spec, partition)
        for size in SIZES[-3:]:
            extents = [extent_of(spec.op, size, 4, len(group), True) for group in partition.measured]
            table = table_of(lambda rank, name=name, size=size: (60_000 + size // 300) * (
                3 if name == "node" and rank // PER_NODE == SLOW_NODE else 1), chance, late=False)
            bench.table.show(spec, partition, size, RowOutcome("ok", None, extents, table, None))


def pairs_of(chance):
    """Every node's 256 rounds, as the nodes would sum them up; one node sends at a tenth."""
    members, rows = [], []
    turns = chosen_rounds(NODES, 256)
    for seat in range(NODES):
        out, into = {}, {}
        for turn in turns:
            other = pair_partner(NODES, turn, seat)
            out[other] = 45e9 * chance.uniform(0.9, 1.05) * (0.1 if seat == CAPPED else 1)
            into[other] = 45e9 * chance.uniform(0.9, 1.05) * (0.1 if other == CAPPED else 1)
        members.append(member_rates(summary_numbers(out, into, 0)))
        rows.append(binned(out, NODES))
    return members, rows


def test_seconds_and_megabytes(big):
    assert max(big.times.values()) < 40, big.times
    assert big.memory_mb < 1000
    assert big.report_bytes < 400_000


def test_a_person_can_read_it(big):
    assert big.lines < 200
    assert big.widest < 260


def test_culprits_are_named_among_16384(big):
    warnings = big.document["warnings"]
    assert any(text.startswith(f"rank {LATE}@node00625 came late in 16 of 16 rows: the others waited 50.0 ms longer")
               for text in warnings), warnings
    assert any(f"slow: node{CAPPED:05d} sends at 4." in text and "its own link" in text for text in warnings)
    assert any(f"ranks {SLOW_NODE * 8}-{SLOW_NODE * 8 + 7} on node{SLOW_NODE:05d} need 3.0 x the median" in text for text in warnings)
    assert len([text for text in warnings if "slow:" in text]) == 1
    assert big.rc == 4
    assert f"seen by rank {FLIPPED}@node01125" in big.reason


def test_per_rank_is_a_spread_and_those_that_stand_out(big):
    spread, *special = big.document["per_rank"]
    assert spread["ranks"] == f"0-{RANKS - 1}"
    assert [entry["rank"] for entry in special] == [LATE]


def test_schedule_of_all_ranks_is_a_matching_in_every_round():
    for turn in (0, 1, 8191, 16382):
        partners = [pair_partner(RANKS, turn, seat) for seat in range(RANKS)]
        assert all(partners[partner] == seat and partner != seat for seat, partner in enumerate(partners))


def test_one_member_meets_all_others():
    assert sorted(pair_partner(RANKS, turn, 4242) for turn in range(RANKS - 1)) == [rank for rank in range(RANKS) if rank != 4242]
