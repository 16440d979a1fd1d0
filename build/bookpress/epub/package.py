"""Pages, images and fonts → one .epub file whose bytes depend on the book alone.

Stands at the end of the EPUB stage. ebooklib writes the manifest, spine, ncx and metadata; our pages go
in as finished bytes (its own page class rewrites what it is given). One pass over the archive then sets
what ebooklib leaves open: the package's language, and the order, times and modes of the entries.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ebooklib import epub
from lxml import etree

from ..model import Book
from .images import Image
from .pages import properties

OPF = "EPUB/content.opf"
NCX = "EPUB/toc.ncx"
XML = "http://www.w3.org/XML/1998/namespace"
PACKED = (".png", ".jpg", ".gif", ".webp")  # deflating them again gains nothing


class Package:
    """The archive as it fills up; `finish` closes it."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.ebook = epub.EpubBook()

    def add(self, name: str, mime: str, content: bytes, marks: Sequence[str] = ()) -> epub.EpubItem:
        """One file of the package. Its id comes from its name, so no two are alike."""
        ident = "cover-image" if "cover-image" in marks else "i-" + name.replace("/", "-")
        item = epub.EpubItem(uid=ident, file_name=name, media_type=mime, content=content)
        if marks:
            item.properties = list(marks)
        self.ebook.add_item(item)
        return item

    def page(self, name: str, content: bytes, nav: bool = False) -> None:
        """A page of the spine, in the order of the calls."""
        marks = [*properties(content), *(["nav"] if nav else [])]
        self.ebook.spine.append(self.add(name, "application/xhtml+xml", content, marks))

    def images(self, files: Iterable[Image], cover: Image) -> None:
        self.add(cover.name, cover.mime, cover.content, ["cover-image"])
        for image in files:
            self.add(image.name, image.mime, image.content)

    def finish(self) -> bytes:
        """The archive."""
        self.ebook.add_item(epub.EpubNcx())
        raw, made = io.BytesIO(), io.BytesIO()
        when = datetime.fromtimestamp(self.book.stamp.epoch, UTC)
        epub.EpubWriter(raw, self.ebook, {"mtime": when, "compresslevel": 0}).write()
        _repack(raw, made, when, self.book.config.language)
        return made.getvalue()


def _repack(raw: io.BytesIO, target: io.BytesIO, when: datetime, language: str) -> None:
    # ZIP knows the years 1980 to 2107 only; the true date stands in the metadata.
    date = (min(max(when.year, 1980), 2107), *when.timetuple()[1:6])
    with zipfile.ZipFile(raw) as old, zipfile.ZipFile(target, "w") as new:
        names = sorted(set(old.namelist()) - {"mimetype"})
        for name in ("mimetype", *names):
            data = old.read(name)
            if name in (OPF, NCX):
                data = _with_language(data, language)
            entry = zipfile.ZipInfo(name, date)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            stored = name == "mimetype" or name.endswith(PACKED)
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            new.writestr(entry, data, compresslevel=9)


def _with_language(data: bytes, language: str) -> bytes:
    """ebooklib writes no xml:lang: titles would be read out in the device's language (Ace: epub-lang)."""
    root = etree.fromstring(data)
    root.set(f"{{{XML}}}lang", language)
    return etree.tostring(root, encoding="utf-8", xml_declaration=True)
