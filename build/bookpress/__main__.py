"""The command line: `python -m bookpress VERB`. Parses arguments, prints, sets the exit status."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from . import __version__
from .problems import (
    BOOK,
    NETWORK,
    OK,
    TOOL,
    USAGE,
    NetworkFailed,
    ToolMissing,
    WrongUse,
    errors,
    report,
)
from .release import cli as release
from .upkeep import cli as upkeep

# What a disk says: full, no rights, read-only, over quota.
_DISK = (errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT)
HERE = Path(__file__).resolve().parents[2]
EXITS = "exit status: 0 clean, 1 problems in the book, 2 wrong use, 3 a tool is missing, 4 network"

PROVE = """Prove the fences, each in the mode after its language: ```bash {.run id=x}

  run      in a scratch folder, cut off from the network; keys: exit=N, timeout=SECONDS (60), needs="…" (of
           requirements-prove.txt), setup=ID or a folder under fixtures/, session=NAME to share a folder
  slurm    the same, on the login host of a two-node Slurm started for it
  gpu      on a CUDA machine with --gpu (gpus=N: how many); here the stored record is compared
  parse    by the language's own parser or linter: shell, Python, YAML and Kubernetes, JSON, TOML
  shown    by nobody; reason="…" says why

An ```output {of=ID} fence is compared with what ran: a line … stands for any lines, … in a line for any
text, [[~ 12.3 ±20% ]] for a number near 12.3, which is what readers see. `hidden` runs a fence unprinted."""


def _progress(quiet: bool) -> Callable[[str, int, int], None]:
    """One line that rewrites itself on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return lambda stage, done, total: None

    def show(stage: str, done: int, total: int) -> None:
        end = "\n" if done >= total else ""
        print(f"\r\033[K{stage} {done}/{total}", end=end, file=sys.stderr, flush=True)

    return show


def _say(problems: list, args: argparse.Namespace) -> int:
    report(problems, args.json)
    bad, odd = len(set(errors(problems))), len(set(problems)) - len(set(errors(problems)))
    if (bad or odd) and not args.json and not args.quiet:
        print(f"{bad} error{'s' * (bad != 1)}, {odd} warning{'s' * (odd != 1)}", file=sys.stderr)
    return BOOK if bad else OK


def _build(args: argparse.Namespace) -> int:
    from .build import OUTPUTS, build

    outputs = args.only or (OUTPUTS if args.verb == "build" else (args.verb,))
    start = time.perf_counter()
    files, problems = build(
        args.book, args.out, outputs, args.jobs, args.cache, _progress(args.quiet or args.json)
    )
    status = _say(problems, args)
    if not args.quiet and not args.json:
        for file in files:
            print(f"{os.path.relpath(file)}  {file.stat().st_size / 1e6:.2f} MB")
        print(f"{'built' if files else 'nothing written'} in {time.perf_counter() - start:.1f} s")
    return status


def _bundle(args: argparse.Namespace) -> int:
    from .bundle import bundle

    files, problems = bundle(args.book, args.out, args.cache)
    status = _say(problems, args)
    for file in files if not (args.quiet or args.json) else ():
        print(f"{os.path.relpath(file)}  {file.stat().st_size / 1e6:.2f} MB")
    return status


def _check(args: argparse.Namespace) -> int:
    from . import checks

    return _say(checks.run(args.book, args.out, args.cache, args.slow, args.against), args)


def _prove(args: argparse.Namespace) -> int:
    from . import prove

    return prove.main(args, _progress(args.quiet or args.json), _say)


def _serve(args: argparse.Namespace) -> int:
    from . import serve

    return serve.serve(args.book, args.out, host=args.host, port=args.port, cache=args.cache)


def _doctor(args: argparse.Namespace) -> int:
    from . import doctor

    return doctor.run(as_json=args.json)


def _codes(args: argparse.Namespace) -> int:
    from .codes import CODES

    for code, entry in CODES.items():
        print(f"{code}  {entry.meaning}  {entry.remedy}")
    return OK


