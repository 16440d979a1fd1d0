"""The ways into the EPUB: one tree of entries, for the contents page, the landmarks and the EPUB 2 ncx.

Stands inside the EPUB stage. Comes in the Book; goes out Entries (parts → chapters → sections) and the
groups of chapters, which decide where part pages stand and what is front or back matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from ebooklib import epub

from ..model import Book, Chapter
from ..pdf.front import part_number
from .pages import name_of

DEPTH = 2  # headings deeper than h2 would drown the contents page


@dataclass(frozen=True)
class Entry:
    """A line of the contents."""

    title: str
    href: str  # relative to the package folder
    children: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Group:
    """Chapters that follow one another in one part."""

    title: str  # "" outside numbered parts: as in the PDF, the others are no level of their own
    page: str  # name of the part's own page, "" when it has none
    matter: str  # frontmatter, bodymatter or backmatter
    chapters: tuple[Chapter, ...]


def groups(book: Book) -> tuple[Group, ...]:
    runs = [(i, tuple(run)) for i, run in groupby(book.chapters, key=lambda chapter: chapter.part)]
    body = [n for n, (i, _) in enumerate(runs) if book.parts[i].numbered]
    first, last = (body[0], body[-1]) if body else (0, len(runs))
    found: list[Group] = []
    for n, (part, run) in enumerate(runs):
        number = part_number(book, part)
        title = f"Part {number}: {book.parts[part].title}" if number else ""
        page = f"part-{number.lower()}.xhtml" if number else ""
        matter = "frontmatter" if n < first else "backmatter" if n > last else "bodymatter"
        found.append(Group(title, page, matter, run))
    return tuple(found)


def entries(all_groups: tuple[Group, ...]) -> tuple[Entry, ...]:
    """The contents: a part's chapters below it, a chapter's sections below the chapter."""
    found: list[Entry] = []
    for group in all_groups:
        chapters = tuple(_chapter(chapter) for chapter in group.chapters)
        found += [Entry(group.title, group.page, chapters)] if group.title else chapters
    return tuple(found)


def name(chapter: Chapter) -> str:
    """The title, or the slug of a chapter that has none: an entry without text leads nowhere."""
    return chapter.title or chapter.slug


def heading(chapter: Chapter) -> str:
    return f"{chapter.number} {name(chapter)}".strip()


def _chapter(chapter: Chapter) -> Entry:
    page = name_of(chapter.slug)
    sections = tuple(
        Entry(f"{anchor.number} {anchor.text}".strip(), f"{page}#{anchor.id}")
        for anchor in chapter.headings
        if anchor.level <= DEPTH and anchor.text
    )
    return Entry(heading(chapter), page, sections)


def ncx(tree: tuple[Entry, ...]) -> list:
    """The tree as ebooklib's ncx writer takes it; ids count on, so none comes twice."""
    count = 0

    def convert(entry: Entry):
        nonlocal count
        count += 1
        if entry.children:
            section = epub.Section(entry.title, entry.href)
            return section, [convert(child) for child in entry.children]
        return epub.Link(entry.href, entry.title, f"nav-{count}")

    return [convert(entry) for entry in tree]
