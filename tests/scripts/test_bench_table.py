"""The collective benchmark's arithmetic: factors against counted traffic, sizes, verdicts, pairs, options. No torch."""

from __future__ import annotations

import itertools
import json
import resource
import signal
import sys
import types
from pathlib import Path

import pytest
from conftest import SCRIPTS
from PIL import Image

from clusterprobe import bench_findings, bench_plot, collective_table
from clusterprobe.bench_baseline import compare_rows, load_baseline
from clusterprobe.bench_groups import partition_of
from clusterprobe.bench_late import RankHistory
from clusterprobe.bench_measure import stands_out
from clusterprobe.bench_options import bench_parser, wanted_sizes, wanted_specs
from clusterprobe.bench_pairs import (
    Suspect,
    binned,
    chosen_rounds,
    draw_matrix,
    find_suspects,
    matrix_rows,
    member_rates,
    pair_partner,
    round_count,
    sound_turns,
    still_slow,
    summary_numbers,
    witness_of,
)
from clusterprobe.bench_rows import COLUMNS, GroupResult, odd_groups
from clusterprobe.collective_table import (
    COLLECTIVES,
    bus_factor,
    extent_of,
    most_sent,
    rates_of,
    uneven_share,
    uneven_split,
)
from clusterprobe.exits import ProbeFailure
from clusterprobe.topology import pair_rounds

WORLDS = (2, 3, 4, 5, 8, 17)


# -- busbw: the bytes that the busiest rank's link carries in a flat ring or a direct exchange, per byte of S


def ring_traffic(op: str, n: int, count: int) -> float:
    """Elements sent by the busiest rank, counted step by step."""
    sent = [0] * n
    share = count // n
    if op in ("reduce_scatter", "all_reduce"):
        for _, rank in itertools.product(range(n - 1), range(n)):
            sent[rank] += share
    if op in ("all_gather", "all_reduce"):
        for _, rank in itertools.product(range(n - 1), range(n)):
            sent[rank] += share
    if op == "all_to_all":
        for source, _target in itertools.permutations(range(n), 2):
            sent[source] += share
    if op == "scatter":
        sent[0] = share * (n - 1)
    if op == "gather":  # the root's link is the busiest; it receives
        sent[0] = share * (n - 1)
    if op in ("broadcast", "reduce"):  # a pipelined chain: each hop carries everything once
        sent = [count] * n
    return max(sent)


def check_factors(table) -> None:
    for n in WORLDS:
        count = 12 * n
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "broadcast", "reduce"):
            assert table.bus_factor(op, n) == pytest.approx(ring_traffic(op, n, count) / count), (op, n)
        for op in ("send_recv", "pair", "p2p_batch"):
            assert table.bus_factor(op, n) == 1.0
        assert table.bus_factor("barrier", n) is None
    assert table.bus_factor("all_reduce", 1) is None
    algbw, busbw = table.rates_of("all_reduce", 4, 1 << 20, 0.001)
    assert (algbw, busbw) == (pytest.approx((1 << 20) / 0.001), pytest.approx((1 << 20) / 0.001 * 1.5))
    assert table.rates_of("barrier", 4, 0, 0.001) == (None, None)
    assert table.rates_of("all_reduce", 1, 1 << 20, 0.001) == (None, None)  # no link, so no rate of one
    assert table.rates_of("all_reduce", 4, 8, 0.0) == (None, None)


def test_bus_factors_equal_counted_traffic():
    check_factors(collective_table)


