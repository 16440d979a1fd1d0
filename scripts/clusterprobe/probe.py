"""The life of a tool's process: parse, find the rank, start local ranks or be one.

A tool is a parser and a body. `run_probe(parser, body)` does the rest:

    def body(session): ...          # returns (exit code, one sentence); may raise ProbeFailure
    sys.exit(run_probe(my_parser(), body))
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import Any, Callable, List, Optional, Sequence

from clusterprobe.deadline import say_in_time
from clusterprobe.device import choose_kind, count_devices
from clusterprobe.exits import CANNOT_RUN, EXIT_STATUS, OK, UNEXPECTED, ProbeFailure
from clusterprobe.interrupt import InterruptWatch, signal_exit, signal_name
from clusterprobe.launch import RankEnv, detect_launch
from clusterprobe.options import ProbeParser
from clusterprobe.report import exit_code
from clusterprobe.session import Body, Session, leave
from clusterprobe.spawn import end_with_parent, spawn_ranks
from clusterprobe.streams import say, settle_streams
from clusterprobe.units import counted

Plan = Callable[[argparse.Namespace, RankEnv], List[str]]


def local_rank_count(args: argparse.Namespace, env: RankEnv) -> int:
    """How many ranks to start here; 1 means that this process is the only one."""
    if env.launcher == "kubernetes" and (env.local_world_size or 1) > 1:
        return env.local_world_size or 1
    if env.world_size > 1:
        return 1
    if args.nproc != "auto":
        return int(args.nproc)
    if env.launcher != "single":
        return 1
    kind = choose_kind(args.device)
    return 1 if kind in ("cpu", "mps") else count_devices(kind)


def planned_ranks(args: argparse.Namespace, env: RankEnv) -> str:
    """The ranks of a run in words, for --dry-run; devices are not counted, which needs torch."""
    if env.world_size == 1 and args.nproc != "auto":
        return f"{counted(int(args.nproc), 'rank')} started here"
    if env.launcher == "single":
        return "a rank per visible device"
    return f"{counted(env.world_size, 'rank')} found by launcher {env.launcher}"


def tell_early_end(tool: str, signum: int) -> None:
    """Counting devices imports torch, for seconds or minutes: a signal then is told like any other."""
    rc = signal_exit(signum)
    say_in_time(
        f"why: ended by {signal_name(signum)} before anything was measured\n"
        f"RESULT status={EXIT_STATUS[rc]} rc={rc} tool={tool} json=none",
        sys.stdout,
    )
    leave(rc)


def run_probe(
    parser: ProbeParser,
    body: Body,
    argv: Optional[Sequence[str]] = None,
    plan: Optional[Plan] = None,
    check: Optional[Callable[[argparse.Namespace], Any]] = None,
) -> int:
    """The whole life of a tool's process. Returns only for --dry-run and for what could not start.

    `check` raises a ProbeFailure for a request that can't be met, before a file is opened or a rank started.
    """
    settle_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    args = parser.parse_args(words)
    try:
        env = detect_launch(os.environ)
        watch = InterruptWatch(by_launcher=env.launcher not in ("single", "spawn", "env"))
        if env.world_size == 1:  # of several ranks one tells it, when they have a session
            watch.pass_to(partial(tell_early_end, parser.tool))
        if check:
            check(args)
        if args.dry_run:
            lost = say("\n".join(plan(args, env) if plan else []), sys.stdout)
            return CANNOT_RUN if lost else OK
        count = local_rank_count(args, env)
        if count > 1:
            limits = args.timeout, args.stage_timeout
            rc = spawn_ranks(env, count, words, parser.tool, *limits, watch)
            leave(exit_code(rc, args.exit_zero))
        end_with_parent(os.environ)
        session = Session(args, env, parser.tool, words, watch)
    except ProbeFailure as failure:
        lines = [f"why: {failure.reason}", *([f"next: {failure.hint}"] if failure.hint else [])]
        status = EXIT_STATUS[failure.rc]
        lines.append(f"RESULT status={status} rc={failure.rc} tool={parser.tool} json=none")
        say("\n".join(lines), sys.stdout)
        return exit_code(failure.rc, args.exit_zero)
    leave(session.run(body))
    return UNEXPECTED
