"""Ending together: the monitor thread, the roll call, and the one verdict of all ranks.

Comes in: a failure on any rank, or a stage that overran its limit. Goes out: a reason that names the
rank to blame, equal on all ranks, and the exit code they all end with.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional

from clusterprobe.census import Census, read_census
from clusterprobe.deadline import EXPIRY_GRACE, StagePlace
from clusterprobe.exits import MISSING_RANK, TERMINATED
from clusterprobe.launch import RankEnv
from clusterprobe.store import POLL, StoreClient, answer_roll_call, read_records

TERM_GRACE = 1.5  # seconds to answer once a launcher sends SIGTERM to all
ROLL_GRACE = 3.0  # seconds that a living process has to answer
DEPUTY_AFTER = 3.0  # more seconds after which another rank judges in rank 0's place
FEWEST_STEPS = 3  # in a stage, before its pace says anything
PACES = 3.0  # a rank that made its last step within so many times its usual one was still moving
WAITING_FILES = ("distributed_c10d.py",)
WAITING_FUNCTIONS = ("wait_all", "_transfer", "send_around")  # ours that wait for data
DEVICE_WAIT = "wait_for_device"
POLL_SLACK = 1.0  # seconds that the answers may lie apart
RUN_SLACK = 2.0  # a rank that made a step since was moving when the limit of the whole run passed
OWN_LOGS = 64  # in a bigger world each node's first rank alone repeats the verdict
READS_PER_SECOND = 4000.0  # records that rank 0 surely reads from the store


def monitor_interval(world: int) -> float:
    """Slower with more ranks, so that asking for trouble loads the store with some 8,000 requests a second."""
    return max(0.2, world / 8000.0)


def expiry_grace(world: int) -> float:
    """Seconds from a stage's end to the last word: time for a deputy, who waits once for rank 0 and once
    for the roll, each with the slower monitors of a big world."""
    return (
        EXPIRY_GRACE
        + 6 * (monitor_interval(world) - monitor_interval(1))
        + world / READS_PER_SECOND
    )


def repeats_verdict(env: RankEnv, verdict: Dict[str, Any]) -> bool:
    """Whether a rank that did not judge says who was late: its log may be the only one that somebody reads.

    Ranks that a parent of this tool started share one terminal with the first of them.
    """
    every = env.world_size <= OWN_LOGS and env.launcher != "spawn"
    named = bool(verdict.get("culprits") or verdict.get("told"))
    return verdict["rc"] == MISSING_RANK and named and (every or env.local_rank == 0)


def judge_roll_call(
    census: Census, roll: Dict[int, Dict[str, Any]], cause: Dict[str, Any]
) -> Dict[str, Any]:
    """The verdict from the answers. `cause` is the first failure reported: rank, rc, reason, kind."""
    world = census.env.world_size
    silent = [rank for rank in range(world) if rank not in roll]
    never = [rank for rank in silent if rank not in census.records]
    where = cause.get("stage") or "the run"
    verdict = {
        "rc": MISSING_RANK,
        "culprits": silent[:64],
        "silent": len(silent),
        "trace": cause.get("trace"),
        "hint": "",
    }
    if never:
        verdict["reason"] = (
            f"{where}: {census.names(never)} never reached the store; "
            f"{len(census.records):,} of {world:,} ranks are here"
        )
        verdict["hint"] = "look at the launcher's log of that host"
    elif silent:
        verdict["reason"] = (
            f"{where}: {census.names(silent)} did not answer the roll call: "
            "stopped, dead, or cut off from the store"
        )
        verdict["hint"] = (
            "on that host look for the process (state T is stopped), the kernel log and OOM kills"
        )
    else:
        verdict.update(_judge_places(census, roll, cause, where))
    return verdict


def _still_moving(answer: Dict[str, Any]) -> bool:
    """Slow is no hang: the last step is no longer ago than a few usual ones, or was made just now."""
    steps, idle = answer.get("steps", 0), answer.get("idle", 0.0)
    if steps < FEWEST_STEPS:
        return steps > 0 and idle <= POLL_SLACK
    return idle <= PACES * (answer["seconds"] - idle) / steps + POLL_SLACK


def _stack_end(answer: Dict[str, Any]) -> str:
    return f"its stack ends in {answer['stack'][-1] if answer.get('stack') else '?'}"


def _waits_for_data(answer: Dict[str, Any]) -> Optional[bool]:
    """Whether the end of the stack (frames `file:line function`) lies in a collective.

    None where it waits for its own device, which may hold a collective or this rank's own work.
    """
    frames = [frame.partition(" ") for frame in answer.get("stack", ())]
    files = {place.partition(":")[0] for place, _, _ in frames}
    names = {name for _, _, name in frames}
    if not files.isdisjoint(WAITING_FILES) or not names.isdisjoint(WAITING_FUNCTIONS):
        return True
    return None if DEVICE_WAIT in names else False


def _judge_paces(census: Census, roll: Dict[int, Dict[str, Any]], where: str) -> Dict[str, Any]:
    """Ranks that work at their own pace and wait for nobody: one that stopped is stuck by itself."""
    stuck = [
        rank
        for rank, answer in sorted(roll.items())
        if answer["steps"] >= FEWEST_STEPS and not _still_moving(answer)
    ]
    if not stuck:
        return {
            "culprits": [],
            "hint": "raise the limit, or ask for less",
            "reason": f"{where}: the limit passed while all {len(roll):,} ranks were at work, each at its own pace",
        }
    answer = roll[stuck[0]]
    others = ", the other ranks went on" if len(stuck) < len(roll) else ""
    return {
        "culprits": stuck[:64],
        "hint": _stack_end(answer),
        "reason": f"{where}: {census.names(stuck)} stopped working {answer['idle']:g} s before the end{others}",
    }


def _judge_slowness(
    roll: Dict[int, Dict[str, Any]], cause: Dict[str, Any], where: str
) -> Optional[Dict[str, Any]]:
    """A limit passed while everybody moved: the limit is too short. None when somebody stands still."""
    if cause.get("limit") == "--timeout" and all(
        answer.get("idle", RUN_SLACK) < RUN_SLACK for answer in roll.values()
    ):
        return {
            "culprits": [],
            "hint": "raise --timeout, or ask for less",
            "reason": f"{where}: the limit of the whole run passed while all {len(roll):,} ranks were still moving",
        }
    if all(_still_moving(answer) for answer in roll.values()):
        slowest = max(roll.values(), key=lambda answer: answer["seconds"] / answer["steps"])
        return {
            "culprits": [],
            "hint": "raise --stage-timeout, or ask for less at a time",
            "reason": f"{where}: all {len(roll):,} ranks were still moving, {slowest['steps']:,} steps in "
            f"{slowest['seconds']:g} s; that is too slow for the time limit",
        }
    return None


def _judge_places(
    census: Census, roll: Dict[int, Dict[str, Any]], cause: Dict[str, Any], where: str
) -> Dict[str, Any]:
    """All ranks live: who is behind the others?"""
    if cause.get("kind") != "timeout":
        return {
            "rc": cause["rc"],
            "culprits": [cause["rank"]],
            "hint": cause.get("hint", ""),
            "reason": f"{census.name(cause['rank'])}: {cause['reason']}",
        }
    slow = _judge_slowness(roll, cause, where)
    if slow:
        return slow
    furthest = max(answer["count"] for answer in roll.values())
    behind = sorted(rank for rank, answer in roll.items() if answer["count"] < furthest)
    one_stage = len({answer["stage"] for answer in roll.values()}) == 1
    if not behind and one_stage and len({answer.get("steps", 0) for answer in roll.values()}) > 1:
        return _judge_paces(census, roll, where)
    if not behind:
        place = next(iter(roll.values()))
        step = f" ({place['step']})" if place["step"] else ""
        waits = {rank: _waits_for_data(answer) for rank, answer in sorted(roll.items())}
        absent = [rank for rank, waiting in waits.items() if waiting is False]
        if absent and True in waits.values():
            others = len(roll) - len(absent)
            return {
                "culprits": absent[:64],
                "hint": _stack_end(roll[absent[0]]),
                "reason": f"{where}{step}: {census.names(absent)} did not come to the collective in which "
                + (f"the other {others:,} ranks wait" if others > 1 else "the other rank waits"),
            }
        return {
            "culprits": [],
            "hint": "the transport is stuck, not one rank; rerun with NCCL_DEBUG=INFO, and "
            "with NCCL_P2P_DISABLE=1 or NCCL_IB_DISABLE=1 to find which path; a step that is only slow "
            "ends under a larger --stage-timeout",
            "reason": f"{where}{step}: all {len(roll):,} ranks wait inside the same step",
        }
    slowest = min(roll[rank]["count"] for rank in behind)
    last = [rank for rank in behind if roll[rank]["count"] == slowest]
    answer = roll[last[0]]
    at = f"{answer['stage']}{', ' + answer['step'] if answer['step'] else ''}"
    return {
        "culprits": last[:64],
        "hint": _stack_end(answer),
        "reason": f"{where}: {census.names(last)} fell behind, for {answer['seconds']:g} s in {at}",
    }


def silent_at_the_end(census: Census, client: StoreClient) -> str:
    """After SIGTERM: who did not answer may be why a launcher sent it. Empty when all did."""
    world = census.env.world_size
    answers = read_records(client, "roll", range(world))
    silent = [rank for rank in range(world) if rank not in answers]
    if not silent:
        return "; what was measured until then is kept"
    return f"; {census.names(silent)} did not answer before: stopped, dead, or cut off from the store"


class Monitor:
    """Looks for `collapse` in the background and brings this rank to the common end.

    `on_verdict(verdict, judged_here)` writes the report and ends the process.
    """

    def __init__(
        self,
        client: StoreClient,
        env: RankEnv,
        place: StagePlace,
        on_verdict: Callable[[Dict[str, Any], bool], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._client = client
        self._env = env
        self._place = place
        self._on_verdict = on_verdict
        self._on_lost = on_lost
        self._ending = threading.Lock()
        self.stop = threading.Event()
        threading.Thread(target=self._watch, name="monitor", daemon=True).start()

    def _watch(self) -> None:
        interval = monitor_interval(self._env.world_size)
        while not self.stop.wait(interval):
            try:
                if self._client.has(["collapse"]):
                    self.end_together()
                    return
            except RuntimeError as error:
                if not self.stop.is_set():
                    self._on_lost(str(error).splitlines()[0])
                return

    def collapse(
        self,
        kind: str,
        rc: int,
        reason: str,
        hint: str = "",
        trace: Optional[List[str]] = None,
        limit: str = "",
    ) -> None:
        """Report a failure of this rank (kind failed, judged, communication, timeout) and end with the others."""
        cause = {
            "kind": kind,
            "rc": rc,
            "reason": reason,
            "hint": hint,
            "rank": self._env.rank,
            "stage": self._place.stage,
            "trace": trace,
            "limit": limit,
        }
        self._client.first_to_put("collapse", cause)
        self.end_together()

    def end_together(self) -> None:
        """Answer the roll call, then judge (rank 0) or wait for the judgment; the process ends in here."""
        with self._ending:
            answer_roll_call(self._client, self._env.rank, self._place)
            verdict = self._judge() if self._env.rank == 0 else self._await_verdict()
            self._on_verdict(verdict, verdict.get("judge") == self._env.rank)

    def _judge(self) -> Dict[str, Any]:
        cause = self._client.look("collapse")
        world = self._env.world_size
        known = cause["kind"] in ("failed", "judged")
        wait = 0.0 if known else ROLL_GRACE + monitor_interval(world) * 2
        if cause["rc"] == TERMINATED:
            wait = TERM_GRACE + monitor_interval(world)
        end = time.monotonic() + wait
        while self._client.count("roll/n") < world and time.monotonic() < end:
            time.sleep(POLL)
        census = read_census(self._client, self._env)
        if known:
            who = "" if cause["kind"] == "judged" else f"{census.name(cause['rank'])}: "
            verdict = {
                "rc": cause["rc"],
                "reason": who + cause["reason"],
                "hint": cause["hint"],
                "culprits": [],
                "told": True,  # by a rank that knew whom to name
                "trace": cause["trace"],
            }
            if cause["rc"] == TERMINATED:
                verdict["reason"] += silent_at_the_end(census, self._client)
        else:
            verdict = judge_roll_call(
                census, read_records(self._client, "roll", range(world)), cause
            )
        verdict["judge"] = self._env.rank
        if not self._client.first_to_put("verdict", verdict):
            return self._client.look("verdict")
        return verdict

    def _await_verdict(self) -> Dict[str, Any]:
        patience = ROLL_GRACE + monitor_interval(self._env.world_size) * 2 + DEPUTY_AFTER
        while not self._client.comes("verdict", patience):
            if self._client.first_to_put("deputy", self._env.rank):
                return self._judge()
        return self._client.look("verdict")
