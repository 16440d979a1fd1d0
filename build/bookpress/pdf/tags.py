"""The structure tree of one piece: headings, lists, tables, figures, links, notes in reading order.

Replaces WeasyPrint's tags, which give every line an element, lose table scopes, leave list items without a body
and split whatever crosses a page (Kozea/WeasyPrint#2482, #2508). Here one source element becomes one structure
element however many pages and lines it takes, and a header row repeated by the layout becomes an artifact.

In: laid-out pages, the marked content that drawing recorded. Out: objects with marks (see `objects`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from weasyprint.formatting_structure import boxes
from weasyprint.layout.absolute import AbsolutePlaceholder

from .objects import DOCUMENT, array, dictionary, key, mark, number, shared, text

# Elements that become structure. Everything else passes its content to the nearest ancestor that does.
_ROLES = {
    "h1": "H1", "h2": "H2", "h3": "H3", "h4": "H4", "h5": "H5", "h6": "H6",
    "p": "P", "pre": "P", "summary": "P", "code": "Code", "blockquote": "BlockQuote",
    "ul": "L", "ol": "L", "dl": "L", "li": "LBody", "dt": "Lbl", "dd": "LBody",
    "table": "Table", "thead": "THead", "tbody": "TBody", "tfoot": "TFoot", "tr": "TR", "th": "TH", "td": "TD",
    "img": "Figure", "figcaption": "Caption", "caption": "Caption", "aside": "Div", "section": "Sect",
}  # fmt: skip
_CLASS_ROLES = {"footnote": "Note", "math display": "P", "para": "P"}
_ITEMS = ("li", "dt", "dd")


@dataclass
class Node:
    """A structure element being filled."""

    role: str
    number: int
    parent: Node | None
    page: int = -1  # page of its first content
    kids: list[tuple] = field(default_factory=list)  # (page, mcid) | (page, "obj", annotation) | Node
    attributes: bytes = b""
    alt: str = ""
    ident: str = ""


class Tree:
    """Builds the nodes of one document; `numbers` gives local object numbers."""

    def __init__(self, root: Element, page_numbers: tuple[int, ...], first: int):
        self.parents = {child: parent for parent in root.iter() for child in parent}
        self.page_numbers = page_numbers
        self.next = first
        self.nodes: list[Node] = []
        self.of: dict[Element, Node] = {}
        self.items: dict[Element, Node] = {}  # li → its LI, which holds Lbl and LBody
        self.labels: dict[Element, Node] = {}
        self.body = self._node("Sect", None)
        self.header_page: dict[Element, int] = {}

    def _node(self, role: str, parent: Node | None) -> Node:
        node = Node(role, self.next, parent)
        self.next += 1
        self.nodes.append(node)
        if parent is not None:
            parent.kids.append(node)
        return node

    def _role(self, element: Element) -> str:
        classes = element.get("class") or ""
        tag = element.tag if isinstance(element.tag, str) else ""
        if classes in _CLASS_ROLES:
            return _CLASS_ROLES[classes]
        if tag == "a":
            return "Link" if element.get("href") else ""
        if tag in ("ol", "li") and "toc" in classes:
            return "TOC" if tag == "ol" else "TOCI"
        if tag == "img" and "formula" in classes:
            return "Formula"
        if tag == "code" and self._in_pre(element):
            return ""
        return _ROLES.get(tag, "")

    def _in_pre(self, element: Element) -> bool:
        parent = self.parents.get(element)
        return parent is not None and parent.tag == "pre"

    def owner(self, element: Element) -> Node:
        """The node that takes the content of `element`."""
        found = self.of.get(element)
        if found is not None:
            return found
        role, parent = self._role(element), self.parents.get(element)
        if role == "Caption":
            parent = self._captioned(element, parent)
        above = self.body if parent is None else self.owner(parent)
        if element not in self.of:  # a row makes all its cells
            self.of[element] = self._make(element, role, above) if role and parent is not None else above
        return self.of[element]

    @staticmethod
    def _captioned(caption: Element, figure: Element | None) -> Element | None:
        """The table or image that a caption belongs to: its structure stands inside theirs."""
        if figure is None:
            return None
        target = next((c for c in figure if c.tag in ("table", "img")), None)
        return figure if target is None else target

    def _make(self, element: Element, role: str, above: Node) -> Node:
        if element.tag in _ITEMS and role in ("LBody", "Lbl"):
            return self._node(role, self._item(element, above))
        node = self._node(role, above)
        if role in ("TH", "TD"):
            node.attributes = _cell(element)
        elif role == "TR":
            # Empty cells too, or the columns of the rows would not agree.
            for cell in element:
                if cell.tag in ("th", "td"):
                    self.of[cell] = self._make(cell, self._role(cell), node)
        elif role in ("Figure", "Formula"):
            node.alt = element.get("alt") or ""
        elif role == "Note":
            node.ident = f"note-{node.number}"
        return node

    def _item(self, element: Element, above: Node) -> Node:
        """The LI around a list item; a definition shares that of its term."""
        if element.tag == "dd":
            term = self._term(element)
            element = element if term is None else term
        if element not in self.items:
            self.items[element] = self._node("LI", above)
        return self.items[element]

    def _term(self, definition: Element) -> Element | None:
        term = None
        for sibling in self.parents[definition]:
            if sibling is definition:
                return term
            if sibling.tag == "dt":
                term = sibling
        return term

    def label(self, element: Element) -> Node:
        """The Lbl of a list item's bullet or number."""
        if element not in self.labels:
            above = self.owner(self.parents[element])
            item = self._item(element, above)
            node = self.labels[element] = self._node("Lbl", item)
            item.kids.remove(node)
            item.kids.insert(0, node)
        return self.labels[element]

    def content(self, box: boxes.Box, page: int, mcid: int) -> bool:
        """File one piece of marked content. False: a repeated header or decoration, an artifact."""
        element = box.element
        head = self._header_of(element)
        if head is not None and self.header_page.setdefault(head, page) != page:
            return False
        if element.tag == "img" and not element.get("alt"):
            return False  # an empty alternative text says: decoration
        if (box.element_tag or "").endswith("::marker") and element.tag in _ITEMS:
            node = self.label(element)
        else:
            node = self.owner(element)
        self.add(node, page, mcid)
        return True

    def line(self, element: Element) -> int:
        """The Markdown line of an element: its own or its nearest block's."""
        above: Element | None = element
        while above is not None and not above.get("data-line"):
            above = self.parents.get(above)
        return 0 if above is None else int(above.get("data-line") or 0)

    def _header_of(self, element: Element) -> Element | None:
        above: Element | None = element
        while above is not None and above.tag != "table":
            if above.tag == "thead":
                return above
            above = self.parents.get(above)
        return None

    def add(self, node: Node, page: int, mcid: int) -> None:
        if node.page < 0:
            node.page = page
        node.kids.append((page, mcid))

    def link(self, element: Element, page: int, annotation: int) -> Node:
        """File a link annotation under its Link."""
        node = self.owner(element)
        if node.page < 0:
            node.page = page
        node.kids.append((page, "obj", annotation))
        return node

    def objects(self) -> Iterator[tuple[int, bytes]]:
        """The finished structure elements. Those without content are left out."""
        used = self._used(self.body)
        for node in self.nodes:
            if node in used:
                yield node.number, self._element(node, used)

    def _used(self, body: Node) -> Mapping[int, Node]:
        keep = _Identity()

        def visit(node: Node) -> bool:
            wanted = node is body or node.role in ("TD", "TH")
            for kid in node.kids:
                if not isinstance(kid, Node) or visit(kid):
                    wanted = True
            if wanted:
                keep.add(node)
            return wanted

        visit(body)
        return keep

    def _element(self, node: Node, used: _Identity) -> bytes:
        page = node.page
        kids = []
        for kid in node.kids:
            if isinstance(kid, Node):
                if kid in used:
                    kids.append(mark(kid.number))
            elif len(kid) == 3:
                at = mark(self.page_numbers[kid[0]])
                kids.append(b"<</Type/OBJR/Obj %s/Pg %s>>" % (mark(kid[2]), at))
            elif kid[0] == page:
                kids.append(b"%d" % kid[1])
            else:
                at = mark(self.page_numbers[kid[0]])
                kids.append(b"<</Type/MCR/MCID %d/Pg %s>>" % (kid[1], at))
        above = shared(DOCUMENT) if node.parent is None else mark(node.parent.number)
        entries = {"Type": b"/StructElem", "S": b"/" + node.role.encode(), "P": above, "K": array(*kids)}
        if page >= 0:
            entries["Pg"] = mark(self.page_numbers[page])
        if node.attributes:
            entries["A"] = node.attributes
        if node.alt:
            entries["Alt"] = text(node.alt)
        if node.ident:
            entries["ID"] = b"(\x04%d\x02)" % node.number  # unique in the book: the key moves with the block
        return dictionary(entries)


