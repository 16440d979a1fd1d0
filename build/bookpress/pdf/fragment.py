"""A laid-out piece of the book: what `layout` hands to `assemble`, and what the cache keeps.

A Fragment is split in two: `Sheet` is everything that the assembly reads each time (pages, places, slots, glyphs
used), `Body` holds the objects themselves and is read only when the block has to be placed at another number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..problems import Problem


@dataclass(frozen=True)
class Page:
    """One page; sizes in points. `content` and `resources` are local object numbers."""

    width: float
    height: float
    content: int
    annotations: tuple[int, ...]
    folio: bool


@dataclass(frozen=True)
class Slot:
    """A place left free for a page number: its right end and baseline on the page, in points."""

    page: int
    right: float
    baseline: float
    size: float
    target: str  # name of the destination whose page is printed
    style: str  # "reference": (p. 7)   "contents": 7
    mcid: int  # marked content of the link, so that the number is read as part of it


@dataclass(frozen=True)
class FontUse:
    """What a piece uses of one font, by the name that its content streams call it."""

    name: str
    family: str
    base: str  # BaseFont, without the tag
    stem: str  # of the font file
    flags: int
    ascent: int
    descent: int
    widths: dict[int, int]
    unicode: dict[int, str]


@dataclass(frozen=True)
class Place:
    """Where something can be jumped to: page index in the piece, point from the lower left."""

    page: int
    x: float
    y: float


@dataclass(frozen=True)
class Sheet:
    """The part of a fragment that every assembly reads."""

    count: int  # local object numbers are below this
    resources: int
    node: int  # local number kept for the pages node
    page_numbers: tuple[int, ...]  # local numbers kept for the page objects
    pages: tuple[Page, ...]
    places: dict[str, Place]
    slots: tuple[Slot, ...]
    fonts: tuple[FontUse, ...]
    struct: int  # local number of the piece's structure element
    parents: int  # local number of its leaf of the parent tree
    targets: tuple[tuple[str, int], ...]  # destinations in other pieces, each with the Markdown line that links there
    notes: tuple[int, ...]  # local numbers of notes, whose identifiers the file lists
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Body:
    """The objects: dictionaries by local number, and streams with their finished (compressed) data."""

    objects: tuple[tuple[int, bytes], ...]
    streams: tuple[tuple[int, bytes, bytes], ...] = field(default=())


@dataclass(frozen=True)
class Block:
    """A body placed at a number: bytes ready to be written anywhere in the file."""

    base: int
    data: bytes
    direct: tuple[tuple[int, int], ...]  # (object number, offset in data)
    packed: tuple[tuple[int, int, int], ...]  # (object number, number of its object stream, index)
