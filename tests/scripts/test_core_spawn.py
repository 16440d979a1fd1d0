"""Local ranks without a launcher: their environment, their start, and an end that leaves the verdict told."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import SCRIPTS

from clusterprobe.exits import CANNOT_RUN, OK, ProbeFailure
from clusterprobe.launch import RankEnv
from clusterprobe.spawn import FIRST_TOLD, OTHER_TOLD, await_ranks, child_environment, start_ranks


def test_local_ranks_share_the_cores(monkeypatch):
    monkeypatch.setattr("clusterprobe.spawn.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads = [child_environment(RankEnv("single", 0, 1), 0, count, 29500, 1)["OMP_NUM_THREADS"] for count in (2, 5, 16)]
    assert threads == ["4", "1", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert child_environment(RankEnv("single", 0, 1), 0, 2, 29500, 1)["OMP_NUM_THREADS"] == "6"


def child(code: str, **streams: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code], **streams)


def test_the_rank_that_tells_the_verdict_is_not_killed_first(monkeypatch):
    """A rank died at once; rank 0 needs the time of a stage to find out who, longer than the others' rest."""
    monkeypatch.setattr("clusterprobe.spawn.SETTLE", 0.5)
    ranks = [child("import time; time.sleep(2); raise SystemExit(5)"), child("raise SystemExit(6)")]
    assert await_ranks(ranks, 60, 60) == []
    assert [rank.returncode for rank in ranks] == [5, 6]


def test_the_first_rank_alone_has_a_stage_from_when_it_is_alone():
    """While another rank lives as well, the two may still find out together who is gone."""
    ranks = [child("import sys; sys.stdin.read(); raise SystemExit(5)", stdin=subprocess.PIPE), child("raise SystemExit(5)"),
             child("import time; time.sleep(5); raise SystemExit(5)")]
    threading.Thread(target=lambda: (ranks[2].wait(), ranks[0].stdin.close()), daemon=True).start()
    assert await_ranks(ranks, 60, 4) == []


def test_ranks_that_stay_after_the_verdict_are_killed(monkeypatch):
    monkeypatch.setattr("clusterprobe.spawn.SETTLE", 0.5)
    ranks = [child("raise SystemExit(5)"), child("import time; time.sleep(60)")]
    assert await_ranks(ranks, 60, 60) == [1]
    assert [rank.returncode for rank in ranks] == [5, -9]


@pytest.mark.parametrize(("stopped", "told"), [(0, FIRST_TOLD), (1, FIRST_TOLD), (0, OTHER_TOLD)])
def test_a_good_verdict_is_not_held_up_either(stopped, told, monkeypatch):
    monkeypatch.setattr("clusterprobe.spawn.SETTLE", 0.5)
    monkeypatch.setattr("clusterprobe.spawn.SILENT_FIRST", 0.5)
    ranks = [child("import time; time.sleep(60)" if rank == stopped else "") for rank in range(2)]
    start = time.monotonic()
    assert await_ranks(ranks, 30, 30, lambda: b"" if ranks[1 - stopped].poll() is None else told) == [stopped]
    assert time.monotonic() - start < 20


def test_exit_zero_is_the_parents_alone(run_tool):
    """It would take a rank that failed for one that may be waited for until --timeout."""
    words = (SCRIPTS / "all_reduce_bench.py", "--device", "cpu", "--sizes", "8", "--json", "none", "--exit-zero")
    rank = {"RANK": "0", "WORLD_SIZE": "1"}
    assert run_tool(*words, **rank).rc == OK
    assert run_tool(*words, **rank, CLUSTERPROBE_SPAWNED="none").rc == CANNOT_RUN


TRACE = """
import ctypes, sys, time
print(ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0), flush=True)  # PTRACE_SEIZE
time.sleep(60)
"""


def test_a_rank_in_a_debugger_does_not_hold_up_the_end(monkeypatch):
    """Killed, it stays until the debugger lets it go, as one in state D stays until its disk answers."""
    monkeypatch.setattr("clusterprobe.spawn.SETTLE", 0.5)
    held = child("import time; time.sleep(60)")
    debugger = subprocess.Popen([sys.executable, "-c", TRACE, str(held.pid)], stdout=subprocess.PIPE, text=True)
    try:
        if debugger.stdout.readline().strip() != "0":
            pytest.skip("this system lets no process trace another")
        start = time.monotonic()
        assert await_ranks([child("raise SystemExit(5)"), held], 60, 60) == [1]
        assert time.monotonic() - start < 15
    finally:
        debugger.kill()
        debugger.wait()
        debugger.stdout.close()
    assert held.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize(("told", "killed"), [(OTHER_TOLD, [0]), (FIRST_TOLD, []), (b"", [])])
def test_a_stopped_first_rank_does_not_hold_up_the_verdict(told, killed, monkeypatch):
    """Another told that it does not answer; a first rank that told it itself has the time it needs."""
    monkeypatch.setattr("clusterprobe.spawn.SILENT_FIRST", 0.5)
    ranks = [child("import time; time.sleep(3); raise SystemExit(5)"), child("raise SystemExit(5)")]
    if killed:
        ranks[0].send_signal(signal.SIGSTOP)
    start = time.monotonic()
    assert await_ranks(ranks, 60, 60, lambda: told) == killed
    assert time.monotonic() - start < 15
    assert [rank.returncode for rank in ranks] == [-9 if killed else 5, 5]


def test_a_host_that_can_not_start_all_local_ranks():
    with pytest.raises(ProbeFailure, match="can't start local rank 0 of 2"):
        start_ranks(["/no/such/python"], [{}, {}])