MUTATIONS = {
    "all_reduce factor halved": ("2.0 * (n - 1) / n", "(n - 1) / n"),
    "all_reduce over n - 1": ("2.0 * (n - 1) / n", "2.0 * n / (n - 1)"),
    "share forgets the own part": ('"share": (n - 1) / n', '"share": 1.0'),
    "share doubled": ('"share": (n - 1) / n', '"share": 2 * (n - 1) / n'),
    "one becomes n": ('"one": 1.0', '"one": float(n)'),
    "single rank": (" or n < 2:", ":"),
    "busbw is algbw": ("return size / seconds, size / seconds * factor", "return size / seconds, size / seconds"),
    "rates inverted": ("return size / seconds, size / seconds * factor", "return seconds / size, seconds / size * factor"),
    "no time is fast": ("or seconds <= 0 ", ""),
    "all_gather takes the double": ('"all_gather", WHOLE_TEXT, "share"', '"all_gather", WHOLE_TEXT, "double"'),
    "broadcast takes the share": ('"broadcast", BUFFER_TEXT, "one"', '"broadcast", BUFFER_TEXT, "share"'),
    "splits forgotten": ("count = max(1, wanted // element // n)", "count = max(1, wanted // element)"),
    "S is a share": ("return Extent(count, whole * element, both", "return Extent(count, count * element, both"),
    "batch counts one message": ("Extent(count, parts * count * element", "Extent(count, count * element"),
    "uneven shares are even": ("count + (rank % 3 - 1) * (count // 2)", "count"),
}


