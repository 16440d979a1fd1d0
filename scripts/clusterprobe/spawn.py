"""Start local ranks without a launcher: N copies of this command with RANK and its kin set.

For one host, or for one pod of several where Kubernetes set the PET_* variables. Not a launcher for
clusters: across nodes the scheduler starts the ranks.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Callable, List, Mapping, Sequence, Tuple

from clusterprobe.deadline import say_in_time
from clusterprobe.exits import (
    CANNOT_RUN,
    EXIT_STATUS,
    MISSING_RANK,
    ProbeFailure,
    worst_exit,
)
from clusterprobe.hold import hold_signals
from clusterprobe.interrupt import InterruptWatch, signal_exit, signal_name
from clusterprobe.launch import SPAWNED, RankEnv
from clusterprobe.units import rank_ranges

POSIX = os.name == "posix"
SETTLE = 30.0  # seconds that the other ranks have once the verdict is told
SILENT_FIRST = 2.0  # that rank 0 has when another told the verdict in its place and all others ended
SIGNAL_REST = 15.0  # that ranks have to end after a signal; they leave by themselves in 10
KILL_REST = 2.0  # that the kernel has for one that is killed
FIRST_TOLD, OTHER_TOLD = b"0", b"1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def usable_cores() -> int:
    known = getattr(os, "sched_getaffinity", None)
    return len(known(0)) if known else os.cpu_count() or 1


def own_command(words: Sequence[str]) -> List[str]:
    """This process's command line once more: script, module or archive, whichever it was."""
    original = list(getattr(sys, "orig_argv", []))
    if original and list(words) == sys.argv[1:]:
        return [sys.executable, *original[1:]]
    return [sys.executable, sys.argv[0], *words]


def child_environment(env: RankEnv, local: int, count: int, port: int, mouth: int) -> dict:
    values = dict(os.environ)
    several = env.world_size > 1  # a pod of several: the variables give the master
    values.update(
        RANK=str(env.rank + local),
        WORLD_SIZE=str(env.world_size if several else count),
        LOCAL_RANK=str(local),
        LOCAL_WORLD_SIZE=str(count),
        MASTER_ADDR=(env.master_addr or "127.0.0.1") if several else "127.0.0.1",
        MASTER_PORT=str(env.master_port or 29500) if several else str(port),
    )
    # Else each rank starts a thread for every core, and they wait for each other inside every product.
    values.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // count)))
    values[SPAWNED] = str(mouth)
    return values


def tell_parent(environ: Mapping[str, str]) -> None:
    """This local rank printed the verdict, so that its parent need not."""
    if environ.get(SPAWNED, "").isdigit():
        try:
            first = environ.get("LOCAL_RANK") == "0"
            os.write(int(environ[SPAWNED]), FIRST_TOLD if first else OTHER_TOLD)
        except OSError:
            pass  # the parent is gone, nobody asks


def end_with_parent(environ: Mapping[str, str]) -> None:
    """A local rank whose parent was killed ends as by SIGTERM: nobody waits for it, and it holds a device."""
    mouth = environ.get(SPAWNED, "")
    if not mouth.isdigit() or not hasattr(select, "poll"):
        return

    def watch_pipe() -> None:
        pipe = select.poll()
        pipe.register(int(mouth), 0)
        pipe.poll()  # returns when nobody can read any more
        if environ.get("LOCAL_RANK") == "0":
            say_in_time("the process that started the local ranks is gone: they end", sys.stderr)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch_pipe, name="parent", daemon=True).start()


def start_ranks(
    command: List[str], environments: List[dict], kept: Sequence[int] = ()
) -> List[subprocess.Popen]:
    """All of them or none; they keep the open files `kept`."""
    children: List[subprocess.Popen] = []
    for environment in environments:
        try:
            children.append(subprocess.Popen(command, env=environment, pass_fds=kept))
        except OSError as error:
            for child in children:
                child.kill()
            raise ProbeFailure(
                CANNOT_RUN,
                f"this host can't start local rank {len(children)} of {len(environments)}: "
                f"{error.strerror or error}",
                "give fewer with --nproc, or raise the limit of processes (ulimit -u)",
            ) from None
    return children


