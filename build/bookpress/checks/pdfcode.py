"""Code blocks of the finished PDF against their sources: every character, at its column.

Used by fences.py. A page has no text lines, only glyphs at places, so both are compared: the characters in
order, and for each the blanks before it, counted in columns of the code face. A row of the page either
starts a line of the source, then it must stand where that line's indent puts it, or goes on with one that
was too long, then it must stand at the continuation indent of rows.py. Nothing that a reader could miss,
an indent, a blank or a blank line, is forgiven.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .. import fonts
from ..rows import INDENT, TAB
from .pdftext import Element, Glyph, Line, elements

SLACK = 0.35  # of a column: kerning there is none, rounding there is
EDGE = 0.1  # of a column: how well a block of indented lines has to fit another block's edge
KEPT = 6  # columns: what rows.py keeps of a deep indent where code is narrowest
LEADING = 2.27  # height of a row in columns: line-height 1.36 over an advance of 0.6 em
_ROLES = frozenset(("P", "Code"))


def code_blocks(file: Path) -> Iterator[Element]:
    """The elements of the file that are blocks of code: set in code faces only, and not part of a paragraph."""
    code = {family.replace(" ", "-") for family in fonts.families("code")}
    own = "JetBrains-Mono"
    for element in elements(file, _ROLES):
        names = {_family(name) for name in element.fonts}
        if element.role == "P" and not element.inner & {"Code", "Link"} and own in names and names <= code:
            yield element


def _family(font: str) -> str:
    name = font.rstrip(",")
    for style in ("-Bold-Italic", "-Bold", "-Italic", "-Semi-Bold"):
        name = name.removesuffix(style)
    return name


@dataclass
class _Cursor:
    """Where the comparison stands in the source."""

    text: str
    at: int = 0
    indent: int = 0  # columns that the current line of the source stands in

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def blanks(self) -> str:
        """Pass over blanks and line ends; what was passed."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[start : self.at]


def left_edge(block: Element) -> float:
    """Where its text starts at the leftmost; right of the true edge when every line is indented."""
    return min(glyph.x for line in block.lines for glyph in line.glyphs[:1])


def trouble(source: str, block: Element, edges: Iterable[float] = ()) -> str:
    """What differs between a fence's text and its block on the page, "" when nothing does.

    `edges` are the left edges of the book's other blocks: a block whose lines are all indented has no
    glyph at its own (layout draws no leading blanks before a change of color), so it must fit one of them.
    """
    cursor = _Cursor(_seen(source))
    glyphs = [glyph for line in block.lines for glyph in line.glyphs if not glyph.text.isspace()]
    if not glyphs:
        return "" if not source.strip() else "the block is empty"
    column = median(glyph.advance for glyph in glyphs)
    height = column * LEADING
    left = left_edge(block)
    indent = min(_columns(row[: -len(row.lstrip())]) for row in source.split("\n") if row.strip())
    if indent:
        first = next(row for row in source.split("\n") if row.strip())
        wanted = glyphs[0].x - _columns(first[: -len(first.lstrip())]) * column
        near = min(edges, key=lambda edge: abs(edge - wanted), default=left)
        if abs(near - wanted) > EDGE * column:
            return f"the block stands {(glyphs[0].x - near) / column:.1f} columns in"
        left = wanted
    last: Line | None = None
    for line in block.lines:
        shown = [glyph for glyph in line.glyphs if not glyph.text.isspace()]
        if not shown:
            continue
        said = _row(cursor, line, shown, last, left, column, height)
        if said:
            return f"line {cursor.line} of the fence: {said}"
        last = line
    rest = cursor.text[cursor.at :].strip()
    return f"line {cursor.line} of the fence: the page ends before {rest[:20]!r}" if rest else ""


def _seen(text: str) -> str:
    """The text without characters that have no glyph: joiners and variation selectors."""
    return "".join(c for c in text if c in "\n\t" or not (unicodedata.category(c) == "Cf" or c in "\ufe0e\ufe0f"))


def _row(
    cursor: _Cursor, line: Line, shown: list[Glyph], last: Line | None, left: float, column: float, height: float
) -> str:
    """Compare one row; "" when it is as the source says."""
    blanks = cursor.blanks()
    indent = (shown[0].x - left) / column
    ends = blanks.count("\n")
    if last is None or ends:
        wanted = cursor.indent = _columns(blanks.rpartition("\n")[2])
        if abs(indent - wanted) > SLACK:
            return f"stands {indent:.1f} columns in, the source {wanted}"
        if last is not None and last.page == line.page:
            steps = (last.y - line.y) / height
            if abs(steps - ends) > 0.3 * ends:
                return f"{steps - 1:.1f} blank lines above, the source has {ends - 1}"
    elif not _goes_on(indent - INDENT, cursor.indent, len(blanks)):
        return f"a row goes on at column {indent:.1f}: neither a new line nor a continuation"
    return _characters(cursor, shown, column)


def _goes_on(columns: float, own: int, blanks: int) -> bool:
    """Is that the start of a continuation row, as rows.py sets it?

    It stands in from its line's own indent, of which a third of the width is kept at most. Of the blanks
    around a cut, any number may have moved down.
    """
    at = round(columns)
    return abs(columns - at) <= SLACK and (own <= at <= own + blanks or KEPT <= at < own)


def _columns(blanks: str) -> int:
    return len(blanks.expandtabs(TAB))


def _characters(cursor: _Cursor, shown: list[Glyph], column: float) -> str:
    before: Glyph | None = None
    for glyph in shown:
        if before is not None:
            blanks = cursor.blanks()
            gap = (glyph.x - before.x - before.advance) / column
            if "\n" in blanks:
                return "two lines of the source in one row"
            right = gap > SLACK if "\t" in blanks else abs(gap - len(blanks)) <= SLACK
            if not right:
                return f"{gap:.1f} blanks before {glyph.text!r}, the source has {blanks!r}"
        text = _seen(glyph.text)
        if not cursor.text.startswith(text, cursor.at):
            there = cursor.text[cursor.at : cursor.at + 10]
            return f"the page has {glyph.text!r} where the source has {there!r}"
        cursor.at += len(text)
        before = glyph
    return ""
