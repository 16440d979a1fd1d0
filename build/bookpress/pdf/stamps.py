"""Numbers that are known last: folios, "(p. 12)" after references, page numbers in the contents.

In: a sheet's pages and slots, and the number of every page. Out: one small content stream a page, drawn over it.
Folios are artifacts; the other numbers carry the marked-content id of their link, so that a reader hears them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .embed import FOLIO, folio_font
from .fragment import Page, Slot
from .objects import number

_FOLIO_SIZE = 8.5
_FOLIO_HEIGHT = 30.0  # baseline above the lower edge, points
_INK = b"0.314 0.333 0.357 rg"  # --ink-soft
_LINK = b"0.043 0.31 0.443 rg"  # --link


def roman(value: int) -> str:
    out = ""
    for step, sign in ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")):
        while value >= step:
            out, value = out + sign, value - step
    return out


def _show(said: str, right: float | None, center: float, baseline: float, size: float) -> bytes:
    """Operators that set `said` in the folio font, ending at `right` or centred."""
    _, glyphs = folio_font()
    width = sum(glyphs[c][1] for c in said) * size / 1000
    x = center - width / 2 if right is None else right - width
    codes = "".join(f"{glyphs[c][0]:04x}" for c in said).encode()
    return b"BT /%s %s Tf %s %s Td <%s> Tj ET" % (
        FOLIO.encode(), number(size), number(x), number(baseline), codes,
    )  # fmt: skip


def stamp_page(page: Page, label: str, slots: Sequence[Slot], labels: Mapping[str, str]) -> bytes:
    """The stamps of one page; `labels` gives the page number of each destination."""
    parts = []
    if page.folio:
        shown = _show(label, None, page.width / 2, _FOLIO_HEIGHT, _FOLIO_SIZE)
        parts.append(b"/Artifact <</Type/Pagination>> BDC q %s %s Q EMC" % (_INK, shown))
    for slot in slots:
        target = labels.get(slot.target)
        if target is None:
            continue
        said = target if slot.style == "contents" else f"(p. {target})"
        color = _INK if slot.style == "contents" else _LINK
        shown = _show(said, slot.right, 0, slot.baseline, slot.size)
        parts.append(b"/Link <</MCID %d>> BDC q %s %s Q EMC" % (slot.mcid, color, shown))
    return b"\n".join(parts)


def by_page(slots: Sequence[Slot]) -> Callable[[int], list[Slot]]:
    found: dict[int, list[Slot]] = {}
    for slot in slots:
        found.setdefault(slot.page, []).append(slot)
    return lambda n: found.get(n, [])
