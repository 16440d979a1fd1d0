"""Numbers of the book: chapters, sections, figures, tables, listings, equations. Called by link.

Chapters count on over all numbered parts; what a chapter holds is counted in it (3.1, 3.2 …), in reading
order. Nothing is numbered in the source, so moving a chapter renumbers the book (rust-lang/book carries
numbers in file names and pays with redirects).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .model import Anchor, Config, Draft

NAMES = {
    "figure": "Figure", "table": "Table", "listing": "Listing", "equation": "Equation",
    "section": "Section", "chapter": "Chapter",
}  # fmt: skip
_COUNTED = ("figure", "table", "listing", "equation")


@dataclass(frozen=True)
class Numbered:
    """One chapter's numbers."""

    chapter: str  # "3", or ""
    sites: Mapping[int, str]  # index of a site → its number
    anchors: tuple[Anchor, ...]  # with numbers


def number(drafts: Sequence[Draft], config: Config) -> list[Numbered]:
    """Number every chapter of the book."""
    found, count = [], 0
    for draft in drafts:
        part = config.parts[draft.source.part] if draft.source.part < len(config.parts) else None
        counts = config.features.numbering and (part is None or part.numbered)
        count += counts
        found.append(_number(draft, str(count) if counts else "", config))
    return found


def _number(draft: Draft, chapter: str, config: Config) -> Numbered:
    counter: Counter[str] = Counter()
    sites: dict[int, str] = {}
    numbers: dict[str, str] = {}
    aliases = dict(draft.aliases)
    sections = [a.id for a in draft.anchors if a.kind == "section" and a.level == 2]
    for index, site in enumerate(draft.sites):
        if site.kind == "title":
            sites[index] = chapter
        elif site.kind == "section" and chapter:
            sites[index] = f"{chapter}.{counter['section'] + 1}"
            if counter["section"] < len(sections):
                numbers[sections[counter["section"]]] = sites[index]
            counter["section"] += 1
        elif site.kind in _COUNTED and config.features.numbering:
            counter[site.kind] += 1
            sites[index] = f"{chapter}.{counter[site.kind]}" if chapter else str(counter[site.kind])
            if site.value:
                numbers[aliases.get(site.value, site.value)] = sites[index]
    anchors = tuple(
        replace(a, number=chapter if a.kind == "chapter" else numbers.get(a.id, "")) for a in draft.anchors
    )
    return Numbered(chapter, sites, anchors)


def label(anchor: Anchor) -> str:
    """How the text calls a numbered thing: "Figure 3.1", or its title where it has no number."""
    if not anchor.number:
        return anchor.text if anchor.kind in ("chapter", "section") else ""
    if anchor.kind == "equation":
        return f"Equation ({anchor.number})"
    return f"{NAMES[anchor.kind]} {anchor.number}"
