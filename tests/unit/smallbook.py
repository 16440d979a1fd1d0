"""Small chapters for the tests of the reading half, and what every body must satisfy."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from bookpress import link, parse
from bookpress.html import HEADINGS, PHRASING
from bookpress.model import (
    Book,
    Config,
    Draft,
    Expanded,
    Features,
    FrontMatter,
    Part,
    Source,
    Stamp,
)
from bookpress.problems import Problem

STAMP = Stamp("1", "", False, 0, "2026-11-30", {})
_MATH = "{http://www.w3.org/1998/Math/MathML}math"
_ONLY = {
    "ul": {"li"}, "ol": {"li"}, "table": {"caption", "thead", "tbody", "tfoot"}, "thead": {"tr"},
    "tbody": {"tr"}, "tfoot": {"tr"}, "tr": {"td", "th"}, "dl": {"dt", "dd", "div"},
}  # fmt: skip


def config_of(root: Path, paths: tuple[str, ...] = ("a.md",), **features: bool) -> Config:
    part = Part("", paths)
    return Config(root, root / "book.toml", "T", "t", "1", features=Features(**features), parts=(part,))


def expanded_of(path: str, text: str, first: int = 1, title: str = "") -> Expanded:
    slug = path.removesuffix(".md").replace("/", "-")
    source = Source(path, slug, f"{slug}.html", 0, FrontMatter(title=title), text, first)
    return Expanded(source, text, tuple(range(first, first + text.count("\n") + 1)))


def draft_of(root: Path, text: str, path: str = "a.md", **features: bool) -> Draft:
    """One chapter parsed alone."""
    return parse.parse(expanded_of(path, text), config_of(root, (path,), **features))


def tree_of(root: Path, text: str, **features: bool) -> etree._Element:
    return etree.fromstring(draft_of(root, text, **features).body)


def book_of(root: Path, texts: dict[str, str], **features: bool) -> tuple[Book, list[Problem]]:
    """A whole book read and linked; the chapters' files are written too."""
    config = config_of(root, tuple(texts), **features)
    drafts = []
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        drafts.append(parse.parse(expanded_of(path, text), config))
    book, problems = link.link(drafts, config, STAMP)
    return book, [p for d in drafts for p in d.problems] + problems


def codes(problems) -> list[str]:
    return [p.code for p in problems]


def assert_valid(body: str) -> etree._Element:
    """What EPUB's schema asks of a body, as far as nesting, lists, tables and ids go."""
    root = etree.fromstring(body)
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)), f"repeated ids: {sorted(ids)}"
    for element in root.iter(etree.Element):
        tag = element.tag
        children = [c.tag for c in element]
        if tag in HEADINGS | {"p", "pre", "dt"} | PHRASING - {"a", "ins", "del"}:
            wrong = [c for c in children if c not in PHRASING and c != _MATH and c != "button"]
            assert not wrong, f"<{wrong[0]}> in <{tag}>: {etree.tostring(element)[:200]}"
        if tag in _ONLY:
            assert children, f"empty <{tag}>"
            assert set(children) <= _ONLY[tag], f"{children} in <{tag}>"
            assert not (element.text or "").strip(), f"text in <{tag}>"
        if tag == "a":
            assert element.find(".//a") is None, "a link in a link"
            target = element.get("href", "")
            assert not target.startswith("#") or target[1:] in ids, f"dead {target}"
        assert tag != "details" or children[0] == "summary"
        assert not {"style", "align", "width_", "onclick", "data-site"} & set(element.attrib), element.attrib
    return root
