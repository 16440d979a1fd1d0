"""Chapter bodies → XHTML pages of the EPUB.

Stands between the linked Book and the package: comes in a Chapter whose body keeps the contract of
model.py; goes out the bytes of one XHTML file. Links, images and notes take the form that reading
systems act on; the text of the chapter is never changed.

`line_map` says which Markdown line each line of a page came from. It writes the page once more with
the line marks kept: attributes move columns, never lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from .. import breaks
from ..model import Book, Chapter
from ..problems import Problem
from ..templates import env, markup

XHTML = "http://www.w3.org/1999/xhtml"
OPS = "http://www.idpf.org/2007/ops"
TYPE = f"{{{OPS}}}type"
MATHML, SVG = "http://www.w3.org/1998/Math/MathML", "http://www.w3.org/2000/svg"

CHAPTERS = "chapters/"  # folder of chapter pages: a chapter's slug cannot meet a page of ours

MANY = 5  # columns that a phone held upright cannot show side by side
PHONE = 50  # characters of a line of such a phone in a table's type
_MARK = re.compile(r'data-line="(\d+)"')
_WORDS = re.compile(r"\s+|(?<=-)")  # between them a line may end
VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)


@dataclass(frozen=True)
class Page:
    """One XHTML file of the book."""

    name: str  # path inside the package folder
    title: str  # plain text
    content: bytes
    problems: tuple[Problem, ...] = ()


def name_of(slug: str) -> str:
    return f"{CHAPTERS}{slug}.xhtml"


def source_url(book: Book, path: str) -> str:
    """The address of a file of the book's folder, or "" when the book does not say where it lives."""
    pattern, commit = book.config.source_url, book.stamp.commit
    if not pattern or ("{commit}" in pattern and not commit):
        return ""
    file, mark, anchor = path.partition("#")
    return pattern.replace("{commit}", commit).replace("{path}", file) + mark + anchor


def properties(content: bytes) -> tuple[str, ...]:
    """Manifest properties, read off the finished page (EPUBCheck: OPF-014, OPF-015)."""
    found = set()
    for element in etree.fromstring(content).iter(etree.Element):
        name = etree.QName(element)
        if name.namespace == MATHML:
            found.add("mathml")
        elif name.namespace == SVG:
            found.add("svg")
        elif name.localname == "script":
            found.add("scripted")
        elif name.localname not in ("a", "link") and re.match(
            r"(https?:)?//", element.get("src") or element.get("data") or ""
        ):
            found.add("remote-resources")
    return tuple(sorted(found))


def chapter_page(
    book: Book, chapter: Chapter, images: Mapping[str, str], matter: str = "", marks: bool = False
) -> Page:
    """The page of a chapter. `images` maps asset keys to names in the package; `matter` says where in the
    book it stands; `marks` keeps the line marks."""
    try:
        root = etree.fromstring(chapter.body.replace("<section", f'<section xmlns:epub="{OPS}"', 1))
    except etree.XMLSyntaxError as error:
        problem = Problem(chapter.path, 0, 0, "EPB005", f"{chapter.slug}: {error.msg}")
        return Page(name_of(chapter.slug), chapter.title, b"", (problem,))
    problems = tuple(_resources(chapter, root, images))
    _links(book, root)
    _notes(root)
    _semantics(root, bool(chapter.number))
    _tables(root)
    _forms(root)
    _about(root, chapter)
    breaks.hold_hyphens(root)
    if not marks:
        _drop_marks(root)
    text = env().get_template("chapter.xhtml").render(
        book=book, title=chapter.title or chapter.slug, css="../css/epub.css", matter=matter, body=markup(serialise(root))
    )
    return Page(name_of(chapter.slug), chapter.title, text.encode(), problems)


def line_map(book: Book, chapter: Chapter, images: Mapping[str, str]) -> Callable[[int, int], int]:
    """A function from a place in the chapter's page (line, column or 0) to the line of its Markdown file.

    0 means unknown. A column counts as EPUBCheck counts: just behind the tag that it complains of.
    """
    bare, marked = (
        chapter_page(book, chapter, images, marks=marks).content.decode().splitlines()
        for marks in (False, True)
    )
    last = [0]  # the last mark up to the end of each line
    for text in marked:
        marks = _MARK.findall(text)
        last.append(int(marks[-1]) if marks else last[-1])

    def to_markdown(line: int, column: int = 0) -> int:
        if not 0 < line <= len(marked):
            return 0
        tags = bare[line - 1][: column - 1].count("<") if column > 1 else 1
        before = "<".join(marked[line - 1].split("<")[: tags + 1])
        marks = _MARK.findall(before) or ([] if column else _MARK.findall(marked[line - 1])[:1])
        return int(marks[-1]) if marks else last[line - 1]

    return to_markdown


def serialise(root: etree._Element) -> str:
    """XHTML that an HTML parser reads the same way: only void elements close themselves."""
    for element in root.iter(etree.Element):
        foreign = etree.QName(element).namespace in (MATHML, SVG)
        if not foreign and element.text is None and len(element) == 0 and element.tag not in VOID:
            element.text = ""
    return etree.tostring(root, encoding="unicode", with_tail=False)


# --- links and images -----------------------------------------------------------------------------


def _resources(chapter: Chapter, root: etree._Element, images: Mapping[str, str]) -> Iterator[Problem]:
    for image in root.iter("img"):
        source = image.get("src") or ""
        key = source.removeprefix("asset:")
        if key in images:
            image.set("src", "../" + images[key])
            continue
        line = next((int(e.get("data-line")) for e in _upwards(image) if e.get("data-line")), 0)
        if re.match(r"(https?:)?//", source):
            yield Problem(chapter.path, line, 0, "EPB004", f"{source} is on the network")
        else:
            yield Problem(chapter.path, line, 0, "EPB003", f"{key} cannot be carried")


