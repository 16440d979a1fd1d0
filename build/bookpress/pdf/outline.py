"""The ways into the file: bookmarks, named destinations, page labels.

In: where every destination landed. Out: objects with final numbers for the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .objects import OUTLINES, array, dictionary, number, raw_name, shared, text

_NAMES_PER_LEAF = 200


@dataclass
class Entry:
    """A bookmark: what it says, the destination's name, and what is under it."""

    title: str
    target: str
    kids: list[Entry] = field(default_factory=list)
    open: bool = False


@dataclass(frozen=True)
class Spot:
    """A destination in the file: number of the page object and the point on it."""

    page: int
    x: float
    y: float

    @property
    def data(self) -> bytes:
        return array(shared(self.page), b"/XYZ", number(self.x), number(self.y), b"null")


def bookmarks(entries: Sequence[Entry], spots: Mapping[str, Spot], first: int) -> list[tuple[int, bytes]]:
    """The outline: its root at OUTLINES, items from number `first` on."""
    objects: list[tuple[int, bytes]] = []
    at = first

    def write(level: Sequence[Entry], parent: int) -> tuple[int, int, int]:
        """Numbers of the first and last item, and how many rows show when the parent is open."""
        nonlocal at
        level = [e for e in level if e.target in spots]
        numbers = list(range(at, at + len(level)))
        at += len(level)
        rows = len(level)
        for n, (entry, own) in enumerate(zip(level, numbers, strict=True)):
            item = {"Title": text(entry.title), "Parent": shared(parent), "Dest": spots[entry.target].data}
            if n:
                item["Prev"] = shared(numbers[n - 1])
            if n + 1 < len(level):
                item["Next"] = shared(numbers[n + 1])
            if entry.kids:
                head, tail, below = write(entry.kids, own)
                if below:
                    item |= {"First": shared(head), "Last": shared(tail)}
                    item["Count"] = b"%d" % (below if entry.open else -below)
                    rows += below if entry.open else 0
            objects.append((own, dictionary(item)))
        return (numbers[0], numbers[-1], rows) if numbers else (0, 0, 0)

    head, tail, rows = write(entries, OUTLINES)
    root = {"Type": b"/Outlines"}
    if rows:
        root |= {"First": shared(head), "Last": shared(tail), "Count": b"%d" % rows}
    objects.append((OUTLINES, dictionary(root)))
    return objects


def names(spots: Mapping[str, Spot], root: int, first: int) -> list[tuple[int, bytes]]:
    """The name tree of destinations: its root at `root`, leaves from `first` on."""
    ordered = sorted(spots, key=raw_name)
    objects, kids = [], []
    for start in range(0, len(ordered), _NAMES_PER_LEAF):
        leaf = ordered[start : start + _NAMES_PER_LEAF]
        pairs = [part for n in leaf for part in (text(n), spots[n].data)]
        limits = array(text(leaf[0]), text(leaf[-1]))
        objects.append((first + len(kids), dictionary({"Limits": limits, "Names": array(*pairs)})))
        kids.append(shared(first + len(kids)))
    objects.append((root, dictionary({"Kids": array(*kids)})))
    return objects


def page_labels(front: int) -> bytes:
    """Roman numbers for the first `front` pages, arabic from there."""
    body = dictionary({"S": b"/D", "St": b"1"})
    if not front:
        return dictionary({"Nums": array(b"0", body)})
    return dictionary({"Nums": array(b"0", dictionary({"S": b"/r"}), b"%d" % front, body)})
