"""No ink outside any page, and none in the side margins beyond the text area.

Stands after the outputs. Each page is drawn by PDFium onto a larger sheet with the page's own clip lifted,
so whatever would be cut off shows: text, rules, pictures, backgrounds alike. Left and right the margins of the
style sheet count; above and below stand running heads and folios, so there only the page's edge does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ..model import Book
from ..pdf.sheet import millimetres, style
from ..problems import Problem, ToolMissing
from .pdfplaces import Places

try:
    import pypdfium2
except ImportError as error:
    raise ToolMissing("the ink check needs PDFium: pip install pypdfium2==5.15.2") from error

SHEET = 72  # points added on each side
SCALE = 2  # pixels to the point
HAIR = 1.5  # points of ink that anti-aliasing and side bearings may add
DARK = 245  # of 255: paler is no ink

_PAGE = re.compile(r"@page[^{}]*\{\s*size:\s*(\S+)\s+(\S+);\s*margin:\s*([^;]+);")


@dataclass(frozen=True)
class Inked:
    """Where the ink of a page ends, in points from the page's left and top edge."""

    index: int
    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float

    @property
    def bleeds(self) -> bool:
        """Does it fill the page, as a cover does?"""
        return self.left <= HAIR and self.right >= self.width - HAIR and self.top <= HAIR


def check(file: Path, book: Book) -> list[Problem]:
    document = pypdfium2.PdfDocument(file)
    try:
        pages = [page for page in (_inked(document, i) for i in range(len(document))) if page]
        found = list(_outside(pages, _margins(book)))
    finally:
        document.close()
    if not found:
        return []
    places = Places(file, book)
    return [places.problem(page.index, "CHK003", text) for page, text in found]


def _inked(document: pypdfium2.PdfDocument, index: int) -> Inked | None:
    """The bounds of the page's ink, cut off by nothing; None for an empty page."""
    page = document[index]
    left, bottom, right, top = page.get_mediabox()
    sheet = (left - SHEET, bottom - SHEET, right + SHEET, top + SHEET)
    page.set_mediabox(*sheet)
    page.set_cropbox(*sheet)
    picture: Image.Image = page.render(scale=SCALE, grayscale=True).to_pil()
    page.set_mediabox(left, bottom, right, top)
    page.set_cropbox(left, bottom, right, top)
    page.close()
    bounds = picture.convert("L").point(lambda value: 255 if value < DARK else 0).getbbox()
    if bounds is None:
        return None
    x0, y0, x1, y1 = (value / SCALE - SHEET for value in bounds)
    return Inked(index, right - left, top - bottom, x0, y0, x1, y1)


def _margins(book: Book) -> dict[tuple[int, int], float]:
    """Page size → its side margin, all in points, from the rules that the PDF was laid out by."""
    found = {}
    for width, height, margin in _PAGE.findall(style(book.config)):
        sides = margin.split()
        side = sides[1] if len(sides) > 1 else sides[0]
        size = tuple(round(millimetres(length) * 72 / 25.4) for length in (width, height))
        found[size] = millimetres(side) * 72 / 25.4
    return found


def _outside(pages: list[Inked], margins: dict[tuple[int, int], float]) -> Iterator[tuple[Inked, str]]:
    for page in pages:
        side = 0.0 if page.bleeds else margins[round(page.width), round(page.height)]
        yield from _beyond(page, side, page.width - side)


def _beyond(page: Inked, left: float, right: float) -> Iterator[tuple[Inked, str]]:
    for name, excess in (
        ("left of the text", left - page.left),
        ("right of the text", page.right - right),
        ("above the page", -page.top),
        ("below the page", page.bottom - page.height),
        ("left of the page", -page.left),
        ("right of the page", page.right - page.width),
    ):
        if excess > HAIR:
            yield page, f"{excess:.1f} pt of ink {name}"
