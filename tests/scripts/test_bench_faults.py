"""Faults planted into real worlds of all_reduce_bench: each ends in time, with its code, and names the culprit."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time

import pytest
from conftest import SCRIPTS, clean_environment
from test_gpu_test_worlds import host_address

from clusterprobe.core_wait import core_wait_ns

pytestmark = pytest.mark.slow
BENCH = SCRIPTS / "all_reduce_bench.py"
OPTIONS = ("--device", "cpu", "--json", "r.json", "--sizes", "64K")

# The tool as it is, with torch's all_reduce of floats replaced on one rank; the tool's own exchanges are int64.
SABOTAGE = '''
import os, sys, time
sys.path.insert(0, {scripts!r})
import torch, torch.distributed as dist
from clusterprobe.bench import bench_main
real, calls = dist.all_reduce, [0]
class Flipped:
    def __init__(self, work, tensor): self.work, self.tensor = work, tensor
    def wait(self):
        self.work.wait()
        self.tensor.view(torch.uint8)[9] ^= 4
def all_reduce(tensor, *args, **kwargs):
    if not tensor.is_floating_point() or os.environ["RANK"] != os.environ["BAD_RANK"]:
        return real(tensor, *args, **kwargs)
    calls[0] += 1
    what, hit = os.environ["FAULT"], calls[0] == int(os.environ.get("AT_CALL", "0"))
    if what == "late": time.sleep(0.05)
    if hit and what == "stuck": time.sleep(1000)
    if hit and what == "exit": os._exit(9)
    if hit and what == "raise": raise ValueError("bad luck in the tool")
    if hit and what == "shape": tensor = tensor[:-1000].clone()
    if hit and what == "dtype": tensor = tensor.to(torch.float64)
    work = real(tensor, *args, **kwargs)
    return Flipped(work, tensor) if hit and what == "flip" else work
dist.all_reduce = all_reduce
sys.argv[0] = "all_reduce_bench"
sys.exit(bench_main())
'''


@pytest.fixture
def planted(tmp_path):
    path = tmp_path / "planted.py"
    path.write_text(SABOTAGE.format(scripts=str(SCRIPTS)))
    return path


def fault(what: str, size: int, rank: int, call: int = 0) -> dict:
    return {r: {"FAULT": what, "BAD_RANK": str(rank), "AT_CALL": str(call)} for r in range(size)}


def codes(ended) -> set[int]:
    return {end.rc for end in ended.values()}


def test_late_rank_is_named_with_the_amount(new_world, planted, tmp_path, valid_report):
    each = fault("late", 4, 2)
    for rank in each:
        each[rank]["CLUSTERPROBE_NODE"] = "abcd"[rank]
    ended = new_world(4, address=host_address()).start(
        planted, "--device", "cpu", "--json", "r.json", "--sizes", "64,4K,64K", "--num-iterations", "10", each=each).finish()
    assert codes(ended) == {0}, ended
    report = valid_report(tmp_path / "r.json")
    late = [text for text in report["warnings"] if "came late" in text]
    assert len(late) == 1, report["warnings"]
    assert late[0].startswith("rank 2@c came late in 3 of 3 rows")
    assert "its entry stamps are" in late[0]
    for row in report["results"]:
        assert row["late"] == ["rank 2@c"], row
        assert row["time_us"]["median"] > 50_000  # the victims' time is the row's time
        assert row["shortest_wait_us"] < 45_000  # without the lateness
    rank2 = report["per_rank"][2]
    assert 45_000 < rank2["lateness_us"] < 150_000
    assert 45_000 < rank2["entry_delay_us"] < 150_000
    assert all(entry["late_rows"] == 0 for entry in report["per_rank"] if entry["rank"] != 2)


@pytest.mark.parametrize("call", [1, 9])
def test_one_flipped_bit_is_wrong_data(call, new_world, planted, tmp_path, valid_report):
    """In the first call, and in a timed iteration that only --check-every 1 looks at."""
    words = (*OPTIONS, "--num-iterations", "10", "--num-warmup-iterations", "2", "--check-every", "1")
    ended = new_world(3).start(planted, *words, each=fault("flip", 3, 1, call)).finish()
    assert codes(ended) == {4}, ended
    assert "wrong data in 1 row" in ended[0].why
    assert "1 wrong values seen by rank 1@" in ended[0].why
    assert "the first at 2 of 16,384" in ended[0].why
    row = valid_report(tmp_path / "r.json")["results"][0]
    assert (row["status"], row["wrong"]) == ("wrong", 1)


def test_unchecked_flip_shows_that_the_check_found_it(new_world, planted):
    words = (*OPTIONS, "--num-iterations", "10", "--no-check")
    ended = new_world(3).start(planted, *words, each=fault("flip", 3, 1, 1)).finish()
    assert codes(ended) == {0}, ended


def test_three_of_four_started(new_world, tmp_path, valid_report):
    world = new_world(4).start(BENCH, *OPTIONS, "--stage-timeout", "20", only=(0, 1, 3))
    start = time.monotonic()
    ended = world.finish(90)
    assert time.monotonic() - start < 60
    assert codes(ended) == {5}, ended
    assert "rank 2" in ended[0].why
    assert "never reached the store; 3 of 4 ranks are here" in ended[0].why
    assert (tmp_path / "r.json").exists()
    assert valid_report(tmp_path / "r.json")["rc"] == 5


@pytest.mark.parametrize(("signum", "rank"), [("SIGSTOP", 2), ("SIGKILL", 1), ("SIGKILL", 0), ("SIGSTOP", 0)])
def test_stopped_or_dead_in_mid_run(signum, rank, new_world):
    """Ends inside the stage's limit and its grace, 5 on every living rank, with the silent one named."""
    words = (*OPTIONS, "--num-iterations", "100000", "--stage-timeout", "25")
    world = new_world(3).start(BENCH, *words)
    world.wait_for(0, "median")
    time.sleep(2)
    start = time.monotonic()
    world.signal(rank, signal.Signals[signum])
    ended = world.finish(100, but=(rank,) if signum == "SIGSTOP" else ())
    ended.pop(rank, None)
    assert time.monotonic() - start < 25 + 25
    assert codes(ended) == {5}, ended
    told = "".join(end.out for end in ended.values())
    if rank:
        assert f"rank {rank}@" in told
        assert told.count("RESULT ") == 1
        assert "did not answer the roll call" in told
    else:
        assert "rank 0" in told
        assert "control store" in told
    assert "Traceback" not in "".join(end.err for end in ended.values())


