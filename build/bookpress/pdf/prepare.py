"""A chapter's body as the page wants it: the last change of markup before layout.

In: a Chapter (body as in the contract of `model`). Out: one XHTML document as text. Footnotes move to the place of
their reference, links to other chapters get room for a page number, formulas become drawings with their TeX as
alternative text, code gets rows that fit, rows of stacked tables get their labels.
"""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

from .. import breaks, code, glyphs, mathtex, templates
from ..model import Chapter
from ..problems import Problem

_SHARE = re.compile(r"\bwidth-(\d+)")
_TEXT = re.compile(r">[^<]+")
_MATH = "{http://www.w3.org/1998/Math/MathML}math"
# Where a page number in brackets would disturb more than it helps.
_NO_SLOT = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "figcaption", "table", "summary"})
# Where a note cannot float to the foot of the page: the layout splits these or repeats them.
_NO_FLOAT = frozenset({"table", "figcaption", "h1", "h2", "h3", "h4", "h5", "h6"})
# Ems of "(p. )" with the space before it, and of a digit. A number with a digit more than expected still
# fits: it takes the space.
_BRACKETS, _DIGIT = 2.0, 0.497
_ANNOUNCED = frozenset({"figure", "ul", "ol", "dl", "table", "div", "pre", "blockquote"})


@dataclass(frozen=True)
class Setting:
    """What all pieces of a book share, as far as the pages show it."""

    title: str
    language: str
    columns: int
    source_url: str  # pattern for files of the book that are no chapter; "" when unknown
    running: str  # left side of the running head
    measure: int  # width of the text in CSS pixels
    digits: tuple[tuple[str, int], ...] = ()  # link target → digits that its page number will have


def chapter_markup(
    chapter: Chapter, setting: Setting, drawings: dict[str, bytes], problems: list[Problem]
) -> str:
    """The document that is laid out for `chapter`; fills `drawings` with drawings by name."""
    root = etree.fromstring(chapter.body)
    _opening(root, chapter)
    breaks.bind_marks(root)
    _footnotes(root)
    _links(root, setting)
    _formulas(root, chapter.path, drawings, problems)
    code.fit(root, setting.columns)
    _tables(root)
    _lists(root)
    _images(root, setting.measure)
    body = etree.tostring(root, encoding="unicode")
    return page(setting, chapter.title, body, "chapter")


def page(setting: Setting, title: str, body: str, kind: str) -> str:
    """Any piece in the shell of the print edition."""
    return templates.env().get_template("print.html").render(
        setting=setting, title=title, body=templates.markup(_printable(body)), kind=kind
    )


def _printable(body: str) -> str:
    """Text with U+FFFD for what no face can set (`glyphs` has reported it), rather than an empty box."""
    if body.isascii():
        return body
    lost = {c: "\ufffd" for c in set(body) if not c.isascii() and not glyphs.has(c)}
    if not lost:
        return body
    table = str.maketrans({c: "" if unicodedata.combining(c) else sign for c, sign in lost.items()})
    return _TEXT.sub(lambda m: m[0].translate(table), body)


def _sub(parent: etree._Element, tag: str, text: str = "", **attributes: str) -> etree._Element:
    element = etree.SubElement(parent, tag, {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items()})
    element.text = text or None
    return element


def _opening(root: etree._Element, chapter: Chapter) -> None:
    """Number, title, summary and the facts of the last check, as the head of the first page."""
    head = root.find("h1")
    if head is None:
        return
    meta = chapter.meta
    header = etree.Element("header", {"class": "opening"})
    header.tail = head.tail
    head.tail = None
    root.replace(head, header)
    header.append(head)
    if meta.summary:
        _sub(header, "p", meta.summary, class_="lead")
    facts = [f"Verified {meta.verified}"] if meta.verified else []
    if meta.applies_to:
        facts.append("Applies to " + ", ".join(meta.applies_to))
    if facts:
        _sub(header, "p", " · ".join(facts), class_="verified")


def _ancestors(element: etree._Element) -> set[str]:
    return {e.tag for e in element.iterancestors() if isinstance(e.tag, str)}


def _footnotes(root: etree._Element) -> None:
    """Move each note to its first reference, from where it floats to the foot of the page.

    Notes first called inside a table, caption or heading stay at the chapter's end under their numbers.
    """
    section = root.find("section[@class='footnotes']")
    if section is None:
        return
    notes = {li.get("id"): li for li in section.iter("li") if li.get("id")}
    for back in [a for a in section.iter("a") if a.get("class") == "fnback"]:
        _drop(back)
    for reference in [a for a in root.iter("a") if a.get("class") == "fnref"]:
        note = notes.get((reference.get("href") or "").removeprefix("#"))
        if note is None or _ancestors(reference) & _NO_FLOAT or section in reference.iterancestors():
            continue
        del notes[note.get("id")]
        _float(note, reference)
    if not notes:
        section.getparent().remove(section)
        return
    section.find("ol").set("class", "notes")
    for note in notes.values():
        label = _sub(note, "span", _number(note), class_="fnlabel")
        note.insert(0, label)
        label.tail, note.text = note.text, None


def _number(note: etree._Element) -> str:
    return note.get("id").removeprefix("fn-")


