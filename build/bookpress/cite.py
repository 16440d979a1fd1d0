"""Citations: `[@key]` in the text of a chapter, the list of works cited at the end of the book.

parse marks each citation as a site (`mark`), link reads data/bibliography.yaml, numbers the works in order
of first use and adds a chapter that lists them with ways back (`Works`). Books without the file keep `[@x]`
as text. A citation and its entry meet over files (pandoc#2163 loses them there).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import yaml
from lxml import etree

from .drafting import Drafting
from .html import line_of
from .model import Anchor, Chapter, Config, FrontMatter, Site
from .problems import Problem, near

FILE = "bibliography.yaml"
SLUG = "bibliography"
_KEY = r"@[\w][\w:.#$%&+?<>~/-]*"
_CITATION = re.compile(rf"\[({_KEY}(?:\s*;\s*{_KEY})*)\]")
_KNOWN = ("title", "author", "authors", "year", "date", "url", "accessed", "publisher", "note", "doi")


def file(config: Config) -> Path:
    """Where a book keeps its bibliography, whether or not it has one."""
    return config.root / config.data / FILE


def mark(draft: Drafting, element: etree._Element) -> None:
    """Turn the citations in an element's own text into sites."""
    for child in (None, *element):
        words = element.text if child is None else child.tail
        match = _CITATION.search(words or "")
        if not match:
            continue
        before, after = words[: match.start()], words[match.end() :]
        place = draft.find(draft.row(line_of(element)), match.group(0))
        keys = " ".join(k.strip().removeprefix("@") for k in match.group(1).split(";"))
        site = etree.Element("span", {"data-site": draft.site("cite", keys, place)})
        site.tail = after
        if child is None:
            element.text = before
            element.insert(0, site)
        else:
            child.tail = before
            child.addnext(site)
            site.tail = after
        mark(draft, element)  # the rest of this text, now behind the new site
        return


@dataclass
class Works:
    """The works of data/bibliography.yaml, and where the book cites them."""

    config: Config
    slug: str = SLUG
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, list[str]] = field(default_factory=dict)  # key → hrefs of its citations
    problems: list[Problem] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"{self.config.data}/{FILE}"

    @classmethod
    def read(cls, config: Config, taken: set[str]) -> Works:
        """Load the file; a book without it has no works."""
        works = cls(config, SLUG if SLUG not in taken else "works-cited")
        if not file(config).is_file():
            return works
        text = file(config).read_text(encoding="utf-8")
        try:
            data = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            mark_ = getattr(error, "problem_mark", None)
            works._report("LNK009", mark_.line + 1 if mark_ else 1, "not valid YAML")
            return works
        if not isinstance(data, dict):
            works._report("LNK009", 1, "not a mapping of keys to works")
            return works
        rows = text.split("\n")
        works.lines = {
            str(k): next((n for n, r in enumerate(rows, 1) if r.strip("'\" ").startswith(f"{k}")), 1)
            for k in data
        }
        works.entries = {str(k): v for k, v in data.items() if works._is_work(str(k), v)}
        return works

    def _report(self, code: str, line: int, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.path, line, 1, code, message, hint))

    def _is_work(self, key: str, value: object) -> bool:
        if not isinstance(value, dict) or not value.get("title"):
            self._report("LNK009", self.lines[key], f"work '{key}' has no title")
            return False
        for name in value:
            if name not in _KNOWN:
                hint = near(str(name), _KNOWN)
                self._report("LNK009", self.lines[key], f"work '{key}': unknown key '{name}'", hint)
        return True

    def cite(self, site: Site, slug: str, ident: str, path: str, problems: list[Problem]) -> str:
        """Markup of one citation: numbers in order of first use, each a link to its work."""
        links = []
        for n, key in enumerate(site.value.split(" ")):
            if key not in self.entries:
                message = f"no work '{key}' in {self.path}"
                hint = near(key, self.entries)
                problems.append(Problem(path, site.line, site.col, "LNK008", message, hint))
                links.append(escape(key))
                continue
            back = f"{ident}-{n + 1}" if n else ident
            self.used.setdefault(key, []).append(f"book:{slug}#{back}")
            number = list(self.used).index(key) + 1
            links.append(f'<a class="cite" id="{back}" href="book:{self.slug}#ref-{number}">{number}</a>')
        return f'<span class="citation">[{", ".join(links)}]</span>'

    def chapter(self, part: int) -> Chapter:
        """The list of works cited, as a chapter of the back matter."""
        head = f"{self.slug}-title"
        items = []
        for number, (key, places) in enumerate(self.used.items(), 1):
            back = " ".join(
                f'<a class="fnback" role="doc-backlink" href="{href}">↩</a>' for href in places
            )
            line = self.lines.get(key, 1)
            words = _reference(self.entries[key])
            items.append(f'<li id="ref-{number}" data-line="{line}">{words} {back}</li>')
        body = (
            f'<section class="chapter" id="{self.slug}"><h1 id="{head}" data-line="1">Bibliography</h1>'
            f'<ol class="bibliography" data-line="1">{"".join(items)}</ol></section>'
        )
        anchors = (
            Anchor(head, "chapter", "Bibliography", 1, "", 1),
            *(Anchor(f"ref-{n + 1}", "point", "", 0, "", 1) for n in range(len(self.used))),
        )
        return Chapter(
            slug=self.slug, path=self.path, url=f"{self.slug}.html", part=part, number="",
            title="Bibliography", meta=FrontMatter(title="Bibliography"), body=body, anchors=anchors,
            fences=(), assets=(),
        )  # fmt: skip


def _reference(work: Mapping[str, Any]) -> str:
    """One work: Author. Title. Publisher, year. URL (accessed date). Note."""
    people = work.get("author") or work.get("authors") or ""
    if isinstance(people, list):
        people = ", ".join(str(p) for p in people)
    parts = [f"{escape(str(people).rstrip('.'))}." if people else "", f"<cite>{escape(str(work['title']))}</cite>."]
    issue = ", ".join(str(work[k]) for k in ("publisher", "year") if work.get(k))
    issue = issue or str(work.get("date") or "")
    parts.append(f"{escape(issue)}." if issue else "")
    doi = str(work.get("doi") or "")
    url = str(work.get("url") or (f"https://doi.org/{doi}" if doi else ""))
    if url:
        seen = f" (accessed {escape(str(work['accessed']))})" if work.get("accessed") else ""
        parts.append(f'<a href="{escape(url)}">{escape(url)}</a>{seen}.')
    if work.get("note"):
        parts.append(escape(str(work["note"])))
    return " ".join(p for p in parts if p)