def _whole(low: int, high: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number from `low` to `high`."""

    def number(words: str) -> int:
        if not (words.isascii() and words.isdigit() and low <= int(words) <= high):
            raise argparse.ArgumentTypeError(f"'{words}' is no whole number from {low} to {high}")
        return int(words)

    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bookpress", description=__doc__.split("\n")[0], epilog=EXITS)
    parser.add_argument("--version", action="version", version=f"bookpress {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="problems as JSON lines")
    common.add_argument("--quiet", action="store_true", help="print problems only")
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("--book", type=Path, default=HERE / "book.toml", help="book.toml or its folder")
    place.add_argument("--out", type=Path, help="output folder (default: dist beside book.toml)")
    place.add_argument("--cache", type=Path, help="cache folder (default: .cache beside the output)")
    help_of = {"build": "all outputs", "pdf": "the PDF", "epub": "the EPUB", "web": "the web edition"}
    for verb, text in help_of.items():
        sub = verbs.add_parser(verb, parents=[common, place], help=f"build {text}", epilog=EXITS)
        sub.add_argument("--jobs", type=_whole(1, 1024), help="worker processes (default: one per core)")
        only = {"nargs": "+", "choices": ["pdf", "epub", "web"], "metavar": "OUTPUT"}
        sub.add_argument("--only", **only, help="pdf epub web") if verb == "build" else None
        sub.set_defaults(run=_build, only=None)
    tools = verbs.add_parser("bundle", parents=[common, place], help="pack the instruments of scripts/")
    tools.set_defaults(run=_bundle)
    check = verbs.add_parser("check", parents=[common, place], help="check the finished outputs")
    check.add_argument("--slow", action="store_true", help="also the slow checks (Ace)")
    check.add_argument(
        "--against", type=Path, metavar="FOLDER", help="also find runs of words shared with its texts"
    )
    check.set_defaults(run=_check)
    prove = verbs.add_parser(
        "prove", parents=[common, place], help="prove every fence of the book", description=PROVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    prove.add_argument("--jobs", type=_whole(1, 1024), help="sessions side by side (default: one per core)")
    prove.add_argument("--only", default="", metavar="TEXT",
                       help="chapters whose path holds TEXT; with --gpu also fences: PATH#ID")
    prove.add_argument("--refresh", action="store_true", help="write real outputs into output fences")
    prove.add_argument("--record", action="store_true", help="write the proofs into data/proofs.json")
    prove.add_argument("--gpu", action="store_true", help="run and record gpu fences (CUDA machine)")
    prove.add_argument("--again", action="store_true", help="with --gpu: also those with a fresh record")
    prove.set_defaults(run=_prove)
    serve = verbs.add_parser("serve", parents=[common, place], help="watch, rebuild, reload")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=_whole(0, 65535), default=8000)
    serve.set_defaults(run=_serve)
    verbs.add_parser(
        "doctor", parents=[common], help="list every part, version and font"
    ).set_defaults(run=_doctor)
    release.add(verbs, common, place, EXITS)
    upkeep.add(verbs, common, place, EXITS)
    verbs.add_parser("codes", parents=[common], help="list the problem codes").set_defaults(run=_codes)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if hasattr(args, "book"):
        folder = args.book if args.book.is_dir() else args.book.parent
        args.out = args.out or folder / "dist"
    try:
        return args.run(args)
    except WrongUse as error:
        print(f"bookpress: {error}", file=sys.stderr)
        return USAGE
    except ToolMissing as error:
        print(f"bookpress: {error}", file=sys.stderr)
        return TOOL
    except NetworkFailed as error:
        print(f"bookpress: {error}", file=sys.stderr)
        return NETWORK
    except OSError as error:
        if error.errno not in _DISK:
            raise
        # A failed copy names its source first: the place written to is what the reader can mend.
        place = error.filename2 or error.filename or "output or cache folder"
        print(f"bookpress: {error.strerror}: {place}", file=sys.stderr)
        return TOOL
    except BrokenProcessPool:
        print(
            "bookpress: a worker process was killed or crashed; short of memory, give a smaller --jobs, "
            "otherwise remove the cache folder and build again", file=sys.stderr,
        )  # fmt: skip
        return TOOL
    except KeyboardInterrupt:
        print("bookpress: interrupted; finished files are untouched", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
