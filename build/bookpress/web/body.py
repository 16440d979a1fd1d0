"""A chapter's body for the browser: from the canonical XHTML to the HTML of one page.

Stands between the Book and web/site.py. In: a Chapter and an Address book that turns `book:`, `file:` and
`asset:` targets into relative URLs. Out: HTML markup. What readers of a page need beyond the body is added
here (links to headings, the strip over code, boxes that scroll), what only the press needs is dropped.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

from lxml import etree

from .. import breaks
from ..calculators import ID as CALCULATOR
from ..model import Chapter

HEADINGS = ("h2", "h3", "h4", "h5", "h6")
_VOID_NAMES = "area base br col embed hr img input link meta source track wbr"
_VOID = frozenset(_VOID_NAMES.split())
_NOT_VOID = re.compile(r"<([a-z][a-z0-9]*)((?:\s[^<>]*?)?)/>")

LANGUAGES = {
    "bash": "Shell", "sh": "Shell", "shell": "Shell", "console": "Console", "python": "Python",
    "py": "Python", "yaml": "YAML", "yml": "YAML", "toml": "TOML", "json": "JSON", "c": "C",
    "cpp": "C++", "cuda": "CUDA", "output": "Output", "text": "Text", "txt": "Text", "ini": "INI",
    "dockerfile": "Dockerfile", "sql": "SQL", "make": "Make", "makefile": "Make", "diff": "Diff",
    "xml": "XML", "html": "HTML", "markdown": "Markdown", "md": "Markdown", "perl": "Perl",
    "awk": "awk", "go": "Go", "rust": "Rust",
}  # fmt: skip


def relative(target: str, page: str) -> str:
    """URL of `target` as seen from `page`; both are paths from the site's root."""
    path, mark, fragment = target.partition("#")
    start = posixpath.dirname(page) or "."
    here = posixpath.relpath(path, start) if path else ""
    return quote(here, safe="/._-~()!,'+@=") + mark + fragment