def test_a_limit_that_passed_while_all_stood_still_accuses_nobody(new_world):
    """Ctrl-Z, and fg after a while."""
    words = (*OPTIONS, "--num-iterations", "10000000", "--stage-timeout", "8")
    world = new_world(2).start(BENCH, *words)
    world.wait_for(0, "median")
    for signum, rest in ((signal.SIGSTOP, 12), (signal.SIGCONT, 0)):
        for rank in range(2):
            world.signal(rank, signum)
        time.sleep(rest)
    ended = world.finish(60)
    assert codes(ended) == {5}, ended
    assert "the process had stood still for 1" in ended[0].why
    assert "fell behind" not in ended[0].why


@pytest.mark.parametrize("term", [False, True])
def test_rank_0_dies_while_it_looks_for_the_guilty(term, new_world):
    """Rank 2 is stopped, rank 0 waits for its answer and is killed: the last one says so, and no traceback does."""
    world = new_world(3).start(BENCH, *OPTIONS, "--num-iterations", "1000000", "--row-time", "60s", "--stage-timeout", "10")
    world.wait_for(0, "median")
    end = time.monotonic() + 10
    time.sleep(1)
    world.signal(2, signal.SIGSTOP)
    if term:  # what a launcher sends to all
        world.signal(0, signal.SIGTERM)
        world.signal(1, signal.SIGTERM)
        end = time.monotonic()
    time.sleep(max(0.0, end - time.monotonic()) + 0.7)
    world.signal(0, signal.SIGKILL)
    ended = world.finish(60, but=(2,))
    assert ended[1].rc in ({5, 143} if term else {5}), ended
    assert "Traceback" not in ended[1].err, ended[1].err
    assert "Exception" not in ended[1].err, ended[1].err


def test_stuck_rank_is_named(new_world, planted):
    ended = new_world(3).start(planted, *OPTIONS, "--stage-timeout", "20", each=fault("stuck", 3, 2, 5)).finish()
    assert codes(ended) == {5}, ended
    assert "rank 2@" in ended[0].why
    assert "fell behind" in ended[0].why


def test_a_row_too_long_for_its_limit_accuses_nobody(new_world):
    """Ranks that step on and on differ in their counts by chance."""
    words = (*OPTIONS, "--num-iterations", "10000000", "--stage-timeout", "6")
    ended = new_world(3).start(BENCH, *words).finish(60)
    assert codes(ended) == {5}, ended
    assert "all 3 ranks were still moving" in ended[0].why
    assert "--stage-timeout" in ended[0].out


