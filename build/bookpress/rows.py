"""Code for paper: long lines become rows that fit, and the text stays what it was.

Called by `pdf` on each `<pre><code>` before layout. A row is a block, so nothing depends on where layout
finds a place to break: WeasyPrint loses `overflow-wrap` at a span's boundary and lets ink run off the page
(Kozea/WeasyPrint#2900). Continuation rows carry class "cont" and start a little right of their line's own
indent; the style sheet draws a bar there, which is ink, not text, so that copied code is clean. A row never ends in a hyphen, because
readers of PDF files drop such a hyphen when they join lines (Kozea/WeasyPrint#2132).
"""

from __future__ import annotations

import unicodedata
from functools import cache

from lxml import etree

from . import fonts

TAB = 8  # columns, as terminals have it; tab-size in the style sheet says the same
INDENT = 3  # columns that a continuation row stands in from its line: the bar and air around it

# Columns that a container takes from a line of code on the page, at the style sheet's sizes.
_NESTING = {"li": 5, "blockquote": 5, "aside": 5, "dd": 5, "details": 2}
_UNMEASURED = frozenset({"td", "th"})
_AFTER = frozenset(",;/&|=:)]}>")  # next best places to break after, when there is no space
_DASHES = frozenset("-\u00ad\u2010\u2011\u2012\u2013\u2014")


@cache
def _cells(char: str) -> float:
    """Advance of one character in columns of the code face, from the font that will set it."""
    if " " <= char <= "~":
        return 1.0
    for family in fonts.families("code"):
        if ord(char) in fonts.covered(family):
            return fonts.advance(family, char) / fonts.advance("JetBrains Mono", "0")
    return 2.0


def columns_of(line: str) -> int:
    """Columns as an editor counts them: tabs to the next stop, wide characters two."""
    if line.isascii() and "\t" not in line:
        return len(line)
    at = 0
    for char in line:
        if char == "\t":
            at += TAB - at % TAB
        elif not unicodedata.combining(char):
            at += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return at


def breakable(code: etree._Element, columns: int = 88) -> None:
    """Rewrite a `<code>` inside `<pre>` so that every line fits `columns` (fewer where it is nested)."""
    around = [_local(e) for e in code.iterancestors()]
    if _UNMEASURED & set(around):
        _flatten(code)  # no width to count on: one text node, which layout breaks by itself
        return
    columns = max(columns - sum(_NESTING.get(name, 0) for name in around), 20)
    text = "".join(code.itertext())
    lines = text.split("\n")
    wide = {n: line for n, line in enumerate(lines) if _too_wide(line, columns)}
    if wide:
        indents = {n: _indent(line, columns) for n, line in wide.items()}
        cuts = {n: _cuts(line, columns, indents[n]) for n, line in wide.items()}
        _rebuild(code, _bounds(lines, cuts, indents))


def _indent(line: str, columns: int) -> int:
    """Columns of blanks that a line starts with, as far as its continuation can afford them."""
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return min(columns_of(blanks), columns // 3)


def _local(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _flatten(code: etree._Element) -> None:
    text = "".join(code.itertext())
    for child in list(code):
        code.remove(child)
    code.text = text


def _too_wide(line: str, columns: int) -> bool:
    line = line.rstrip(" ")
    if line.isascii() and "\t" not in line:
        return len(line) > columns
    return _measure(line)[-1] > columns + 0.01


def _measure(line: str) -> list[float]:
    """Position after each character, in columns; element 0 is 0."""
    at, ends = 0.0, [0.0]
    for char in line:
        at += TAB - at % TAB if char == "\t" else _cells(char)
        ends.append(at)
    return ends


def _cuts(line: str, columns: int, indent: int) -> list[int]:
    """Offsets at which a new row starts."""
    line = line.rstrip(" ")
    ends = _measure(line)
    cuts: list[int] = []
    start, room = 0, float(columns)
    while ends[-1] - ends[start] > room + 0.01:
        stop = start + 1
        while stop < len(line) and ends[stop + 1] - ends[start] <= room + 0.01:
            stop += 1
        stop = _better(line, start, stop)
        if stop >= len(line):
            break
        cuts.append(stop)
        # A tab in a continuation row stops elsewhere than measured: leave it a full stop of room.
        start, room = stop, float(columns - indent - INDENT - (TAB if "\t" in line[stop:] else 0))
    return cuts


def _better(line: str, start: int, stop: int) -> int:
    """The best cut at or before `stop`: after blanks, else after punctuation, else right there.

    The blanks before a cut have to fit as well: at a span's end layout does not let them hang.
    """
    least = start + (stop - start) * 3 // 5
    for wanted in (lambda c: c in " \t", _AFTER.__contains__):
        for at in range(stop, least, -1):
            if wanted(line[at - 1]) and line[at] not in " \t":
                return at
    at = stop
    while at > start + 1 and (line[at - 1] in _DASHES or _joins(line[at])):
        at -= 1
    return at if at > start + 1 else stop


def _joins(char: str) -> bool:
    """Characters that belong to the one before: combining marks, joiners, variation selectors."""
    return bool(unicodedata.combining(char)) or char in "\u200d\ufe0e\ufe0f"


# (end offset in the text, row class, indent of the row); class "" for lines that fit as they are
Bound = tuple[int, str, int]


def _rebuild(code: etree._Element, bounds: list[Bound]) -> None:
    """Put the long lines into rows, keeping the spans' classes."""
    runs = [("", code.text or "")]
    for child in list(code):
        runs.append((child.get("class", ""), "".join(child.itertext())))
        runs.append(("", child.tail or ""))
        code.remove(child)
    code.text = None
    code.set("class", f"{code.get('class', '')} rows".strip())
    at, pieces = 0, iter(bounds)
    end, row, indent = next(pieces)
    parent = _open(code, row, indent)
    for kind, text in runs:
        while text:
            take = text[: end - at]
            _append(parent, kind, take)
            at, text = at + len(take), text[len(take):]
            if at == end:
                end, row, indent = next(pieces, (at + len(text) + 1, "", 0))
                parent = _open(code, row, indent)


def _bounds(lines: list[str], cuts: dict[int, list[int]], indents: dict[int, int]) -> list[Bound]:
    bounds: list[Bound] = []
    at = 0
    for number, line in enumerate(lines):
        size = len(line) + (number < len(lines) - 1)
        if number in cuts:
            for n, edge in enumerate([*cuts[number], size]):
                bounds.append((at + edge, "row cont" if n else "row", indents[number] if n else 0))
        elif bounds and bounds[-1][1] == "":
            bounds[-1] = (at + size, "", 0)
        elif size:
            bounds.append((at + size, "", 0))
        at += size
    return bounds


def _open(code: etree._Element, row_class: str, indent: int) -> etree._Element:
    if not row_class:
        return code
    row = etree.SubElement(code, _tag(code, "span"))
    row.set("class", row_class)
    if indent:
        row.set("style", f"margin-left:{indent + 1}ch")
    return row


def _tag(code: etree._Element, name: str) -> str:
    space = etree.QName(code).namespace
    return f"{{{space}}}{name}" if space else name


def _append(parent: etree._Element, kind: str, text: str) -> None:
    if kind:
        span = etree.SubElement(parent, _tag(parent, "span"))
        span.set("class", kind)
        span.text = text
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text
