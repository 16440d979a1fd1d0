"""The command line of upkeep: verbs for `python -m bookpress`."""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime
from pathlib import Path

from ..problems import BOOK, OK, Problem, WrongUse, errors, report


def _end(lines: list[str], problems: list[Problem], args: argparse.Namespace) -> int:
    report(problems, args.json)
    for line in lines if not (args.quiet or args.json) else ():
        print(line)
    return BOOK if errors(problems) else OK


def _stale(args: argparse.Namespace) -> int:
    from .stale import run

    return _end(*run(args.book, args.on or datetime.now(UTC).date()), args)


def _links(args: argparse.Namespace) -> int:
    from .outlinks import run

    cache = (args.cache or args.out.resolve().parent / ".cache").resolve()
    return _end(*run(args.book, cache, args.budget), args)


def _contribute(args: argparse.Namespace) -> int:
    from .records import contribute

    if args.file is None:
        raise WrongUse("which report? make contribute-record FILE=result.json BY='your name'")
    return _end(*contribute(args.book, args.file, args.by, args.yes, datetime.now(UTC).date()), args)


def _day(words: str) -> date:
    try:
        return date.fromisoformat(words)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{words}' is no day; write year-month-day") from None


def add(verbs, common: argparse.ArgumentParser, place: argparse.ArgumentParser, exits: str) -> None:
    """Hang the verbs into the command line."""

    def verb(name: str, run, text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, parents=[common, place], help=text, description=text, epilog=exits)
        sub.set_defaults(run=run)
        return sub

    sub = verb("stale", _stale, "facts and chapters not verified for longer than their shelf life")
    sub.add_argument("--on", type=_day, metavar="DAY", help="as of this day (default: today)")
    sub = verb("outlinks", _links, "links to other sites that lead nowhere")
    sub.add_argument("--budget", type=float, default=600.0, metavar="SECONDS", help="for all of them (600)")
    sub = verb("contribute-record", _contribute, "file a report of an instrument under data/records")
    sub.add_argument("file", nargs="?", type=Path, help="the JSON report that the tool wrote")
    sub.add_argument("--by", default="anonymous", metavar="NAME", help="whom to thank (default: anonymous)")
    sub.add_argument("--yes", action="store_true", help="add it; without this, show what would be kept")
