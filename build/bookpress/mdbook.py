"""Beside parse: code that mdBook's include tags take from files, in books that are not strict.

    {{#include PATH}}   {{#rustdoc_include PATH:ANCHOR}}   {{#include PATH:FIRST:LAST}}

on a line of its own in a fence. Each tag is carried out once: what an included file includes stays a tag, so no
circle can arise. A tag that cannot be carried out stays as written, with a problem.
"""

from __future__ import annotations

import posixpath
import re

from .drafting import Drafting
from .markup import Place
from .problems import near

_TAG = re.compile(
    r"^[ \t]*\{\{\s*#(?:rustdoc_)?include\s+(?P<path>[^:}]+?)(?::(?P<part>[^}]*?))?\s*\}\}[ \t]*$"
)
_ANCHOR = re.compile(r"\bANCHOR(?P<end>_END)?:\s*(?P<name>[\w-]+)")


def included(draft: Drafting, text: str, place: Place) -> str:
    """A fence's text with its include tags carried out; the fence opens at `place`."""
    rows = text.split("\n")
    for n, row in enumerate(rows):
        if tag := _TAG.match(row):
            at = (place[0] + 1 + n, row.find("{{") + 1)
            found = _part(draft, tag["path"], tag["part"] or "", at)
            rows[n] = row if found is None else found
    return "\n".join(rows)


def _part(draft: Drafting, target: str, part: str, place: Place) -> str | None:
    """What a tag stands for; None after a problem."""
    path = draft.inside(target)
    if path is None:
        message = f"'{target}' leads out of the book's folder"
        draft.report("INC003", place, message, level="warning")
        return None
    data = draft.read(path)
    if data is None:
        folder = (draft.config.root / path).parent
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        hint = near(posixpath.basename(path), names)
        draft.report("INC001", place, f"no file '{target}' to include", hint, "warning")
        return None
    rows = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").split("\n")
    numbers = re.fullmatch(r"(\d*)(:?)(\d*)", part)
    if numbers:
        first = int(numbers[1] or 1)
        last = int(numbers[3] or len(rows)) if numbers[2] or not part else first
        rows = rows[max(first - 1, 0) : last]
    else:
        marks = [(n, m["end"]) for n, row in enumerate(rows) if (m := _ANCHOR.search(row)) and m["name"] == part]
        first = next((n for n, end in marks if not end), -1)
        if first < 0:
            draft.report("INC002", place, f"no anchor '{part}' in '{target}'", level="warning")
            return None
        last = next((n for n, end in marks if end and n > first), len(rows))
        rows = rows[first + 1 : last]
    return "\n".join(row for row in rows if not _ANCHOR.search(row)).strip("\n")
