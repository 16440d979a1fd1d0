"""Beside parse: the raw HTML of a chapter, tag by tag, through the allow-list into the builder.

Python's own tokenizer reads each piece; what it calls a tag and no browser knows (`<rank>`, `<pad>`) is
text that lost its backticks (hermes, vitess, azure-cli all lost words that way), so it is shown as written
and reported.
"""

from __future__ import annotations

from html.parser import HTMLParser

from .drafting import Drafting
from .html import ALLOWED, INTERACTIVE, OPAQUE, RENAMED, TRANSPARENT, clean
from .markup import Builder, Place

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
            self._literal(self.get_starttag_text() or f"<{tag}>", place, tag)
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

    def _literal(self, shown: str, place: Place, tag: str) -> None:
        message = f"<{tag}> is no HTML tag a book can hold"
        hint = f"write `{' '.join(shown.split())}` in backticks"
        self.draft.report("MDN001", place, message, hint, self.draft.lenient)
        self.builder.text(shown)


def leading_lines(data: str) -> int:
    """Line ends before the first word."""
    return data[: len(data) - len(data.lstrip())].count("\n")
