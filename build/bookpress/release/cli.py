"""The command line of the release: verbs for `python -m bookpress`, each a few lines that call its module."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..problems import BOOK, OK, NetworkFailed, Problem, WrongUse, errors, report


def _say(args: argparse.Namespace):
    """Progress and plans go to stdout, where a person reads them; nothing with --quiet or --json."""
    return (lambda text: None) if args.quiet or args.json else (lambda text: print(text, flush=True))


def _end(problems: list[Problem], args: argparse.Namespace) -> int:
    report(problems, args.json)
    return BOOK if errors(problems) else OK


def _cache(args: argparse.Namespace) -> Path:
    return (args.cache or args.out.resolve().parent / ".cache").resolve()


def _release(args: argparse.Namespace) -> int:
    from .cut import release

    if not args.version:
        raise WrongUse("which version? make release VERSION=1.2.0")
    return _end(release(args.book, args.version, args.out.resolve(), _cache(args), args.repo, _say(args)), args)


def _green(args: argparse.Namespace) -> int:
    from .publish import make_green

    return _end(make_green(args.book, _cache(args), _say(args)), args)


def _artefacts(args: argparse.Namespace) -> int:
    from .artefacts import make

    made, problems = make(args.book, args.out, args.cache, args.repo)
    for file in made.files if made else ():
        _say(args)(f"{file.sha256[:16]}  {len(file.data):>12,} bytes  {made.folder.name}/{file.name}")
    return _end(problems, args)


def _publish(args: argparse.Namespace) -> int:
    from .publish import Order, publish

    order = Order(args.yes, args.create, args.timeout)
    return _end(publish(args.book, args.out, _cache(args), args.repo, order, _say(args)), args)


def _verify(args: argparse.Namespace) -> int:
    from . import verifier

    place = verifier.place_of(args.place)
    if place is None:
        raise WrongUse(f"no folder and no http address: {args.place or '(nothing)'}; give FROM=FOLDER or URL")
    try:
        findings, notes = verifier.verify(place, args.sums_sha256, args.ignore_missing)
    except verifier.Unreachable as error:
        raise NetworkFailed(str(error)) from None
    for note in notes:
        _say(args)(note)
    return _end([Problem(f.path, 0, 0, f.code, f.message) for f in findings], args)


def add(verbs, common: argparse.ArgumentParser, place: argparse.ArgumentParser, exits: str) -> None:
    """Hang the verbs into the command line."""

    def verb(name: str, run, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, parents=[common, *parents], help=text, description=text, epilog=exits)
        sub.set_defaults(run=run)
        return sub

    hub = argparse.ArgumentParser(add_help=False)
    hub.add_argument("--repo", default="", metavar="OWNER/NAME", help="repository on the Hub (default: book.toml's)")
    sub = verb("release", _release, "commit, tag and files of a version, once everything passes", place, hub)
    sub.add_argument("version", nargs="?", default="", help="three numbers, as 1.2.0")
    verb("green", _green, "build, check and test a clean commit, and note for publish that it passed", place)
    verb("artefacts", _artefacts, "the files of a release into OUT/release", place, hub)
    sub = verb("publish", _publish, "show what publishing would do; --yes does it", place, hub)
    sub.add_argument("--yes", action="store_true", help="do it")
    sub.add_argument("--create", action="store_true", help="create the repository, private, when it is not there")
    sub.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="without an answer (120)")
    sub = verb("verify-release", _verify, "compare a release with its SHA256SUMS and provenance.json")
    sub.add_argument("place", nargs="?", default="", help="folder, or the address under which the files lie")
    sub.add_argument("--sums-sha256", default="", metavar="HASH", help="what SHA256SUMS itself must hash to")
    sub.add_argument("--ignore-missing", action="store_true", help="check the files that are there")
