"""Beside link: where a link leads. Knows every chapter, anchor and file of the book.

An author's target comes in, with the chapter it stands in; a Found goes out: the address in the body's
terms (`#ID`, `book:SLUG#ID`, `file:PATH`, a URL), or the trouble with it and the nearest thing that exists.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from .model import Anchor, Config, Draft
from .number import NAMES, Numbered, label
from .problems import near

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_REFUSED = frozenset(("javascript", "vbscript", "data", "file", "book", "asset", "view-source", "blob", "filesystem", "jar", "about"))
_TEMPLATE = re.compile(r"\{\{|\{%|%7[Bb]%7[Bb]|%7[Bb]%25")
_BLOB = re.compile(r"/(?:blob|tree|raw)/[^/]+/")


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a target."""

    code: str
    message: str
    hint: str = ""
    strict: bool = False  # worth saying only in books that know the press's cross-references


@dataclass(frozen=True)
class Found:
    """Where a target leads; `href` is "" when it leads nowhere."""

    href: str = ""
    anchor: Anchor | None = None
    trouble: Trouble | None = None


@dataclass
class _Files:
    """Files of the book by their exact names: a case-blind disk must not hide a wrong letter."""

    root: Path
    _folders: dict[str, dict[str, bool]] = field(default_factory=dict)

    def names(self, folder: str) -> dict[str, bool]:
        """Name → is it a folder."""
        if folder not in self._folders:
            try:
                with os.scandir(self.root / folder) as entries:
                    self._folders[folder] = {e.name: e.is_dir() for e in entries}
            except OSError:
                self._folders[folder] = {}
        return self._folders[folder]

    def kind(self, path: str) -> str:
        """file, folder or "" for a path relative to the book's folder."""
        if path in ("", "."):
            return "folder"
        folder, name = posixpath.split(path)
        if folder and self.kind(folder) != "folder":
            return ""
        found = self.names(folder).get(name)
        return "" if found is None else "folder" if found else "file"

    def other_case(self, path: str) -> str:
        """The path as the disk spells it, when only case differs."""
        done = ""
        for name in path.split("/"):
            names = self.names(done)
            match = name if name in names else next((n for n in names if n.lower() == name.lower()), "")
            if not match:
                return ""
            done = f"{done}/{match}" if done else match
        return done if done != path else ""


