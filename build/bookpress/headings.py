"""Beside parse: the chapter's title, its section headings and every id in it.

Ids are GitHub's, so that links written for GitHub keep working: lower case, punctuation dropped, Unicode
kept (Arto#220 lost CJK headings), a repeat gets -1, -2 (mdBook#1493). Other people's chapters with several
h1 keep the first as the title; later ones become sections, one level down with all that is below them.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from lxml import etree

from . import controls
from .drafting import Drafting
from .html import HEADINGS, drop, is_blank, line_of, text
from .model import Anchor

_DROPPED = re.compile(r"[^\w\- ]")
_RESERVED = re.compile(r"fn(ref)?-\d+(-\d+)?")
_FIGURES = {"figure": "figure", "table": "table", "code": "listing"}


def slug(words: str) -> str:
    """GitHub's id for a heading."""
    return _DROPPED.sub("", words.strip().lower()).replace(" ", "-")


class Ids:
    """The ids of one chapter: each once, valid in XML."""

    def __init__(self, draft: Drafting, root_id: str):
        self.draft = draft
        self.taken = {root_id}
        self.written: set[str] = set()  # as authors link to them
        self.aliases: dict[str, str] = {}

    def claim(self, wanted: str) -> str:
        """A free id for what GitHub would call `wanted` (before its own numbering of repeats)."""
        name, n = wanted, 0
        while name in self.written:
            n += 1
            name = f"{wanted}-{n}"
        self.written.add(name)
        actual = name or "section"
        while actual in self.taken or _RESERVED.fullmatch(actual):
            actual += "-section" if actual == name else "-1"
        self.taken.add(actual)
        if actual != name:
            self.aliases[name] = actual
        return actual


def settle(draft: Drafting, root: etree._Element) -> tuple[str, list[Anchor], dict[str, str]]:
    """Give the chapter its title, levels and ids. Out: title, anchors in reading order, aliases."""
    headings = _headings(draft, root)
    title = _title(draft, root, headings)
    _levels(draft, [h for h in headings if h is not title])
    if draft.config.features.section_numbers:
        for heading in root.iter("h2"):
            _mark(draft, heading, "section")
    ids = Ids(draft, draft.expanded.source.slug)
    _assign(draft, root, ids)
    return text(title), _anchors(root, title), ids.aliases


def _headings(draft: Drafting, root: etree._Element) -> list[etree._Element]:
    found = []
    for heading in list(root.iter(*HEADINGS)):
        if is_blank(heading) or not (text(heading) or heading.find(".//img") is not None):
            draft.report_at("MDN010", line_of(heading), "a heading without text", level="warning")
            drop(heading)
        else:
            found.append(heading)
    return found


def _title(draft: Drafting, root: etree._Element, headings: list[etree._Element]) -> etree._Element:
    """The first h1, else the front matter's title, else the file's name; moved to the front."""
    source = draft.expanded.source
    title = next((h for h in headings if h.tag == "h1" and text(h)), None)
    if title is None and not source.meta.title and headings and _opens(root, headings[0]):
        title = headings[0]  # mdBook's habit: every page begins with ##
    if source.meta.title and headings and title is not headings[0]:
        title = None  # the head names the chapter; an h1 in its middle is a section
    if title is None:
        title = etree.Element("h1")
        path = PurePosixPath(source.path)
        name = path.parent.name if path.stem.lower() in ("readme", "index") else path.stem
        title.text = controls.shown(controls.hide(source.meta.title)) or re.sub(r"[-_]+", " ", name or path.stem).strip().capitalize()
        title.set("data-line", str(source.first_line))
    else:
        drop(title)
        title.tail, title.tag = None, "h1"
    _mark(draft, title, "title")
    if root.text and root.text.strip():
        title.tail = root.text
    root.text = None
    root.insert(0, title)
    return title


def _opens(root: etree._Element, heading: etree._Element) -> bool:
    """Is a heading the first thing of the chapter, and is none above it in rank?"""
    first = not (root.text or "").strip() and len(root) and root[0] is heading and text(heading)
    return bool(first) and all(h.tag >= heading.tag for h in root.iter(*HEADINGS))


def _mark(draft: Drafting, heading: etree._Element, kind: str) -> None:
    """Make a heading a site, the mark first, where link.py looks for it."""
    rest = dict(heading.attrib)
    heading.attrib.clear()
    heading.set("data-site", draft.site(kind, "", (0, 0)))
    heading.attrib.update(rest)


def _levels(draft: Drafting, headings: list[etree._Element]) -> None:
    """Levels from 2 without gaps: what a reader's software walks through."""
    open_levels: list[tuple[int, int]] = []  # (as written, as set)
    several = any(h.tag == "h1" for h in headings)
    for heading in headings:
        written = int(heading.tag[1])
        while open_levels and open_levels[-1][0] >= written:
            open_levels.pop()
        level = min(6, open_levels[-1][1] + 1 if open_levels else 2)
        if level < written and not several and open_levels:
            before = open_levels[-1][0]
            message = f"heading level jumps from {before} to {written}"
            draft.report_at("MDN009", line_of(heading), message, f"write {'#' * (before + 1)}", "warning")
        open_levels.append((written, level))
        heading.tag = f"h{level}"


def _assign(draft: Drafting, root: etree._Element, ids: Ids) -> None:
    """Ids for headings, own ids kept; an id used twice keeps its first place."""
    for element in root.iterdescendants():
        if not isinstance(element.tag, str):
            continue
        own = element.get("id")
        if own is not None and own in ids.written and not _is_note(element):
            message = f"id '{own}' is used twice"
            draft.report_at("MDN011", line_of(element), message, "rename one", draft.lenient)
        if element.tag in HEADINGS:
            wanted = element.attrib.pop("data-slug", None) or slug(text(element))
            element.set("id", ids.claim(own or wanted))
        elif own is not None and not _is_note(element):
            element.set("id", ids.claim(own))


def _is_note(element: etree._Element) -> bool:
    return element.get("role") == "doc-footnote" or element.get("class") == "fnref"


def _anchors(root: etree._Element, title: etree._Element) -> list[Anchor]:
    anchors = []
    for element in root.iterdescendants():
        ident = element.get("id") if isinstance(element.tag, str) else None
        if ident is None:
            continue
        line = line_of(element)
        if element is title:
            anchors.append(Anchor(ident, "chapter", text(element), 1, "", line))
        elif element.tag in HEADINGS:
            anchors.append(Anchor(ident, "section", text(element), int(element.tag[1]), "", line))
        elif element.get("role") == "doc-footnote":
            anchors.append(Anchor(ident, "footnote", "", 0, "", line))
        elif element.get("class") != "fnref":
            caption = element.find("figcaption")
            words = text(caption) if caption is not None else ""
            anchors.append(Anchor(ident, _kind(element, caption), words, 0, "", line))
    return anchors


def _kind(element: etree._Element, caption: etree._Element | None) -> str:
    """What an id names: a captioned figure, table or listing, an equation, or just a point."""
    words = (element.get("class") or "").split()
    if element.tag == "figure" and caption is not None and words:
        return _FIGURES.get(words[0], "point")
    return "equation" if words == ["math", "display"] else "point"
