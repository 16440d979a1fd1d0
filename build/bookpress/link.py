"""Stage 4: Drafts → Book. Resolves every link, image, cross-reference and citation once, for all outputs.

Works on cached drafts without parsing their bodies again: what depends on other chapters stands in the body
as an element marked `data-site="N"`, and one pass of substitution fills all of them in. A link that leads
nowhere never reaches an output (WeasyPrint and Prince only log it).
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from . import number, target
from .cite import Works
from .model import Asset, Book, Chapter, Config, Draft, Part, Site, Stamp
from .number import Numbered
from .problems import Problem
from .target import Atlas

_SITE = re.compile(r'<(\w+) data-site="(\d+)"([^>]*?)(/?)>')
_EMPTY_SITE = re.compile(r'<(span) data-site="(\d+)"([^>]*?)(?:/>|></span>)')
_HREF = re.compile(r' (?:href|src)="[^"]*"')
_ALT = re.compile(r' alt="([^"]*)"')
_SIGNS = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_MIME = {".svg": "image/svg+xml", ".webp": "image/webp", ".avif": "image/avif"}


def _kind(file: Path) -> str:
    """What a bitmap's first bytes say it is: names lie, and EPUBCheck reads the bytes."""
    with file.open("rb") as stream:
        head = stream.read(12)
    if head[:4] == b"RIFF" and head[8:] == b"WEBP":
        return "image/webp"
    return next((mime for sign, mime in _SIGNS if head.startswith(sign)), "")


def link(drafts: Sequence[Draft], config: Config, stamp: Stamp) -> tuple[Book, list[Problem]]:
    """Make the book. Out: the book, and what could not be resolved."""
    numbered = number.number(drafts, config)
    atlas = Atlas.of(drafts, numbered, config)
    works = Works.read(config, {d.source.slug for d in drafts})
    problems: list[Problem] = list(works.problems)
    assets: dict[str, Asset] = {}
    chapters = []
    for draft, numbers in zip(drafts, numbered, strict=True):
        filler = _Filler(draft, numbers, config, atlas, works, assets)
        chapters.append(filler.chapter())
        problems += filler.problems
    parts = config.parts
    if works.used:
        parts, part = _back_matter(parts, works.path)
        chapters.append(works.chapter(part))
    ordered = dict(sorted(assets.items()))
    return Book(config, stamp, parts, tuple(chapters), ordered), problems


def _back_matter(parts: tuple[Part, ...], path: str) -> tuple[tuple[Part, ...], int]:
    """Parts with the bibliography in them: in the unnumbered last part, or in one of its own."""
    if parts and not parts[-1].numbered:
        last = Part(parts[-1].title, (*parts[-1].chapters, path), False)
        return (*parts[:-1], last), len(parts) - 1
    return (*parts, Part("", (path,), False)), len(parts)


@dataclass
class _Filler:
    """Fills the sites of one chapter."""

    draft: Draft
    numbers: Numbered
    config: Config
    atlas: Atlas
    works: Works
    assets: dict[str, Asset]
    problems: list[Problem] = field(default_factory=list)
    own_assets: dict[str, None] = field(default_factory=dict)  # in order of first use
    _cites: int = 0

    def chapter(self) -> Chapter:
        draft, source = self.draft, self.draft.source
        body = draft.body
        if draft.sites:
            if any(s.kind in ("cite", "equation") for s in draft.sites):
                body = _EMPTY_SITE.sub(self._empty, body)
            body = _SITE.sub(self._fill, body)
        return Chapter(
            slug=source.slug, path=source.path, url=source.url, part=source.part,
            number=self.numbers.chapter, title=draft.title, meta=source.meta, body=body,
            anchors=self.numbers.anchors, fences=draft.fences, assets=tuple(self.own_assets),
        )  # fmt: skip

    def _report(self, site: Site, found: target.Trouble) -> None:
        if found.strict and not self.config.features.strict:
            return
        level = "error" if self.config.features.strict else "warning"
        path = self.draft.source.path
        problem = Problem(path, site.line, site.col, found.code, found.message, found.hint, level)
        self.problems.append(problem)

    def _empty(self, match: re.Match) -> str:
        """Elements that hold nothing but what the book gives them."""
        index = int(match[2])
        site = self.draft.sites[index]
        if site.kind == "cite":
            self._cites += 1
            slug, path = self.draft.source.slug, self.draft.source.path
            return self.works.cite(site, slug, f"cite-{self._cites}", path, self.problems)
        value = self.numbers.sites.get(index)
        return f"<span{match[3]}>({value})</span>" if value else ""

    def _fill(self, match: re.Match) -> str:
        tag, index, rest = match[1], int(match[2]), match[3]
        site = self.draft.sites[index]
        if site.kind == "link":
            return self._link(site, rest)
        if site.kind == "image":
            return self._image(site, rest, match[4])
        value = self.numbers.sites.get(index, "")
        if not value:
            return f"<{tag}{rest}>"
        if site.kind in ("title", "section"):
            return f'<{tag}{rest}><span class="number">{value}</span> '
        name = number.NAMES[site.kind]
        return f'<{tag}{rest}><span class="label">{name} {value}</span> '

    def _link(self, site: Site, rest: str) -> str:
        found = self.atlas.resolve(site.value, self.draft.source.path)
        if found.trouble:
            self._report(site, found.trouble)
        words = ""
        if 'class="xref"' in rest:
            words, trouble = target.reference(site.text, found)
            if trouble:
                self._report(site, trouble)
            if words is None:
                words, rest = escape(site.text or site.value), rest.replace(' class="xref"', "")
            else:
                words = escape(words)
        href = f' href="{escape(found.href)}"' if found.href else ""
        rest = _HREF.sub("", rest, count=1)
        return f"<a{href}{rest}>{words}"

    def _image(self, site: Site, rest: str, slash: str) -> str:
        path = self.atlas.image(site.value, self.draft.source.path)
        if not path:
            # figures.py has reported it; where the book goes on, the words stand in for the picture.
            alt = _ALT.search(rest)
            words = (alt and alt.group(1)) or escape(site.value.rpartition("/")[2][:80])
            return f'<span class="missing-image">{words}</span>'
        if path not in self.assets:
            self.assets[path] = self._asset(path)
        self.own_assets.setdefault(path)
        return f'<img src="asset:{escape(path)}"{_HREF.sub("", rest, count=1)}{slash}>'

    def _asset(self, path: str) -> Asset:
        file = self.config.root / path
        mime = _kind(file) or _MIME.get(file.suffix.lower()) or mimetypes.guess_type(path)[0]
        sha = dict(self.draft.reads).get(path, "")
        return Asset(path, file, mime or "application/octet-stream", sha)
