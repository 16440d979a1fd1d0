"""What goes wrong in layout, as Problems at the Markdown line.

Two sources: WeasyPrint's log (it never stops at a missing image or glyph, it only writes a record), and the
laid-out boxes, in which text that runs out of its column or cell is plain to see.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from weasyprint.formatting_structure import boxes

from ..problems import Problem

_TOLERANCE = 1.0  # CSS pixels; side bearings reach over by less


@contextmanager
def listening() -> Iterator[list[logging.LogRecord]]:
    """Collect WeasyPrint's records; nothing of them reaches the terminal."""
    logger = logging.getLogger("weasyprint")
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                records.append(record)

    handler, saved = Keep(), (logger.propagate, logger.level)
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.propagate, level = saved
        logger.setLevel(level)


def of_records(records: Sequence[logging.LogRecord], root: Element, path: str) -> list[Problem]:
    """Problems for the records of one piece."""
    found = {_problem(r.getMessage(), r.levelno, root, path) for r in records}
    return sorted(p for p in found if p is not None)


def _problem(message: str, level: int, root: Element, path: str) -> Problem | None:
    if match := re.match(r"\.notdef glyph .*: \"(.+)\" \(U\+([0-9A-F]+)\)", message, re.DOTALL):
        char = chr(int(match[2], 16))
        line = _line(root, lambda e: any(char in t for t in _own_text(e)))
        return Problem(path, line, 0, "PDF004", f"no font of the book has {char!r} (U+{match[2]})")
    if match := re.match(r"Failed to load image at '([^']*)'", message):
        source = unquote(match[1])
        line = _line(root, lambda e: e.tag == "img" and unquote(e.get("src") or "") == source)
        shown = source.removeprefix("asset:")
        return Problem(path, line, 0, "PDF002", f"image {shown} cannot be drawn", message.partition(": ")[2])
    if match := re.match(r"No anchor #(.*) for internal URI reference", message):
        line = _line(root, lambda e: unquote(e.get("href") or "") == f"#{match[1]}")
        return Problem(path, line, 0, "PDF003", f"link to #{match[1]}, which is not in this chapter")
    if match := re.match(r'Image "(.*)" has no required alt description', message):
        line = _line(root, lambda e: e.tag == "img" and e.get("src") == match[1])
        return Problem(path, line, 0, "PDF005", message)
    severity = "error" if level >= logging.ERROR else "warning"
    return Problem(path, 0, 0, "PDF005", f"layout: {message}", level=severity)


def _own_text(element: Element) -> tuple[str, ...]:
    tails = (child.tail or "" for child in element)
    return (element.text or "", *tails, element.get("alt") or "")


def _line(root: Element, wanted) -> int:
    """The Markdown line of the first element that `wanted` accepts: its own or its nearest block's."""

    def search(element: Element, line: int) -> int | None:
        line = int(element.get("data-line") or line)
        if isinstance(element.tag, str) and wanted(element):
            return line
        for child in element:
            if (found := search(child, line)) is not None:
                return found
        return None

    return search(root, 0) or 0


class Frame:
    """The area of one page that text may cover, and the check of each box against it."""

    def __init__(self, page) -> None:
        box = page._page_box
        self.left, self.top = box.content_box_x(), box.content_box_y()
        self.right, self.bottom = self.left + box.width, page.height
        self.cell: boxes.Box | None = None
        self.line = 0
        self.reported: set[tuple[int, str]] = set()

    def check(self, box: boxes.Box, path: str) -> list[Problem]:
        """Problems with `box`; boxes must come in tree order, so that blocks give lines to their text."""
        element = box.element
        if element is not None and (line := element.get("data-line")):
            self.line = int(line)
        if isinstance(box, boxes.TableCellBox):
            self.cell = box
        if isinstance(box, boxes.TextBox):
            shown = box.text.rstrip()
            if not shown or not box.width:
                return []
            # Spaces that hang over the end of a line are no ink.
            spaces = len(box.text) - len(shown)
            right = box.position_x + box.width * (1 - spaces / len(box.text) if spaces else 1)
        elif isinstance(box, boxes.ReplacedBox):
            right, shown = box.position_x + box.margin_width(), "image"
        else:
            return []
        if right > self.right + _TOLERANCE or box.position_x < self.left - _TOLERANCE - _hang(box):
            return self._report(path, f"{_short(shown)} runs {self._over(right)} out of the page's column")
        if box.position_y + box.height > self.bottom + _TOLERANCE:
            return self._report(path, f"{_short(shown)} runs below the page")
        return self._check_cell(box, right, shown, path)

    def _check_cell(self, box: boxes.Box, right: float, shown: str, path: str) -> list[Problem]:
        cell = self.cell
        if cell is None or not cell.position_x <= box.position_x <= cell.position_x + cell.border_width():
            return []
        inside_rows = cell.position_y <= box.position_y < cell.position_y + cell.border_height()
        if inside_rows and right > cell.position_x + cell.border_width() + _TOLERANCE:
            return self._report(path, f"{_short(shown)} runs out of its table cell")
        return []

    def _over(self, right: float) -> str:
        return f"{(right - self.right) * 0.75:.0f} pt"

    def _report(self, path: str, message: str) -> list[Problem]:
        if (self.line, message) in self.reported:
            return []
        self.reported.add((self.line, message))
        hint = "shorten the line, choose another width policy, or make the image smaller"
        return [Problem(path, self.line, 0, "PDF001", message, hint)]


def _hang(box: boxes.Box) -> float:
    """List numbers and wrap marks hang into the margin by design."""
    return 40.0 if "::" in (box.element_tag or "") else 0.0


def _short(shown: str) -> str:
    return repr(shown if len(shown) <= 40 else shown[:37] + "…")
