"""Which pieces the PDF has, in reading order, and the key of each: everything that changes its bytes.

In: the Book and the style sheet. Out: Orders, from which `workers` makes jobs. Nothing here lays anything out, so
an unchanged book costs some hashing and no more.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from .. import fonts, templates
from ..cache import digest, file_digest
from ..model import Book, Chapter
from . import front
from .prepare import Setting, page
from .sheet import columns, measure

_LIBRARIES = ("weasyprint", "pydyf", "fonttools", "tinycss2", "cssselect2", "Pyphen", "pillow", "ziamath")
_CROSS = re.compile(r'href="(book:[^"]+)"')
_CHARACTERS_PER_PAGE = 2800  # of markup, on the default page: plain prose; pages with tables and links hold more
_SHARED_OBJECTS = {"libpango-1.0.so.0": "pango_version_string", "libharfbuzz.so.0": "hb_version_string"}


@dataclass(frozen=True)
class Order:
    """A piece to be made: its name, its key, and how to describe the job to a worker."""

    name: str
    key: str
    front: bool
    folio: bool
    weight: int
    chapter: Chapter | None = None
    markup: str = ""
    drawings: tuple[tuple[str, bytes], ...] = ()
    setting: Setting | None = None

    @property
    def path(self) -> str:
        """The file that findings point to."""
        return self.chapter.path if self.chapter else "book.toml"


@functools.cache
def _machine() -> str:
    """Versions of everything outside the press that shapes a page."""
    found = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    for library, function in _SHARED_OBJECTS.items():
        try:
            call = getattr(ctypes.CDLL(library), function)
        except (OSError, AttributeError):
            found.append(f"{library} unknown")  # other systems: the libraries' own versions have to do
            continue
        call.restype = ctypes.c_char_p
        found.append(f"{library} {call().decode()}")
    return "; ".join(found)


@functools.cache
def common() -> str:
    """Hash of code, templates' folder of print pages, fonts, tools: part of every key."""
    names = ("print.html", "cover.svg", "print/front.html", "print/contents.html", "print/part.html")
    pages = [templates.text(n) for n in names]
    press = Path(__file__).parents[1]
    # All modules that this package may come to import; the other outputs' packages shape no page.
    sources = [*sorted(press.glob("*.py")), *sorted((press / "pdf").glob("*.py"))]
    files = [file_digest(f) for f in [*sources, *(f.file for f in fonts.faces())]]
    return digest(_machine(), *pages, *files)


def all_orders(book: Book, css: str) -> list[Order]:
    """All pieces in reading order."""
    config = book.config
    base = Setting(config.title, config.language, columns(config), "", config.title, measure(config))
    source_url = config.source_url.replace("{commit}", book.stamp.commit or "HEAD")
    shared = digest(common(), css, repr(base))
    markup, drawings = front.front(book)
    if cover := front.cover_image(book):
        drawings = {**drawings, "cover": cover.sha256.encode()}  # part of the key
    orders = [
        _page_order(front.FRONT, page(base, config.title, markup, "front"), shared, drawings, front=True, folio=False),
        _page_order(front.CONTENTS, page(base, "Contents", front.contents(book), "contents"), shared, {}, front=True),
    ]  # fmt: skip
    first = next((n for n, c in enumerate(book.chapters) if book.parts[c.part].numbered), 0)
    pages = expected_pages(book)
    for n, chapter in enumerate(book.chapters):
        part = book.parts[chapter.part].title
        if front.opens_part(book, chapter):
            opening = page(base, part, front.part_page(book, chapter.part), "part-page")
            orders.append(_page_order(front.part_name(chapter.part), opening, shared, {}, front=n < first, folio=False))
        digits = tuple((href, len(str(pages(href)))) for href in sorted(set(_CROSS.findall(chapter.body))))
        # The address holds the commit: only chapters that link to files are laid out again for a new one.
        setting = replace(base, running=part or config.title, digits=digits,
                          source_url=source_url if 'href="file:' in chapter.body else "")  # fmt: skip
        orders.append(_chapter_order(book, chapter, setting, shared, n < first))
    return orders


def expected_pages(book: Book) -> Callable[[str], int]:
    """About which page a `book:` link will lead to, from the lengths of the bodies alone.

    Only the number of digits matters, for the room left in the line; the true number comes at the end. Rather too
    high: a digit too many leaves a gap, one too few is printed over the link. It must not depend on an earlier
    build, or two builds would differ.
    """
    starts, at = {}, 1.0
    for chapter in book.chapters:
        starts[chapter.slug] = at, chapter.body
        at += len(chapter.body) / _CHARACTERS_PER_PAGE + 0.5

    def page_of(href: str) -> int:
        slug, _, ident = href.removeprefix("book:").partition("#")
        start, body = starts.get(slug, (1.0, ""))
        inside = max(body.find(f'id="{ident}"'), 0) if ident else 0
        return int(start + inside / _CHARACTERS_PER_PAGE)

    return page_of


def _page_order(
    name: str, markup: str, shared: str, drawings: dict[str, bytes], front: bool, folio: bool = True
) -> Order:
    parts = [part for k in sorted(drawings) for part in (k, drawings[k])]
    key = digest(shared, name, markup, str(folio), *parts)
    return Order(name, key, front, folio, len(markup), markup=markup, drawings=tuple(drawings.items()))


def _chapter_order(book: Book, chapter: Chapter, setting: Setting, shared: str, front_matter: bool) -> Order:
    assets = [f"{a} {book.assets[a].sha256}" for a in chapter.assets if a in book.assets]
    key = digest(shared, chapter.slug, chapter.path, chapter.title, repr(chapter.meta), chapter.body,
                 repr(setting), *assets)  # fmt: skip
    return Order(chapter.slug, key, front_matter, True, len(chapter.body), chapter=chapter, setting=setting)
