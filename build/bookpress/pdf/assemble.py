"""All pieces into one file: the only step that knows the whole book's pages.

In: the pieces in reading order, each laid out alone. Out: the bytes of the PDF. Page numbers are bound here, so a
chapter that grew by a page changes no other chapter's layout; a piece's objects are placed at numbers that move only
when an earlier piece outgrows its room, and a placed block is kept in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..cache import Cache
from ..model import Config, Stamp
from .container import place_body, room, serialise, write_file
from .embed import font_objects, union
from .fragment import Block, Body, Sheet
from .metadata import information, xmp
from .objects import (
    CATALOG,
    DESTS,
    DOCUMENT,
    FIRST,
    FONTS,
    INFO,
    OUTLINES,
    PAGES,
    PARENTS,
    STRUCT,
    XMP,
    array,
    dictionary,
    number,
    shared,
    text,
)  # fmt: skip
from .outline import Entry, Spot, bookmarks, names, page_labels
from .stamps import by_page, roman, stamp_page


@dataclass(frozen=True)
class Piece:
    """A laid-out piece with its key in the cache; its body is read only when it must be placed anew."""

    name: str
    key: str
    sheet: Sheet
    body: Callable[[], Body]
    front: bool  # counted in roman numbers


def _block(piece: Piece, base: int, cache: Cache) -> Block:
    wanted = f"{base:07d}{piece.key}"
    block = cache.get("block", wanted)
    if block is None:
        block = place_body(piece.body(), piece.sheet.count, base)
        cache.put("block", wanted, block)
    return block


class _File:
    """The assembly of one file; numbers above the blocks are given out as they are needed."""

    def __init__(self, pieces: Sequence[Piece]):
        self.pieces = pieces
        self.bases: list[int] = []
        at = FIRST
        for piece in pieces:
            self.bases.append(at)
            at += room(piece.sheet.count)
        self.next = at
        self.objects: list[tuple[int, bytes]] = []
        self.streams: list[tuple[int, bytes, bytes]] = []
        self.front = sum(len(p.sheet.pages) for p in pieces if p.front)
        self.labels: dict[str, str] = {}
        self.spots: dict[str, Spot] = {}
        self.page_labels: list[str] = []

    def number_pages(self) -> None:
        """Labels of all pages, and where every destination is."""
        for piece, base in zip(self.pieces, self.bases, strict=True):
            first = len(self.page_labels)
            for _ in piece.sheet.pages:
                n = len(self.page_labels)
                self.page_labels.append(roman(n + 1) if n < self.front else str(n - self.front + 1))
            for name, place in piece.sheet.places.items():
                self.labels[name] = self.page_labels[first + place.page]
                self.spots[name] = Spot(base + piece.sheet.page_numbers[place.page], place.x, place.y)
            if piece.sheet.pages and piece.name not in self.spots:
                self.labels[piece.name] = self.page_labels[first]
                top = piece.sheet.pages[0].height
                self.spots[piece.name] = Spot(base + piece.sheet.page_numbers[0], 0, top)

    def pages(self) -> None:
        """Page objects with their stamps, one pages node a piece."""
        nodes, total = [], 0
        for piece, base in zip(self.pieces, self.bases, strict=True):
            sheet, slots = piece.sheet, by_page(piece.sheet.slots)
            for n, page in enumerate(sheet.pages):
                stamp = stamp_page(page, self.page_labels[total + n], slots(n), self.labels)
                contents = [shared(base + page.content)]
                if stamp:
                    self.streams.append((self.next, b"<</Length %d>>" % len(stamp), stamp))
                    contents.append(shared(self.next))
                    self.next += 1
                entries = {
                    "Type": b"/Page", "Parent": shared(base + sheet.node),
                    "MediaBox": array(b"0", b"0", number(page.width), number(page.height)),
                    "Contents": array(*contents), "Resources": shared(base + sheet.resources),
                    "StructParents": b"%d" % (base + n), "Tabs": b"/S",
                }  # fmt: skip
                if page.annotations:
                    entries["Annots"] = array(*(shared(base + a) for a in page.annotations))
                self.objects.append((base + sheet.page_numbers[n], dictionary(entries)))
            kids = array(*(shared(base + p) for p in sheet.page_numbers))
            count = len(sheet.pages)
            node = {"Type": b"/Pages", "Parent": shared(PAGES), "Kids": kids, "Count": b"%d" % count}
            self.objects.append((base + sheet.node, dictionary(node)))
            nodes.append(shared(base + sheet.node))
            total += count
        root = {"Type": b"/Pages", "Kids": array(*nodes), "Count": b"%d" % total}
        self.objects.append((PAGES, dictionary(root)))

    def structure(self) -> None:
        """Root, document element and parent tree over the pieces' own."""
        placed = list(zip(self.pieces, self.bases, strict=True))
        kids = array(*(shared(base + p.sheet.struct) for p, base in placed))
        document = {"Type": b"/StructElem", "S": b"/Document", "P": shared(STRUCT), "K": kids}
        leaves = array(*(shared(base + p.sheet.parents) for p, base in placed))
        root = {
            "Type": b"/StructTreeRoot", "K": array(shared(DOCUMENT)), "ParentTree": shared(PARENTS),
            "ParentTreeNextKey": b"%d" % self.next,
        }  # fmt: skip
        notes = sorted(b"%d" % (base + n) for p, base in placed for n in p.sheet.notes)
        if notes:
            root["IDTree"] = dictionary({"Names": array(*(b"(%s)%s 0 R" % (n, n) for n in notes))})
        self.objects += [
            (STRUCT, dictionary(root)), (DOCUMENT, dictionary(document)), (PARENTS, dictionary({"Kids": leaves})),
        ]  # fmt: skip

    def fonts(self, cache: Cache) -> None:
        uses = union(p.sheet.fonts for p in self.pieces)
        entry, objects, streams = font_objects(uses, self.next, cache)
        self.objects += [(FONTS, entry), *objects]
        self.streams += streams
        self.next += len(objects) + len(streams)

    def ways_in(self, outline: Sequence[Entry]) -> None:
        items = bookmarks(outline, self.spots, self.next)
        self.next += len(items)
        leaves = names(self.spots, DESTS, self.next)
        self.next += len(leaves)
        self.objects += items + leaves

    def catalog(self, config: Config, stamp: Stamp) -> None:
        packet = xmp(config, stamp)
        self.streams.append((XMP, b"<</Type/Metadata/Subtype/XML/Length %d>>" % len(packet), packet))
        catalog = {
            "Type": b"/Catalog", "Pages": shared(PAGES), "Metadata": shared(XMP),
            "Lang": text(config.language), "MarkInfo": b"<</Marked true>>", "StructTreeRoot": shared(STRUCT),
            "ViewerPreferences": b"<</DisplayDocTitle true>>", "PageMode": b"/UseOutlines",
            "PageLabels": page_labels(self.front), "Outlines": shared(OUTLINES),
            "Names": dictionary({"Dests": shared(DESTS)}),
        }  # fmt: skip
        self.objects += [(CATALOG, dictionary(catalog)), (INFO, information(config, stamp))]


def assemble(
    pieces: Sequence[Piece], outline: Sequence[Entry], config: Config, stamp: Stamp, cache: Cache
) -> bytes:
    """The whole file."""
    file = _File(pieces)
    blocks = [_block(p, base, cache) for p, base in zip(pieces, file.bases, strict=True)]
    file.number_pages()
    file.pages()
    file.structure()
    file.fonts(cache)
    file.ways_in(outline)
    file.catalog(config, stamp)
    last = serialise(file.objects, file.streams, 0, file.next)
    size = file.next + len(file.objects) // 400 + 2
    return write_file([*blocks, last], size)
