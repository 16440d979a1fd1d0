"""all_reduce_bench in real gloo worlds: every collective with checked results, groups, modes, files, one rank."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest
from conftest import SCRIPTS
from test_gpu_test_worlds import host_address

BENCH = SCRIPTS / "all_reduce_bench.py"
QUICK = ("--device", "cpu", "--num-iterations", "2", "--num-warmup-iterations", "1", "--stage-timeout", "60")
slow = pytest.mark.slow
# With one rank there is nobody to get a value from; on gloo the uneven all-gather is one broadcast a rank.
ALONE = ("send_recv", "pair", "p2p_batch", "broadcast", "all_gather_uneven")


def ended_well(done) -> None:
    assert (done.rc, done.err) == (0, ""), done.out + done.err


def test_default_run_of_two_ranks(run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8,64K,1000003", "--json", "r.json")
    ended_well(done)
    assert done.result == {"status": "ok", "rc": "0", "tool": "all_reduce_bench", "json": "r.json"}
    assert "S = count x size, the buffer of one rank; factor 1" in done.out
    assert "busbw of all_reduce float32 sum in block world" in done.out
    report = valid_report(tmp_path / "r.json")
    assert [row["bytes"] for row in report["results"]] == [8, 65536, 1000000]
    for row in report["results"]:
        assert (row["op"], row["status"], row["wrong"], row["ranks"]) == ("all_reduce", "ok", 0, 2)
        times = row["time_us"]
        assert 0 < times["min"] <= times["median"] <= times["p99"] <= times["max"]
        assert row["algbw"] == pytest.approx(row["bytes"] / times["median"] * 1e6)
        assert row["busbw"] == pytest.approx(row["algbw"])
        assert row["checked"] >= 6  # first and last call and one iteration, on both ranks
        assert row["first_ms"] > 0


def test_a_refused_row_harms_no_later_one(run_tool, tmp_path, valid_report):
    """gloo's barrier raises once more what a call shortly before it was refused for, on some of the ranks."""
    ended = run_tool(BENCH, "--device", "cpu", "--nproc", "2", "--json", "r.json", "--collective", "all_reduce,reduce,barrier",
                     "--redop", "sum,band,bor,bxor", "--dtype", "float16,bfloat16,float32,float64", "--place", "both", "--sizes", "64",
                     "--num-iterations", "2", "--num-warmup-iterations", "1", "--stage-timeout", "25")
    assert (ended.rc, ended.err) == (7, ""), ended.out[-2000:]
    rows = valid_report(tmp_path / "r.json")["results"]
    refused = [row for row in rows if row["redop"] in ("band", "bor", "bxor")]
    assert len(refused) >= 24
    assert {row["status"] for row in refused} == {"unsupported"}
    assert {row["status"] for row in rows if row not in refused} == {"ok"}
    assert any(row["op"] == "barrier" for row in rows)


def test_one_rank_has_nothing_to_measure(run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "1", *QUICK, "--collective", "all_reduce,reduce_scatter", "--json", "r.json")
    assert (done.rc, done.err) == (6, ""), done.out + done.err
    assert "one rank: there is nothing to measure between ranks" in done.why
    rows = valid_report(tmp_path / "r.json")["results"]
    assert {row["op"] for row in rows} == {"all_reduce", "reduce_scatter"}
    old = [row for row in rows if "reduce_scatter_base fallback" in str(row["reason"])]  # gloo of torch 2.2
    assert {row["op"] for row in old} <= {"reduce_scatter"}
    assert all(row["checked"] and not row["wrong"] and row["time_us"] for row in rows if row not in old)
    assert {(row["algbw"], row["busbw"]) for row in rows} == {(None, None)}  # a memcpy's rate is no collective's
    shown = [line.split() for line in done.out.splitlines() if " B  " in line]
    assert shown
    assert all("/s" not in " ".join(cells) for cells in shown)


def test_one_rank_and_a_gate_is_still_one_rank(run_tool, tmp_path):
    done = run_tool(BENCH, "--nproc", "1", *QUICK, "--num-iterations", "6", "--sizes", "64K", "--fail-below", "1", "--plot", "p.png", "--csv", "r.csv",
                    "--json", "old.json")
    assert (done.rc, done.err) == (6, ""), done.out + done.err
    assert "one rank: there is nothing to measure" in done.why
    again = run_tool(BENCH, "--nproc", "1", *QUICK, "--num-iterations", "6", "--sizes", "64K", "--baseline", "old.json", "--json", "none", "--allow-one")
    assert (again.rc, again.err) in ((0, ""), (3, "")), again.out + again.err
    assert "1 row compared" in again.out