def _float(note: etree._Element, reference: etree._Element) -> None:
    """Put the note's content right after its reference."""
    float_ = etree.Element("span", {"class": "footnote", "id": note.get("id")})
    if note.get("data-line"):
        float_.set("data-line", note.get("data-line"))
    label = _sub(float_, "span", _number(note), class_="fnlabel")
    blocks = list(note)
    if len(blocks) == 1 and blocks[0].tag == "p":
        label.tail = blocks[0].text
        float_.extend(list(blocks[0]))
    else:
        label.tail = note.text
        for n, block in enumerate(blocks):
            if block.tag == "p":
                block.tag = "span"
                block.set("class", "para" if n else "para first")
            float_.append(block)
    float_.tail, reference.tail = reference.tail, None
    note.getparent().remove(note)
    reference.addnext(float_)


def _drop(element: etree._Element) -> None:
    """Remove an element, keep what follows it."""
    parent, before = element.getparent(), element.getprevious()
    tail = element.tail or ""
    if before is not None:
        before.tail = (before.tail or "") + tail
    else:
        parent.text = (parent.text or "") + tail
    parent.remove(element)


def _links(root: etree._Element, setting: Setting) -> None:
    """Room for page numbers after links to other chapters; addresses for files of the book."""
    digits: Mapping[str, int] = dict(setting.digits)
    # The block is kept beside its number: lxml gives the number of one that nobody holds to another element.
    seen: dict[tuple[int, str], etree._Element] = {}
    for link in [a for a in root.iter("a") if a.get("href")]:
        href = link.get("href")
        if href.startswith("file:"):
            path = href.removeprefix("file:")
            if setting.source_url:
                link.set("href", setting.source_url.replace("{path}", path))
            else:
                del link.attrib["href"]
        elif href.startswith("book:") and not _ancestors(link) & _NO_SLOT:
            block = next(e for e in link.iterancestors() if e.get("data-line") or e is root)
            place = (id(block), href)
            if place not in seen:
                seen[place] = block
                width = _BRACKETS + _DIGIT * digits.get(href, 3)
                _sub(link, "span", class_="slot", data_style="reference", style=f"width:{width:.2f}em")


def _formulas(root: etree._Element, path: str, drawings: dict[str, bytes], problems: list[Problem]) -> None:
    """Formulas as drawings; the TeX is their alternative text."""
    for math in list(root.iter(_MATH)):
        try:
            svg, width, height, depth = mathtex.to_svg(math)
        except mathtex.Undrawable:  # `parse` has reported it; where the book goes on, the TeX stands here
            words = etree.Element("code")
            words.text, words.tail = math.get("alttext"), math.tail
            math.getparent().replace(math, words)
            continue
        name = f"{len(drawings)}.svg"
        drawings[name] = svg
        image = etree.Element("img", {
            "class": "formula", "src": f"drawing:{name}", "alt": math.get("alttext") or "formula",
            "style": f"width:{width:.4f}em;height:{height:.4f}em;vertical-align:{-depth:.4f}em",
        })  # fmt: skip
        image.tail = math.tail
        math.getparent().replace(math, image)


def _tables(root: etree._Element) -> None:
    """Tables that are stacked become lists of column name and value, one list a row."""
    for figure in list(root.iter("figure")):
        table = figure.find("table")
        if table is None or "stack" not in (figure.get("class") or "").split():
            continue
        heads = table.findall("thead/tr/th")
        figure.set("class", "table stacked")
        for row in table.iterfind("tbody/tr"):
            pairs = _sub(figure, "dl", class_="record")
            for head, cell in zip(heads, list(row), strict=False):
                term = _sub(pairs, "dt")
                term.text = head.text
                term.extend(copy.deepcopy(child) for child in head)
                cell.tag = "dd"
                cell.attrib.pop("class", None)
                pairs.append(cell)
        figure.remove(table)


def _lists(root: etree._Element) -> None:
    """Numbers of ordered lists as style, as with images; a line that announces a block stays with it."""
    for element in root.iter("ol"):
        start = element.get("start") or ""
        if start.lstrip("-").isdigit():
            element.set("style", f"counter-reset: list-item {int(start) - 1}")
    for element in root.iter("li"):
        if (element.get("value") or "").isdigit():
            element.set("style", f"counter-set: list-item {element.get('value')}")
    for element in root.iter("p"):
        following = element.getnext()
        if following is not None and following.tag in _ANNOUNCED:
            said = "".join(element.itertext()).rstrip()
            if said.endswith(":") and element.get("class") is None:
                element.set("class", "announces")


def _images(root: etree._Element, measure: int) -> None:
    """Sizes as style: the layout takes no sizes from attributes. In a table, a share of the width is the most."""
    for row in root.iter("tr"):
        for image in row.iter("img"):
            if image.get("class") != "formula":
                most = measure // max(len(row), 1) - 14  # what the cell's padding leaves
                width, share = image.get("width") or "", _SHARE.search(image.get("class") or "")
                wanted = most * int(share[1]) // 100 if share else int(width) if width.isdigit() else 0
                image.set("width", str(max(min(wanted or most, most), 1)))
    for image in root.iter("img"):
        if image.get("class") == "formula":
            continue
        width = image.get("width") or ""
        if width.isdigit() and width != "0":
            image.set("style", f"width:{width}px")
        elif share := _SHARE.search(image.get("class") or ""):
            image.set("style", f"width:{share[1]}%")