def spawn_ranks(
    env: RankEnv,
    count: int,
    words: Sequence[str],
    tool: str,
    limit: float,
    stage_limit: float,
    watch: InterruptWatch,
) -> int:
    """Run the ranks to their end and return their common exit code. A signal goes on to all of them."""
    port = free_port()
    whole = replace(env, world_size=max(env.world_size, 1))
    ear = VerdictEar()
    environments = [child_environment(whole, local, count, port, ear.mouth) for local in range(count)]
    children: List[subprocess.Popen] = []
    asked: List[Tuple[int, float]] = []  # signals that came, and when

    started = threading.Event()

    def forward(signum: int) -> None:
        asked.append((signum, time.monotonic()))
        started.wait()
        for child in children:
            if child.poll() is None:
                child.send_signal(signum)  # a terminal sent it to the ranks too; they take the first

    watch.pass_to(forward)
    hold_signals(True)  # the ranks inherit it
    try:
        children += start_ranks(own_command(words), environments, (ear.mouth,) if POSIX else ())
        started.set()
    finally:
        hold_signals(False)
    killed = await_ranks(children, limit + SETTLE, stage_limit + SETTLE, ear.told, asked)
    codes = [child.returncode for child in children]
    natural = [code for local, code in enumerate(codes) if local not in killed and code >= 0]
    if natural and (len(natural) == count or not POSIX or ear.told()):
        return worst_exit(natural)
    rc = worst_exit([*natural, signal_exit(asked[0][0]) if asked else MISSING_RANK])
    by = f"ended by {signal_name(asked[0][0])}" if asked else ""
    tell_unnatural_end(env.rank, codes, killed, tool, rc, by)
    return rc


class VerdictEar:
    """Hears which local ranks told the verdict; those that would may be the ones that were killed or stopped.

    There is no way to know on other systems than POSIX, where a child gets no open file.
    """

    def __init__(self) -> None:
        self._ear, self.mouth = os.pipe()
        self._told = b""
        if POSIX:
            os.set_blocking(self._ear, False)

    def told(self) -> bytes:
        try:
            self._told += os.read(self._ear, 4096) if POSIX else b""
        except BlockingIOError:
            pass  # nobody, since the last look
        return self._told


def await_ranks(
    children: List[subprocess.Popen],
    limit: float,
    alone_limit: float,
    told_by: Callable[[], bytes] = bytes,
    asked: Sequence[Tuple[int, float]] = (),
) -> List[int]:
    """Wait for all; returns those that had to be killed.

    The ranks have limits of their own and find out by themselves who is missing. So the first, which tells
    it, keeps the time of a whole stage even when the others are gone. Unless one of them told the verdict: that
    the first does not answer. Once any verdict is told, a good one too, nobody has much left to do.
    """
    end, settling = time.monotonic() + limit, False
    while any(child.poll() is None for child in children):
        time.sleep(0.05)
        verdict = told_by()
        failed = any(child.poll() not in (None, 0) for child in children)
        alone = all(child.poll() is not None for child in children[1:])
        told = children[0].poll() is not None or FIRST_TOLD in verdict
        if (failed or verdict) and (told or alone) and not settling:
            settling = True
            end = min(end, time.monotonic() + (SETTLE if told else alone_limit))
            if alone and OTHER_TOLD in verdict:
                end = min(end, time.monotonic() + SILENT_FIRST)
        if asked:
            end = min(end, asked[0][1] + SIGNAL_REST)
        if time.monotonic() > end:
            late = [local for local, child in enumerate(children) if child.poll() is None]
            for local in late:
                children[local].kill()
            for local in late:
                with suppress(subprocess.TimeoutExpired):  # state D, or a debugger holds it: the kernel ends it later
                    children[local].wait(KILL_REST)
            return late
    return []


def tell_unnatural_end(
    first: int, codes: List[int], killed: List[int], tool: str, rc: int, by: str = ""
) -> None:
    """The last lines in place of ranks that could not print theirs."""
    shot = [local for local, code in enumerate(codes) if local not in killed and code < 0]
    parts = [by] if by else []
    if shot:
        named = ", ".join(f"{first + local} (signal {-codes[local]})" for local in shot[:8])
        more = f" and {len(shot) - 8} more" if len(shot) > 8 else ""
        parts.append(f"killed from outside: rank {named}{more}")
    if killed:
        why = "ended with it, still waiting" if shot else "still there after every limit, and killed"
        parts.append(f"{why}: ranks {rank_ranges(first + local for local in killed)}")
    text = f"why: {'; '.join(parts)}\nnext: look at the kernel log for OOM kills, and for processes in state T or D"
    say_in_time(f"{text}\nRESULT status={EXIT_STATUS[rc]} rc={rc} tool={tool} json=none", sys.stdout)