@slow
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_collective_is_right(size, run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", str(size), *QUICK, "--collective", "all", "--place", "both", "--sizes", "8,1001,300001",
                    "--json", "r.json", "--allow-one", "--row-time", "1s", limit=280)
    ended_well(done)
    rows = valid_report(tmp_path / "r.json")["results"]
    status = {}
    for row in rows:
        status.setdefault((row["op"], row["place"]), set()).add(row["status"])
        assert row["status"] == "ok" or (row["op"], row["reason"]) == ("all_gather_object", "Numpy is not available"), row
        if row["status"] == "ok" and row["op"] != "barrier":
            assert row["checked"] or (size == 1 and row["op"] in ALONE), row
    assert {op for op, _ in status} == {
        "all_reduce", "all_gather", "all_gather_uneven", "reduce_scatter", "all_to_all", "all_to_all_uneven", "broadcast",
        "reduce", "gather", "scatter", "send_recv", "pair", "p2p_batch", "barrier", "all_gather_object"}
    assert ("reduce_scatter", "in") in status
    assert ("all_gather", "in") in status


@slow
def test_types_and_ops_that_the_backend_lacks_are_rows(run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "3", *QUICK, "--dtype", "all", "--redop", "all", "--collective", "all_reduce,reduce_scatter",
                    "--sizes", "1001", "--json", "r.json", limit=280)
    ended_well(done)
    rows = {(row["op"], row["dtype"], row["redop"]): row for row in valid_report(tmp_path / "r.json")["results"]}
    for dtype in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"):
        for redop in ("sum", "min", "max", "prod"):
            assert rows["all_reduce", dtype, redop]["status"] == "ok", rows["all_reduce", dtype, redop]
    assert rows["all_reduce", "int32", "bxor"]["status"] == "ok"
    assert rows["all_reduce", "bfloat16", "avg"]["status"] == "ok"
    assert rows["all_reduce", "complex64", "sum"]["status"] == "ok"
    refused = {key: row["reason"] for key, row in rows.items() if row["status"] == "unsupported"}
    assert refused["all_reduce", "int16", "sum"] == "Invalid scalar type"
    assert "PREMUL_SUM" in refused["all_reduce", "float32", "premul_sum"]
    assert "BAND" in refused["all_reduce", "float32", "band"]
    assert {row["status"] for row in rows.values()} == {"ok", "unsupported"}


def test_what_was_asked_for_by_name_and_left_out_is_a_partial_run(run_tool):
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--dtype", "int16,int32", "--sizes", "64", "--mode", "block,graph", "--json", "none")
    assert (done.rc, done.err) == (7, ""), done.out + done.err
    assert "unsupported: Invalid scalar type" in done.out
    assert "unsupported: CUDA graphs need a CUDA device, this is cpu" in done.out


@slow
def test_repeated_sums_in_place_stay_exact(run_tool, tmp_path, valid_report):
    """fp16 reaches inf after a few sums of sums; restored inputs keep every iteration checkable."""
    done = run_tool(BENCH, "--nproc", "3", *QUICK, "--num-iterations", "30", "--dtype", "fp16,bf16,int8", "--redop", "sum,prod",
                    "--sizes", "4K", "--check-every", "1", "--mode", "block,stream", "--json", "r.json")
    ended_well(done)
    for row in valid_report(tmp_path / "r.json")["results"]:
        assert (row["checked"], row["wrong"]) == (3 * 32, 0), row


@slow
def test_uneven_nodes_and_groups(new_world, tmp_path, valid_report):
    nodes = {0: "a", 1: "b", 2: "b", 3: "c", 4: "c"}
    each = {rank: {"CLUSTERPROBE_NODE": node, "LOCAL_RANK": str(list(nodes.values())[:rank].count(node)),
                   "LOCAL_WORLD_SIZE": str(list(nodes.values()).count(node))} for rank, node in nodes.items()}
    world = new_world(5, address=host_address()).start(
        BENCH, *QUICK, "--sizes", "64K", "--group", "world,node,rail,stride:2,pairs", "--collective", "all_reduce,broadcast",
        "--json", "r.json", each=each)
    ended = world.finish(200)
    assert {end.rc for end in ended.values()} == {0}, ended
    assert all(end.out == end.err == "" for rank, end in ended.items() if rank), "only rank 0 prints"
    report = valid_report(tmp_path / "r.json")
    groups = {}
    for row in report["results"]:
        assert (row["status"], row["wrong"]) == ("ok", 0)
        if row["op"] == "all_reduce":
            groups.setdefault(row["group"], set()).add(row["members"])
    assert groups == {"world": {None}, "node": {"ranks 1-2", "ranks 3-4"}, "rail": {"ranks 0-1,3", "ranks 2,4"},
                      "stride:2": {"ranks 0,2,4", "ranks 1,3"}}
    pairs = report["pairs"][0]
    assert (pairs["level"], pairs["rounds"], len(pairs["members"])) == ("rank", 5, 5)
    matrix = pairs["matrix"]["bytes_per_second"]
    assert all((matrix[a][b] is None) == (a == b) for a in range(5) for b in range(5))
    assert [entry["rank"] for entry in report["per_rank"]] == list(range(5))
    assert "rank 2@b" in ended[0].out


