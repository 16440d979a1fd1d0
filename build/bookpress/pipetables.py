"""Pipe tables as their author typed them: rows whose cells do not add up, tables that became text.

Called by `tables`. In: the chapter's Markdown and its tree. Out: problems. The reader of Markdown drops surplus
cells without a word (github/markup#1437), so they are counted in the source, as GitHub counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from .model import Expanded
from .problems import Problem

_CELL_END = re.compile(r"\\.|(\|)")
_DELIMITER = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_PREFIX = re.compile(r"(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*")
_FENCE = re.compile(r"(`{3,}|~{3,})")


def check(tree: etree._Element, source: Expanded, level: str) -> list[Problem]:
    """What is wrong with the tables of a chapter; `level` where the book may be lenient."""
    return [*_counts(tree, source, level), *_lost(tree, source.source.path, level)]


def cells(row: str) -> int:
    """Cells of a pipe table's row as GitHub counts them: a pipe in backticks counts, \\| does not."""
    text = row.strip()
    ends = [m.start() for m in _CELL_END.finditer(text) if m[1]]
    inner = len(ends) - (text[:1] == "|") - (len(text) > 1 and bool(ends) and ends[-1] == len(text) - 1)
    return inner + 1


def _counts(tree: etree._Element, source: Expanded, level: str) -> Iterator[Problem]:
    """Rows of the Markdown's own tables with too many or too few cells."""
    lines = source.text.split("\n")
    preformatted: str | None = None
    header, width = -1, 0
    for at, text in _outside_fences(lines):
        if header < 0 or at != header + 1:
            width = 0
        if width and ("|" in text):
            header = at
            found = cells(text)
            if found != width and preformatted is None:
                preformatted = "\n".join("".join(p.itertext()) for p in tree.iter("pre"))
            if found != width and text not in preformatted:
                yield _count_problem(source, at, text, found, width, level)
            continue
        width = 0
        above = _bare(lines[at - 1]) if at else ""
        if "|" in text and "-" in text and _DELIMITER.match(text) and "|" in above:
            width = cells(above) if cells(above) == cells(text) else 0
            header = at


def _count_problem(source: Expanded, at: int, text: str, found: int, width: int, level: str) -> Problem:
    line = source.lines[at] if at < len(source.lines) else at + 1
    if found > width:
        coded = re.search(r"`[^`|]*\|[^`]*`", text)
        hint = f"write \\| inside {coded[0]}" if coded else "write \\| for a pipe inside a cell"
        return Problem(source.source.path, line, 1, "TAB001",
                       f"row has {found} cells, header has {width}: the rest is dropped", hint, level)
    return Problem(source.source.path, line, 1, "TAB002",
                   f"row has {found} cells, header has {width}", "add the missing cells", "warning")


def _outside_fences(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(index, text without list and quote marks) of lines that no fence holds."""
    mark = ""
    for at, line in enumerate(lines):
        text = _bare(line)
        fence = _FENCE.match(text)
        if mark:
            if fence and fence[1][0] == mark[0] and len(fence[1]) >= len(mark) and text == fence[1]:
                mark = ""
        elif fence and not (fence[1][0] == "`" and "`" in text[len(fence[1]):]):
            mark = fence[1]
        else:
            yield at, text


def _bare(line: str) -> str:
    return _PREFIX.sub("", line, count=1).rstrip()


def _lost(tree: etree._Element, path: str, level: str) -> Iterator[Problem]:
    """Text that was meant as a table or its caption and became a paragraph."""
    for paragraph in tree.iter("p", "li", "dd"):
        text = "".join(paragraph.itertext()) if paragraph.tag == "p" else paragraph.text or ""
        line = int(paragraph.get("data-line", "0"))
        if re.match(r"Table: \S", text) and paragraph.tag == "p":
            yield Problem(path, line, 1, "TAB004", "no table follows this caption",
                          "leave nothing but an empty line between caption and table", level)
        if "|" not in text or "-" not in text:
            continue
        rows = text.split("\n")
        for at, row in enumerate(rows):
            if at and "|" in row and _DELIMITER.match(row.strip()) and "|" in rows[at - 1]:
                yield _not_a_table(path, line + at - 1, rows, at, level)
                break


def _not_a_table(path: str, line: int, rows: list[str], at: int, level: str) -> Problem:
    head, marks = cells(rows[at - 1]), cells(rows[at])
    if head != marks:
        return Problem(path, line, 1, "TAB003",
                       f"no table: header has {head} cells, the row of dashes below has {marks}",
                       "give both the same number", level)
    return Problem(path, line, 1, "TAB005", "no table: it continues the paragraph above",
                   "put an empty line before it", level)
