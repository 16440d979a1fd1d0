"""Checks over the finished outputs: what a reader would run into, found before one does.

Stands after the pipeline. `run` reads the book once more (from the cache, that is quick) for the lines to
report, then looks at whatever outputs there are. Each check is a module of its own with a function that
takes a finished file and the Book and returns Problems; the tests call the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..model import Book
from ..problems import Problem, errors

Check = Callable[[Path, Book], list[Problem]]


def checks_of(kind: str, slow: bool) -> tuple[Check, ...]:
    """The checks of one output, cheap ones first."""
    from . import ace, epubcheck, fences, ink, links

    return {
        "pdf": (ink.check, fences.check_pdf),
        "epub": (fences.check_epub, links.check_epub, epubcheck.check, *([ace.check] if slow else [])),
        "web": (fences.check_web, links.check_web),
    }[kind]


def run(
    book_toml: Path, out: Path, cache: Path | None, slow: bool = False, against: Path | None = None
) -> list[Problem]:
    """Every check of every output in `out`; with `slow`, Ace and a double build as well.

    With `against`, the text is compared with the texts of that folder.
    """
    from ..build import prepare
    from ..config import read_config
    from . import double, fences, originality

    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return problems
    book, found = prepare(config, (cache or out.parent / ".cache").resolve())
    problems += found
    problems += fences.check_source(book)
    if against:
        problems += originality.check(against, book)
    stem = f"{config.slug}-{config.version}"
    places = {"pdf": out / f"{stem}.pdf", "epub": out / f"{stem}.epub", "web": out / "web"}
    present = [kind for kind, place in places.items() if place.exists()]
    if not present:
        problems.append(Problem(config.path.name, 0, 0, "CHK005", f"no output of {stem} in {out.name}"))
    for kind in present:
        for check in checks_of(kind, slow):
            problems += check(places[kind], book)
    if slow:
        problems += double.check(config.path, book.stamp.epoch)
    return problems