def broken_table(old: str, new: str):
    source = Path(collective_table.__file__).read_text()
    assert old in source, f"the mutation {old!r} has no place any more"
    module = types.ModuleType("broken_table")

    sys.modules["broken_table"] = module  # dataclasses look their module up
    exec(compile(source.replace(old, new), "broken_table.py", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_broken_formula_is_noticed(name):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        check_everything(broken_table(*MUTATIONS[name]))


def check_everything(table) -> None:
    check_factors(table)
    check_extents(table)


def check_extents(table) -> None:
    for n in WORLDS:
        for wanted in (1, 8, 1000, 1000003):
            assert table.extent_of("all_reduce", wanted, 4, n).size == max(1, wanted // 4) * 4
            share = max(1, wanted // 4 // n)
            for op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
                extent = table.extent_of(op, wanted, 4, n)
                assert (extent.count, extent.size) == (share, share * n * 4), (op, n, wanted)
                assert extent.memory >= extent.size
    assert table.extent_of("p2p_batch", 1024, 4, 4).size == 1024
    shares = [table.uneven_share(10, rank) for rank in range(6)]
    assert shares == [5, 10, 15, 5, 10, 15]
    assert table.extent_of("all_gather_uneven", 240, 4, 6).size == sum(shares) * 4


def test_extents_say_what_is_done():
    check_extents(collective_table)


def test_sizes_beyond_32_bits():
    """16 GiB in bytes and 3 GiB of int8 elements a rank: counts stay exact."""
    assert extent_of("all_gather", 3 << 30, 1, 8).size == 3 << 30
    assert extent_of("all_reduce", 16 << 30, 4, 16384) == extent_of("all_reduce", 16 << 30, 4, 2)
    assert extent_of("all_reduce", 16 << 30, 4, 2).count == 1 << 32


def test_uneven_splits_agree_between_both_ends_and_never_vanish():
    for n, count in itertools.product((1, 2, 3, 5, 8), (1, 2, 7, 100)):
        sent = [sum(uneven_split(count, source, target) for target in range(n)) for source in range(n)]
        assert most_sent(count, n) == max(sent)
        assert min(uneven_split(count, a, b) for a in range(n) for b in range(n)) >= 1
        assert max(uneven_split(count, a, b) for a in range(n) for b in range(n)) <= max(1, 2 * count - 1) + (count == 1)
        assert min(uneven_share(count, rank) for rank in range(n)) >= 1
    assert len({uneven_split(10, 0, target) for target in range(3)}) == 3


def test_rates_are_plain_numbers():
    assert rates_of("all_gather", 2, 2_000_000, 0.001) == (2e9, 1e9)
    assert bus_factor("all_gather_object", 4) is None


# -- options


def options(*words: str):
    return bench_parser().parse_args(words)


def test_names_of_the_public_original():
    args = options("--num_iterations", "7", "--num_warmup_iterations", "2", "--payload_size_in_gib", "0.5",
                   "--profile_stability", "--local_rank", "3")
    assert (args.num_iterations, args.num_warmup_iterations, args.profile_stability) == (7, 2, True)
    assert wanted_sizes(args, "cuda").sizes == [1 << 29]


def test_names_of_the_newer_original_and_of_nccl_tests(capsys):
    args = options("--collectives", "allreduce,all-gather,batch_isend_irecv", "--min-payload", "64K", "--max_payload", "1M",
                   "--min-busbw-payload", "32K", "--with-host-overhead", "--separate-tables", "--mode", "stream")
    assert (args.collective, args.min_bytes, args.max_bytes) == (["all_reduce", "all_gather", "send_recv"], 64 << 10, 1 << 20)
    assert (options("--mode", "stream", "--with-host-overhead").mode, args.min_busbw_payload) == (["block"], 32 << 10)
    args = options(*["-b", "8", "-e", "1K", "-f", "2", "-n", "50", "-w", "10", "-d", "half", "-o", "max"])
    assert (args.num_iterations, args.num_warmup_iterations, args.dtype, args.redop) == (50, 10, ["float16"], ["max"])
    with pytest.raises(SystemExit):
        options("--sym-mem")
    assert "symmetric memory are not measured here" in capsys.readouterr().err


def test_defaults_are_all_reduce_of_float32():
    specs = wanted_specs(options())
    assert [(spec.op, spec.dtype, spec.redop, spec.place, spec.mode) for spec in specs] == [
        ("all_reduce", "float32", "sum", "in", "block")]
    assert wanted_sizes(options(), "cuda").sizes[-1] <= 16 << 30
    assert not wanted_sizes(options(), "cuda").named


def test_everything_can_be_asked_for():
    specs = wanted_specs(options("--collective", "all", "--place", "both", "--mode", "all"))
    assert {spec.op for spec in specs} == set(COLLECTIVES)
    assert {(spec.op, spec.place) for spec in specs} >= {("all_gather", "in"), ("all_gather", "out"), ("reduce_scatter", "in")}
    assert {spec.mode for spec in specs} == {"block", "stream", "graph"}
    assert [spec.redop for spec in wanted_specs(options("--redop", "all"))][:3] == ["sum", "avg", "min"]
    assert wanted_specs(options("--collective", "reduce-scatter", "--dtype", "bf16"))[0].dtype == "bfloat16"


def test_size_lists_need_not_divide():
    assert wanted_sizes(options("--sizes", "8,1000003,64K,1MiB"), "cpu").sizes == [8, 1000003, 65536, 1 << 20]
    assert wanted_sizes(options("-b", "192K", "-e", "200K", "-i", "1K"), "cpu").sizes == [k << 10 for k in range(192, 201)]


@pytest.mark.parametrize("words", [("--collective", "all_reduces"), ("--dtype", "float33"), ("--redop", "mean"),
                                   ("--group", "row"), ("--sizes", "8,x"), ("--mode", "fast"), ("--num-iterations", "0"),
                                   ("--group", "stride:0"), ("--collective", ","), ("--sizes", ""), ("--sizes", "8,0"), ("--dtype", ","),
                                   ("--group", ""), ("--group", "stride:\u00b2"), ("-f", "0"), ("-f", "1"), ("-f", "nan"),
                                   ("--payload-size-in-gib", "-1"), ("--payload-size-in-gib", "nan"), ("--payload-size-in-gib", "inf"),
                                   ("--payload-size-in-gib", "1e-12"), ("--fail-below", "nan"), ("--fail-below", "-1"),
                                   ("--line-rate", "inf"), ("--baseline-tolerance", "nan"), ("--baseline", ""), ("--csv", ""),
                                   ("--num-iterations", "9" * 20), ("--num-warmup-iterations", "-1"), ("--offset", "9" * 10),
                                   ("--batch", "1000000000"), ("--buffer-sets", "65"), ("--pair-bytes", "0"), ("--timeout", "0"),
                                   ("--stage-timeout", "0s"), ("--timeout", "9" * 20 + "d"), ("--nproc", "\u00b2")])
def test_wrong_words_end_with_2_and_say_what_is_known(words, capsys):
    with pytest.raises(SystemExit) as ended:
        options(*words)
    assert ended.value.code == 2
    assert "RESULT status=error rc=2 tool=all_reduce_bench" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("-b", "1M", "-e", "1K"), ("-f", "1.0000001"), ("-e", "1G", "-i", "8")])
def test_impossible_sweeps_are_refused(words):
    with pytest.raises(ProbeFailure) as refused:
        wanted_sizes(options(*words), "cpu")
    assert refused.value.rc == 2


@pytest.mark.parametrize(("words", "both"), [
    (("--sizes", "8", "-e", "1M"), "--sizes and --max-bytes"), (("--sizes", "8", "--payload-size-in-gib", "1"), "--sizes and --payload"),
    (("-f", "2", "-i", "8"), "--factor and --step-bytes"), (("--json", "a.json", "--baseline", "./a.json"), "--baseline and --json"),
    (("--gate-bytes", "1G"), "without --fail-below"), (("--pair-bytes", "1M"), "needs --group pairs"), (("--batch", "5"), "needs --mode"),
    (("--no-check", "--check-every", "3"), "--check-every and --no-check"), (("--place", "in", "--collective", "gather"), "no form in place"),
    (("--csv", "a", "--plot", "a"), "--csv and --plot"), (("--csv", "a", "--baseline", "a"), "--baseline and --csv")])
def test_what_contradicts_itself_ends_before_a_file_is_opened(words, both, capsys):
    with pytest.raises(SystemExit) as ended:
        options(*words)
    text = capsys.readouterr().err
    assert (ended.value.code, both in text) == (2, True), text
    options("--json", "-", "--csv", "/dev/null", "--plot", "/dev/null")
    options("--no-check", "--check-every", "0", "--place", "in", "--collective", "gather,all_reduce", "--batch", "5", "--mode", "block,stream")


def test_help_can_be_formatted():
    text = bench_parser().format_help()
    assert "--collective" in text
    assert "exit status:" in text


# -- groups


def test_partitions_follow_uneven_nodes():
    places = [0, 0, 0, 1, 2, 2]
    assert partition_of("node", places).measured == [[0, 1, 2], [4, 5]]
    assert partition_of("rail", places).measured == [[0, 3, 4], [1, 5]]
    assert partition_of("stride:2", places).measured == [[0, 2, 4], [1, 3, 5]]
    assert partition_of("node", places).idle == 1
    assert partition_of("world", [0]).measured == [[0]]
    with pytest.raises(ProbeFailure):
        partition_of("stride:9", places)


# -- pairs


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9])
def test_partner_formula_is_the_circle_schedule(count):
    rounds = list(pair_rounds(count))
    assert len(rounds) == round_count(count)
    for turn, pairs in enumerate(rounds):
        mine = {(min(a, b), max(a, b)) for a in range(count) if (b := pair_partner(count, turn, a)) is not None}
        assert mine == set(pairs)


