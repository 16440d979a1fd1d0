"""Who is to blame: the judgment over roll-call answers, as a table, and names in sentences."""

from __future__ import annotations

import pytest

from clusterprobe.census import Census, content_hash
from clusterprobe.deadline import Watchdog
from clusterprobe.exits import MISSING_RANK, UNEXPECTED, WRONG_DATA
from clusterprobe.launch import RankEnv
from clusterprobe.stages import merge_failures
from clusterprobe.verdict import judge_roll_call, monitor_interval, repeats_verdict

TIMEOUT = {
    "kind": "timeout",
    "rc": MISSING_RANK,
    "rank": 1,
    "stage": "measure",
    "reason": "the time limit passed",
}


def census(size: int, without: tuple[int, ...] = (), per_node: int = 2, **env) -> Census:
    made = Census(RankEnv("env", 0, size, local_world_size=per_node, **env))
    for rank in range(size):
        if rank not in without:
            made.records[rank] = {
                "host": f"n{rank // per_node}",
                "node": f"k{rank // per_node}",
                "local": rank % per_node,
                "pid": 100 + rank,
                "uuid": None,
                "pci": None,
                "device": "cpu",
                "facts": "f",
                "config": "c",
            }
    return made


def roll(size: int, without: tuple[int, ...] = (), **behind: int) -> dict:
    counts = {int(rank[1:]): count for rank, count in behind.items()}
    return {
        rank: {
            "stage": "measure",
            "step": "all_reduce 8 B",
            "count": counts.get(rank, 10),
            "seconds": 12.5,
            "stack": ["tool.py:7 main", "tool.py:3 slow"],
        }
        for rank in range(size)
        if rank not in without
    }


@pytest.mark.parametrize(
    ("world", "answers", "cause", "rc", "words", "culprits"),
    [
        (
            census(4),
            roll(4, (2,)),
            TIMEOUT,
            5,
            "measure: rank 2@n1 did not answer the roll call",
            [2],
        ),
        (
            census(4, (3,)),
            roll(4, (3,)),
            TIMEOUT,
            5,
            "rank 3 (expected on n1) never reached the store",
            [3],
        ),
        (
            census(4),
            roll(4, r1=7),
            TIMEOUT,
            5,
            "rank 1@n0 fell behind, for 12.5 s in measure, all_reduce 8 B",
            [1],
        ),
        (census(4), roll(4, r1=7, r2=9), TIMEOUT, 5, "rank 1@n0 fell behind", [1]),
        (
            census(4),
            roll(4),
            TIMEOUT,
            5,
            "measure (all_reduce 8 B): all 4 ranks wait inside the same step",
            [],
        ),
        (
            census(4),
            roll(4, (2,)),
            {**TIMEOUT, "kind": "communication", "reason": "Connection closed by peer"},
            5,
            "rank 2@n1 did not answer",
            [2],
        ),
        (
            census(4),
            roll(4),
            {**TIMEOUT, "kind": "communication", "rc": UNEXPECTED, "reason": "NCCL error"},
            1,
            "rank 1@n0: NCCL error",
            [1],
        ),
    ],
)
def test_judgment(world, answers, cause, rc, words, culprits):
    verdict = judge_roll_call(world, answers, cause)
    assert verdict["rc"] == rc
    assert words in verdict["reason"]
    assert verdict["culprits"] == culprits


def paced(size: int, steps: int, **idle: float) -> dict:
    """Ranks that make their steps one by one, each a count further than the one before."""
    answers = roll(size)
    for rank, answer in answers.items():
        answer.update(steps=steps, idle=idle.get(f"r{rank}", 0.1), count=10 + rank)
    return answers


def test_slow_is_not_stuck():
    """Counts differ by chance while ranks move: nobody is accused, and the transport is not either."""
    verdict = judge_roll_call(census(4), paced(4, 231), TIMEOUT)
    assert verdict["rc"] == 5
    assert "all 4 ranks were still moving, 231 steps in 12.5 s" in verdict["reason"]
    assert "--stage-timeout" in verdict["hint"]
    assert verdict["culprits"] == []


@pytest.mark.parametrize(("steps", "idle", "moving"), [(4, 3.0, True), (1, 0.4, True), (1, 6.0, False), (200, 6.0, False)])
def test_a_few_long_steps_are_slow_too(steps, idle, moving):
    """Warm-up calls of two seconds each are no stuck transport; one call that never came back may be."""
    answers = paced(4, steps, **{f"r{rank}": idle for rank in range(4)})
    for answer in answers.values():
        answer["count"] = 10
    verdict = judge_roll_call(census(4), answers, TIMEOUT)
    assert ("still moving" in verdict["reason"]) == moving, verdict
    assert verdict["culprits"] == []


