"""Beside parse: pandoc's inline nodes → the builder. Words, emphasis, code, links, images, math, notes.

Links and images become sites for link.py; formulas wait in a list, so that one pandoc process turns all of
a chapter into MathML at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lxml import etree

from . import pandoc
from .drafting import Drafting
from .footnotes import Notes
from .html import size_of
from .markup import Builder, Place
from .pandoc import Node
from .rawhtml import RawReader

KINDS = ("figure", "table", "listing", "equation", "section", "chapter")
_TAGS = {
    "Emph": "em", "Strong": "strong", "Strikeout": "del", "Superscript": "sup", "Subscript": "sub",
    "Underline": "u", "SmallCaps": "span",
}  # fmt: skip
# What opens like a formula and is none: $HOME/bin:$PATH and "$5 an hour, so 10 US$" (pi-web#135).
_SHELL_NAME = re.compile(r"(?:\{[A-Z_][A-Z0-9_]*\}|[A-Z_][A-Z0-9_]+)(?![A-Za-z])")
_PRICE = re.compile(r"\d[\d.,]*[^\\^_=<>+*{}]*[A-Za-z]{2}[^\\^_=<>+*{}]*")
# The names Python people write most; others are caught by the dot or bracket beside them.
_DUNDER = frozenset(("init", "main", "name", "call", "new", "all", "dict", "doc", "file", "version"))


@dataclass
class Inlines:
    """Writes inline nodes of one chapter."""

    draft: Drafting
    builder: Builder
    raw: RawReader
    notes: Notes
    formulas: list[tuple[etree._Element, str, bool, Place]] = field(default_factory=list)
    place: Place = (0, 0)  # of the last node that had one
    fixed: Place | None = None  # while text from an attribute is written: its own place

    def write(self, nodes: list[Node]) -> None:
        words = self.builder.text
        for at, node in enumerate(nodes):
            kind = node["t"]
            if kind == "Span":
                # By far the most nodes: one word in a wrapper that holds its position.
                attr, inner = node["c"]
                first = inner[0]["t"] if inner else ""
                if first == "Str" and len(inner) == 1 and not attr[0] and not attr[1]:
                    words(inner[0]["c"])
                elif first == "Space" and not attr[0]:
                    words(" ")
                else:
                    self._span(attr, inner, nodes, at)
            elif kind == "Str":
                words(node["c"])
            elif kind == "Space":
                words(" ")
            else:
                self._node(kind, node.get("c"), nodes, at)

    def _span(self, attr: list, inner: list[Node], nodes: list[Node], at: int) -> None:
        self._note_place(attr)
        place = self.place
        if attr[1] == ["emoji"]:
            self.write(inner)
            return
        if len(inner) == 1 and inner[0]["t"] in ("Emph", "Strong"):
            self._lint_emphasis(inner[0], nodes, at, place)
        own = {"id": attr[0], "class": " ".join(attr[1])}
        own = {k: v for k, v in own.items() if v}
        if len(inner) == 1 and inner[0]["t"] == "Math":
            self._math(inner[0]["c"], place, attr[0], nodes, at)
            return
        frame = self.builder.open("span", own) if own else None
        self.write(inner)
        self.builder.close(frame)

    def _node(self, kind: str, content, nodes: list[Node], at: int) -> None:
        if kind in _TAGS:
            frame = self.builder.open(_TAGS[kind], {"class": "small-caps"} if kind == "SmallCaps" else {})
            self.write(content)
            self.builder.close(frame)
        elif kind == "Code":
            attr, code = content
            self._note_place(attr)
            frame = self.builder.open("code", {"id": attr[0]} if attr[0] else {})
            self.builder.text(code)
            self.builder.close(frame)
        elif kind == "SoftBreak":
            self.builder.text("\n")
        elif kind == "LineBreak":
            self.builder.void("br", {})
        elif kind == "Link":
            self._link(*content)
        elif kind == "Image":
            self._image(*content)
        elif kind == "Math":
            self._math(content, self.place, "", nodes, at)
        elif kind == "RawInline":
            self.raw.read(content[1], self.place, inline=True)
        elif kind == "Note":
            self.notes.reference(content, self.place, self.builder)
        elif kind == "Quoted":
            left, right = ("‘", "’") if content[0]["t"] == "SingleQuote" else ("“", "”")
            self.builder.text(left)
            self.write(content[1])
            self.builder.text(right)
        elif kind == "Cite":
            self.write(content[1])
        elif kind == "Span":
            self._span(*content, nodes, at)

    def _note_place(self, attr: list) -> None:
        place = self.fixed or pandoc.place(attr)
        if place != (0, 0):
            self.place = place

    # --- links and images ---

    def _link(self, attr: list, inner: list[Node], target: list[str]) -> None:
        self._note_place(attr)
        url, title = target
        words = plain(inner).strip()
        bare = not inner or (words.lower() in KINDS and all(_is_word(n) for n in inner))
        internal = not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", url)
        if not self.builder.leave_link():
            self.write(inner)  # a link in a link: the outer one stays
            return
        kept = bare and internal
        mark = self.draft.site("link", url, self.place, words if kept else "")
        attrs = {"data-site": mark, "href": url}
        if attr[0]:
            attrs["id"] = attr[0]
        if title:
            attrs["title"] = title
        if kept:
            attrs["class"] = "xref"
        frame = self.builder.open("a", attrs)
        if not kept:
            self.write(inner)
        self.builder.close(frame)

    def _image(self, attr: list, inner: list[Node], target: list[str]) -> None:
        self._note_place(attr)
        url, title = target
        given = pandoc.settings(attr)
        if url.endswith("#gh-dark-mode-only"):
            return  # GitHub shows one of two; a page is light
        url = url.removesuffix("#gh-light-mode-only")
        attrs = {"data-site": self.draft.site("image", url, self.place), "src": url, "alt": plain(inner)}
        if attr[0]:
            attrs["id"] = attr[0]
        if title:
            attrs["title"] = title
        self.builder.void("img", attrs | size_of(given))

    # --- math ---

    def _math(self, content: list, place: Place, ident: str, nodes: list[Node], at: int) -> None:
        display, tex = content[0]["t"] == "DisplayMath", content[1]
        if display and not self.draft.config.features.strict and _among_words(tex, nodes, at):
            display = False  # kramdown writes formulas in a line as $$x$$
        if not display and not is_formula(tex, plain(nodes[at + 1 : at + 2])):
            self.builder.text(f"${tex}$")
            return
        if display:
            self.display(tex, place, ident)
            return
        frame = self.builder.open("span", {"class": "math inline", **({"id": ident} if ident else {})})
        if frame is not None:
            self.formulas.append((frame.element, tex, False, place))
        self.builder.close(frame)

    def display(self, tex: str, place: Place, ident: str = "") -> None:
        """A formula of its own line."""
        attrs = {"class": "math display", "data-line": str(self.draft.line(place[0]))}
        if ident:
            attrs["id"] = ident
        frame = self.builder.open("div", attrs)
        if frame is not None:
            self.formulas.append((frame.element, tex, True, place))
            if ident:
                mark = self.draft.site("equation", ident, place)
                etree.SubElement(frame.element, "span", {"data-site": mark, "class": "label"})
        self.builder.close(frame)

    # --- lint ---

    def _lint_emphasis(self, node: Node, nodes: list[Node], at: int, place: Place) -> None:
        """`torch.nn.__init__` in prose turns bold: say so."""
        row, col = place
        source = self.draft.rows[row - 1] if 0 < row <= len(self.draft.rows) else ""
        if source[col - 1 : col] != "_":
            return
        inner = plain(node["c"])
        before, after = source[: col - 1][-1:], plain(nodes[at + 1 : at + 2])[:1]
        strong = node["t"] == "Strong"
        joined = before in (".", "/") or (strong and after in (".", "("))
        if not re.fullmatch(r"\w+", inner) or not (joined or (strong and inner in _DUNDER)):
            return
        marks = "__" if strong else "_"
        message = f"'{marks}{inner}{marks}' looks like a name but became emphasis"
        self.draft.report("MDN006", place, message, "write it in backticks", "warning")


def _among_words(tex: str, nodes: list[Node], at: int) -> bool:
    """Does a formula stand in a line of text?"""
    if "\n" in tex.strip() or "\\begin" in tex:
        return False
    near = []
    for side in (reversed(nodes[:at]), nodes[at + 1 :]):
        for node in side:
            bare = node["c"][1][0] if node["t"] == "Span" and len(node["c"][1]) == 1 else node
            if bare["t"] in ("SoftBreak", "LineBreak"):
                break
            near.append(plain([node]) or ("x" if bare["t"] == "Image" else ""))
    return any(c.isalnum() for c in "".join(near))


def is_formula(tex: str, after: str) -> bool:
    """False for what only looks like `$…$`: shell variables and prices."""
    if _PRICE.fullmatch(tex) or after[:1].isdecimal():
        return False
    name = _SHELL_NAME.match(tex)
    if not name:
        return True
    if name.end() == len(tex):
        return not re.match(r"[A-Z_{]", after)
    return not (re.match(r"[A-Za-z_{]", after) or re.search(r"[/:;,=-]$", tex))


def _is_word(node: Node) -> bool:
    if node["t"] == "Span":
        return all(_is_word(n) for n in node["c"][1])
    return node["t"] in ("Str", "Space")


def plain(nodes: list[Node], github: bool = False) -> str:
    """The words of inline nodes; `github`: as GitHub reads a heading for its id."""
    found = []
    for node in nodes:
        kind, content = node["t"], node.get("c")
        if kind == "Str":
            found.append(content)
        elif kind in ("Space", "SoftBreak", "LineBreak"):
            found.append(" ")
        elif kind in ("Code", "Math"):
            found.append(content[1])
        elif github and kind == "Span" and content[0][1] == ["emoji"]:
            found.append(dict(content[0][2]).get("data-emoji", ""))  # :rocket: counts as its name
        elif github and kind == "Span" and [n["t"] for n in content[1]] == ["Space"]:
            found.append(" " * pandoc.width(content[0]))  # GitHub keeps every space
        elif kind in ("Span", "Link", "Quoted", "Cite") or (kind == "Image" and not github):
            found.append(plain(content[1], github))
        elif kind in _TAGS:
            found.append(plain(content, github))
    return "".join(found)