def synthetic(count: int, rate) -> tuple[list, list]:
    """Members and rows as the run would gather them; rate(sender, receiver) in bytes/s."""
    members, rows = [], []
    for seat in range(count):
        out = {other: rate(seat, other) for other in range(count) if other != seat}
        into = {other: rate(other, seat) for other in range(count) if other != seat}
        members.append(member_rates(summary_numbers(out, into, 0)))
        rows.append(binned(out, count))
    return members, rows


def test_capped_sender_is_the_only_suspect():
    members, rows = synthetic(4, lambda a, b: 25e6 if a == 2 else 500e6 + 90e6 * ((3 * a + b) % 5))
    suspects = find_suspects(members)
    assert [(suspect.seat, suspect.side) for suspect in suspects] == [(2, "out")]
    assert witness_of(2, members, suspects) in (0, 1, 3)
    text = draw_matrix(matrix_rows(rows, 4), ["a", "b", "c", "d"], 4)
    assert text[-2].split() == ["c", "25.0", "25.0", "25.0"]


def test_capped_receiver_is_told_apart_from_a_sender():
    members, _ = synthetic(5, lambda a, b: 40e6 if b == 1 else 400e6)
    assert [(suspect.seat, suspect.side) for suspect in find_suspects(members)] == [(1, "into")]


def test_equal_and_noisy_members_are_not_accused():
    assert find_suspects(synthetic(6, lambda a, b: 1e9)[0]) == []
    assert find_suspects(synthetic(6, lambda a, b: 1e9 * (1 + 0.15 * ((5 * a + 3 * b) % 7)))[0]) == []
    assert find_suspects(synthetic(2, lambda a, b: 1e9 if a else 1e6)[0]) == []  # no majority among two


