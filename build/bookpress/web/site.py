"""The site: which files the web edition has, each made when asked for.

Stands between the Book and its two users: web.make() writes every file, serve.py renders the one page that
a browser asks for. In: a Book. Out: path → bytes, with the same bytes for the same Book.

Everything of ours that is no page lies under `ui-assets/`; ids that the page shell uses begin with `ui-`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .. import calculators
from ..codes import CODES
from ..facts import Facts
from ..model import Book, Chapter
from ..prove import marks
from ..templates import env, markup, text
from . import fonts, proofs, redirects, search
from .body import Body, relative

OWN = "ui-assets"
STYLES = ("css/tokens.css", "css/base.css", "css/web.css")
SCRIPTS = ("js/theme.js", "js/page.js", "js/copy.js", "js/notes.js", "js/keys.js", "js/search.js",
           "js/calculator.js")  # fmt: skip
# Ids of the page shell. A chapter that uses one of them would send its links into our furniture.
SHELL_IDS = ("ui-contents", "ui-main", "ui-search", "ui-help", "ui-top")
AUDIENCES = {
    "trainer": "You train models",
    "operator": "You run the cluster",
    "buyer": "You choose and pay for hardware",
    "platform": "You build the platform",
}
_FILE_LIMIT = 20_000_000  # bytes of a linked file that the site carries along


@dataclass(frozen=True)
class Entry:
    """A chapter in a list of pages."""

    title: str
    number: str
    url: str
    summary: str
    here: bool


@dataclass(frozen=True)
class Group:
    """A part with its chapters, as the contents show it."""

    title: str
    id: str
    entries: Sequence[Entry]


@dataclass
class Site:
    """All files of one Book's web edition. `live` adds the reloading script of `make serve`."""

    book: Book
    downloads: Sequence[str] = ()  # names of the PDF and EPUB that lie beside the site's folder
    live: bool = False
    linked: dict[str, Path] = field(default_factory=dict)  # files that pages link to

    # --- the list of files ---

    def paths(self) -> Iterator[str]:
        """Every path, pages first: rendering them finds the linked files."""
        yield from self.pages
        yield from sorted(self.files)
        yield from sorted(self.linked)

    @cached_property
    def pages(self) -> Mapping[str, Callable[[], str]]:
        pages: dict[str, Callable[[], str]] = {"index.html": self._landing}
        for chapter in self.book.chapters:
            pages[chapter.url] = lambda c=chapter: self._chapter(c)
        for path, make in (
            ("problems.html", self._problems),
            ("colophon.html", self._colophon),
            ("404.html", self._missing),
        ):
            pages.setdefault(path, make)
        for path, move in self.moved.pages.items():
            pages.setdefault(path, lambda p=path, m=move: self._moved(p, m))
        return pages

    @cached_property
    def files(self) -> Mapping[str, Callable[[], bytes]]:
        """Style sheet, script, fonts, search index, images."""
        files: dict[str, Callable[[], bytes]] = {
            f"{OWN}/book.css": lambda: self.css.encode(),
            f"{OWN}/book.js": lambda: self.script.encode(),
            f"{OWN}/search-index.js": lambda: self.search.index.encode(),
            f"{OWN}/search-text.js": lambda: self.search.texts.encode(),
            f"{OWN}/icon.svg": lambda: text("icon.svg").encode(),
        }
        for face in fonts.FACES:
            files[f"{OWN}/fonts/{face.name}"] = lambda n=face.name: self.fonts[n]
        for licence in fonts.licences():
            files[f"{OWN}/fonts/{licence.name}"] = licence.read_bytes
        for asset in self.book.assets.values():
            files[asset.path] = asset.file.read_bytes
        return files

    def read(self, path: str) -> bytes | None:
        """The bytes of one file, or None when the site has no such file."""
        if path in self.pages:
            return self.pages[path]().encode()
        if path in self.files:
            return self.files[path]()
        return self.linked[path].read_bytes() if path in self.linked else None

    # --- what pages share ---

    @cached_property
    def fonts(self) -> Mapping[str, bytes]:
        return fonts.make()

    @cached_property
    def css(self) -> str:
        sheets = [text(name) for name in STYLES]
        return fonts.rules("fonts/") + sheets[0] + night(sheets[0]) + "".join(sheets[1:])

    @cached_property
    def script(self) -> str:
        names = (*SCRIPTS, "js/reload.js") if self.live else SCRIPTS
        return "".join(text(name) for name in names)

    @cached_property
    def search(self) -> search.Index:
        return search.build(self.book)

    @cached_property
    def moved(self) -> redirects.Moves:
        return redirects.read(self.book)

    @cached_property
    def groups(self) -> tuple[tuple[str, tuple[Chapter, ...]], ...]:
        """Chapters by part, in order; empty parts are left out."""
        by_part = []
        for index, part in enumerate(self.book.parts):
            chapters = tuple(c for c in self.book.chapters if c.part == index)
            if chapters:
                by_part.append((part.title, chapters))
        return tuple(by_part)

    def contents(self, page: str) -> list[Group]:
        return [
            Group(title, f"part-{n}", [self.entry(c, page) for c in chapters])
            for n, (title, chapters) in enumerate(self.groups, 1)
        ]

    def entry(self, chapter: Chapter, page: str) -> Entry:
        url = relative(chapter.url, page)
        return Entry(chapter.title, chapter.number, url, chapter.meta.summary, chapter.url == page)

    @cached_property
    def _versions(self) -> dict[str, str]:
        """A short hash for the address of files that browsers keep, so that an update is seen at once."""
        return {
            "css": hashlib.sha256(self.css.encode()).hexdigest()[:8],
            "js": hashlib.sha256(self.script.encode()).hexdigest()[:8],
        }

    # --- links ---

    def resolve(self, target: str, page: str) -> str | None:
        """A canonical target as a URL seen from `page`; None when the site has nothing to point at."""
        kind, _, rest = target.partition(":")
        if kind == "book":
            slug, mark, fragment = rest.partition("#")
            chapter = self._by_slug.get(slug)
            return relative(chapter.url + mark + fragment, page) if chapter else None
        if kind == "asset":
            return relative(rest, page)
        path = rest.partition("#")[0]
        config, commit = self.book.config, self.book.stamp.commit
        if config.source_url:
            return config.source_url.replace("{commit}", commit or "HEAD").replace("{path}", rest)
        return relative(rest, page) if self._carry(path) else None

    def _carry(self, path: str) -> bool:
        """Without a source address a linked file travels with the site, if it is a plain, small one."""
        file = (self.book.config.root / path).resolve()
        hidden = any(part.startswith(".") for part in Path(path).parts)
        if hidden or not file.is_relative_to(self.book.config.root) or not file.is_file():
            return False
        if file.stat().st_size > _FILE_LIMIT or path in self.pages:
            return False
        if path not in self.files:
            self.linked[path] = file
        return True

    @cached_property
    def _by_slug(self) -> Mapping[str, Chapter]:
        return {c.slug: c for c in self.book.chapters}

    # --- pages ---

    def _page(self, template: str, page: str, title: str, **values: object) -> str:
        config, stamp = self.book.config, self.book.stamp
        common = {
            "book": config,
            "version": stamp.version,
            "page": page,
            "title": title,
            "home": relative("index.html", page),
            "own": relative(OWN, page),
            "root": relative("index.html", page).removesuffix("index.html"),
            "versions": self._versions,
            "contents": self.contents(page),
            "colophon": relative("colophon.html", page),
            "live": self.live,
            "description": config.description,
            "edit": "",
            "moves": self._fragments(page),
        }
        return env().get_template(template).render(common | values)

    def _chapter(self, chapter: Chapter) -> str:
        chapters = self.book.chapters
        place = chapters.index(chapter)
        body = Body(chapter, self.resolve, self._proofs(chapter), self._calculator)
        title, rest = body.head_and_rest()
        part = self.book.parts[chapter.part].title
        group = next(n for n, (_, cs) in enumerate(self.groups, 1) if chapter in cs)
        head = next((a.id for a in chapter.anchors if a.kind == "point" and a.level == 1), "")
        return self._page(
            "web/chapter.html",
            chapter.url,
            chapter.title,
            chapter=chapter,
            heading=markup(title),
            body=markup(rest),
            ids=[chapter.slug, head or _h1_id(chapter)],
            part=part,
            part_url=relative(f"index.html#part-{group}", chapter.url),
            outline=[a for a in chapter.headings if a.level == 2],
            before=self.entry(chapters[place - 1], chapter.url) if place else None,
            after=self.entry(chapters[place + 1], chapter.url)
            if place + 1 < len(chapters)
            else None,
            description=chapter.meta.summary or self.book.config.description,
            edit=self._source(chapter.path),
        )

    def _proofs(self, chapter: Chapter) -> Mapping[int, str]:
        return proofs.said(chapter, self.book.proofs.get(chapter.path, {}))

    def _calculator(self, name: str) -> str | None:
        """The definition for calculator.js; None for a table whose id only looks like a calculator's."""
        folder = self.book.config.root / self.book.config.data
        if not (folder / "calculators" / f"{name}.yaml").is_file():
            return None
        raw = json.dumps(calculators.define(Facts(folder), name), sort_keys=True)
        return raw.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

    def _source(self, path: str) -> str:
        """Where readers suggest a change: the file as it is now, not as it was at this commit."""
        url = self.book.config.source_url
        return url.replace("{commit}", "HEAD").replace("{path}", path) if url else ""

    def _landing(self) -> str:
        paths = []
        for name in sorted(
            {a for c in self.book.chapters for a in c.meta.audience}, key=_audience_order
        ):
            entries = [
                self.entry(c, "index.html") for c in self.book.chapters if name in c.meta.audience
            ]
            paths.append((AUDIENCES.get(name, name.capitalize()), entries))
        return self._page(
            "web/landing.html", "index.html", self.book.config.title,
            date=self.book.stamp.date, start=self.entry(self.book.chapters[0], "index.html"), paths=paths,
            downloads=[(name.rpartition(".")[2].upper(), f"../{name}") for name in self.downloads],
        )  # fmt: skip

    def _problems(self) -> str:
        groups: dict[str, list[tuple[str, object]]] = {}
        for code in sorted(CODES):
            groups.setdefault(code[:3], []).append((code, CODES[code]))
        return self._page(
            "web/problems.html", "problems.html", "Problems the press reports", groups=groups
        )

    def _colophon(self) -> str:
        return self._page("web/colophon.html", "colophon.html", "Colophon", stamp=self.book.stamp,
                          proofs=marks.rows(self.book))

    def _missing(self) -> str:
        return self._page("web/missing.html", "404.html", "Page not found")

    def _moved(self, page: str, target: str) -> str:
        url = relative(target, page)
        return self._page("web/moved.html", page, "This page has moved", target=url)

    def _fragments(self, page: str) -> dict[str, str]:
        return {old: relative(new, page) for old, new in self.moved.fragments.get(page, {}).items()}


def _h1_id(chapter: Chapter) -> str:
    match = re.search(r"<h1[^>]*\bid=\"([^\"]+)\"", chapter.body)
    return match[1] if match else ""


def _audience_order(name: str) -> tuple[int, str]:
    known = list(AUDIENCES)
    return (known.index(name) if name in known else len(known), name)


def night(tokens: str) -> str:
    """The dark palette again, for readers whose system asks for it and who have not chosen."""
    inside = tokens.partition(':root[data-theme="dark"] {')[2].partition("}")[0]
    return (
        '@media (prefers-color-scheme: dark) {\n:root:not([data-theme="light"]) {'
        + inside
        + "}\n}\n"
    )
