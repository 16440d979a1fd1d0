"""The EPUB edition: Book → one EPUB 3.3 file that EPUB 2 readers open too.

Stands beside pdf and web at the end of the pipeline. `make` is the whole stage: pages.py writes chapters,
navigation.py the ways in, images.py and typefaces.py what travels along, metadata.py what the package
says of itself, package.py the archive. The same Book gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata as metadata_of
from pathlib import Path

from lxml import etree

from .. import fonts
from ..cache import Cache, digest, file_digest, press_digest
from ..model import Book
from ..pdf.front import facts
from ..problems import Problem
from ..prove import marks
from ..templates import FOLDER, env, text
from . import images, metadata, navigation, typefaces
from .package import Package
from .pages import Page, chapter_page, line_map, name_of

__all__ = ["chapter_lines", "line_map", "make"]



VERIFY = "sha256sum --check --ignore-missing SHA256SUMS"


def make(
    book: Book, target: Path, cache: Path, progress: Callable[[str, int, int], None]
) -> list[Problem]:
    """Write the EPUB of `book` to `target`; the problems found on the way."""
    store, wanted = Cache(cache), _key(book)
    key, data = store.get("last", book.config.slug) or ("", b"")
    problems: list[Problem] = []
    if key != wanted:
        data, problems = _made(book, cache, progress)
        if data and not problems:  # what has problems is made again, to find them again
            store.put("last", book.config.slug, (wanted, data))
    if data:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(target.name + ".part")
        scratch.write_bytes(data)
        scratch.replace(target)
    progress("epub", len(book.chapters), len(book.chapters))
    return problems


def _key(book: Book) -> str:
    """Everything that shapes the file: the book, this code, templates, fonts and libraries."""
    shells = sorted(p for p in FOLDER.glob("*.xhtml"))
    files = [*shells, FOLDER / "cover.svg", FOLDER / "css/epub.css", book.config.root / book.config.cover]
    files += [face.file for face in fonts.faces()]
    versions = [metadata_of.version(name) for name in ("EbookLib", "fonttools", "lxml", "resvg-py")]
    assets = repr(sorted((asset.path, asset.sha256) for asset in book.assets.values()))
    return digest(
        press_digest(), *map(file_digest, files), *versions, assets,
        repr(book.config), repr(book.stamp), repr(book.parts), repr(book.chapters), repr(book.proofs),
    )  # fmt: skip


def _made(
    book: Book, cache: Path, progress: Callable[[str, int, int], None]
) -> tuple[bytes, list[Problem]]:
    """The file, and what was found on the way; no file when a page cannot be read back."""
    names, files = images.images(book)
    groups = navigation.groups(book)
    chapters: dict[str, Page] = {}
    for group in groups:
        for chapter in group.chapters:
            progress("epub", len(chapters), len(book.chapters))
            chapters[name_of(chapter.slug)] = chapter_page(book, chapter, names, group.matter)
    problems = [problem for page in chapters.values() for problem in page.problems]
    if any(not page.content for page in chapters.values()):
        return b"", problems

    package = Package(book)
    cover = images.cover(book, cache)
    package.ebook.toc = navigation.ncx(navigation.entries(groups))
    faces = _faces(book, chapters, cache)
    for name, content in _pages(book, groups, cover, chapters, faces):
        package.page(name, content, nav=name == "nav.xhtml")
    package.images(files, cover)
    _style(package, faces)
    pages = {name: page.content for name, page in chapters.items()}
    has_images, described = images.described(pages)
    mathml = any(b"<math" in content for content in pages.values())
    contents = metadata.Contents(has_images, described, mathml, images.moving(files))
    metadata.describe(package.ebook, book, contents)
    return package.finish(), problems


def chapter_lines(book: Book) -> dict[str, tuple[str, Callable[[int, int], int]]]:
    """For findings in the finished file: page name → (Markdown path, place in the page → line there)."""
    names, _ = images.images(book)
    return {name_of(c.slug): (c.path, line_map(book, c, names)) for c in book.chapters}


def _pages(
    book: Book,
    groups: tuple[navigation.Group, ...],
    cover: images.Image,
    chapters: dict[str, Page],
    faces: tuple[typefaces.Typeface, ...],
) -> Iterator[tuple[str, bytes]]:
    """Every page in reading order."""

    def shell(template: str, title: str, **values) -> bytes:
        page = env().get_template(template)
        return page.render(book=book, title=title, css="css/epub.css", **values).encode()

    start = next((g for g in groups if g.matter == "bodymatter"), None)
    text_start = [(start.matter, "Start of the text", start.page or name_of(start.chapters[0].slug))] if start else []
    yield "cover.xhtml", shell("cover.xhtml", "Cover", image=cover.name)
    yield "title.xhtml", shell("titlepage.xhtml", book.config.title)
    tree = navigation.entries(groups)
    yield "nav.xhtml", shell("nav.xhtml", "Contents", entries=tree, landmarks=text_start)
    for group in groups:
        if group.page:
            lines = [(navigation.heading(c), name_of(c.slug), c.meta.summary) for c in group.chapters]
            yield group.page, shell("part.xhtml", group.title, chapters=lines)
        for chapter in group.chapters:
            name = name_of(chapter.slug)
            yield name, chapters[name].content
    licenses = [("Prose, figures", book.config.license), ("Code", book.config.license_code)]
    licenses += dict.fromkeys((face.family, face.spdx) for face in faces)
    yield "colophon.xhtml", shell(
        "colophon.xhtml", "About this copy", facts=facts(book), proofs=marks.rows(book), fonts=bool(faces),
        licenses=[row for row in licenses if row[1]], command=VERIFY,
    )  # fmt: skip


def _faces(book: Book, chapters: dict[str, Page], cache: Path) -> tuple[typefaces.Typeface, ...]:
    signs: set[str] = set()
    for page in chapters.values():
        for element in etree.fromstring(page.content).iter("{*}code", "{*}kbd", "{*}samp"):
            signs.update("".join(element.itertext()))
    if not signs:
        return ()
    signs.update(book.stamp.commit + VERIFY)  # the colophon sets them as code
    return typefaces.typefaces("".join(sorted(signs)), cache)


def _style(package: Package, faces: tuple[typefaces.Typeface, ...]) -> None:
    """The style sheet, and the faces it names."""
    sheet = typefaces.rules(faces, "../") + text("css/epub.css")
    package.add("css/epub.css", "text/css", sheet.encode())
    for face in faces:
        package.add(face.name, "font/ttf", face.content)
    for name in dict.fromkeys(face.license for face in faces):
        package.add(typefaces.FOLDER + name, "text/plain", typefaces.license_text(name))