def test_half_the_rate_on_a_loaded_host_is_not_a_link_of_a_hundredth():
    suspect = Suspect(2, "into", 5.2e6, 3.46e9, -60.0)
    assert still_slow(suspect, 5.1e6)
    assert still_slow(suspect, 60e6)
    assert not still_slow(suspect, 2.33e9)
    half = Suspect(2, "into", 0.5e9, 1e9, -14.0)
    assert still_slow(half, 0.52e9)
    assert not still_slow(half, 0.76e9)


def test_a_suspect_is_not_held_against_another():
    suspects = [Suspect(2, "into", 1.0, 9.0, -9.0), Suspect(1, "out", 1.0, 9.0, -9.0)]
    for most in (3, 9):
        assert {pair_partner(5, turn, 1) for turn in sound_turns(5, 1, suspects, most)} == {0, 3, 4}
    assert len(sound_turns(2048, 7, suspects, 3)) == 3
    crowd = [Suspect(seat, "out", 1.0, 9.0, -9.0) for seat in range(4)]
    assert len(sound_turns(4, 0, crowd, 3)) == 3  # nobody is above suspicion


def test_chosen_rounds_are_spread():
    assert chosen_rounds(10, 256) == list(range(9))
    chosen = chosen_rounds(2048, 256)
    assert (len(chosen), chosen[0], len(set(chosen))) == (256, 0, 256)
    assert chosen[-1] > 2000


# -- late ranks


def test_shortest_wait_rule():
    ms = 1_000_000
    assert stands_out(5 * ms, 55 * ms, 5 * ms, 55 * ms)
    assert not stands_out(55 * ms, 55 * ms, 5 * ms, 55 * ms)
    assert not stands_out(24 * ms, 36 * ms, 24 * ms, 36 * ms)  # a one-sided slow link: the victims' spread
    assert not stands_out(10_000, 60_000, 10_000, 60_000)  # jitter
    assert not stands_out(70_000, 1_474_000, 70_000, 9_250_800)  # 200 queued calls on one host, launched 15% faster by one
    assert stands_out(70_000, 900 * ms, 70_000, 1_000 * ms)  # 50 ms before each of 20 queued calls


class Numbers(list):
    def tolist(self):
        return list(self)


class TableOfRanks(list):
    """Every rank's numbers with the one access that is made to torch's tensor: a column."""

    def __getitem__(self, place):
        return Numbers(entry[place[1]] for entry in self) if isinstance(place, tuple) else super().__getitem__(place)


def history_of(*rows: list[int], even: bool = True) -> RankHistory:
    """Rows of each rank's own median time in nanoseconds."""
    history = RankHistory(len(rows[0]))
    for own in rows:
        history.add(TableOfRanks([[{"own": value}.get(name, 0) for name in COLUMNS] for value in own]), False, even, 0)
    return history


def test_a_root_that_receives_from_all_is_not_odd():
    own = [8_000_000, 4_000_000, 4_100_000, 3_900_000]
    assert [rank for rank, _, _ in history_of(own, own).odd_ranks()] == [0]
    rooted = history_of(own, own, even=False)
    assert rooted.odd_ranks() == []
    assert [entry["time_ratio"] for entry in rooted.as_json(["a"] * 4)] == [None] * 4
    uneven = {name for name, kind in COLLECTIVES.items() if not kind.even}
    assert uneven == {"broadcast", "reduce", "gather", "scatter", "pair", "all_gather_uneven", "all_to_all_uneven"}


def test_groups_are_held_against_groups_of_their_width():
    def group(width: int, median: float) -> GroupResult:
        return GroupResult(range(width), {"median": median}, None, None, 1.0, 0, 0, [])

    healthy = [group(2, 500.0), group(2, 510.0), group(2, 505.0), group(4, 1450.0)]
    assert odd_groups(healthy) == []
    slow = [*healthy, group(2, 900.0)]
    assert [(result, usual) for result, usual in odd_groups(slow)] == [(slow[-1], 507.5)]


# -- verdicts