class _Identity:
    """A set of nodes by identity."""

    def __init__(self) -> None:
        self.known: set[int] = set()

    def add(self, node: Node) -> None:
        self.known.add(id(node))

    def __contains__(self, node: object) -> bool:
        return id(node) in self.known


def _cell(element: Element) -> bytes:
    """Table attributes of a cell: the scope that WeasyPrint leaves out, and spans."""
    entries = {"O": b"/Table"}
    if element.tag == "th":
        scope = {"row": "Row", "rowgroup": "Row"}.get(element.get("scope") or "col", "Column")
        entries["Scope"] = b"/" + scope.encode()
    for attribute, entry in (("colspan", "ColSpan"), ("rowspan", "RowSpan")):
        span = element.get(attribute) or "1"
        if span.isdigit() and int(span) > 1:
            entries[entry] = span.encode()
    return dictionary(entries) if len(entries) > 1 else b""


def figure_box(box: boxes.Box, page_height: float, scale: float) -> bytes:
    """The bounding box that a figure must state, in points from the lower left."""
    x, y = box.content_box_x(), box.content_box_y()
    corners = (x, page_height - y - box.height, x + box.width, page_height - y)
    return dictionary({"O": b"/Layout", "BBox": array(*(number(c * scale) for c in corners))})


def in_order(box: boxes.Box) -> Iterator[boxes.Box]:
    """All boxes under `box`, in the order of the tree, placeholders opened."""
    if isinstance(box, AbsolutePlaceholder):
        box = box._box
    yield box
    for child in box.all_children():
        yield from in_order(child)


def parent_leaf(page_owners: list[list[int | None]], annotations: list[int]) -> bytes:
    """The piece's leaf of the parent tree: content and annotations back to their elements."""
    entries = []
    for n, owners in enumerate(page_owners):
        entries += [key(n), array(*(b"null" if o is None else mark(o) for o in owners))]
    for n, owner in enumerate(annotations, len(page_owners)):
        entries += [key(n), mark(owner)]
    last = len(page_owners) + len(annotations) - 1
    return dictionary({"Limits": array(key(0), key(last)), "Nums": array(*entries)})
