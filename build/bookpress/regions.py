"""Beside include and prove: one region of a source file, read without any library.

A region runs from a comment `region: NAME` to `endregion: NAME` in whatever comment syntax the file has.
An unknown name is a trouble, never an empty block (mdBook's anchors give "" in silence).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from .problems import near

_MARK = re.compile(
    r"^\s*(?:\#|//|--|;+|%+|<!--|/\*|\(\*|\*|\"|')+\s*\#?(?P<end>end)?region:\s*(?P<name>[\w.-]+)\s*(?:-->|\*/|\*\))?\s*$"
)


@dataclass(frozen=True)
class Cut:
    """The text of a region; `code` names the problem where there is one."""

    text: str
    code: str = ""
    message: str = ""
    hint: str = ""


def cut(text: str, region: str, name: str) -> Cut:
    """One region of the file called `name` (all of it for ""), without indent and without region marks."""
    rows = text.split("\n")
    marks = [(n, m) for n, row in enumerate(rows) if (m := _MARK.match(row))]
    names = [m["name"] for _, m in marks if not m["end"]]
    first, last, trouble = 0, len(rows), ("", "", "")
    if region:
        starts = [n for n, m in marks if m["name"] == region and not m["end"]]
        if not starts:
            hint = near(region, set(names)) or "the file marks no regions"
            return Cut("", "INC002", f"no region '{region}' in '{name}'", hint)
        if len(starts) > 1:
            trouble = ("INC004", f"region '{region}' begins twice in '{name}'", "")
        first = starts[0] + 1
        last = next((n for n, m in marks if m["name"] == region and m["end"] and n >= first), -1)
        if last < 0:
            hint = f"add a comment 'endregion: {region}'"
            return Cut("", "INC004", f"region '{region}' is not closed in '{name}'", hint)
    drop = {n for n, _ in marks}
    kept = [row for n, row in enumerate(rows[first:last], first) if n not in drop]
    return Cut(textwrap.dedent("\n".join(kept)).strip("\n"), *trouble)