@pytest.mark.parametrize("what", ["exit", "raise", "shape", "dtype"])
def test_one_rank_does_something_else(what, new_world, planted):
    """Dies, raises, or calls with another shape or type: an end in time, never a right-looking row."""
    world = new_world(3).start(planted, *OPTIONS, "--stage-timeout", "25", "--num-iterations", "5", each=fault(what, 3, 1, 4))
    ended = world.finish(90)
    if what == "exit":
        assert ended.pop(1).rc == 9
    if what in ("shape", "dtype"):  # gloo aborts a process that gets a message of another length
        ended = {rank: end for rank, end in ended.items() if end.rc != -signal.SIGABRT}
    assert codes(ended) == {1 if what == "raise" else 5}, ended
    told = "".join(end.out for end in ended.values())
    assert "RESULT status=" in told
    if what in ("exit", "raise"):
        assert "rank 1@" in told


def test_different_options_are_caught_before_any_collective(new_world):
    words = {rank: [*OPTIONS, "--dtype", "bf16" if rank == 0 else "fp16"] for rank in range(3)}
    ended = new_world(3).start(BENCH, words=words).finish()
    assert codes(ended) == {2}, ended
    assert "ranks were started with different options: dtype" in ended[0].why


@pytest.mark.parametrize(("signum", "rc"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_interrupted_keeps_what_was_measured(signum, rc, new_world, tmp_path, valid_report):
    words = ("--device", "cpu", "--json", "r.json", "--sizes", "8,64K,1M,4M", "--num-iterations", "10", "--row-time", "1s")
    world = new_world(3).start(BENCH, *words, "--collective", "all_reduce,all_gather,broadcast,reduce,all_to_all,scatter,gather")
    world.wait_for(0, "all_gather float32")
    start = time.monotonic()
    for rank in range(3):
        world.signal(rank, signal.Signals[signum])
    ended = world.finish(20)
    assert time.monotonic() - start < 10
    assert codes(ended) == {rc}, ended
    report = valid_report(tmp_path / "r.json")
    assert (report["status"], report["rc"]) == ("interrupted", rc)
    assert len(report["results"]) >= 4
    assert all(end.err == "" for end in ended.values())


@pytest.mark.parametrize("kill_first", [True, False], ids=["one rank died", "all live"])
def test_sigterm_from_a_launcher_names_who_died_before(kill_first, new_world, tmp_path, valid_report):
    """torchrun sends SIGTERM within a tenth of a second after a death: sooner than sockets and limits tell."""
    world = new_world(3).start(BENCH, "--device", "cpu", "--json", "r.json", "--sizes", "8,64K", "--num-iterations", "1000000")
    world.wait_for(0, "size       median")
    time.sleep(1)
    if kill_first:
        world.signal(1, signal.SIGKILL)
    start = time.monotonic()
    for rank in (0, 2) if kill_first else (0, 1, 2):
        world.signal(rank, signal.SIGTERM)
    ended = world.finish(25)
    assert time.monotonic() - start < 15
    report = valid_report(tmp_path / "r.json")
    assert report["results"][0]["status"] == "unfinished"
    if kill_first:
        assert "rank 1@" in report["reason"], report["reason"]
        assert "did not answer" in report["reason"]
        assert report["rc"] in (5, 143)
    else:
        assert codes(ended) == {143}
        assert "did not answer" not in report["reason"]
        assert "ended by SIGTERM; what was measured until then is kept" in report["reason"]


def test_a_long_row_keeps_its_rounds_when_the_run_is_over(new_world, tmp_path, valid_report):
    """An hour of one payload must not be lost to Ctrl-C or to a limit, and the limit is nobody's fault."""
    world = new_world(2).start(BENCH, "--device", "cpu", "--json", "r.json", "--sizes", "64K", "--num-iterations", "10000000",
                               "--profile-stability", "--timeout", "12s")
    ended = world.finish(60)
    assert codes(ended) == {5}, ended
    assert "the limit of the whole run passed while all 2 ranks were still moving" in ended[0].why
    assert all(end.err == "" for end in ended.values()), "nobody is to blame, so no stack is shown"
    (row,) = valid_report(tmp_path / "r.json")["results"]
    assert (row["status"], row["wrong"]) == ("unfinished", 0)
    assert row["time_us"]["count"] == len(row["samples_us"]) >= 10
    assert row["algbw"] == pytest.approx(row["bytes"] / row["time_us"]["median"] * 1e6)
    assert f"unfinished: {row['time_us']['count']:,} iterations" in ended[0].out


def test_no_space_for_the_report(torch_python, tmp_path):
    """A full file system of its own, in a mount namespace: the verdict says that the report was lost or moved."""
    full = tmp_path / "full"
    full.mkdir()
    script = (f"mount -t tmpfs -o size=64k none {full} && head -c 100k /dev/zero > {full}/fill; "
              f"{torch_python} {BENCH} --nproc 2 --device cpu --sizes 8 --num-iterations 2 --json {full}/r.json --csv {full}/r.csv")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=clean_environment(), capture_output=True, text=True,
                          timeout=120, cwd=tmp_path)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr}")
    assert f"warning: cannot write {full}/r.json: No space left on device" in done.stdout
    assert f"warning: cannot write {full}/r.csv: No space left on device" in done.stdout
    assert done.returncode == 7, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "RESULT status=" in done.stdout


