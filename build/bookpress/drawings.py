"""SVG files: their size, and what in them would be lost, loaded or run. Read by `figures`, never changed.

An SVG that a browser shows well can still fail on paper: text in foreignObject is no SVG text and vanishes
from the PDF (Kozea/WeasyPrint#1655), black strokes on nothing vanish at night (readest/readest#1258).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_UNITS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4,
          "em": 16.0, "ex": 8.0}
_LENGTH = re.compile(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(px|pt|pc|in|cm|mm|em|ex)?\s*$", re.IGNORECASE)
_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9.]+(?:e[+-]?\d+)?", re.IGNORECASE)
_SHAPES = ("rect", "path", "polygon", "circle", "ellipse", "line", "polyline", "text", "image", "use")
MOST_ELEMENTS = 200_000
_LOOK_AT = 4  # a ground is among the first shapes drawn

Found = tuple[str, str, str, str]  # code, message, hint, level ("": as the book is strict)


@dataclass(frozen=True)
class Drawing:
    """Size in CSS pixels, 0 when the file does not say."""

    width: float
    height: float
    findings: tuple[Found, ...]


def read(content: bytes) -> Drawing:
    """Judge an SVG file."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as reason:
        return Drawing(0, 0, (("IMG005", f"is not well-formed: {reason.msg}", "export it again", "error"),))
    if root.tag != _SVG + "svg":
        return Drawing(0, 0, (("IMG005", "is no SVG", 'the root needs xmlns="http://www.w3.org/2000/svg"',
                               "error"),))
    box = _box(root)
    width, height = _length(root.get("width")), _length(root.get("height"))
    if box and not (width and height):
        width, height = _from_box(box, width, height)
    return Drawing(width, height, tuple(_judge(root, box)))


def _judge(root: etree._Element, box: tuple[float, ...]) -> Iterator[Found]:
    if not box:
        yield ("IMG009", "has no viewBox, so it cannot be scaled", 'add viewBox="0 0 WIDTH HEIGHT" to <svg>', "")
    foreign = [e for e in root.iter(_SVG + "foreignObject") if "".join(e.itertext()).strip()]
    if foreign:
        words = " ".join("".join(foreign[0].itertext()).split())[:40]
        yield ("IMG006", f"has text in foreignObject ('{words}'): it is missing in the PDF",
               "export with plain <text>; in Mermaid: htmlLabels: false", "error")
    if active := _active(root):
        yield ("IMG007", f"has {active}", "remove it: pictures do not run programs", "error")
    if _drawn(root) > MOST_ELEMENTS:
        yield ("IMG013", f"draws more than {MOST_ELEMENTS:,} elements through its <use>", "draw it with less", "error")
    if target := _outward(root):
        yield ("IMG008", f"refers to '{target[:60]}'", "embed what it needs", "error")
    if not _grounded(root, box):
        yield ("IMG010", "has no opaque ground: dark strokes vanish at night",
               "draw a white rect over the whole viewBox first, or use currentColor", "warning")


# --- size ---


def _length(value: str | None) -> float:
    found = _LENGTH.match(value or "")
    return float(found[1]) * _UNITS[(found[2] or "").lower()] if found else 0.0


def _box(root: etree._Element) -> tuple[float, ...]:
    """viewBox as four numbers, or ()."""
    numbers = tuple(float(n) for n in _NUMBER.findall(root.get("viewBox") or ""))
    return numbers if len(numbers) == 4 and numbers[2] > 0 and numbers[3] > 0 else ()


def _from_box(box: tuple[float, ...], width: float, height: float) -> tuple[float, float]:
    ratio = box[3] / box[2]
    if width:
        return width, width * ratio
    if height:
        return height / ratio, height
    return box[2], box[3]


# --- what it costs ---


def _drawn(root: etree._Element) -> int:
    """Elements that a viewer draws, <use> followed; one that uses itself counts as too many."""
    named = {e.get("id"): e for e in root.iter(etree.Element) if e.get("id")}
    known: dict[etree._Element, int] = {}

    def count(element: etree._Element, depth: int) -> int:
        if element in known:
            return known[element]
        if depth > 400:
            return MOST_ELEMENTS + 1
        known[element] = MOST_ELEMENTS + 1  # until it is known: who comes by again is in a circle
        total = 1 + sum(count(child, depth + 1) for child in element.iterchildren(etree.Element))
        if element.tag == _SVG + "use":
            target = (element.get("href") or element.get(_XLINK + "href") or "").strip().removeprefix("#")
            total += count(named[target], depth + 1) if target in named else 0
        known[element] = min(total, MOST_ELEMENTS + 1)
        return known[element]

    return count(root, 0)


