"""Beside parse: last repairs that only the finished tree shows, so that EPUB's schema accepts every body.

Empty paragraphs and lists go, raw tables get the shape of Markdown ones, images alone in a paragraph become
figures, `details` gets its summary, and every block knows its line.
"""

from __future__ import annotations

from lxml import etree

from . import units
from .html import BLOCKS, drop, is_blank, unwrap

_NEVER_EMPTY = ("p", "ul", "ol", "dl", "table", "thead", "tbody", "tfoot", "tr", "figcaption", "figure")

# Cells, groups and captions stand in what has a line; so does a fence's pre.
_LINED = BLOCKS - {"caption", "figcaption", "pre", "tbody", "td", "tfoot", "th", "thead"} | {"aside"}


def tidy(root: etree._Element) -> None:
    """Repair the tree in place."""
    for span in list(root.iter("span")):
        if not span.attrib:
            unwrap(span)  # what is left of <font> and <span style>
    _drop_empty(root)
    for details in root.iter("details"):
        if not len(details) or details[0].tag != "summary":
            summary = etree.Element("summary")
            summary.text, summary.tail, details.text = "Details", details.text, None
            details.insert(0, summary)
    for table in list(root.iter("table")):
        _table(table)
    for paragraph in list(root.iter("p")):
        _image_alone(paragraph)
    for group in root.iter("dl"):
        _definitions(group)
    units.bind(root)
    _lines(root)


def _drop_empty(root: etree._Element) -> None:
    for element in reversed(list(root.iter(*_NEVER_EMPTY))):
        if is_blank(element) and element.getparent() is not None:
            drop(element)


def _table(table: etree._Element) -> None:
    """A raw table: header rows in thead, the whole in a figure."""
    if table.find("thead") is None and (body := table.find("tbody")) is not None:
        heads = []
        for row in body:
            if not len(row) or any(cell.tag != "th" for cell in row):
                break
            heads.append(row)
        if heads and len(heads) < len(body):
            head = etree.Element("thead")
            body.addprevious(head)
            head.extend(heads)
    for cell in table.iter("th"):
        if is_blank(cell):
            cell.tag = "td"
    caption = table.find("caption")
    if table.getparent().tag != "figure":
        figure = etree.Element("figure", {"class": "table"})
        if table.get("id"):
            figure.set("id", table.attrib.pop("id"))
        if table.get("data-line"):
            figure.set("data-line", table.get("data-line"))
        table.addprevious(figure)
        figure.tail, table.tail = table.tail, None
        figure.append(table)
    if caption is not None and table.getprevious() is None:
        drop(caption)
        caption.tag = "figcaption"
        table.addprevious(caption)


def _image_alone(paragraph: etree._Element) -> None:
    """`<p>` with nothing but one image becomes a figure."""
    child = paragraph[0] if len(paragraph) == 1 else None
    if child is None or (paragraph.text or "").strip() or (child.tail or "").strip():
        return
    link = child.tag == "a" and len(child) == 1
    if link and ((child.text or "").strip() or (child[0].tail or "").strip()):
        return
    image = child[0] if link else child
    if image.tag == "img" and paragraph.getparent().tag in ("section", "div", "blockquote", "aside", "li", "details"):
        paragraph.tag = "figure"
        paragraph.set("class", f"image {paragraph.get('class', '')}".strip())
        paragraph.text = child.tail = None


def _definitions(group: etree._Element) -> None:
    """A dl begins with a term and ends with a description."""
    if len(group) and group[0].tag == "dd":
        group.insert(0, etree.Element("dt"))
    if len(group) and group[-1].tag == "dt":
        group.append(etree.Element("dd"))


def _lines(root: etree._Element) -> None:
    """Blocks that a rule opened take the line of what stands around them."""
    last = root[0].get("data-line") if len(root) else None
    for element in root.iter():
        if not isinstance(element.tag, str) or element.tag not in _LINED:
            continue
        if element.get("data-line"):
            last = element.get("data-line")
        elif last and element is not root:
            element.set("data-line", last)