def own_paces(size: int, **idle: float) -> dict:
    """Ranks in one step that work without waiting for each other."""
    answers = paced(size, 0, **idle)
    for rank, answer in answers.items():
        answer.update(steps=100 + rank, count=10)
    return answers


def test_the_one_that_stopped_is_named_where_nobody_waits():
    """Neither the transport nor the slower ranks are to blame."""
    over = {**TIMEOUT, "limit": "--timeout"}
    verdict = judge_roll_call(census(4), own_paces(4, r2=9.0), over)
    assert "rank 2@n1 stopped working 9 s before the end, the other ranks went on" in verdict["reason"]
    assert (verdict["rc"], verdict["culprits"]) == (5, [2])
    few = own_paces(2, r0=9.0)
    few[0]["steps"] = 2
    assert "each at its own pace" in judge_roll_call(census(2), few, over)["reason"]


def test_the_run_is_over_and_nobody_is_late():
    """The limit of the whole run may pass just after a stage began: too few steps to tell a pace."""
    over = {**TIMEOUT, "limit": "--timeout"}
    verdict = judge_roll_call(census(4), paced(4, 2), over)
    assert "the limit of the whole run passed while all 4 ranks were still moving" in verdict["reason"]
    assert (verdict["rc"], verdict["culprits"]) == (5, [])
    assert "--timeout" in verdict["hint"]
    assert "fell behind" in judge_roll_call(census(4), paced(4, 2, r0=9.0), over)["reason"]


@pytest.mark.parametrize(
    "answers",
    [paced(4, 231, r0=9.0, r1=9.0, r2=9.0, r3=9.0), paced(4, 231, r0=9.0), paced(4, 2, r0=6.0)],
    ids=["all stopped", "one stopped", "too few steps to tell"],
)
def test_a_rank_that_moves_no_more_is_behind(answers):
    verdict = judge_roll_call(census(4), answers, TIMEOUT)
    assert "rank 0@n0 fell behind" in verdict["reason"]
    assert verdict["culprits"] == [0]


def test_the_stack_of_the_late_rank_is_told():
    assert "tool.py:3 slow" in judge_roll_call(census(4), roll(4, r1=7), TIMEOUT)["hint"]


def test_a_big_world_is_told_in_groups():
    big = census(16384, without=tuple(range(8000, 9000)), per_node=8)
    reason = judge_roll_call(big, roll(16384, tuple(range(8000, 9000))), TIMEOUT)["reason"]
    assert "1,000 ranks" in reason
    assert len(reason) < 400
    lost = census(16384, per_node=8)
    reason = judge_roll_call(lost, roll(16384, tuple(range(64, 128))), TIMEOUT)["reason"]
    assert "64 ranks (n8: ranks 64-71, n9: ranks 72-79" in reason
    assert len(reason) < 400


def test_expected_host_from_the_node_list():
    listed = census(4, (2, 3), nodelist=("a", "b"), tasks_per_node=(2, 2))
    assert listed.names([2, 3]) == "rank 2 (expected on b), rank 3 (expected on b)"
    assert census(4, (0, 1, 2, 3)).name(2) == "rank 2 (host unknown)"


def test_equal_failures_are_told_once():
    world = census(6)
    records = {rank: {"rc": 0, "why": "", "hint": ""} for rank in range(6)}
    assert merge_failures(world, records) is None
    for rank in (1, 4, 5):
        records[rank] = {"rc": 6, "why": "no device", "hint": "look"}
    records[2] = {"rc": WRONG_DATA, "why": "sum is wrong", "hint": "drain"}
    failure = merge_failures(world, records)
    assert (failure.rc, failure.hint, failure.named) == (WRONG_DATA, "drain", True)
    assert failure.reason == "rank 2@n1: sum is wrong; rank 1@n0, rank 4@n2, rank 5@n2: no device"


def test_world_in_the_report_is_by_node():
    listed = census(5, (4,)).as_json()
    assert (listed["size"], listed["node_count"], listed["missing"]) == (5, 2, "4")
    assert listed["nodes"][0]["ranks"] == "0-1"
    assert listed["nodes"][0]["uuids"] is None


def test_hash_depends_on_values_not_on_order():
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    assert content_hash({"a": 1}) != content_hash({"a": 2})


