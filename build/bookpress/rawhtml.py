"""Beside parse: the raw HTML of a chapter, tag by tag, through the allow-list into the builder.

Python's own tokenizer reads each piece; what it calls a tag and no browser knows (`<rank>`, `<pad>`) is
text that lost its backticks (hermes, vitess, azure-cli all lost words that way), so it is shown as written
and reported. In books that are not strict, a tag that has values, ends itself or has an end tag is a component
of another press (`<Tabs>`, `<Listing number="1">`): it goes, its content stays.
"""

from __future__ import annotations

import re
from functools import cached_property
from html.parser import HTMLParser

from .drafting import Drafting
from .html import ALLOWED, INTERACTIVE, OPAQUE, RENAMED, TRANSPARENT, clean
from .markup import Builder, Place

_END_TAG = re.compile(r"</([A-Za-z][^\s>/]*)\s*>")
_LINKED = {"a": "href", "img": "src"}


class RawReader(HTMLParser):
    """Feeds pieces of raw HTML into a Builder."""

    def __init__(self, draft: Drafting, builder: Builder):
        super().__init__(convert_charrefs=True)
        self._first = False  # inside <pre>, before its first character
        self.draft, self.builder = draft, builder
        self._base: Place = (1, 1)
        self._inline = False
        self._skip: list[str] = []  # open tags whose content is dropped
        self._components: dict[str, int] = {}  # of another press: how often open

    def read(self, piece: str, place: Place, inline: bool = False) -> None:
        """Take in one piece that begins at a place of the expanded text."""
        self.reset()
        self._base, self._inline = place, inline
        opened = piece.rfind("<!--")
        if opened >= 0 and "-->" not in piece[opened:]:
            row = place[0] + piece.count("\n", 0, opened)
            message = "a comment is not closed: what follows is hidden"
            self.draft.report("MDN003", (row, 1), message, "add -->", self.draft.lenient)
            piece = piece[:opened]
        self.feed(piece)
        self.close()

    def _place(self) -> Place:
        row, offset = self.getpos()
        return self._base[0] + row - 1, offset + (self._base[1] if row == 1 else 1)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        place = self._place()
        self.builder.line = str(self.draft.line(place[0]))
        if self._skip:
            self._skip += [tag] if tag == self._skip[0] else []
            return
        if tag in OPAQUE:
            if self._ends(tag, place[0]):
                self._skip.append(tag)
                self.builder.muted = True
            hint = "write math as $…$" if tag == "math" else "put an image in a file" if tag == "svg" else ""
            self.draft.report("MDN002", place, f"<{tag}> is not carried", hint, self.draft.lenient)
            return
        name = RENAMED.get(tag, tag)
        if name in TRANSPARENT:
            return
        if name in INTERACTIVE:
            message = f"<{tag}> has no place in a book; its text stays"
            self.draft.report("MDN002", place, message, level=self.draft.lenient)
            return
        if name not in ALLOWED:
            shown = self.get_starttag_text() or f"<{tag}>"
            if self.draft.config.features.strict or not self._is_component(tag, shown, attrs, place[0]):
                self._literal(shown, place)
            else:
                self._component(tag, shown, place)
            return
        given = dict(reversed(attrs))  # the first of a repeated attribute counts, as in HTML
        kept = clean(name, given)
        if tag == "center":
            kept["class"] = "center"
        self._linked(name, kept, place)
        if name == "img" and "src" not in kept:
            self.draft.report("MDN002", place, "<img> without src", level=self.draft.lenient)
            return
        self.builder.start_tag(name, kept, place, self.builder.line)
        if name == "pre":
            self._first = True

    def _ends(self, tag: str, row: int) -> bool:
        """Is there an end tag soon? A lone <title> in a sentence must not swallow the chapter."""
        rows = self.draft.rows[row - 1 : row + (4 if self._inline else 400)]
        return any(f"</{tag}" in text.lower() for text in rows)

    def _linked(self, name: str, kept: dict[str, str], place: Place) -> None:
        """Give a link or image its site, the mark first."""
        target = kept.get(_LINKED.get(name, ""))
        if target is not None:
            kind = "link" if name == "a" else "image"
            rest = dict(kept)
            kept.clear()
            kept["data-site"] = self.draft.site(kind, target.strip(), place)
            kept.update(rest)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # <br/>; on other elements HTML ignores the slash
        if RENAMED.get(tag, tag) in ("a",):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._skip:
            if tag == self._skip[-1]:
                self._skip.pop()
                self.builder.muted = bool(self._skip)
            return
        name = RENAMED.get(tag, tag)
        if name == "br":
            self.builder.void("br", {})
        elif name in ALLOWED:
            if name not in ("hr", "img", "wbr"):
                self.builder.end_tag(name, self._place())
        elif name not in TRANSPARENT and name not in INTERACTIVE and name not in OPAQUE:
            if self._components.get(tag):
                self._components[tag] -= 1
                self._apart(self._place(), f"</{tag}>")
            else:
                self.builder.text(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._skip:
            return
        if self._first:
            self._first = False
            data = data.removeprefix("\n")  # HTML drops the line end after <pre>, XML does not
        if not data.isspace():
            self.builder.line = str(self.draft.line(self._place()[0] + leading_lines(data)))
        self.builder.text(data)

    def unknown_decl(self, data: str) -> None:
        """<![CDATA[ … ]]> and its like show nothing."""

    def _is_component(self, tag: str, shown: str, attrs: list[tuple[str, str | None]], row: int) -> bool:
        valued = any(value is not None for _, value in attrs)
        return valued or shown.endswith("/>") or self._last_ends.get(tag, 0) >= row

    @cached_property
    def _last_ends(self) -> dict[str, int]:
        """The last row with an end tag, by name."""
        rows = enumerate(self.draft.rows, 1)
        return {name.lower(): n for n, row in rows if "</" in row for name in _END_TAG.findall(row)}

    def _component(self, tag: str, shown: str, place: Place) -> None:
        if tag not in self._components:
            name = _name(shown)
            message = f"<{name}> is a tag of another press: its content stays, its values are lost"
            self.draft.report("MDN002", place, message, "reported once in a chapter", "warning")
        self._components[tag] = self._components.get(tag, 0) + (not shown.endswith("/>"))
        self._apart(place, shown)

    def _apart(self, place: Place, shown: str) -> None:
        """A space where a tag that goes stood between a sentence and a word."""
        row, col = place
        source = self.draft.rows[row - 1] if 0 < row <= len(self.draft.rows) else ""
        before, after = source[: col - 1][-1:], source[col - 1 + len(shown) :][:1]
        if self._inline and before and before in ".,;:!?)" and after.isalnum():
            self.builder.text(" ")

    def _literal(self, shown: str, place: Place) -> None:
        message = f"<{_name(shown)}> is no HTML tag a book can hold"
        hint = f"write `{' '.join(shown.split())}` in backticks"
        self.draft.report("MDN001", place, message, hint, self.draft.lenient)
        self.builder.text(shown)


def _name(shown: str) -> str:
    """A tag's name as its author wrote it; the tokenizer gives it in lower case."""
    found = re.match(r"<([^\s/>]+)", shown)
    return found[1] if found else shown


def leading_lines(data: str) -> int:
    """Line ends before the first word."""
    return data[: len(data) - len(data.lstrip())].count("\n")
