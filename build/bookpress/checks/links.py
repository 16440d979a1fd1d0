"""Every link inside the web edition and the EPUB leads to a file and an anchor that exist.

Stands after the outputs and trusts nothing before it: it reads the finished files only, so it also finds
what a template or a style sheet points to. Links to other sites are not followed.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lxml import etree, html

from .. import epub
from ..model import Book
from ..problems import Problem

_URL = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)""")
_ATTRIBUTES = ("href", "src", "data", "poster", "{http://www.w3.org/1999/xlink}href")


@dataclass(frozen=True)
class Link:
    page: str  # file that holds it
    line: int  # of that file
    target: str  # as written


def check_epub(file: Path, book: Book) -> list[Problem]:
    with zipfile.ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    trees = {
        name: etree.fromstring(data)
        for name, data in files.items()
        if name.endswith((".xhtml", ".opf", ".ncx", ".svg"))
    }
    dead = list(_dead(trees, _sheets(files), set(files)))
    lines = epub.chapter_lines(book) if dead else {}
    made = []
    for link, why in dead:
        path, to_markdown = lines.get(link.page.removeprefix("EPUB/"), (file.name, lambda line, column: 0))
        message = f"{link.target} in {link.page}: {why}"
        made.append(Problem(path, to_markdown(link.line, 0), 0, "CHK002", message))
    return made


def check_web(folder: Path, book: Book) -> list[Problem]:
    names = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    trees, sheets = {}, {}
    for name, path in names.items():
        if name.endswith(".html"):
            trees[name] = html.document_fromstring(path.read_bytes(), html.HTMLParser(encoding="utf-8"))
        elif name.endswith(".svg"):
            trees[name] = etree.parse(str(path)).getroot()
        elif name.endswith(".css"):
            sheets[name] = path.read_text(encoding="utf-8")
    sources = {chapter.url: chapter.path for chapter in book.chapters}
    # The landing page offers the PDF and EPUB that lie beside the site's folder.
    beside = {f"../{p.name}" for p in folder.parent.iterdir() if p.is_file()}
    return [
        Problem(sources.get(link.page, link.page), 0, 0, "CHK002", f"{link.target} in {link.page}: {why}")
        for link, why in _dead(trees, sheets, set(names) | beside, index="index.html")
    ]


def _sheets(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: data.decode() for name, data in files.items() if name.endswith(".css")}


def _dead(
    trees: Mapping[str, etree._Element], sheets: Mapping[str, str], files: set[str], index: str = ""
) -> Iterator[tuple[Link, str]]:
    """Links with no target, each with the reason. `index` is what a link to a folder opens."""
    anchors = {name: _anchors(tree) for name, tree in trees.items()}
    for name in sorted(trees):
        for link in _links(name, trees[name]):
            why = _why_dead(link, files, anchors.get, index)
            if why:
                yield link, why
    for name in sorted(sheets):
        for target in _URL.findall(sheets[name]):
            why = _why_dead(Link(name, 0, target), files, anchors.get, index)
            if why:
                yield Link(name, 0, target), why


def _anchors(tree: etree._Element) -> frozenset[str]:
    found = set(tree.xpath("//@id")) | set(tree.xpath("//*[local-name()='a']/@name"))
    return frozenset(found)


def _links(page: str, tree: etree._Element) -> Iterator[Link]:
    for element in tree.iter(etree.Element):
        for name in _ATTRIBUTES:
            value = element.get(name)
            if value is not None:
                yield Link(page, element.sourceline or 0, value.strip())
        for candidate in (element.get("srcset") or "").split(","):
            if candidate.strip():
                yield Link(page, element.sourceline or 0, candidate.split()[0])


def _why_dead(
    link: Link, files: set[str], anchors: Callable[[str], frozenset[str] | None], index: str
) -> str:
    parts = urlsplit(link.target)
    if parts.scheme or parts.netloc:
        return "" if parts.scheme not in ("file", "book", "asset") else "not an address outside the press"
    path = unquote(parts.path)
    if path.startswith("/"):
        return "leads out of the folder of this edition"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(link.page), path)) if path else link.page
    if index and (path.endswith("/") or target == "."):
        target = posixpath.normpath(posixpath.join(target, index))
    if target.startswith("..") and target not in files:
        return "leads out of the folder of this edition"
    if target not in files:
        return "no such file"
    anchor = unquote(parts.fragment)
    known = anchors(target)
    if anchor and known is not None and anchor not in known:
        return "no such anchor"
    return ""