@dataclass
class Atlas:
    """All chapters' anchors and addresses."""

    config: Config
    slugs: Mapping[str, str]  # chapter path → slug
    anchors: Mapping[str, Mapping[str, Anchor]]  # chapter path → id as authors write it → anchor
    files: _Files

    @classmethod
    def of(cls, drafts: Sequence[Draft], numbered: Sequence[Numbered], config: Config) -> Atlas:
        anchors = {}
        for draft, numbers in zip(drafts, numbered, strict=True):
            known = {a.id: a for a in numbers.anchors}
            for written, actual in draft.aliases:
                if actual in known:
                    known[written] = known[actual]
            anchors[draft.source.path] = known
        slugs = {d.source.path: d.source.slug for d in drafts}
        return cls(config, slugs, anchors, _Files(config.root))

    # --- links ---

    def resolve(self, written: str, chapter: str) -> Found:
        """Where a link that stands in a chapter leads."""
        written = self._own_address(written.strip())
        if _TEMPLATE.search(written):
            message = f"'{_short(unquote(written))}' holds a tag of another press's templates"
            return Found(trouble=Trouble("LNK001", message, "write the address it stands for"))
        scheme = _SCHEME.match(written)
        if scheme and scheme.group(1).lower() in _REFUSED:
            return Found(trouble=Trouble("LNK007", f"links to '{scheme.group(1)}:' are not carried"))
        if scheme or written.startswith("//"):
            return Found(_url(written))
        path, _, fragment = written.partition("#")
        path = unquote(path.partition("?")[0])
        if not path:
            if not fragment:
                return Found(trouble=Trouble("LNK006", "a link without a target"))
            return self._anchor(chapter, fragment, chapter)
        base = "" if path.startswith("/") else posixpath.dirname(chapter)
        full = posixpath.normpath(posixpath.join(base, path.lstrip("/") or "."))
        if full == ".." or full.startswith("../"):
            if page := self._guess(full.replace("../", ""), path, fragment, chapter):
                return page
            return Found(trouble=Trouble("LNK005", f"'{path}' leads out of the book's folder"))
        return self._path(full, path, fragment, chapter)

    def _own_address(self, written: str) -> str:
        """A GitHub address of this repository as a path from the book's root, where it names a chapter."""
        home = self.config.repository.rstrip("/").removesuffix(".git")
        if not home or not written.startswith(home + "/"):
            return written
        match = _BLOB.match(written, len(home))
        if not match:
            return written
        path, mark, fragment = written[match.end() :].partition("#")
        inside = unquote(path).strip("/")
        if inside in self.slugs or self._readme(inside):
            return f"/{self._readme(inside) or inside}{mark}{fragment}"
        return written

    def _readme(self, folder: str) -> str:
        """The chapter that stands for a folder."""
        for name in ("README.md", "readme.md", "index.md"):
            path = name if folder in ("", ".") else f"{folder}/{name}"
            if path in self.slugs:
                return path
        return ""

    def _path(self, full: str, path: str, fragment: str, chapter: str) -> Found:
        if full in self.slugs:
            return self._anchor(full, fragment, chapter)
        kind = self.files.kind(full)
        readme = self._readme(full)
        if readme and fragment:
            hint = f"write {posixpath.join(path, posixpath.basename(readme))}#{fragment}"
            trouble = Trouble("LNK003", f"'{path}#{fragment}' is a folder: on GitHub the anchor is dead", hint)
            return Found(self._anchor(readme, fragment, chapter).href, None, trouble)
        if readme:
            return self._anchor(readme, "", chapter)
        if kind:
            return Found(f"file:{quote(full)}" + (f"#{fragment}" if fragment else ""))
        return self._missing(full, path, fragment, chapter)

    def _permalink(self, full: str, path: str, fragment: str, chapter: str) -> Found | None:
        """A chapter by the address of its page on the book's own web site, which only strict books may not use."""
        if self.config.features.strict:
            return None
        page = re.sub(r"(?:/index)?\.html?$|/$", "", full)
        for name in (f"{page}.md", f"{page}.markdown", f"{page}.mdx"):
            if name in self.slugs:
                return self._anchor(name, fragment, chapter)
        if readme := self._readme(page):
            return self._anchor(readme, fragment, chapter)
        return self._guess(page, path, fragment, chapter)

    def _guess(self, page: str, path: str, fragment: str, chapter: str) -> Found | None:
        """A chapter by the end of its page's address; where the rest of it leads, only the web site knows."""
        name = "" if self.config.features.strict else self._like(page)
        if not name:
            return None
        found = self._anchor(name, fragment, chapter)
        taken = Trouble("LNK001", f"no file '{path}': taken as {name}", f"write '{_relative(name, chapter)}'")
        return Found(found.href, found.anchor, found.trouble or taken)

    def _like(self, page: str) -> str:
        """The one chapter whose page has an address that ends as this one does, by as many names as fit."""
        names = page.split("/")
        if posixpath.splitext(names[-1])[1]:
            return ""  # a file of some kind, not a page
        for first in range(len(names)):
            end = "/" + "/".join(names[first:])
            same = [known for known in self.slugs if f"/{_page(known)}".endswith(end)]
            if same:
                return same[0] if len(same) == 1 else ""
        return ""

    def _missing(self, full: str, path: str, fragment: str, chapter: str) -> Found:
        if page := self._permalink(full, path, fragment, chapter):
            return page
        spelt = self.files.other_case(full)
        if spelt:
            right = self._path(spelt, path, fragment, chapter)
            hint = f"write '{_relative(spelt, chapter)}'"
            trouble = Trouble("LNK004", f"'{path}' differs in upper and lower case from the file", hint)
            return Found(right.href, right.anchor, trouble)
        folder = posixpath.dirname(full)
        known = [posixpath.join(folder, n) for n in self.files.names(folder)] + sorted(self.slugs)
        guess = near(full, known)
        match = re.search(r"'(.+)'", guess)
        hint = f"did you mean '{_relative(match.group(1), chapter)}'?" if match else ""
        return Found(trouble=Trouble("LNK001", f"no file '{path}'", hint))

    def _anchor(self, path: str, fragment: str, chapter: str) -> Found:
        address = "" if path == chapter else f"book:{self.slugs[path]}"
        known = self.anchors[path]
        if not fragment:
            first = next((a for a in known.values() if a.kind == "chapter"), None)
            return Found(address or f"#{self.slugs[path]}", first)
        written = unquote(fragment).removeprefix("user-content-")
        anchor = known.get(written)
        if anchor:
            return Found(f"{address}#{quote_fragment(anchor.id)}", anchor)
        if written == self.slugs[path] or written == "top":
            return Found(address or f"#{self.slugs[path]}")
        other = next((a for i, a in known.items() if i.lower() == written.lower()), None)
        where = f" in {path}" if path != chapter else ""
        trouble = Trouble("LNK002", f"no anchor '#{fragment}'{where}", near(written, known))
        if other:
            return Found(f"{address}#{quote_fragment(other.id)}", other, trouble)
        return Found(address, None, trouble)

    # --- images ---

    def image(self, written: str, chapter: str) -> str:
        """The file of an image, relative to the book's folder; "" when there is none (figures.py says so)."""
        if _SCHEME.match(written) or written.startswith("//"):
            return ""
        path = unquote(written.partition("#")[0].partition("?")[0])
        base = "" if path.startswith("/") else posixpath.dirname(chapter)
        full = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
        if full.startswith("..") or self.files.kind(full) != "file":
            return ""
        return full


def reference(words: str, found: Found) -> tuple[str | None, Trouble | None]:
    """Text of a cross-reference by number. None: keep the author's words, it is an ordinary link."""
    anchor = found.anchor
    if anchor is None:
        return (None, None) if words or found.trouble else (None, _no_number(found))
    if words and NAMES.get(anchor.kind, "").lower() != words.lower():
        hint = "caption it, or link longer words"
        return None, Trouble("NUM002", f"'{found.href}' is no numbered {words.lower()}", hint, strict=True)
    written = label(anchor)
    return (written, None) if written else (None, _no_number(found))


def _no_number(found: Found) -> Trouble:
    hint = "give it a caption, or the link a text"
    return Trouble("NUM001", f"'{found.href}' has no number to refer to", hint)


def quote_fragment(ident: str) -> str:
    """An id as a URL fragment; letters of all scripts stay readable."""
    return re.sub(r'[\s"<>%`{}|\\^]', lambda m: quote(m[0]), ident)


def _url(written: str) -> str:
    """An external address that is valid where authors were generous."""
    return re.sub(r'[\s"<>`{}|\\^]|%(?![0-9A-Fa-f]{2})', lambda m: quote(m[0]), written)


def _page(path: str) -> str:
    """The address that a chapter's page has on most web sites."""
    stem = posixpath.splitext(path)[0]
    folder, name = posixpath.split(stem)
    return folder if name.lower() in ("readme", "index") else stem


def _short(words: str) -> str:
    return words if len(words) <= 60 else words[:57] + "…"


def _relative(path: str, chapter: str) -> str:
    return quote(posixpath.relpath(path, posixpath.dirname(chapter) or "."))
