"""Beside parse: pandoc's block nodes → canonical blocks of the chapter body, as model.py states them.

Code, tables, figures, equations and admonitions get their final shape here; their numbers stay open as
sites that number.py fills.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from lxml import etree

from . import code, pandoc
from .drafting import Drafting
from .fences import Fences
from .headings import slug
from .inlines import Inlines, plain
from .markup import Builder, Frame, Place
from .model import Fence
from .pandoc import Attr, Node
from .problems import near

ALERTS = ("note", "tip", "important", "warning", "caution")
POLICIES = ("wrap", "landscape", "stack")
_ALIGN = {"AlignLeft": "left", "AlignCenter": "center", "AlignRight": "right"}
_BOXES = {"☐", "☒"}
_MARKUP = frozenset("`*_$[]<>\\&:~")


@dataclass
class Caption:
    """A caption that waits to be read: attribute text is Markdown too."""

    element: etree._Element
    text: str
    place: Place


@dataclass
class Blocks:
    """Writes block nodes of one chapter."""

    draft: Drafting
    builder: Builder
    inlines: Inlines
    fences: Fences
    captions: list[Caption] = field(default_factory=list)
    _box: str = ""  # a task's box, until the item's first paragraph takes it

    def write(self, nodes: list[Node]) -> None:
        at = 0
        while at < len(nodes):
            caption = self._table_caption(nodes, at)
            if caption is not None:
                node, attr = _unwrap(nodes[at + 1])
                self._table(node, attr, caption)
                at += 2
            else:
                self._block(*_unwrap(nodes[at]))
                at += 1

    def _line(self, place: Place) -> str:
        return str(self.draft.line(place[0]))

    def _block(self, node: Node, attr: Attr) -> None:
        kind, content = node["t"], node.get("c")
        place = pandoc.place(attr)
        if place == (0, 0):
            place = pandoc.first_place(content)
        if place != (0, 0):
            self.inlines.place = place
            self.builder.line = self._line(place)
        if kind in ("Para", "Plain"):
            self._paragraph(kind, content, attr, place)
        elif kind == "Header":
            self._heading(*content, place)
        elif kind == "CodeBlock":
            self._code(content[0], content[1], place if place != (0, 0) else self.inlines.place)
        elif kind == "RawBlock":
            self.inlines.raw.read(content[1], place)
        elif kind == "BlockQuote":
            self._container("blockquote", attr, place, content)
        elif kind in ("BulletList", "OrderedList"):
            self._list(kind, content, attr, place)
        elif kind == "HorizontalRule":
            self.builder.void("hr", {"data-line": self._line(place)})
        elif kind == "Table":
            self._table(node, attr, [])
        elif kind == "Div":
            self._div(content[0], content[1], place)

    # --- text ---

    def _attrs(self, attr: Attr, place: Place) -> dict[str, str]:
        attrs = {"id": attr[0], "class": " ".join(attr[1]), "data-line": self._line(place)}
        return {k: v for k, v in attrs.items() if v}

    def _heading(self, level: int, attr: Attr, inner: list[Node], place: Place) -> None:
        attrs = self._attrs(attr, place)
        if not attr[0]:
            attrs["data-slug"] = slug(plain(inner, github=True))
        frame = self.builder.open(f"h{level}", attrs)
        self.inlines.write(inner)
        self.builder.close(frame)

    def _container(self, tag: str, attr: Attr, place: Place, inner: list[Node]) -> None:
        frame = self.builder.open(tag, self._attrs(attr, place))
        self.write(inner)
        self.builder.close(frame)

    def _paragraph(self, kind: str, content: list[Node], attr: Attr, place: Place) -> None:
        box, self._box = self._box, ""
        bare, mark = _trailing(content)
        if len(bare) == 1 and not box:
            inner = bare[0]
            if inner["t"] == "Math" and inner["c"][0]["t"] == "DisplayMath":
                self.inlines.display(inner["c"][1], place, (mark or attr)[0])
                return
            if inner["t"] == "Image" and "caption" in pandoc.settings(inner["c"][0]):
                self._figure(inner, place)
                return
        frame = None
        if kind == "Para" or attr[0] or attr[1]:
            frame = self.builder.open("p", self._attrs(attr, place))
        if box:
            self.builder.text(box + " ")
        self.inlines.write(content)
        self.builder.close(frame)

    def _figure(self, image: Node, place: Place) -> None:
        attr = image["c"][0]
        attrs = {"class": "figure", "id": attr[0], "data-line": self._line(place)}
        frame = self.builder.open("figure", {k: v for k, v in attrs.items() if v})
        self.inlines.write([{"t": "Image", "c": [["", [], attr[2]], *image["c"][1:]]}])
        self._caption("figure", attr[0], pandoc.settings(attr)["caption"], place)
        self.builder.close(frame)

    def _caption(self, kind: str, ident: str, text: str, place: Place) -> None:
        frame = self.builder.open("figcaption", {"data-site": self.draft.site(kind, ident, place)})
        if frame is not None and _MARKUP.isdisjoint(text):
            self.builder.text(text)
        elif frame is not None:
            self.captions.append(Caption(frame.element, text, place))
        self.builder.close(frame)

    def write_captions(self) -> None:
        """Read all captions that hold markup, in one pandoc process."""
        if not self.captions:
            return
        texts = [" ".join(c.text.split()) for c in self.captions]
        # One heading each: whatever a caption holds, it stays inline and the next one starts anew.
        parsed = pandoc.read("".join(f"###### {t}\n" for t in texts))
        for caption, node in zip(self.captions, parsed, strict=True):
            self.inlines.fixed = caption.place
            frame = Frame(caption.element)
            self.builder.stack.append(frame)
            self.inlines.write(node["c"][2])
            self.builder.close(frame)
        self.inlines.fixed = None

    # --- code ---

    def _code(self, attr: Attr, text: str, place: Place) -> None:
        if attr[1] == ["math"]:
            self.inlines.display(text, place, attr[0])
            return
        fence = self.fences.read(attr, text, place)
        if not fence.hidden:
            self.builder.add(self._figure_of(fence, place))

    def _figure_of(self, fence: Fence, place: Place) -> etree._Element:
        ident = self.fences.anchors.get(fence.index, "")
        attrs = {"class": "code", "data-lang": fence.lang, "data-fence": str(fence.index)}
        figure = etree.Element("figure", {**attrs, "data-line": str(fence.line)})
        if ident:
            figure.set("id", ident)
        if caption := fence.attrs.get("caption"):
            site = self.draft.site("listing", ident, place)
            element = etree.SubElement(figure, "figcaption", {"data-site": site})
            if _MARKUP.isdisjoint(caption):
                element.text = caption
            else:
                self.captions.append(Caption(element, caption, place))
        inner, found = code.highlight(fence, self.draft.path, self.draft.config)
        self.draft.problems += found
        name = f' class="language-{escape(fence.lang, {chr(34): "&quot;"})}"' if fence.lang else ""
        figure.append(etree.fromstring(f"<pre><code{name}>{inner}</code></pre>"))
        return figure

    # --- lists, quotes, admonitions ---

    def _list(self, kind: str, content: list, attr: Attr, place: Place) -> None:
        attrs, items = self._attrs(attr, place), content
        if kind == "OrderedList":
            (start, _, _), items = content
            if start != 1:
                attrs["start"] = str(start)
        boxes = [_task(item) for item in items]
        if any(boxes):
            attrs["class"] = "task-list"
        frame = self.builder.open("ol" if kind == "OrderedList" else "ul", attrs)
        for item, box in zip(items, boxes, strict=True):
            at = pandoc.first_place(item)
            line = {"data-line": self._line(at if at != (0, 0) else place)}
            child = self.builder.open("li", {**line, **({"class": "task"} if box else {})})
            self._box = box
            self.write(item[1:] if box else item)
            self._box = ""
            self.builder.close(child)
        self.builder.close(frame)

    def _div(self, attr: Attr, inner: list[Node], place: Place) -> None:
        kind = attr[1][0] if len(attr[1]) == 1 else ""
        title = inner[0] if inner else None
        if kind in ALERTS and title and title["t"] == "Div" and title["c"][0][1] == ["title"]:
            attrs = {"class": f"admonition {kind}", "data-line": self._line(place)}
            aside = self.builder.open("aside", attrs)
            head = self.builder.open("p", {"class": "admonition-title", "data-line": self._line(place)})
            self.builder.text(kind.capitalize())
            self.builder.close(head)
            self.write(inner[1:])
            self.builder.close(aside)
        elif attr[0] or attr[1]:
            self._container("div", attr, place, inner)
        else:
            self.write(inner)

    # --- tables ---

    def _table_caption(self, nodes: list[Node], at: int) -> list[Node] | None:
        """The nodes of a `Table: …` paragraph directly above a table."""
        if at + 1 >= len(nodes) or _unwrap(nodes[at + 1])[0]["t"] != "Table":
            return None
        node, _ = _unwrap(nodes[at])
        if node["t"] != "Para" or len(node["c"]) < 3:
            return None
        words = [_bare(n) for n in node["c"][:2]]
        return node["c"] if [w.get("c") for w in words] in (["Table", ":"], ["Table:", None]) else None

    def _table(self, node: Node, attr: Attr, caption: list[Node]) -> None:
        _, _, specs, head, bodies, foot = node["c"]
        attr = node["c"][0] if not attr[0] else attr
        place = pandoc.place(node["c"][0])
        ident, settings = attr[0], pandoc.settings(attr)
        if caption:
            caption, mark = _trailing(caption, keep=True)
            if mark:
                ident, settings = mark[0] or ident, {**settings, **pandoc.settings(mark)}
        wide = settings.get("wide", "")
        if wide and wide not in POLICIES:
            self.draft.report("MDN012", place, f"unknown table policy '{wide}'", near(wide, POLICIES))
            wide = ""
        attrs = {"class": f"table {wide}".strip(), "id": ident, "data-line": self._line(place)}
        figure = self.builder.open("figure", {k: v for k, v in attrs.items() if v})
        if caption:
            title = self.builder.open("figcaption", {"data-site": self.draft.site("table", ident, place)})
            self.inlines.write(_after_kind(caption))
            self.builder.close(title)
        table = self.builder.open("table", {"data-line": self._line(place)})
        sides = [_ALIGN.get(side["t"], "") for side, _ in specs]
        if any(cell[4] for row in head[1] for cell in row[1]):
            self._rows("thead", head[1], sides, place[0])
        body = [row for one in bodies for row in (*one[2], *one[3])]
        self._rows("tbody", body, sides, place[0] + 2)
        self._rows("tfoot", foot[1], sides, place[0])
        self.builder.close(table)
        self.builder.close(figure)

    def _rows(self, group: str, rows: list, sides: list[str], first: int) -> None:
        if not rows:
            return
        outer = self.builder.open(group)
        for number, (_, cells) in enumerate(rows):
            line = self._line((first + number, 1))  # a pipe table's row is a line
            row = self.builder.open("tr", {"data-line": line})
            for at, (_, _, _, _, inner) in enumerate(cells):
                side = {"class": sides[at]} if at < len(sides) and sides[at] else {}
                # An empty header cell heads nothing (Ace: empty-table-header).
                cell = self.builder.open("th" if group == "thead" and inner else "td", side)
                self.write(inner)
                self.builder.close(cell)
            self.builder.close(row)
        self.builder.close(outer)


def _unwrap(node: Node) -> tuple[Node, Attr]:
    """A block without the Div that holds its position, and that Div's attributes."""
    if node["t"] == "Div":
        attr, inner = node["c"]
        if len(inner) == 1 and any(key == "wrapper" for key, _ in attr[2]):
            return inner[0], attr
    content = node.get("c")
    if node["t"] in ("CodeBlock", "Table", "Div"):
        return node, content[0]
    return node, content[1] if node["t"] == "Header" else ["", [], []]


