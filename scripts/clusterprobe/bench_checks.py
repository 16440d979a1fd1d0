"""Options of all_reduce_bench looked at together: what contradicts what, what nothing looks at, what can't be written.

Comes in: the parsed command line, before a file is opened or a rank is started. Goes out: a sentence, or nothing.
"""

from __future__ import annotations

import argparse
import os

from clusterprobe.collective_table import COLLECTIVES
from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.strictjson import is_plain_target

CHECK_EVERY = 10  # timed iterations, unless said otherwise


def one_way_to_say_sizes(args: argparse.Namespace) -> str:
    """Two ways to say which sizes are two answers: one of them would be left out without a word."""
    given = [name for name in ("sizes", "payload_size_in_gib") if getattr(args, name) is not None]
    sweep = [name for name in ("min_bytes", "max_bytes", "factor", "step_bytes") if getattr(args, name) is not None]
    if len(given) > 1 or (given and sweep) or {"factor", "step_bytes"} <= set(sweep):
        clash = given[:2] if len(given) > 1 else [given[0], sweep[0]] if given else ["factor", "step_bytes"]
        return " and ".join("--" + name.replace("_", "-") for name in clash) + " contradict each other: give one of them"
    return ""


def options_that_act(args: argparse.Namespace) -> str:
    """An option that nothing looks at makes the reader believe in a gate, a check or a size that is none."""
    idle = {
        "--gate-bytes judges nothing without --fail-below": args.gate_bytes is not None and args.fail_below is None,
        "--pair-bytes needs --group pairs": args.pair_bytes is not None and "pairs" not in args.group,
        "--batch needs --mode stream or graph": args.batch is not None and args.mode == ["block"],
        "--check-every and --no-check contradict each other: give one of them": bool(args.no_check and args.check_every not in (0, CHECK_EVERY)),
        f"--place in: {', '.join(args.collective)} has no form in place":
            args.place == "in" and not any("in" in COLLECTIVES[op].places for op in args.collective),
    }
    return next((text for text, does_nothing in idle.items() if does_nothing), "")


def one_file_each(args: argparse.Namespace) -> str:
    """The report is written before the baseline is read, and the CSV after the report: no file may be two of them."""
    seen = {}
    for name in ("baseline", "json", "csv", "plot"):
        path = getattr(args, name)
        if path in (None, "-", "none") or not is_plain_target(path):
            continue
        path = os.path.realpath(path)
        if path in seen:
            return f"--{seen[path]} and --{name} are the same file: one would overwrite the other"
        seen[path] = name
    return ""


def refuse_unwritable(args: argparse.Namespace) -> None:
    """Before hours of measuring, on the rank that writes."""
    for name in ("csv", "plot"):
        path = getattr(args, name)
        if path is None or (os.path.exists(path) and not is_plain_target(path) and not os.path.isdir(path)):
            continue
        folder = os.path.dirname(os.path.abspath(path))
        why_not = ("it is a folder" if os.path.isdir(path) else f"there is no folder {folder}" if not os.path.isdir(folder)
                   else "its folder is read-only" if not os.access(folder, os.W_OK) else "")
        if why_not:
            raise ProbeFailure(CANNOT_RUN, f"--{name} {path} can't be written: {why_not}", "name a file in a folder that can be written",
                               named=True)