def _upwards(element: etree._Element) -> Iterator[etree._Element]:
    while element is not None:
        yield element
        element = element.getparent()


def _links(book: Book, root: etree._Element) -> None:
    for link in root.iter("a"):
        href = link.get("href") or ""
        scheme, _, rest = href.partition(":")
        if scheme == "book":
            slug, mark, anchor = rest.partition("#")
            link.set("href", f"{slug}.xhtml{mark}{anchor}")
        elif scheme == "file":
            url = source_url(book, rest)
            if url:
                link.set("href", url)
            else:  # nowhere to go: plain text rather than a dead link
                link.tag = "span"
                del link.attrib["href"]


# --- notes ----------------------------------------------------------------------------------------


def _notes(root: etree._Element) -> None:
    """Notes as `aside epub:type="footnote"`: what reading systems open as a pop-up."""
    for reference in root.iterfind(".//a[@class='fnref']"):
        reference.set(TYPE, "noteref")
    for section in root.iterfind(".//section[@class='footnotes']"):
        section.attrib.pop("role", None)
        section.set(TYPE, "footnotes")
        for item in section.findall("ol/li"):
            item.tag = "aside"
            item.attrib.pop("value", None)
            item.set(TYPE, "footnote")
            item.set("role", "doc-footnote")
            _number_note(item)
            section.append(item)
        for emptied in section.findall("ol"):
            section.remove(emptied)


def _number_note(note: etree._Element) -> None:
    first = note.find("p")
    host = note if first is None or (note.text or "").strip() else first
    number = etree.Element("span", {"class": "fnnumber"})
    number.text = note.get("id", "").removeprefix("fn-")
    number.tail = " " + (host.text or "")
    host.text = ""
    host.insert(0, number)


# --- meaning for assistive technology --------------------------------------------------------------


def _semantics(root: etree._Element, numbered: bool) -> None:
    if numbered:  # front and back matter say so on the body; no role would be true of all of them
        root.set(TYPE, "chapter")
        root.set("role", "doc-chapter")
    heading = root.find("h1")
    if heading is not None and heading.get("id"):
        root.set("aria-labelledby", heading.get("id"))
    for aside in root.iter("aside"):
        if "admonition" in (aside.get("class") or "").split():
            aside.set("role", "note")  # else each one is a landmark of the page
    for formula in root.iterfind(".//div[@class='math display']"):
        formula.set("tabindex", "0")  # a long one scrolls, so keys must reach it (Ace)
    for details in root.iter("details"):
        details.set("open", "open")  # many reading systems cannot unfold


def _tables(root: etree._Element) -> None:
    """An empty header cell heads nothing; cells carry their header for narrow screens."""
    for header in root.iter("th"):
        if not "".join(header.itertext()).strip() and header.find(".//img") is None:
            header.tag = "td"
            header.attrib.pop("scope", None)
    for figure in root.iter("figure"):
        kinds = (figure.get("class") or "").split()
        if "table" in kinds:
            for table in figure.iter("table"):
                _label_cells(table, wide="stack" in kinds or "landscape" in kinds)


def _label_cells(table: etree._Element, wide: bool) -> None:
    """Let the style sheet turn rows into blocks: a wide table on any small screen, others on phones."""
    rows = table.findall("thead/tr")
    spans = table.xpath(".//*[@colspan or @rowspan]")
    if len(rows) != 1 or spans or not (wide or len(rows[0]) >= MANY or _least_width(table) > PHONE):
        return
    labels = [" ".join("".join(cell.itertext()).split()) for cell in rows[0]]
    kind = "stacks" if wide else "stacks-late"
    table.set("class", " ".join([*(table.get("class") or "").split(), kind]))
    for row in table.iterfind("tbody/tr"):
        for label, cell in zip(labels, row, strict=False):  # a short row has no cell to label
            if label and (len(cell) or (cell.text or "").strip()):
                cell.set("data-label", label)


def _least_width(table: etree._Element) -> int:
    """Characters that the longest words of all columns take side by side, and gaps; a name in code may be parted."""
    words: dict[int, int] = {}
    for row in table.iter("tr"):
        for column, cell in enumerate(row):
            said = cell.xpath(".//text()[not(ancestor::code)]")
            longest = max((len(word) for text in said for word in _WORDS.split(text)), default=0)
            words[column] = max(words.get(column, 0), longest)
    return sum(words.values()) + 2 * len(words)


def _forms(root: etree._Element) -> None:
    """A task list's box becomes a character: reading systems draw form controls each in its own way."""
    for box in list(root.iter("input")):
        sign = etree.Element("span", {"class": "checkbox", "role": "img"})
        sign.text = "☒" if box.get("checked") is not None else "☐"
        sign.set("aria-label", "done" if box.get("checked") is not None else "to do")
        sign.tail = box.tail
        box.getparent().replace(box, sign)


def _about(root: etree._Element, chapter: Chapter) -> None:
    """The summary and what the chapter was checked on, below its title."""
    heading = root.find("h1")
    meta = chapter.meta
    place = 0 if heading is None else root.index(heading) + 1
    facts = [f"Verified {meta.verified}"] if meta.verified else []
    facts += ["Applies to " + ", ".join(meta.applies_to)] if meta.applies_to else []
    for kind, text in (("verified", " · ".join(facts)), ("summary", meta.summary)):
        if text:
            paragraph = etree.Element("p", {"class": kind})
            paragraph.text, paragraph.tail = text, "\n"
            root.insert(place, paragraph)


def _drop_marks(root: etree._Element) -> None:
    for element in root.iter(etree.Element):
        for name in ("data-line", "data-fence", "data-lang"):
            element.attrib.pop(name, None)