def _bare(node: Node) -> Node:
    """An inline node without its position."""
    if node["t"] == "Span" and len(node["c"][1]) == 1:
        return node["c"][1][0]
    return node


def _trailing(nodes: list[Node], keep: bool = False) -> tuple[list[Node], Attr | None]:
    """Split ` {#id key=value}` off a paragraph's end: pandoc hangs it on the space before it."""
    mark = None
    rest = list(nodes)
    while rest and _bare(rest[-1])["t"] in ("Space", "SoftBreak"):
        last = rest.pop()
        if last["t"] == "Span" and not pandoc.is_wrapper(last["c"][0]):
            mark = last["c"][0]
    return (rest if keep else [_bare(n) for n in rest]), mark


def _after_kind(caption: list[Node]) -> list[Node]:
    """A table caption's words without `Table: `."""
    start = 2 if _bare(caption[1]).get("c") == ":" else 1
    while start < len(caption) and _bare(caption[start])["t"] in ("Space", "SoftBreak"):
        start += 1
    return caption[start:]


def _task(item: list[Node]) -> str:
    """The box of a task list item, or ""."""
    if not item or item[0]["t"] != "Plain" or len(item[0]["c"]) != 1:
        return ""
    first = item[0]["c"][0]
    return first["c"] if first["t"] == "Str" and first["c"] in _BOXES else ""
