"""The pipeline: book.toml in, finished files out. The one place that knows the order of the stages.

prepare() is the reading half (load, expand, parse, link), shared by `build`, `serve` and `check`;
build() runs the outputs and moves finished files into place. A book with an error writes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from . import epub, link, parse, pdf, web
from .cache import Cache, digest, file_digest, press_digest
from .config import read_config
from .expand import expand, facts_for
from .install import check_place, install
from .load import load
from .model import Book, Config, Draft, Expanded
from .orphans import end_with_parent
from .problems import Problem, WrongUse, errors, relaxed
from .prove import marks
from .stamp import stamp

OUTPUTS = ("pdf", "epub", "web")
Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """A progress that says nothing."""


def default_jobs() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _draft_key(item: Expanded, config: Config) -> str:
    source = item.source
    return digest(
        press_digest(), source.path, source.slug, source.url, repr(source.meta), item.text,
        repr(item.lines), repr(config.features), str(config.code_width),
    )


def _fresh(draft: Draft, config: Config) -> bool:
    """True while every file that the chapter included is as it was."""
    return all(file_digest(config.root / path) == sha for path, sha in draft.reads)


def _drafts(
    items: Sequence[Expanded], config: Config, cache: Cache, jobs: int, progress: Progress
) -> list[Draft]:
    """Parse the chapters that changed, in parallel when there are several."""
    keys = [_draft_key(i, config) for i in items]
    drafts: list[Draft | None] = [cache.get("draft", k) for k in keys]
    missing = [n for n, d in enumerate(drafts) if d is None or not _fresh(d, config)]
    done = len(items) - len(missing)
    progress("parse", done, len(items))
    with contextlib.ExitStack() as stack:
        run: Callable = map
        if len(missing) > 2 and jobs > 1:
            # forkserver: workers import the stages once and never inherit a half-used library state.
            context = get_context("forkserver")
            context.set_forkserver_preload(["bookpress.parse"])
            pool = stack.enter_context(ProcessPoolExecutor(min(jobs, len(missing)), context, end_with_parent))
            run = pool.map
        # Long chapters first, so that the last one to finish is a short one.
        missing.sort(key=lambda n: -len(items[n].text))
        for n, draft in zip(
            missing, run(parse.parse, [items[n] for n in missing], [config] * len(missing)), strict=True
        ):
            drafts[n] = draft
            cache.put("draft", keys[n], draft)
            done += 1
            progress("parse", done, len(items))
    # A draft is kept whatever part its chapter stands in, so the place comes from the book as it is now.
    return [replace(d, source=i.source) for d, i in zip(drafts, items, strict=True) if d is not None]


def prepare(
    config: Config, cache_dir: Path, jobs: int = 1, progress: Progress = silent
) -> tuple[Book, list[Problem]]:
    """Read the whole book. The Book is there even when problems are: `serve` shows both."""
    sources, problems = load(config)
    facts = facts_for(config)
    items = []
    for source in sources:
        item, found = expand(source, config, facts)
        items.append(item)
        problems += found
    drafts = _drafts(items, config, Cache(cache_dir), jobs, progress)
    for draft in drafts:
        problems += draft.problems
    book, found = link.link(drafts, config, stamp(config))
    proofs, unread = marks.read(config, book.chapters)
    return replace(book, proofs=proofs), problems + found + unread


@contextlib.contextmanager
def _only_build(cache_dir: Path):
    """Two builds into one folder take turns."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        handle = (cache_dir / "lock").open("w")
    except OSError as error:
        raise WrongUse(f"cache folder {cache_dir} cannot be written: {error.strerror}") from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(
    book_toml: Path,
    out: Path,
    outputs: Sequence[str] = OUTPUTS,
    jobs: int | None = None,
    cache_dir: Path | None = None,
    progress: Progress = silent,
) -> tuple[list[Path], list[Problem]]:
    """Build the outputs into `out`. Out: the files now in place (none on an error), and all problems."""
    jobs = jobs or default_jobs()
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return [], problems
    out = out.resolve()
    check_place(out, config)
    cache_dir = (cache_dir or out.parent / ".cache").resolve()
    with _only_build(cache_dir):
        book, found = prepare(config, cache_dir, jobs, progress)
        problems += found
        if errors(problems):
            return [], problems
        stage = cache_dir / "bookpress-stage"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        made: list[Path] = []
        stem = f"{config.slug}-{config.version}"
        if "pdf" in outputs:
            made.append(stage / f"{stem}.pdf")
            found = pdf.make(book, made[-1], cache_dir / "pdf", jobs, progress)
            problems += relaxed(found, config.features.strict)
        if "epub" in outputs:
            made.append(stage / f"{stem}.epub")
            found = epub.make(book, made[-1], cache_dir / "epub", progress)
            problems += relaxed(found, config.features.strict)
        if "web" in outputs:
            # Kept between builds, so that pages which did not change keep their time stamp.
            downloads = [file.name for file in made]
            problems += web.make(book, cache_dir / "web", progress, downloads)
        if errors(problems):
            shutil.rmtree(stage, ignore_errors=True)
            return [], problems
        files = install(made, cache_dir / "web" if "web" in outputs else None, out, config.slug)
        shutil.rmtree(stage, ignore_errors=True)
        Cache(cache_dir).trim(["draft"])
    return files, problems
