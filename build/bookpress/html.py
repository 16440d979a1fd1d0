"""Beside parse: which HTML a chapter may hold, and how a tree becomes text.

The allow-list is GitHub's practical set, cut to what is valid in EPUB 3. Presentational attributes become
classes (an `align` on a cell is RSC-005 in EPUBCheck); style, event handlers and comments never pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lxml import etree


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


VOID = _names("br hr img wbr")
HEADINGS = _names("h1 h2 h3 h4 h5 h6")
PHRASING = _names(
    "a abbr b bdo br cite code del dfn em i img ins kbd mark q rp rt ruby s samp small span strong sub sup"
    " time u var wbr"
)
BLOCKS = HEADINGS | _names(
    "blockquote caption dd details div dl dt figcaption figure hr li ol p pre summary table tbody td tfoot"
    " th thead tr ul"
)
TABLE_PARTS = _names("caption thead tbody tfoot tr")
ALLOWED = PHRASING | BLOCKS

# Obsolete or structural names, and what stands for them.
RENAMED = {
    "tt": "code", "strike": "s", "center": "div", "big": "span", "font": "span", "nobr": "span",
    "acronym": "abbr", "article": "div", "section": "div", "header": "div", "footer": "div",
    "main": "div", "nav": "div", "aside": "div", "address": "div", "hgroup": "div", "dir": "ul",
    "image": "img",
}  # fmt: skip
# The tag goes, its content stays, nothing is lost.
TRANSPARENT = _names("picture source colgroup col html body")
# Known tags that no page of a book can show; the tag goes, its content stays.
INTERACTIVE = _names(
    "audio button canvas datalist dialog embed fieldset form input label legend map area marquee meter"
    " object optgroup option output param progress select slot track video base link meta data"
)
# Tags whose content is no text for a reader.
OPAQUE = _names("head iframe math noscript script style svg template textarea title")

_KEPT = {
    "a": ("href", "title"),
    "abbr": ("title",),
    "blockquote": ("cite",),
    "del": ("cite", "datetime"),
    "details": ("open",),
    "dfn": ("title",),
    "img": ("src", "alt", "title"),
    "ins": ("cite", "datetime"),
    "li": ("value",),
    "ol": ("start", "reversed"),
    "q": ("cite",),
    "span": ("title",),
    "td": ("colspan", "rowspan"),
    "th": ("colspan", "rowspan", "abbr"),
    "time": ("datetime",),
}
_SIDES = ("left", "center", "right")
_ALIGNED = BLOCKS - {"hr", "li", "dl", "ol", "ul"}
_TEXT_ALIGN = re.compile(r"text-align\s*:\s*(left|center|right)")
_SPACE = re.compile(r"[\t\n\f\r ]+")
_MATHML = "{http://www.w3.org/1998/Math/MathML}"


def clean(tag: str, given: Mapping[str, str | None]) -> dict[str, str]:
    """The attributes of a raw tag that may stay, presentational ones as classes."""
    kept = {}
    ident = given.get("id") or (given.get("name") if tag == "a" else None)
    if ident and ident.strip():
        kept["id"] = re.sub(r"\s+", "-", ident.strip())
    for name in _KEPT.get(tag, ()):
        if name in given:
            kept[name] = given[name] or ("" if name in ("alt", "href", "src", "title") else name)
    for name in ("lang", "dir"):
        if given.get(name) and (name == "lang" or given[name] in ("ltr", "rtl", "auto")):
            kept[name] = given[name] or ""
    for name in ("colspan", "rowspan", "start", "value"):
        if name in kept and not re.fullmatch(r"-?\d+" if name in ("start", "value") else r"[1-9]\d*", kept[name]):
            del kept[name]
    if side := _side(tag, given):
        kept["class"] = side
    if tag == "img":
        kept.update(size_of(given))
    return kept


def _side(tag: str, given: Mapping[str, str | None]) -> str:
    styled = _TEXT_ALIGN.search((given.get("style") or "").lower())
    side = styled.group(1) if styled else (given.get("align") or "").lower().replace("middle", "center")
    return side if side in _SIDES and tag in _ALIGNED else ""


def size_of(given: Mapping[str, str | None]) -> dict[str, str]:
    """An image's size: pixels stay, a share of the width becomes the class width-N (steps of 5)."""
    size = {}
    for name in ("width", "height"):
        value = (given.get(name) or "").strip()
        if re.fullmatch(r"[1-9]\d*(px)?", value):
            size[name] = value.removesuffix("px")
        elif name == "width" and (share := re.fullmatch(r"(\d{1,3})(?:\.\d+)?%", value)):
            size["class"] = f"width-{max(5, min(100, 5 * round(int(share.group(1)) / 5)))}"
    return size


def text(element: etree._Element) -> str:
    """Plain text for titles, indexes and ids: no note marks, math as its TeX, single spaces."""
    return _SPACE.sub(" ", "".join(_texts(element))).strip()


def _texts(element: etree._Element) -> Iterator[str]:
    if element.tag == "br":
        yield " "
    elif element.tag == _MATHML + "math":
        yield element.get("alttext") or "".join(element.itertext(_MATHML + "annotation"))
    elif element.get("class") not in ("fnref", "fnback"):
        yield element.text or ""
        for child in element:
            yield from _texts(child)
            yield child.tail or ""


def is_blank(element: etree._Element) -> bool:
    """No text and no child that shows or can be linked to."""
    return not len(element) and not (element.text or "").strip() and not element.get("id")


def line_of(element: etree._Element | None) -> int:
    """The line of the nearest block that has one."""
    while element is not None:
        if element.get("data-line"):
            return int(element.get("data-line"))
        element = element.getparent()
    return 0


def drop(element: etree._Element) -> None:
    """Remove an element and keep the text behind it."""
    parent, before = element.getparent(), element.getprevious()
    if element.tail:
        if before is None:
            parent.text = (parent.text or "") + element.tail
        else:
            before.tail = (before.tail or "") + element.tail
    parent.remove(element)


def unwrap(element: etree._Element) -> None:
    """Put an element's content in its place."""
    parent, at = element.getparent(), element.getparent().index(element)
    if element.text:
        if at == 0:
            parent.text = (parent.text or "") + element.text
        else:
            parent[at - 1].tail = (parent[at - 1].tail or "") + element.text
    for offset, child in enumerate(list(element)):
        parent.insert(at + offset, child)
    drop(element)


def serialise(element: etree._Element) -> str:
    """Well-formed XHTML that an HTML parser reads the same way: only void elements close themselves."""
    for node in element.iter():
        own = isinstance(node.tag, str) and node.tag[0] != "{" and node.tag not in VOID
        if own and node.text is None and not len(node):
            node.text = ""
    return etree.tostring(element, encoding="unicode", with_tail=False)