def row(**changed) -> dict:
    made = {"op": "all_reduce", "dtype": "float32", "redop": "sum", "place": "in", "mode": "block", "group": "world", "members": None,
            "ranks": 4, "wanted_bytes": 1 << 20, "bytes": 1 << 20, "count": 1 << 18, "algbw": 2e9, "busbw": 3e9, "first_ms": 1.0,
            "checked": 8, "wrong": 0, "status": "ok", "reason": None,
            "time_us": {"median": 500.0, "p99": 520.0, "min": 490.0, "max": 530.0, "ci": [495.0, 505.0], "count": 30}}
    return {**made, **changed}


def judged(*rows: dict, words: tuple[str, ...] = (), old=None, named: bool = False, pairs: tuple = ()):
    document = {"results": list(rows), "pairs": list(pairs), "env": {}, "world": {}}
    return bench_findings.judge_run(options(*words), document, old, named)


def test_gate_judges_large_sizes_only():
    small, large = row(bytes=8, busbw=1e4), row()
    assert judged(small, large, words=("--fail-below", "2.5"))[0] == 0
    rc, reason, _ = judged(small, large, words=("--fail-below", "3.5"))
    assert (rc, reason) == (3, "busbw 3.00 GB/s is below 3.5 GB/s: all_reduce float32 sum 1 MiB block world")
    assert judged(small, large, words=("--fail-below", "2.5", "--gate-bytes", "8"))[0] == 3
    assert judged(row(busbw=None, op="barrier"), words=("--fail-below", "1"))[0] == 7
    three = row(ranks=3, wanted_bytes=1 << 30, bytes=(1 << 30) - 4)  # a size that does not divide by three
    assert judged(small, three, words=("--fail-below", "3.5", "--gate-bytes", "1G"))[0] == 3
    assert judged(small, three, words=("--fail-below", "2.5", "--gate-bytes", "1G"))[0] == 0


def test_wrong_data_is_graver_than_a_gate():
    assert judged(row(status="wrong", wrong=1, reason="x"), words=("--fail-below", "100"))[0] == 4
    assert judged(row(), pairs=({"wrong_members": ["rank 1@b"]},))[0] == 4


def test_left_out_rows():
    missing = row(status="unsupported", reason="Invalid scalar type", time_us=None, busbw=None, dtype="int16")
    assert judged(row(), missing)[0] == 7
    assert judged(row(), missing, words=("--dtype", "all"))[0] == 0
    named = ("--collective", "all", "--dtype", "float32,int16")
    assert judged(row(), missing, words=named)[0] == 7  # the type was named and has no row at all
    assert judged(row(), row(dtype="int16", op="broadcast", redop=None), missing, words=named)[0] == 0
    uncaptured = row(status="unsupported", reason="can't be recorded", op="barrier", dtype="uint8", mode="graph", redop=None, busbw=None)
    assert judged(row(mode="graph"), uncaptured, words=("--collective", "all", "--mode", "graph"))[0] == 0
    assert judged(missing)[0] == 6
    too_large = row(status="skipped", reason="needs", time_us=None, busbw=None)
    assert judged(row(), too_large, named=True)[0] == 7
    assert judged(row(), too_large)[0] == 0


def test_baseline_needs_separate_intervals_and_tolerance():
    def timed(median: float, half: float) -> dict:
        return row(time_us={"median": median, "p99": median, "min": median, "max": median,
                            "ci": [median - half, median + half], "count": 9})

    for new, verdict in ((timed(500, 5), "same"), (timed(520, 2), "same"), (timed(600, 110), "same"), (timed(600, 5), "slower"),
                         (timed(400, 5), "faster")):
        assert compare_rows([timed(500, 5)], [new], 0.05)[0][0].verdict == verdict
    rc, reason, lines = judged(timed(600, 5), old={"results": [timed(500, 5)], "started": "then"})
    assert (rc, "1 slower" in reason) == (3, True)
    assert "all_reduce float32 sum 1 MiB block world: 20% slower" in lines[1]
    assert judged(timed(600, 5), old={"results": [row(bytes=8)], "started": "then"})[0] == 7
    half = {"results": [timed(600, 5)], "started": "then", "status": "partial", "rc": 7, "config": {"offset": 1}}
    assert judged(timed(600, 5), old=half)[2][-2:] == ["  note: that run ended with status partial, rc 7", "  note: offset was 1, is None"]


