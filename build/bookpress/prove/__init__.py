"""prove: every fence of the book is executed, recorded, parsed, or says why not.

    plan (fences → sessions) → sandbox (sessions → results) → compare (results against output fences)
    languages (parse fences), records (gpu fences) → report (table, dist/proofs.json)

An unchanged book proves in seconds: a session's results are cached by the hash of its fences, fixtures and
tool versions. Failures are never cached. `--gpu` imports nothing beyond the standard library and torch.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

from ..config import read_config
from ..problems import BOOK, OK, WrongUse, errors, report


def main(args: argparse.Namespace, progress: Callable, say: Callable) -> int:
    """The `prove` verb."""
    config, problems = read_config(args.book)
    if config is None or errors(problems):
        report(problems, args.json)
        return BOOK
    if args.gpu:
        from . import records

        return BOOK if records.record(config, args.only, args.again) else OK
    # Only here: a CUDA machine has neither pandoc nor lxml.
    from ..build import default_jobs, prepare
    from . import marks, refresh
    from . import proofs as written
    from .run import prove

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that scratch folders go
    jobs = args.jobs or default_jobs()
    cache = (args.cache or args.out.parent / ".cache").resolve()
    book, found = prepare(config, cache, jobs, progress)
    # What --record writes anew must not stand in its own way.
    found = [p for p in found if p.code != "PRV011" or not args.record]
    if errors(found):
        return say(found, args)
    chapters = [(c.path, c.fences) for c in book.chapters if args.only in c.path and c.fences]
    if args.only and not chapters:  # a misspelt name must not look like a green run
        known = ", ".join(c.path for c in book.chapters if c.fences)
        raise WrongUse(f"--only {args.only}: no chapter with fences has this in its path; there are {known}")
    proofs, problems, outputs = prove(chapters, config.root, cache, jobs, progress)
    if args.refresh:
        problems = refresh.refresh(chapters, outputs, problems, config.root)
    if not args.only:
        written.write(proofs, args.out / "proofs.json")
    if args.record:
        marks.write(proofs, config)
    if not args.json and not args.quiet:
        print(written.table(proofs))
        sys.stdout.flush()
    return say(problems, args)
