"""The command line that all tools share: dashes with underscore aliases, no abbreviations, no torch.

Option names of older tools with underscores (`--m_range`) mean the same as with dashes.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any, Callable, List, Optional, Sequence, Tuple

from clusterprobe.exits import CANNOT_RUN, USAGE, exit_table
from clusterprobe.streams import say
from clusterprobe.units import parse_duration, parse_size
from clusterprobe.version import PROBE_VERSION

MOST_PROCESSES = 1024  # of --nproc: a slip of the finger must not fill a login node
SEED_LIMIT = 1 << 63  # what torch's generators take
LONGEST_LIMIT = 365 * 86400.0  # the clocks of waits overflow not far above
MOST_COUNT = 100_000_000

# Looks at all options together; returns what contradicts what, or nothing.
OptionCheck = Callable[[argparse.Namespace], str]


class ProbeParser(argparse.ArgumentParser):
    """argparse with exact names only, `_` read as `-` in option names, and usage errors as exit 2.

    `checks` see the options together, before a report file is opened or a rank is started.
    """

    def __init__(self, tool: str, description: str, epilog: str = "") -> None:
        text = "\n\n".join(filter(None, (epilog, exit_table())))
        super().__init__(
            prog=tool,
            description=description,
            epilog=text,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.tool = tool
        self.checks: List[OptionCheck] = []
        self._lost: Optional[str] = None
        self.add_argument("--version", action="version", version=f"{tool} {PROBE_VERSION}")

    def parse_known_args(self, args: Optional[Sequence[str]] = None, namespace=None):
        words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._with_known_names(words), namespace)

    def parse_args(self, args: Optional[Sequence[str]] = None, namespace: Any = None):
        found = super().parse_args(args, namespace)
        for check in self.checks:
            contradiction = check(found)
            if contradiction:
                self.error(contradiction)
        return found

    def _with_known_names(self, words: List[str]) -> List[str]:
        known = {name.replace("_", "-"): name for name in self._option_string_actions}
        out: List[str] = []
        for place, word in enumerate(words):
            if word == "--":
                return out + words[place:]
            name, equals, value = word.partition("=")
            if name.startswith("--") and name not in self._option_string_actions:
                word = known.get(name.replace("_", "-"), name) + equals + value
            out.append(word)
        return out

    def _print_message(self, message: str, file=None) -> None:
        """argparse drops what it can't write; help on a full disk must not look like success."""
        if message:
            self._lost = say(message.rstrip("\n"), file or sys.stderr)

    def exit(self, status: int = 0, message: Optional[str] = None) -> None:
        super().exit(status, message) if status or not self._lost else sys.exit(CANNOT_RUN)

    def error(self, message: str) -> None:
        self.print_usage(sys.stderr)
        self.exit(
            USAGE,
            f"{self.prog}: {message}\nRESULT status=error rc={USAGE} tool={self.tool} json=none\n",
        )


def seed_option(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = SEED_LIMIT
    if not -SEED_LIMIT <= value < SEED_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 63 bits")
    return value


def size_option(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration_option(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def filled_option(what: str) -> Callable[[str], str]:
    """A parser of words. An empty one is a variable that was not set; the option would be left out without a word."""

    def parse(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"the {what} is empty")
        return text

    return parse


path_option = filled_option("path")


def limit_option(text: str) -> float:
    """A time limit: nothing ends within none, and clocks have an end."""
    seconds = duration_option(text)
    if 0 < seconds <= LONGEST_LIMIT:
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no limit; it must be above 0 and at most 365d")


def rate_option(text: str) -> float:
    """A number that a rate can be held against; nothing is ever below `nan`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")


def gate_option(text: str) -> float:
    """A gate that can act: nothing is ever below zero."""
    value = rate_option(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def count_option(least: int, most: int = MOST_COUNT) -> Callable[[str], int]:
    """A parser of whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        if text.isascii() and text.isdigit() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most:,}")

    return parse


def process_count(text: str) -> object:
    if text == "auto":
        return text
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of processes nor auto")
    if int(text) > MOST_PROCESSES:
        raise argparse.ArgumentTypeError(
            f"{text} processes on one host are more than {MOST_PROCESSES:,}; ranks on other hosts are "
            "started by their launcher"
        )
    return int(text)


def make_parser(
    tool: str,
    description: str,
    epilog: str = "",
    timeout: str = "30m",
    stage_timeout: str = "60s",
    nproc: str = "auto",
    gate: Optional[Tuple[str, str]] = None,
) -> ProbeParser:
    """A parser with the shared options. `gate` is (metavar, help) of --fail-below, None leaves it out."""
    parser = ProbeParser(tool, description, epilog)
    run = parser.add_argument_group("run")
    run.add_argument(
        "--nproc",
        type=process_count,
        default=nproc,
        metavar="N",
        help="without a launcher: start this many local ranks; auto is one per visible "
        "device (default %(default)s)",
    )
    run.add_argument(
        "--device",
        default="auto",
        metavar="KIND",
        help="cuda (also ROCm), xpu, hpu, mps, cpu or auto (default %(default)s)",
    )
    run.add_argument(
        "--init",
        type=filled_option("address"),
        metavar="HOST:PORT",
        help="where rank 0 opens the control store, instead of MASTER_ADDR and MASTER_PORT",
    )
    run.add_argument(
        "--timeout",
        type=limit_option,
        default=timeout,
        metavar="TIME",
        help="limit for the whole run (default %(default)s)",
    )
    run.add_argument(
        "--stage-timeout",
        type=limit_option,
        default=stage_timeout,
        metavar="TIME",
        help="limit for each stage (default %(default)s)",
    )
    run.add_argument(
        "--seed", type=seed_option, default=0, help="seed of every random choice (default %(default)s)"
    )
    run.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    out = parser.add_argument_group("result")
    out.add_argument(
        "--json",
        type=path_option,
        metavar="PATH",
        default=None,
        help="report file; - writes it to stdout and the text to stderr; none writes no "
        "file (default: TOOL-TIME.json in the current folder)",
    )
    out.add_argument("--force", action="store_true", help="replace the report file when it exists")
    if gate:
        out.add_argument("--fail-below", type=gate_option, metavar=gate[0], help=gate[1] + " (exit 3)")
    out.add_argument(
        "--exit-zero",
        action="store_true",
        help="exit 0 whatever was found; the RESULT line and the report keep the verdict",
    )
    return parser