def test_big_worlds_ask_less_often():
    assert monitor_interval(8) == 0.2
    assert 16384 / monitor_interval(16384) <= 8001


IN_A_COLLECTIVE = ["gpu_test.py:331 collectives", "checked_collectives.py:109 _all_reduce", "distributed_c10d.py:3252 all_reduce"]
EXCHANGED = ["bench_exchange.py:35 highest", "bench_exchange.py:63 _wait", "device.py:220 wait_for_device", "__init__.py:1040 synchronize"]
AT_A_DEVICE = ["checked_collectives.py:76 run", "device.py:60 wait_for_device", "__init__.py:1040 synchronize"]


def standing(*stacks: list[str]) -> dict:
    """Ranks in one step that differ by the ends of their stacks."""
    answers = roll(len(stacks))
    for answer, stack in zip(answers.values(), stacks, strict=True):
        answer["stack"] = stack
    return answers


@pytest.mark.parametrize(
    ("stacks", "words", "culprits"),
    [
        ([IN_A_COLLECTIVE, ["a.py:7 load"], IN_A_COLLECTIVE, ["a.py:7 load"]],
         "rank 1@n0, rank 3@n1 did not come to the collective in which the other 2 ranks wait", [1, 3]),
        ([IN_A_COLLECTIVE, ["a.py:7 load"]], "rank 1@n0 did not come to the collective in which the other rank waits", [1]),
        ([IN_A_COLLECTIVE] * 4, "all 4 ranks wait inside the same step", []),
        ([IN_A_COLLECTIVE, AT_A_DEVICE, AT_A_DEVICE], "all 3 ranks wait inside the same step", []),
        ([AT_A_DEVICE, ["a.py:7 load"], AT_A_DEVICE], "all 3 ranks wait inside the same step", []),
        ([IN_A_COLLECTIVE, ["a.py:7 load"], AT_A_DEVICE], "rank 1@n0 did not come", [1]),
        ([["bench_pair_run.py:120 _transfer"], ["collective_cases.py:90 wait_all"]], "all 2 ranks wait", []),
        ([["bench_pair_run.py:120 _transfer"], EXCHANGED, EXCHANGED], "all 3 ranks wait inside the same step", []),
    ],
)
def test_whoever_is_not_in_the_collective_is_late(stacks, words, culprits):
    """Inside one step the stacks tell; a rank that waits for its own device may wait for the data as well."""
    verdict = judge_roll_call(census(len(stacks)), standing(*stacks), TIMEOUT)
    assert words in verdict["reason"]
    assert (verdict["rc"], verdict["culprits"]) == (5, culprits)


def test_places_are_compared_inside_one_stage():
    """Uneven nodes make uneven numbers of steps; after them nobody may look ahead or behind."""
    places = []
    for steps in (1, 3):
        watchdog = Watchdog(lambda place: None, lambda place: None)
        with watchdog.stage("links", 60):
            for _ in range(steps):
                watchdog.step("ring")
            inside = watchdog.place.count
        with watchdog.stage("collectives", 60):
            watchdog.step("all_reduce")
            places.append((inside, watchdog.place.count))
        watchdog.close()
    (fewer, first), (more, second) = places
    assert fewer < more < first == second


@pytest.mark.parametrize(
    ("launcher", "size", "local_rank", "verdict", "repeats"),
    [
        ("env", 8, 3, {"rc": 5, "culprits": [1]}, True),
        ("env", 8, 3, {"rc": 5, "culprits": [], "told": True}, True),
        ("env", 8, 3, {"rc": 5, "culprits": []}, False),
        ("env", 8, 3, {"rc": 4, "culprits": [1]}, False),
        ("env", 8, 3, {"rc": 143, "culprits": [], "told": True}, False),
        ("torchrun", 64, 7, {"rc": 5, "culprits": [1]}, True),
        ("torchrun", 65, 7, {"rc": 5, "culprits": [1]}, False),
        ("slurm", 16384, 0, {"rc": 5, "culprits": [1]}, True),
        ("spawn", 4, 3, {"rc": 5, "culprits": [1]}, False),
        ("spawn", 16, 0, {"rc": 5, "culprits": [1]}, True),
    ],
)
def test_who_repeats_the_verdict_in_its_own_log(launcher, size, local_rank, verdict, repeats):
    """Where nobody is named there is nothing to repeat, and a big world would repeat it too often."""
    assert repeats_verdict(RankEnv(launcher, local_rank, size, local_rank), verdict) == repeats
