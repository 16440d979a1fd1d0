"""Beside parse: code that a fence takes from a file, whole or by region, so that text and code cannot drift.

A region runs from a comment `region: NAME` to `endregion: NAME` in whatever comment syntax the file has.
An unknown name is a problem, never an empty block (mdBook's anchors give "" in silence).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from .drafting import Drafting
from .markup import Place
from .problems import near

_MARK = re.compile(
    r"^\s*(?:\#|//|--|;+|%+|<!--|/\*|\(\*|\*|\"|')+\s*\#?(?P<end>end)?region:\s*(?P<name>[\w.-]+)\s*(?:-->|\*/|\*\))?\s*$"
)


def include(draft: Drafting, values: Mapping[str, str], body: str, place: Place) -> str:
    """The text a fence includes; "" after a problem. The file is noted in the draft's reads."""
    target = values["include"]
    if body.strip():
        draft.report("INC005", place, "a fence that includes a file has text of its own", "empty it")
    path = draft.inside(target)
    if path is None:
        draft.report("INC003", place, f"'{target}' leads out of the book's folder")
        return ""
    data = draft.read(path)
    if data is None:
        draft.report("INC001", place, f"no file '{target}' to include", _near_file(draft, path))
        return ""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        draft.report("INC001", place, f"'{target}' is not UTF-8 text")
        return ""
    return cut(draft, text, values.get("region", ""), target, place)


def cut(draft: Drafting, text: str, region: str, target: str, place: Place) -> str:
    """One region of a text, its indent taken off and all region marks dropped."""
    rows = text.split("\n")
    marks = [(n, m) for n, row in enumerate(rows) if (m := _MARK.match(row))]
    names = [m["name"] for _, m in marks if not m["end"]]
    first, last = 0, len(rows)
    if region:
        starts = [n for n, m in marks if m["name"] == region and not m["end"]]
        if not starts:
            hint = near(region, set(names)) or "the file marks no regions"
            draft.report("INC002", place, f"no region '{region}' in '{target}'", hint)
            return ""
        if len(starts) > 1:
            draft.report("INC004", place, f"region '{region}' begins twice in '{target}'")
        first = starts[0] + 1
        last = next((n for n, m in marks if m["name"] == region and m["end"] and n >= first), -1)
        if last < 0:
            hint = f"add a comment 'endregion: {region}'"
            draft.report("INC004", place, f"region '{region}' is not closed in '{target}'", hint)
            return ""
    drop = {n for n, _ in marks}
    kept = [row for n, row in enumerate(rows[first:last], first) if n not in drop]
    return textwrap.dedent("\n".join(kept)).strip("\n")


def _near_file(draft: Drafting, path: str) -> str:
    folder = (draft.config.root / path).parent
    files = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
    return near(path.rsplit("/", 1)[-1], files)