@slow
def test_pairs_by_node(new_world, tmp_path, valid_report):
    each = {rank: {"CLUSTERPROBE_NODE": "abc"[rank // 2], "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"} for rank in range(6)}
    world = new_world(6, address=host_address()).start(
        BENCH, *QUICK, "--group", "pairs", "--pair-level", "node", "--pair-bytes", "64K", "--json", "r.json", each=each)
    ended = world.finish(200)
    assert {end.rc for end in ended.values()} == {0}, ended
    pairs = valid_report(tmp_path / "r.json")["pairs"][0]
    assert (pairs["level"], [entry["member"] for entry in pairs["members"]]) == ("node", ["a", "b", "c"])


@slow
def test_baseline_gate_and_files(run_tool, tmp_path, valid_report):
    six = (*QUICK, "--num-iterations", "6")
    first = run_tool(BENCH, "--nproc", "2", *six, "--sizes", "8,1M", "--json", "old.json", "--csv", "rows.csv", "--plot", "p.png")
    assert first.rc == 0, first.out + first.err
    assert "no plot in p.png: matplotlib is not installed" in first.out or (tmp_path / "p.png").read_bytes()[1:4] == b"PNG"
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3
    old = json.loads((tmp_path / "old.json").read_text())
    for row in old["results"]:
        row["time_us"] = {key: value if key == "count" else [v / 1e4 for v in value] if key == "ci" else value / 1e4
                          for key, value in row["time_us"].items()}
    (tmp_path / "old.json").write_text(json.dumps(old))
    second = run_tool(BENCH, "--nproc", "2", *six, "--sizes", "8,1M", "--json", "new.json", "--baseline", "old.json")
    assert second.rc == 3, second.out
    assert "2 rows compared, 2 slower" in second.why
    third = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8,1M", "--json", "none", "--fail-below", "1000")
    assert third.rc == 3
    assert "is below 1000 GB/s: all_reduce float32 sum 1 MiB" in third.why
    fourth = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8", "--json", "none", "--baseline", "absent.json")
    assert fourth.rc == 2, fourth.out
    assert fourth.err == ""
    assert "absent.json can't be read" in fourth.why


@slow
def test_sizes_beyond_memory_are_rows_with_a_reason(run_tool):
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8,8T", "--json", "none")
    assert (done.rc, done.err) == (7, ""), done.out + done.err
    assert "skipped: needs 16 TiB a rank" in done.out
    assert "on the rank with the least" in done.why


@slow
def test_old_command_line(run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "2", "--device", "cpu", "--num_iterations", "4", "--num_warmup_iterations", "1",
                    "--payload_size_in_gib", "0.0009765625", "--profile_stability", "--json", "r.json")
    ended_well(done)
    assert done.out.count("  iteration ") == 4
    row = valid_report(tmp_path / "r.json")["results"][0]
    assert (row["bytes"], len(row["samples_us"]), row["time_us"]["count"]) == (1 << 20, 4, 4)


@slow
def test_report_to_stdout_and_to_devices(run_tool, tmp_path):
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8", "--json", "-")
    assert json.loads(done.out)["results"][0]["bytes"] == 8
    assert done.err.splitlines()[-1] == "RESULT status=ok rc=0 tool=all_reduce_bench json=-"
    before = os.stat("/dev/null")
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8", "--json", "/dev/null", "--csv", "/dev/null")
    ended_well(done)
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_rdev) == (after.st_ino, after.st_rdev)


@pytest.mark.parametrize(("words", "rc", "reason"), [
    (("--csv", "no/such/r.csv"), 6, "there is no folder"), (("--plot", "."), 6, "it is a folder"),
    (("--backend", "nickel"), 2, "'nickel' is none of gloo"), (("--backend", "mpi"), 6, "built without mpi"),
    (("--group", "pairs", "--pair-bytes", "900T"), 6, "two buffers of 900 TiB"),
    (("--group", "world,pairs", "--pair-bytes", "900T"), 7, "two buffers of 900 TiB")])
def test_what_cannot_be_done_is_one_sentence(words, rc, reason, run_tool):
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8", "--json", "none", *words, limit=25)
    assert (done.rc, done.err) == (rc, ""), done.out + done.err
    assert reason in done.why


def test_a_report_that_exists_ends_all_ranks_at_once(run_tool, tmp_path):
    (tmp_path / "r.json").write_text("kept")
    started = time.monotonic()
    done = run_tool(BENCH, "--nproc", "3", *QUICK, "--sizes", "8", "--json", "r.json")
    assert (done.rc, done.err) == (2, ""), done.out + done.err
    assert "the report file r.json exists" in done.why
    assert (tmp_path / "r.json").read_text() == "kept"
    assert time.monotonic() - started < 20  # not the half minute that the other ranks would wait for rank 0


def test_only_ranks_that_compare_values_count_as_checks(run_tool, tmp_path, valid_report):
    """First call, first iteration, last call: three calls, in which the root of a broadcast has nothing to compare."""
    done = run_tool(BENCH, "--nproc", "3", *QUICK, "--sizes", "64K", "--collective", "all_reduce,reduce,broadcast,gather,scatter,pair",
                    "--json", "r.json")
    ended_well(done)
    counts = {row["op"]: row["checked"] for row in valid_report(tmp_path / "r.json")["results"]}
    assert counts == {"all_reduce": 9, "reduce": 3, "broadcast": 6, "gather": 3, "scatter": 9, "pair": 6}


def test_sizes_below_the_wish_have_times_only(run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "2", *QUICK, "--sizes", "8,64K", "--min-busbw-payload", "32K", "--json", "r.json")
    ended_well(done)
    small, large = valid_report(tmp_path / "r.json")["results"]
    assert (small["algbw"], small["busbw"], small["status"]) == (None, None, "ok")
    assert small["time_us"]["median"] > 0
    assert large["busbw"] > 0


def test_help_version_and_plan_need_no_world(run_tool, tmp_path):
    assert "--collective" in run_tool(BENCH, "--help").out
    assert run_tool(BENCH, "--version").out.startswith("all_reduce_bench ")
    plan = run_tool(BENCH, "--dry-run", "--device", "cpu", "--collective", "all_gather", RANK="0", WORLD_SIZE="16384", LOCAL_RANK="0")
    assert (plan.rc, plan.err) == (0, "")
    assert "16,384 ranks found by launcher env" in plan.out
    assert "S is share x ranks x size, the whole buffer" in plan.out
    plan = run_tool(BENCH, "--dry-run", "--device", "cpu", "--nproc", "4", "--sizes", "512M", "--collective", "all_reduce,barrier")
    assert "4 ranks started here" in plan.out
    assert "memory: 1.094 GiB a rank at 512 MiB" in plan.out  # the buffer, its restored copy, 96 MiB to fill and check
    assert list(tmp_path.iterdir()) == []


WAITS = """import sys, traceback
sys.path.insert(0, {scripts!r})
import torch, torch.distributed as dist
from clusterprobe import bench_exchange
from clusterprobe.device import Device
stacks = []
def wait_for_device(kind):
    stacks.append([frame.name for frame in traceback.extract_stack()[-4:]])
bench_exchange.wait_for_device = wait_for_device
dist.init_process_group("gloo", store=dist.TCPStore("127.0.0.1", 0, 1, True), rank=0, world_size=1)
exchange = bench_exchange.BenchExchange(torch, Device("cpu", None, "cpu", "none"), 1)
for call in (lambda: exchange.highest([3]), lambda: exchange.table([3]), lambda: exchange.decide(3), exchange.align):
    before = len(stacks)
    call()
    assert len(stacks) == before + 1 and stacks[-1][-1] == "wait_for_device", stacks
dist.destroy_process_group()
print("each waits where the judge looks")
"""


def test_an_exchange_waits_for_its_device_where_the_judge_looks(run_tool):
    """NCCL returns at once: whoever then waited in .tolist() for a pair that hangs would be named for staying away."""
    ended = run_tool("-c", WAITS.format(scripts=str(SCRIPTS)))
    assert (ended.rc, ended.err, ended.out) == (0, "", "each waits where the judge looks\n")