@pytest.mark.parametrize(("count", "rc"), [(1, 7), (4, 7), (5, 3)])
def test_a_baseline_of_single_iterations_makes_no_row_slower(count, rc):
    """-n 1 on the same idle host twice: 500 and 900 us."""
    def once(median: float) -> dict:
        times = {"median": median, "p99": median, "min": median, "max": median, "ci": [median, median], "count": count}
        return row(time_us=times)

    found = judged(once(900.0), old={"results": [once(500.0)], "started": "then"})
    assert found[0] == rc, found
    assert ("0 rows compared" in found[1] and "1 of fewer than 5 iterations" in found[1]) == (rc == 7)


@pytest.mark.parametrize("text", [
    "", "[]", '{"tool": "mamf-finder", "results": []}', "{", *(f'{{"tool": "all_reduce_bench", "results": [{result}]}}' for result in (
        "1", "{}", '{"status": "ok", "time_us": 5}', '{"status": "ok", "time_us": {"median": 5}}',
        '{"status": "ok", "time_us": {"median": "x", "ci": [1, 2]}}'))])
def test_a_baseline_that_is_none(text, tmp_path):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(ProbeFailure) as refused:
        load_baseline(str(path), "all_reduce_bench")
    assert refused.value.rc == 2


def test_line_rate_is_a_mark_not_a_failure():
    assert bench_findings.above_line(row(busbw=60e9), 50)
    assert not bench_findings.above_line(row(busbw=40e9), 50)
    assert judged(row(busbw=60e9), words=("--line-rate", "50"))[0] == 0


# -- pictures


def test_text_plot_and_csv():
    rows = [row(bytes=8 ** n, busbw=1e6 * 8 ** n) for n in range(1, 5)]
    text = bench_plot.text_plot(rows)
    assert text[1] == "busbw of all_reduce float32 sum in block world"
    assert text[-1].count("#") == bench_plot.BAR
    assert text[-2].count("#") == bench_plot.BAR / 8
    lines = bench_plot.csv_text([*rows, row(time_us=None, status="unsupported", reason='a, "b"')]).split("\n")
    assert len(lines[0].split(",")) == len(lines[1].split(","))
    assert '"a, ""b"""' in lines[5]


def test_nothing_in_the_report_is_not_json():
    json.dumps(row(), allow_nan=False)
    assert (SCRIPTS / "all_reduce_bench.py").exists()


BLUE, ORANGE = (0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E)


def test_the_picture_shows_the_curves_and_the_matrix(tmp_path):
    """Drawn by matplotlib itself: two panels for both, one for one, a colour a curve, and nothing for no rows."""
    path = tmp_path / "p.png"
    rows = [row(op=op, bytes=8 ** n, busbw=1e6 * n) for op in ("all_reduce", "all_gather") for n in range(1, 5)]
    widths = {}
    for what, drawn, cells in (("curves", rows, None), ("matrix", [], [[0.0, 2e9], [1e9, 0.0]]), ("both", rows, [[0.0, 2e9], [1e9, 0.0]])):
        assert bench_plot.png_plot(str(path), drawn, "title", cells) == ""
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            widths[what] = picture.width
            colors = {color for count, color in picture.convert("RGB").getcolors(1 << 20) if count > 50}
        assert {BLUE, ORANGE} <= colors or what == "matrix", "matplotlib's first two colors, one a curve"
    assert widths["both"] == 2 * widths["curves"] == 2 * widths["matrix"]
    path.unlink()
    assert bench_plot.png_plot(str(path), [], "title") == "there is nothing to draw"
    assert not path.exists()


def test_a_picture_replaces_an_older_one_whole_or_not_at_all(tmp_path):
    old = tmp_path / "p.png"
    old.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as a disk that is full after so many bytes
        with pytest.raises(OSError, match="File too large"):
            bench_plot.png_plot(str(old), [], "title", [[1.0]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"p.png": b"old"}
    assert bench_plot.png_plot(str(old), [], "title", [[1.0]]) == ""
    assert old.read_bytes().startswith(b"\x89PNG")
