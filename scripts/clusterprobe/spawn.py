"""Start local ranks without a launcher: N copies of this command with RANK and its kin set.

For one host, or for one pod of several where Kubernetes set the PET_* variables. Not a launcher for
clusters: across nodes the scheduler starts the ranks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from typing import List, Sequence

from clusterprobe.exits import UNEXPECTED, worst_exit
from clusterprobe.launch import SPAWNED, RankEnv

SETTLE = (
    30.0  # seconds that the other ranks have to end by themselves after the first one ended badly
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def own_command(words: Sequence[str]) -> List[str]:
    """This process's command line once more: script, module or archive, whichever it was."""
    original = list(getattr(sys, "orig_argv", []))
    if original and list(words) == sys.argv[1:]:
        return [sys.executable, *original[1:]]
    return [sys.executable, sys.argv[0], *words]


def child_environment(env: RankEnv, local: int, count: int, port: int) -> dict:
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
    values[SPAWNED] = "1"
    return values


def spawn_ranks(env: RankEnv, count: int, words: Sequence[str]) -> int:
    """Run the ranks to their end and return their common exit code. Signals go on to all of them."""
    port = free_port()
    whole = replace(env, world_size=max(env.world_size, 1))
    command = own_command(words)
    children = [
        subprocess.Popen(command, env=child_environment(whole, local, count, port))
        for local in range(count)
    ]

    def forward(signum: int, frame: object) -> None:
        for child in children:
            if child.poll() is None:
                child.send_signal(signum)

    # A terminal sends Ctrl-C to the whole group; the ranks get it without us.
    signal.signal(signal.SIGINT, signal.SIG_IGN if os.isatty(0) else forward)
    signal.signal(signal.SIGTERM, forward)
    deadline = None
    while any(child.poll() is None for child in children):
        time.sleep(0.05)
        failed = [child for child in children if child.poll() not in (None, 0)]
        if failed and deadline is None:
            deadline = time.monotonic() + SETTLE
        if deadline is not None and time.monotonic() > deadline:
            for child in children:
                if child.poll() is None:
                    child.kill()
            deadline = float("inf")
    codes = [child.returncode for child in children]
    return worst_exit(
        code if code >= 0 else UNEXPECTED
        for code in codes
        if code >= 0 or all(c < 0 for c in codes)
    )
