"""Tables: who heads what, how a wide one meets the page, and rows whose cells do not add up.

Called by `parse` once the tree stands. In: the chapter's tree, its text, the book's page. Changes in place:

* `scope` on header cells, `short` on cells of narrow columns (their words stay on one line),
* a policy class on `<figure class="table">` where the author gave none: `wrap` (cells wrap on the page as it
  is), `landscape` (a turned page) or `stack` (each row becomes a list of its cells), by measuring words;
  `dense` beside it asks for smaller type, `tight` allows breaks inside words because nothing else is left.

Nothing is clipped: the widest word of each column is measured with the font that sets it. Whether the rows of the
Markdown add up is checked in pipetables.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lxml import etree

from . import fonts, pipetables
from .breaks import breaks_before, joints
from .model import Config, Expanded
from .problems import Problem

POLICIES = ("wrap", "landscape", "stack")

_SHORT = 11.0  # ems; a column no wider than this keeps its words on one line
_PADDING = 10.0 / 8.8  # ems of table type that a column adds
_TYPE, _DENSE = 8.8, 7.4  # points of table type on the page, usual and small
_CODE = 0.86  # code in tables, in ems of table type
_NESTING = {"li": 18.0, "blockquote": 14.0, "aside": 19.0, "dd": 16.0, "details": 10.0}  # points
_BLOCKS = frozenset(("pre", "ul", "ol", "dl", "table", "figure", "img", "div"))


@dataclass(frozen=True)
class Page:
    """Widths that tables have to meet, in points."""

    portrait: float
    landscape: float


@dataclass
class _Column:
    least: float = 0.0  # ems: the widest piece that cannot be broken
    natural: float = 0.0  # ems: everything on one line
    spaced: bool = False


def finish(tree: etree._Element, source: Expanded, config: Config) -> list[Problem]:
    """Complete the tables of a chapter. Out: rows and captions that are wrong."""
    page = page_of(config)
    for figure in tree.iter("figure"):
        table = figure.find("table") if "table" in figure.get("class", "").split() else None
        if table is not None:
            _scope(table)
            _fit(figure, table, page)
    return pipetables.check(tree, source, "error" if config.features.strict else "warning")


def page_of(config: Config) -> Page:
    """Room for a table on an upright and on a turned page; a little less than the style sheet leaves."""
    width, height = _points(config.page.width), _points(config.page.height)
    return Page(width * 0.77, height - 36 * 72 / 25.4 - 6)


def _points(length: str) -> float:
    units = {"mm": 72 / 25.4, "cm": 72 / 2.54, "in": 72.0, "pt": 1.0, "px": 0.75}
    found = re.fullmatch(r"\s*([0-9.]+)\s*(mm|cm|in|pt|px)\s*", length)
    return float(found[1]) * units[found[2]] if found else 498.9  # config.py reports what is no length


# --- structure ---


def _scope(table: etree._Element) -> None:
    """Columns are headed by thead; a row by a first cell that is a header (raw HTML)."""
    for row in table.iter("tr"):
        head = row.getparent().tag == "thead"
        for at, cell in enumerate(row):
            if cell.tag == "th":
                cell.set("scope", "col" if head else "row" if at == 0 else "col")


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    for group in table:
        if group.tag in ("thead", "tbody", "tfoot"):
            yield from group.iterchildren("tr")


def _regular(table: etree._Element) -> bool:
    """One header row, no spans, and every row as long as it: only such a table can be stacked."""
    heads = table.findall("thead/tr")
    if len(heads) != 1:
        return False
    return all(
        len(row) == len(heads[0]) and not any(c.get("colspan") or c.get("rowspan") for c in row)
        for row in _rows(table)
    )


# --- measure ---


@cache
def _advance(char: str) -> float:
    """Ems that a character takes in tables; half an em more than the truth never hurts, less does."""
    for family in fonts.families("sans"):
        if ord(char) in fonts.covered(family):
            return fonts.advance(family, char)
    return 1.0


def _width(text: str) -> float:
    return sum(map(_advance, text))


def _pieces(cell: etree._Element, code: bool = False) -> Iterator[tuple[str, bool]]:
    """(text, is code) of a cell in order."""
    code = code or cell.tag == "code"
    yield cell.text or "", code
    for child in cell:
        if isinstance(child.tag, str):
            yield from _pieces(child, code)
        yield child.tail or "", code


def _measure_cell(cell: etree._Element) -> _Column:
    """Least and natural width of one cell."""
    least, line, longest, word, spaced = 0.0, 0.0, 0.0, 0.0, False
    for text, code in _pieces(cell):
        size = _CODE * 0.6 if code else 0.0
        for part in re.split(r"(\s+)", text):
            if not part:
                continue
            width = len(part) * size if code else _width(part)
            if part.isspace():
                spaced, word = True, 0.0
            else:
                for at, piece in enumerate(joints(part, code)):
                    inner = len(piece) * size if code else _width(piece)
                    word = inner if at or breaks_before(part, code) else word + inner
                    least = max(least, word)
            line += width
        longest = max(longest, line)
    if any(e.tag in _BLOCKS for e in cell.iter()):
        least, longest, spaced = max(least, 7.0), max(longest, 30.0), False
    factor = 1.06 if cell.tag == "th" else 1.0
    return _Column(least * factor, longest * factor, spaced)


def _measure(table: etree._Element) -> list[_Column]:
    columns: list[_Column] = []
    wide: list[tuple[int, int, float]] = []
    for row in _rows(table):
        at = 0
        for cell in row:
            span = int(cell.get("colspan", "1"))
            found = _measure_cell(cell)
            while len(columns) < at + span:
                columns.append(_Column())
            if span == 1:
                column = columns[at]
                column.least = max(column.least, found.least)
                column.natural = max(column.natural, found.natural)
                column.spaced |= found.spaced
            else:
                wide.append((at, span, found.least))
            at += span
    for at, span, least in wide:  # what a cell over several columns lacks, they share
        lack = least - sum(c.least + _PADDING for c in columns[at : at + span])
        for column in columns[at : at + span]:
            column.least += max(lack, 0.0) / span
    return columns


# --- policy ---


def _fit(figure: etree._Element, table: etree._Element, page: Page) -> None:
    """Choose the policy and mark what the style sheets need to follow it."""
    columns = _measure(table)
    around = [e.tag for e in figure.iterancestors()]
    room = page.portrait - sum(_NESTING.get(tag, 0.0) for tag in around)
    classes = figure.get("class", "").split()
    given = next((p for p in POLICIES if p in classes), "")
    turnable = not any(tag in _NESTING or tag in ("td", "th") for tag in around)
    policy, extra = _choose(columns, room, page.landscape if turnable else 0.0, _regular(table), given)
    classes = [c for c in classes if c not in POLICIES] + [policy] + extra
    figure.set("class", " ".join(classes))
    if policy != "stack" and "tight" not in extra:
        width = page.landscape if policy == "landscape" else room
        _keep_short(table, columns, width / (_DENSE if "dense" in extra else _TYPE))


def _choose(
    columns: list[_Column], room: float, turned: float, regular: bool, given: str
) -> tuple[str, list[str]]:
    """Policy and extra classes."""
    least = sum(c.least + _PADDING for c in columns)
    natural = sum(c.natural + _PADDING for c in columns)
    fits = {"wrap": room, "landscape": turned}
    if not given:
        if least * _TYPE <= turned and _towers(columns, natural, room):
            return "landscape", []
        if least * _TYPE <= room:
            return "wrap", []
        if least * _DENSE <= room:
            return "wrap", ["dense"]
        given = "landscape" if least * _DENSE <= turned else "stack" if regular else ""
        given = given or ("landscape" if turned else "wrap")
    if given == "stack" and not regular:
        given = "landscape" if turned else "wrap"
    if given == "landscape" and not turned:
        given = "wrap"
    if given == "stack" or least * _TYPE <= fits[given]:
        return given, []
    return given, ["dense"] if least * _DENSE <= fits[given] else ["dense", "tight"]


def _towers(columns: list[_Column], natural: float, room: float) -> bool:
    """Would cells become towers of words: many columns, each with a sentence or more."""
    return len(columns) >= 7 and natural * _TYPE / room > 9


def _keep_short(table: etree._Element, columns: list[_Column], room: float) -> None:
    """Mark cells of narrow columns, as long as the wide ones keep a good half of the page."""
    short = [c.spaced and c.natural <= _SHORT for c in columns]
    if not any(short) or any(e.get("colspan") for e in table.iter("td", "th")):
        return
    kept = sum((c.natural if s else c.least) + _PADDING for c, s in zip(columns, short, strict=True))
    if kept > room * (1.0 if all(c.natural <= _SHORT for c in columns) else 0.75):
        return
    for row in _rows(table):
        for cell, keep in zip(row, short, strict=False):
            if keep:
                cell.set("class", f"{cell.get('class', '')} short".strip())
