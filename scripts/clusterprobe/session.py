"""One run of one tool on one rank: watch, report, end."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, TextIO, Tuple

from clusterprobe.control import LAST_WORDS, Control, open_control
from clusterprobe.deadline import (
    STREAM_PATIENCE,
    StagePlace,
    Watchdog,
    bounded,
    catch_native_faults,
    dump_stack,
    say_in_time,
)
from clusterprobe.device import Device, load_torch, open_device
from clusterprobe.exits import (
    MISSING_RANK,
    OK,
    TERMINATED,
    UNEXPECTED,
    ProbeFailure,
    worst_exit,
)
from clusterprobe.interrupt import InterruptWatch, signal_exit, signal_name
from clusterprobe.launch import RankEnv
from clusterprobe.preflight import raise_open_files
from clusterprobe.report import Report, exit_code
from clusterprobe.spawn import tell_parent
from clusterprobe.store import POLL
from clusterprobe.topology import node_identity
from clusterprobe.verdict import READS_PER_SECOND, Monitor, expiry_grace, repeats_verdict

ROLL_CALL_LIMIT = 5.0  # seconds after SIGTERM; launchers kill after 30
IMPORT_LIMIT = 300.0  # torch on a cold network file system takes minutes; that is not a hang
Body = Callable[["Session"], Tuple[int, str]]

# Words in errors of collectives that mean the far side is gone, so that the roll call decides who.
LINK_WORDS = (
    "connection",
    "peer",
    "timed out",
    "timeout",
    "socket",
    "nccl",
    "reset",
    "broken pipe",
    "remote",
)


class Session:
    """What a tool's body works with. `report` prints on rank 0 only; `control` exists after `join`."""

    def __init__(
        self,
        args: argparse.Namespace,
        env: RankEnv,
        tool: str,
        argv: Sequence[str],
        watch: InterruptWatch,
    ) -> None:
        self.args = args
        self.env = env
        self.tool = tool
        self.host, self.node = node_identity(os.environ)
        config = {key: value for key, value in vars(args).items() if not key.startswith("_")}
        self.config = config
        self.refused: Optional[ProbeFailure] = None  # told once the others are here, or they would wait for this rank
        try:
            self.report = Report(tool, argv, config, args.json, prints=env.rank == 0, force=args.force)
        except ProbeFailure as failure:
            if env.world_size == 1:
                raise
            self.refused = failure
            self.report = Report(tool, argv, config, "none", prints=True)
        self.device: Optional[Device] = None
        self.control: Optional[Control] = None
        self.monitor: Optional[Monitor] = None
        self.group_open = False
        self._connecting = False
        self._raised = False
        self._silent = 0  # ranks that will never say goodbye
        self._ended = threading.Lock()
        self.watchdog = Watchdog(self._expired, self._last_word, expiry_grace(env.world_size))
        self.watchdog.limit_run(args.timeout)
        watch.pass_to(self._interrupted)

    # -- what bodies use

    @contextmanager
    def stage(self, name: str, limit: Optional[float] = None) -> Iterator[StagePlace]:
        """A block with its own deadline; the default is --stage-timeout."""
        with self.watchdog.stage(name, limit or self.args.stage_timeout) as place:
            yield place

    def step(self, label: str) -> None:
        """What comes next inside the stage; call it equally on all ranks, it is how a late one is found."""
        self.watchdog.step(label)

    def pulse(self) -> None:
        """Work goes on that each rank does at its own pace; slow is then told from stuck."""
        self.watchdog.pulse()

    def patience(self) -> float:
        """Seconds a rank may wait for others inside a stage and still tell the story before the deadline."""
        left = min(self.watchdog.remaining(), 86400.0)
        return max(0.5, left - min(3.0, left / 4))

    @property
    def rank0(self) -> bool:
        return self.env.rank == 0

    def open_device(self) -> Device:
        """Bind this rank's device; before any process group, so that nothing guesses it."""
        self.device, remark = open_device(self.args.device, self.env.local_rank)
        if remark:
            self.report.line(f"note: {remark}")
        return self.device

    def connect(self) -> Control:
        """Open the control store and start the monitor. A report that rank 0 can't have ends all ranks here."""
        limit = self.patience()
        self._connecting = True
        self.control = open_control(self.env, self.args.init, limit)
        if self.env.world_size > 1:
            self.monitor = Monitor(
                self.control.monitor_client,
                self.env,
                self.watchdog.place,
                self._verdict,
                self._store_lost,
            )
        if self.refused is not None:
            self.refused.named = True
            raise self.refused
        return self.control

    def die_together(
        self, failure: ProbeFailure, kind: str = "failed", trace: Optional[List[str]] = None
    ) -> None:
        """End all ranks with this failure. Does not return."""
        kind = "judged" if failure.named else kind
        self._raised = True
        if self.monitor is not None:
            try:
                self.monitor.collapse(kind, failure.rc, failure.reason, failure.hint, trace)
            except RuntimeError as error:
                self._store_lost(str(error))
        if self.control is None:
            self._tell_alone(failure, trace)
        self._end(failure.rc, failure.reason, failure.hint)

    def _tell_alone(self, failure: ProbeFailure, trace: Optional[List[str]]) -> None:
        """Before the store is open nobody else can tell it: into this rank's own log.

        What every rank has (wrong use, a wrong name, a silent rank 0) is told by each node's first one, and
        that rank 0 is silent by rank 1 as well: on a single node nobody else could.
        """
        if self.env.local_rank == 0 and not self.report.prints:
            self.report.prints = True
            failure.reason = f"rank {self.env.rank}@{self.host}: {failure.reason}"
        own = self._connecting or not failure.named
        if not self.report.prints and own and (failure.rc != MISSING_RANK or self.env.rank == 1):
            say_in_time(f"rank {self.env.rank}@{self.host}: {failure.reason}", sys.stderr)
        if trace and self.report.path is None:
            say_in_time("\n".join(trace), sys.stderr)

    # -- how a run ends

    def run(self, body: Body) -> int:
        catch_native_faults()
        raise_open_files()  # rank 0's store holds two connections of every rank
        try:
            with self.stage("imports", max(IMPORT_LIMIT, self.args.stage_timeout)):
                load_torch()
            rc, reason = body(self)
            return self._agree(rc, reason)
        except ProbeFailure as failure:
            self.die_together(failure)
        except Exception as error:
            trace = traceback.format_exc().splitlines()
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            far = isinstance(error, (RuntimeError, OSError)) and any(
                w in text.lower() for w in LINK_WORDS
            )
            self.report.document["trace"] = trace
            self.die_together(
                ProbeFailure(
                    MISSING_RANK if far and self.control else UNEXPECTED,
                    f"{type(error).__name__}: {text}",
                ),
                "communication" if far else "failed",
                trace[-12:],
            )
        return UNEXPECTED

    def _agree(self, rc: int, reason: str) -> int:
        """The same code on every rank: the gravest one, with the reason of a rank that has it."""
        if self.control is None or self.env.world_size == 1:
            self._end(rc, reason)
        with self.stage("agreement"):
            mine = {"rc": rc, "reason": reason if rc else ""}
            ends = self.control.gather_all("end", mine, self.patience())
            if ends is not None:
                final = worst_exit(entry["rc"] for entry in ends.values())
                if final != rc:
                    rank = next(r for r, entry in sorted(ends.items()) if entry["rc"] == final)
                    reason = f"{self.control.name(rank)}: {ends[rank]['reason']}"
                verdict = {"rc": final, "reason": reason, "hint": ""}
                self.control.share("end", verdict)
            else:
                verdict = self.control.receive("end", self.patience())
        if self.monitor is not None:
            self.monitor.stop.set()
        self._end(verdict["rc"], verdict["reason"])
        return UNEXPECTED

    def _end(self, rc: int, reason: str, hint: str = "", linger: bool = True) -> None:
        """Write the verdict, let the others go, leave. os._exit, because tear-down of a group may hang."""
        with self._ended:
            self.watchdog.close()
            if self.device is not None and self.group_open and rc == OK:
                bounded(self._close_group, LAST_WORDS)
            final = self.report.finish(rc, reason, hint)
            if self.report.prints:
                tell_parent(os.environ)
            if linger and self.control is not None and self.env.world_size > 1:
                bounded(lambda: self._linger(self.report.prints), self._last_words())
            hide = self.args.exit_zero and self.env.launcher != "spawn"  # a parent must know, and hides it itself
            leave(exit_code(final, hide))

    def _close_group(self) -> None:
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    def _last_words(self) -> float:
        return LAST_WORDS + self.env.world_size / READS_PER_SECOND

    def _linger(self, judge: bool) -> None:
        """The printing rank tells that its report is written; the store's owner waits for the others."""
        client = self.control.monitor_client
        if judge:
            client.put("done", True)
        else:
            client.comes("done", self._last_words())
        client.count("bye/n", 1)
        while self.env.rank == 0 and client.count("bye/n") < self.env.world_size - self._silent:
            threading.Event().wait(POLL)

    def _verdict(self, verdict: Dict[str, Any], judge: bool) -> None:
        self._silent = verdict.get("silent", 0)
        if judge:
            self.report.prints = True
            if verdict.get("trace"):
                self.report.document["trace"] = verdict["trace"]
        else:
            self.report.prints = False
            if repeats_verdict(self.env, verdict):
                say_in_time(f"rank {self.env.rank}@{self.host}: {verdict['reason']}", sys.stderr)
        blamed = self.env.rank in verdict.get("culprits", ()) and verdict["rc"] == MISSING_RANK
        if blamed and not self._raised:  # else its stack ends in here, and the reason is told
            dump_stack(f"rank {self.env.rank}@{self.host}")
        self._end(verdict["rc"], verdict["reason"], verdict.get("hint", ""))

    def _expired(self, place: StagePlace) -> None:
        where = place.stage + (f", {place.step}" if place.step else "")
        limit = self.watchdog.passed_limit()
        reason = f"the time limit ({limit}) passed in {where}"
        kind, hint = "timeout", ""
        stood = place.stood_still()
        if stood:  # nobody is to blame, and all that stood still are late
            kind, hint = "failed", "was it Ctrl-Z, or a host that slept or had no time? Run it again"
            reason += f"; the process had stood still for {stood:.0f} s of it"
        if self.monitor is not None:
            try:
                self.monitor.collapse(kind, MISSING_RANK, reason, hint, limit=limit)
            except RuntimeError as error:
                self._store_lost(str(error))
        self.report.prints = self.report.prints or self.env.local_rank == 0
        dump_stack(f"rank {self.env.rank}@{self.host}")
        self._end(MISSING_RANK, f"rank {self.env.rank}@{self.host}: {reason}", hint, linger=False)

    def _store_lost(self, error: str) -> None:
        if self.report.finished is not None:
            return  # the run was over: rank 0 may leave first
        self.report.document["trace"] = [error]
        self.report.prints = self.report.prints or self.env.local_rank <= 1
        self._end(
            MISSING_RANK,
            f"rank {self.env.rank}@{self.host} lost the control store at {self.control.endpoint}: "
            "rank 0 or its host is gone",
            "look at the log of rank 0's host",
            linger=False,
        )

    def _last_word(self, place: StagePlace) -> None:
        """Nobody answered, not even the store."""
        endpoint = self.control.endpoint if self.control else None
        self.report.prints = self.report.prints or self.env.local_rank <= 1
        self.report.finish(
            MISSING_RANK,
            f"rank {self.env.rank}@{self.host} in {place.stage}: the control store "
            f"at {endpoint} (rank 0) does not answer: stopped, dead, or cut off",
            "look at rank 0's process and host",
        )
        if self.report.prints:
            tell_parent(os.environ)
        dump_stack(f"rank {self.env.rank}@{self.host}")

    def _interrupted(self, signum: int) -> None:
        """Signals: keep what is there. A second thread makes sure that this ends.

        A launcher sends SIGTERM to all when one rank died, often before the others have found out which: so
        the roll is called first, and a verdict that is being found comes before the signal's own.
        """
        rc, name = signal_exit(signum), signal_name(signum)
        threading.Timer(ROLL_CALL_LIMIT + LAST_WORDS + 1.0, lambda: os._exit(rc)).start()
        if self.report.finished is not None:
            return
        self.watchdog.close()
        if self.monitor is not None:
            bounded(
                lambda: self.control.monitor_client.first_to_put(
                    "collapse",
                    {
                        "kind": "failed",
                        "rc": rc,
                        "reason": f"ended by {name}",
                        "hint": "",
                        "rank": self.env.rank,
                        "stage": self.watchdog.place.stage,
                        "trace": None,
                    },
                ),
                1.0,
            )
            if rc == TERMINATED:
                bounded(self.monitor.end_together, ROLL_CALL_LIMIT)
        self._end(rc, f"ended by {name}; what was measured until then is kept")


def leave(rc: int) -> None:
    """Flush and go, past destructors of native libraries that may wait for dead peers."""
    try:
        for stream in (sys.stdout, sys.stderr):
            bounded(partial(flush_quietly, stream), STREAM_PATIENCE)
    finally:
        os._exit(rc)  # also where no thread can be started any more


def flush_quietly(stream: TextIO) -> None:
    with suppress(OSError, ValueError):  # nobody reads it any more
        stream.flush()
