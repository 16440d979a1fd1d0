"""Old addresses that still work: `data/redirects.yaml`, read once, checked against the book.

Stands beside web/site.py. In: the Book's addresses and a mapping such as

    hardware/gpus.html: hardware/accelerators.html
    debugging/hangs.html#stuck: debugging/ranks.html#which-rank-is-stuck

Out: pages to write (old page → new target) and, for each page, old fragment → new target. Addresses come
from the chapters' paths, so reordering needs no line here; renaming a file or a heading does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ..model import Book
from ..problems import Problem, near

NAME = "redirects.yaml"


@dataclass(frozen=True)
class Moves:
    """Where old addresses lead. Keys and targets are paths from the site's root."""

    pages: Mapping[str, str] = field(default_factory=dict)
    fragments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def read(book: Book) -> Moves:
    """The moves of a book; none when it has no such file."""
    file = book.config.root / book.config.data / NAME
    if not file.is_file():
        return Moves()
    place = Path(book.config.data, NAME).as_posix()
    text = file.read_text(encoding="utf-8")
    try:
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        return Moves(problems=(Problem(place, line, 1, "WEB003", "not valid YAML"),))
    if not isinstance(raw, dict):
        return Moves(
            problems=(Problem(place, 1, 1, "WEB003", "not a mapping of old to new addresses"),)
        )
    return _checked(book, place, text, {str(k): str(v) for k, v in raw.items()})


def _checked(book: Book, place: str, text: str, raw: Mapping[str, str]) -> Moves:
    known = {c.url: {a.id for a in c.anchors} | {c.slug} for c in book.chapters}
    pages: dict[str, str] = {}
    fragments: dict[str, dict[str, str]] = {}
    problems = []
    for old, new in raw.items():
        line = _line(text, old)
        page, _, fragment = new.partition("#")
        if page not in known:
            hint = near(page, known)
            problems.append(Problem(place, line, 1, "WEB004", f"'{new}' leads to no page", hint))
            continue
        if fragment and fragment not in known[page]:
            hint = near(fragment, known[page])
            problems.append(
                Problem(place, line, 1, "WEB004", f"'{new}' leads to no place in its page", hint)
            )
            continue
        old_page, _, old_fragment = old.partition("#")
        if old_fragment in known.get(old_page, ()) or (not old_fragment and old_page in known):
            hint = "remove the line, or rename what stands there now"
            problems.append(Problem(place, line, 1, "WEB005", f"'{old}' is in use", hint))
        elif old_fragment:
            fragments.setdefault(old_page, {})[old_fragment] = new
        else:
            pages[old_page] = new
    for page in sorted(set(fragments) - set(known) - set(pages)):
        line = _line(text, page)
        hint = "say where the page itself went"
        problems.append(
            Problem(place, line, 1, "WEB004", f"no line says where '{page}' went", hint)
        )
    return Moves(pages, fragments, tuple(problems))


def _line(text: str, start: str) -> int:
    rows = enumerate(text.splitlines(), 1)
    return next((n for n, row in rows if row.strip().strip("\"'").startswith(start)), 1)