class Body:
    """One chapter on its way to HTML. `resolve` maps book:/file:/asset: to a URL, or None for no link."""

    def __init__(
        self,
        chapter: Chapter,
        resolve: Callable[[str, str], str | None],
        proofs: Mapping[int, str],
        calculators: Callable[[str], str | None] = lambda name: None,
    ):
        self.chapter = chapter
        self.resolve = resolve
        self.calculators = calculators  # name → its definition as JSON
        self.proofs = proofs  # fence index → what to say of its proof
        self.root = etree.fromstring(chapter.body)

    def head_and_rest(self) -> tuple[str, str]:
        """The h1's markup, and everything after it."""
        root = self.root
        for element in root.iter(etree.Element):
            element.attrib.pop("data-line", None)
        self._links()
        self._images()
        self._code()
        self._tables()
        self._calculators()
        self._captions()
        self._headings()
        self._notes()
        breaks.bind_marks(root)
        breaks.hold(root)
        head = root.find("h1")
        title = "" if head is None else _inner(head)
        if head is not None:
            root.remove(head)
        return title, _inner(root)

    def _links(self) -> None:
        for a in list(self.root.iter("a")):
            href = a.get("href")
            if href is None:
                continue
            if href.startswith(("book:", "file:")):
                url = self.resolve(href, self.chapter.url)
                if url is None:  # nothing to point at: the words stay, the link goes
                    a.tag = "span"
                    a.attrib.pop("href")
                    continue
                a.set("href", url)
            if "://" in a.get("href"):
                a.set("rel", "noopener")

    def _images(self) -> None:
        first = True
        for img in self.root.iter("img"):
            src = img.get("src", "")
            if src.startswith("asset:"):
                img.set("src", self.resolve(src, self.chapter.url) or "")
            if not first:
                img.set("loading", "lazy")
            img.set("decoding", "async")
            first = False

    def _code(self) -> None:
        """The strip over a block: language, proof; book.js puts the buttons there."""
        for figure in self.root.iter("figure"):
            if figure.get("class") != "code":
                continue
            lang = figure.attrib.pop("data-lang", "")
            fence = int(figure.attrib.pop("data-fence", "-1"))
            pre = figure.find("pre")
            if pre is None:
                continue
            strip = etree.Element("div", {"class": "ui-strip"})
            name = LANGUAGES.get(lang, lang)
            if name:
                etree.SubElement(strip, "span", {"class": "ui-lang"}).text = name
            proof = self.proofs.get(fence, "")
            if proof:
                etree.SubElement(strip, "span", {"class": "ui-proof", "title": proof}).text = proof
            if not len(strip):
                strip.set("class", "ui-strip ui-bare")
            if lang == "output":
                figure.set("class", "code output")
            figure.insert(figure.index(pre), strip)

    def _tables(self) -> None:
        """A box of its own that scrolls; stacked rows repeat their column's name on a phone."""
        for figure in self.root.iter("figure"):
            kinds = (figure.get("class") or "").split()
            table = figure.find("table")
            if "table" not in kinds or table is None:
                continue
            if "stack" in kinds:
                _label_cells(table)
            caption = figure.find("figcaption")
            box = etree.Element("div", {"class": "ui-scroll"})
            box.set("role", "region")
            box.set("tabindex", "0")
            box.set("aria-label", _text(caption) if caption is not None else "Table")
            box.tail, table.tail = table.tail, None
            figure.replace(table, box)
            box.append(table)

    def _calculators(self) -> None:
        """The definition beside a calculator's table, in characters that need no escaping in a script."""
        for figure in self.root.iter("figure"):
            ident = figure.get("id") or ""
            about = self.calculators(ident.removeprefix(CALCULATOR)) if ident.startswith(CALCULATOR) else None
            if about is not None:
                kind = {"type": "application/json", "class": "ui-calculator"}
                etree.SubElement(figure, "script", kind).text = about

    def _captions(self) -> None:
        """The label of a numbered figure, table, listing or equation links to itself."""
        for element in self.root.iter("figure", "div"):
            ident = element.get("id")
            label = element.find(".//span[@class='label']")
            if ident and label is not None:
                _wrap(label, etree.Element("a", {"class": "ui-self", "href": f"#{ident}"}))

    def _headings(self) -> None:
        """A link to the section beside each heading, outside of it so that its name stays clean."""
        for heading in list(self.root.iter(*HEADINGS)):
            ident = heading.get("id")
            if not ident:
                continue
            box = etree.Element("div", {"class": f"ui-heading ui-{heading.tag}"})
            _wrap(heading, box)
            words = _text(heading)
            link = etree.SubElement(box, "a", {"class": "ui-anchor", "href": f"#{ident}"})
            link.set("aria-label", f"Link to “{words}”")
            link.text = "#"

    def _notes(self) -> None:
        for notes in self.root.iter("section"):
            if notes.get("class") != "footnotes":
                continue
            notes.set("aria-label", "Footnotes")
            for number, item in enumerate(notes.findall("ol/li"), 1):
                # A list may hold list items only; the role of the section says what they are.
                item.attrib.pop("role", None)
                backs = [a for a in item.iter("a") if a.get("class") == "fnback"]
                for count, back in enumerate(backs):
                    again = f", place {count + 1}" if count else ""
                    back.set("aria-label", f"Back to reference {number}{again}")


def _label_cells(table: etree._Element) -> None:
    names = [_text(th) for th in table.findall("thead/tr/th")]
    for row in table.findall("tbody/tr"):
        for name, cell in zip(names, row, strict=False):
            cell.set("data-label", name)


def _wrap(element: etree._Element, box: etree._Element) -> None:
    box.tail, element.tail = element.tail, None
    element.getparent().replace(element, box)
    box.append(element)


def _text(element: etree._Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _open(match: re.Match[str]) -> str:
    name, attributes = match[1], match[2]
    return f"<{name}{attributes}>" if name in _VOID else f"<{name}{attributes}></{name}>"


def html(element: etree._Element) -> str:
    """Serialise as HTML: void elements without a slash, all others with an end tag."""
    text = etree.tostring(element, encoding="unicode", with_tail=False)
    return _NOT_VOID.sub(_open, text)


def _inner(element: etree._Element) -> str:
    bits = [_escape(element.text or "")]
    for child in element:
        bits.append(html(child) + _escape(child.tail or ""))
    return "".join(bits)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