def test_a_device_that_is_full_is_written_in_place(run_tool, tmp_path):
    done = run_tool(BENCH, "--nproc", "2", *OPTIONS[:2], "--sizes", "8", "--num-iterations", "2", "--json", "none",
                    "--csv", "/dev/full")
    assert "warning: cannot write /dev/full: No space left on device" in done.out
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_closed_output_does_not_stop_the_run(torch_python, tmp_path):
    """`| head -1`: the report still gets all rows."""
    line = f"{torch_python} {BENCH} --nproc 2 --device cpu --sizes 8,64,512 --num-iterations 2 --json r.json | head -1"
    subprocess.run(["sh", "-c", line], env=clean_environment(), cwd=tmp_path, timeout=120, capture_output=True)
    document = json.loads((tmp_path / "r.json").read_text())
    assert (document["rc"], len(document["results"])) == (0, 3)


# The pair matrix as it is, with one rank's transfers slowed: only in the first rounds, or always while others send too.
SLOW_PAIRS = '''
import os, sys, time
sys.path.insert(0, {scripts!r})
from clusterprobe import bench_pair_run
from clusterprobe.bench import bench_main
real, rounds = bench_pair_run.PairRun._transfer, [0]
def slowed(self, tensor, peer, sends):
    place = self._session.watchdog.place.stage
    bad = os.environ["RANK"] == "2" and not sends and tensor.numel() > 1
    if bad and ("round" in place or (os.environ["FAULT"] == "load" and "again" in place)):
        time.sleep(0.2)
    real(self, tensor, peer, sends)
bench_pair_run.PairRun._transfer = slowed
sys.argv[0] = "all_reduce_bench"
sys.exit(bench_main())
'''


@pytest.mark.parametrize("what", ["passing", "load"])
def test_a_member_slow_once_is_not_named_and_one_slow_again_is(what, new_world, tmp_path, valid_report):
    path = tmp_path / "slow_pairs.py"
    path.write_text(SLOW_PAIRS.format(scripts=str(SCRIPTS)))
    ended = new_world(5).start(path, "--device", "cpu", "--json", "r.json", "--group", "pairs",
                               each={rank: {"FAULT": what} for rank in range(5)}).finish()
    assert codes(ended) == {0}, ended
    pairs = valid_report(tmp_path / "r.json")["pairs"][0]
    named = [entry["member"].partition("@")[0] for entry in pairs["suspects"]]
    assert pairs["drain"] == []
    assert ("rank 2" in named) == (what == "load"), pairs
    assert ("rank 2" in [entry["member"].partition("@")[0] for entry in pairs["excused"]]) == (what == "passing"), pairs
    assert ("slow, and no fault of a link" in ended[0].out) == bool(pairs["excused"])


