"""EPUBs for the tests: made once a session, read back as names and bytes."""

from __future__ import annotations

import functools
import io
import tempfile
import zipfile
from pathlib import Path

from lxml import etree

from bookpress import epub
from bookpress.model import Book
from bookpress.problems import Problem
from render import fixture

NS = {
    "h": "http://www.w3.org/1999/xhtml",
    "epub": "http://www.idpf.org/2007/ops",
    "opf": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
    "ncx": "http://www.daisy.org/z3986/2005/ncx/",
    "m": "http://www.w3.org/1998/Math/MathML",
}
PNG = fixture.png(8, 8)
# The fixtures' cover: the press's own belongs to the template's tests.
COVER = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 176 250" width="176mm" height="250mm">'
    '<rect width="176" height="250" fill="#123"/></svg>'
)


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="epub-test-"))


def made(book: Book, target: Path) -> tuple[dict[str, bytes], list[Problem]]:
    """Write the EPUB of `book` to `target`: its entries, and the problems."""
    problems = epub.make(book, target, target.parent / "cache", lambda *_: None)
    if not target.is_file():
        return {}, problems
    with zipfile.ZipFile(io.BytesIO(target.read_bytes())) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}, problems


@functools.cache
def whole() -> tuple[Book, Path, dict[str, bytes]]:
    """The shared fixture as an EPUB."""
    root = folder()
    (root / "cover.svg").write_text(COVER)
    book = fixture.book(root, cover="cover.svg")
    entries, problems = made(book, root / "whole.epub")
    assert problems == []
    return book, root / "whole.epub", entries


def of(*bodies: str, root: Path | None = None, **changes) -> tuple[Book, dict[str, bytes], list[Problem]]:
    """An EPUB of a few bodies."""
    root = root or folder()
    (root / "cover.svg").write_text(COVER)
    book = fixture.of_bodies(root, *bodies, **{"cover": "cover.svg"} | changes)
    entries, problems = made(book, root / "case.epub")
    return book, entries, problems


def body(inner: str, slug: str = "one", title: str = "One") -> str:
    return f'<section class="chapter" id="{slug}"><h1 id="{slug}-top">{title}</h1>{inner}</section>'


def page(entries: dict[str, bytes], slug: str = "one") -> etree._Element:
    return etree.fromstring(entries[f"EPUB/chapters/{slug}.xhtml"])


def opf(entries: dict[str, bytes]) -> etree._Element:
    return etree.fromstring(entries["EPUB/content.opf"])


def find(tree: etree._Element, path: str) -> list:
    return tree.xpath(path, namespaces=NS)