# --- what runs or loads ---


def _active(root: etree._Element) -> str:
    for element in root.iter(etree.Element):
        if etree.QName(element).localname == "script":
            return "a script"
        for name, value in element.attrib.items():
            if name.lower().startswith("on"):
                return f"the event handler {name}"
            if value.strip().lower().startswith("javascript:"):
                return "a javascript: link"
    return ""


def _outward(root: etree._Element) -> str:
    """The first reference to something outside the file; links that a reader may click are none."""
    declared = root.getroottree().docinfo.internalDTD
    for entity in declared.iterentities() if declared is not None else ():
        if entity.system_url:
            return entity.system_url
    for element in root.iter(etree.Element):
        if element.tag != _SVG + "a":
            for name in ("href", _XLINK + "href", "src"):
                target = (element.get(name) or "").strip()
                if target and not target.startswith(("#", "data:")):
                    return target
        styles = [element.text or ""] if element.tag == _SVG + "style" else []
        for text in (*styles, *element.attrib.values()):
            for found in _URL.finditer(text):
                target = (found[1] or found[2] or "").strip()
                if not target.startswith(("#", "data:")):
                    return target
    return ""


# --- the ground ---


def _grounded(root: etree._Element, box: tuple[float, ...]) -> bool:
    """Does the drawing bring its own ground, or follow the colour of the text around?"""
    text = etree.tostring(root, encoding="unicode")
    if "currentColor" in text or "prefers-color-scheme" in text:
        return True
    if re.search(r"background(-color)?\s*:\s*(?!none|transparent)", root.get("style", "")):
        return True
    if not box:
        box = (0.0, 0.0, _length(root.get("width")), _length(root.get("height")))
    seen = 0
    for element in root.iter(etree.Element):
        name = etree.QName(element).localname
        if name not in _SHAPES or any(etree.QName(a).localname in ("defs", "clipPath", "mask", "symbol")
                                      for a in element.iterancestors()):
            continue
        if _covers(element, name, box) and _opaque(element):
            return True
        seen += 1
        if seen >= _LOOK_AT:
            break
    return False


def _opaque(element: etree._Element) -> bool:
    style = dict(p.split(":", 1) for p in element.get("style", "").replace(" ", "").split(";") if ":" in p)
    fill = style.get("fill", element.get("fill", "black" if element.get("class") is None else "class"))
    dims = [style.get(n, element.get(n, "1")) for n in ("opacity", "fill-opacity")]
    return fill not in ("none", "transparent") and all(d in ("1", "1.0", "100%") for d in dims)


def _covers(element: etree._Element, name: str, box: tuple[float, ...]) -> bool:
    """Does a rect, or a path of straight lines, reach all four edges of the box?"""
    if name == "rect":
        values = []
        for at, key in enumerate(("x", "y", "width", "height")):
            value = element.get(key, "0")
            full = value.endswith("%") and box[at] if at > 1 else 0.0
            values.append(full * float(value[:-1]) / 100 if full else _length(value))
        edges = (values[0], values[1], values[0] + values[2], values[1] + values[3])
    elif name in ("path", "polygon"):
        outline = element.get("d" if name == "path" else "points", "")
        if re.search(r"[a-df-km-yA-DF-KN-Y]", outline):  # anything but M, L, Z (and exponents)
            return False
        numbers = [float(n) for n in _NUMBER.findall(outline)]
        if len(numbers) < 8:
            return False
        xs, ys = numbers[0::2], numbers[1::2]
        edges = (min(xs), min(ys), max(xs), max(ys))
    else:
        return False
    slack_x, slack_y = box[2] * 0.02, box[3] * 0.02
    return (edges[0] <= box[0] + slack_x and edges[1] <= box[1] + slack_y
            and edges[2] >= box[0] + box[2] - slack_x and edges[3] >= box[1] + box[3] - slack_y)