# The pair matrix as it is, while rank 2 has work of its own in each transfer and shares its core with four others.
STARVED_PAIRS = '''
import os, subprocess, sys, time
sys.path.insert(0, {scripts!r})
starved = os.environ["RANK"] == "2"
if starved:  # before torch starts threads, which inherit it
    os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
from clusterprobe import bench_pair_run
from clusterprobe.bench import bench_main
real_run, real_transfer, others = bench_pair_run.PairRun.run, bench_pair_run.PairRun._transfer, []
def run(self, most_rounds):
    work = "import os\\nprint(flush=True)\\nwhile os.getppid() == " + str(os.getpid()) + ": pass"
    for _ in range(4 if starved else 0):
        others.append(subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE))
        others[-1].stdout.readline()
    return real_run(self, most_rounds)
def transfer(self, tensor, peer, sends):
    end = time.thread_time() + 0.02
    while starved and not sends and tensor.numel() > 1 and time.thread_time() < end:
        pass
    real_transfer(self, tensor, peer, sends)
bench_pair_run.PairRun.run, bench_pair_run.PairRun._transfer = run, transfer
sys.argv[0] = "all_reduce_bench"
sys.exit(bench_main())
'''


@pytest.mark.skipif(core_wait_ns() is None, reason="this kernel does not count waits for a core")
def test_a_member_that_waits_for_a_core_is_not_named_and_no_host_to_drain(new_world, tmp_path, valid_report):
    """Four runs at most: where the others' rates lie far apart, as on a busy host, nobody stands out at first."""
    path = tmp_path / "starved_pairs.py"
    path.write_text(STARVED_PAIRS.format(scripts=str(SCRIPTS)))
    excused: list[str] = []
    for run in range(4):
        report = f"r{run}.json"
        ended = new_world(5).start(path, "--device", "cpu", "--json", report, "--group", "pairs").finish()
        assert codes(ended) == {0}, ended
        pairs = valid_report(tmp_path / report)["pairs"][0]
        assert pairs["drain"] == []
        assert "rank 2" not in [entry["member"].partition("@")[0] for entry in pairs["suspects"]]
        excused = [entry["member"].partition("@")[0] for entry in pairs["excused"]]
        if "rank 2" in excused:
            break
    assert "rank 2" in excused, ended[0].out
    assert "slow, and no fault of a link: " in ended[0].out


# The tool as it is, with one rank's device failing before the ranks have met.
BAD_DEVICE = '''
import os, sys
sys.path.insert(0, {scripts!r})
from clusterprobe import session
from clusterprobe.bench import bench_main
from clusterprobe.exits import CANNOT_RUN, ProbeFailure
real = session.open_device
def open_device(kind, local):
    if os.environ["RANK"] == "1" and os.environ["FAULT"] == "refused":
        raise ProbeFailure(CANNOT_RUN, "device 1 is held by another process")
    if os.environ["RANK"] == "1":
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    return real(kind, local)
session.open_device = open_device
sys.argv[0] = "all_reduce_bench"
sys.exit(bench_main())
'''


@pytest.mark.parametrize(("what", "rc", "text"), [
    ("refused", 6, "device 1 is held by another process"), ("broken", 1, "RuntimeError: CUDA error: uncorrectable ECC error encountered")])
def test_a_rank_that_fails_before_all_met_says_why_in_its_own_log(what, rc, text, new_world, tmp_path):
    path = tmp_path / "bad_device.py"
    path.write_text(BAD_DEVICE.format(scripts=str(SCRIPTS)))
    ended = new_world(2).start(path, *OPTIONS, "--stage-timeout", "15", each={rank: {"FAULT": what} for rank in range(2)}).finish(120)
    assert (ended[0].rc, ended[1].rc) == (5, rc), ended
    assert "rank 1" in ended[0].why
    assert "never reached the store" in ended[0].why
    assert text in ended[1].err, ended[1]
    assert ("in open_device" in ended[1].err) == (what == "broken")  # the way to an unexpected error, as no report keeps it


def test_a_rank_0_that_never_opens_the_store_is_told_on_its_own_node(new_world):
    """Ranks 1 and 2 of one node; its first one, which speaks for the node, is the one that is missing."""
    each = {rank: {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "3"} for rank in range(3)}
    ended = new_world(3).start(BENCH, *OPTIONS, "--stage-timeout", "6", each=each, only=(1, 2)).finish(120)
    assert codes(ended) == {5}, ended
    assert "rank 0 did not open 127.0.0.1:" in ended[1].err, ended[1]
    assert ended[2].err == ""


def test_a_store_that_says_nothing_is_not_called_another_program(new_world):
    """A stopped rank 0 looks like this: the kernel takes the connections, nobody reads them."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ended = new_world(2, port=silent.getsockname()[1]).start(BENCH, *OPTIONS, "--stage-timeout", "12", only=(1,)).finish(120)
    told = ended[1].out + ended[1].err
    assert ended[1].rc == 6, told
    assert "says nothing: rank 0 is stopped there, or another program holds the port" in told
