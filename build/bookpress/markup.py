"""Beside parse: builds the chapter's tree from Markdown blocks and raw HTML, well-formed by construction.

Raw HTML opens and closes wherever its author liked; Markdown blocks nest properly. Both go through one
stack. Rules follow the HTML parser where it matters: a block ends an open paragraph, formatting that a
block interrupts goes on inside it, omitted end tags are implied. What stays open or closes nothing is
reported, never guessed in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lxml import etree

from . import controls
from .html import HEADINGS, PHRASING, TABLE_PARTS, VOID

Place = tuple[int, int]
Report = Callable[..., None]

# Containers that hold text only in paragraphs; others (div, li, td …) take it bare.
_PROSE = frozenset(("section", "blockquote", "aside", "details"))
_NO_BLOCKS = HEADINGS | {"pre", "summary"}
_OMITTABLE = frozenset(("p", "li", "td", "th", "tr", "dt", "dd", "thead", "tbody", "tfoot"))
_CELLS = frozenset(("td", "th"))
_UNLINED = _CELLS | TABLE_PARTS - {"tr"} | {"figcaption"}  # they stand in what has a line


@dataclass(eq=False)
class Frame:
    """An open element. `raw`: opened by an HTML tag, `implied`: by a rule, else by Markdown."""

    element: etree._Element
    raw: bool = False
    implied: bool = False
    place: Place = (0, 0)

    @property
    def tag(self) -> str:
        return self.element.tag


@dataclass(eq=False)
class Format:
    """Raw inline markup that is open; `frame` is None while a block interrupts it."""

    tag: str
    attrs: dict[str, str]
    place: Place
    depth: int  # ends with the container at this height of the stack
    frame: Frame | None = None


class Builder:
    """The tree under construction."""

    def __init__(self, report: Report):
        self.root = etree.Element("section")
        self.stack = [Frame(self.root)]
        self.formats: list[Format] = []
        self.report = report
        self.line = ""  # of what is being read; for paragraphs that only a rule opens
        self.muted = False  # inside what is no text for a reader (script, style)
        self._words: list[str] = []
        self._line, self._blank = "", True  # of the words that wait

    # --- what readers call ---

    def text(self, words: str) -> None:
        if self.muted:
            return
        if not self._words or self._blank:
            self._line, self._blank = self.line, words.isspace()
        self._words.append(words)

    def open(self, tag: str, attrs: dict[str, str] | None = None, **how) -> Frame | None:
        """Open an element. None when it cannot stand here and only its content is kept."""
        self._flush()
        if tag in PHRASING:
            self._ready_for_text()
        elif not self._ready_for_block(tag, how.get("raw", False)):
            return None
        return self._push(tag, attrs or {}, **how)

    def close(self, frame: Frame | None) -> None:
        """Close an element that `open` gave, with all that is open in it."""
        self._flush()
        if frame is not None and frame in self.stack:
            while self.stack[-1] is not frame:
                self._imply_end()
            self._pop()

    def void(self, tag: str, attrs: dict[str, str]) -> None:
        """Add br, hr, img or wbr."""
        self._flush()
        if tag != "hr":
            self._ready_for_text()
        elif not self._ready_for_block(tag, raw=True):
            return
        etree.SubElement(self.stack[-1].element, tag, attrs)

    def add(self, block: etree._Element) -> None:
        """Add a finished block."""
        self._flush()
        self._ready_for_block(block.tag)
        self.stack[-1].element.append(block)

    def leave_link(self) -> bool:
        """End a raw link, as HTML does before a new one. False inside a Markdown link, which stays."""
        self._flush()
        self._end_format("a", (0, 0), quiet=True)
        return not any(frame.tag == "a" for frame in self.stack)

    def start_tag(self, tag: str, attrs: dict[str, str], place: Place, line: str) -> None:
        """A raw start tag of the allow-list."""
        if tag in VOID:
            self.void(tag, attrs)
        elif tag in PHRASING:
            self._start_format(tag, attrs, place)
        elif self._structure(tag):
            lined = {} if tag in _UNLINED else {"data-line": line}
            self.open(tag, {**attrs, **lined}, raw=True, place=place)
        else:
            home = "details" if tag == "summary" else "figure" if tag == "figcaption" else "table"
            self.report("MDN013", place, f"<{tag}> stands outside a <{home}>", level="warning")

    def end_tag(self, tag: str, place: Place) -> None:
        """A raw end tag: closes the nearest raw element of its name that Markdown does not wall off."""
        self._flush()
        if tag in PHRASING:
            self._end_format(tag, place)
            return
        for frame in reversed(self.stack):
            if frame.tag == tag and (frame.raw or tag == "p"):
                self.close(frame)
                return
            if not frame.raw and not frame.implied and frame.tag != "p" and frame.tag not in PHRASING:
                break
        if tag != "p":
            self.report("MDN004", place, f"</{tag}> closes nothing", level="warning")

    def finish(self) -> etree._Element:
        """Close everything. Out: the root."""
        self._flush()
        while len(self.stack) > 1:
            self._imply_end()
        self._end_formats()
        return self.root

    # --- the stack ---

    def _push(self, tag: str, attrs: dict[str, str], **how) -> Frame:
        frame = Frame(etree.SubElement(self.stack[-1].element, tag, attrs), **how)
        self.stack.append(frame)
        return frame

    def _pop(self) -> Frame:
        self._flush()
        frame = self.stack.pop()
        for format_ in self.formats:
            if format_.frame is frame:
                format_.frame = None
        self._end_formats()
        return frame

    def _end_formats(self) -> None:
        for format_ in [f for f in self.formats if f.depth > len(self.stack)]:
            self.formats.remove(format_)
            self._unclosed(format_.tag, format_.place)

    def _unclosed(self, tag: str, place: Place) -> None:
        self.report("MDN003", place, f"<{tag}> is not closed", f"add </{tag}>", level="warning")

    def _imply_end(self) -> None:
        """Close the top element although nobody asked: a rule of HTML, or an omission to report."""
        frame = self._pop()
        if frame.raw and frame.tag not in _OMITTABLE and frame.tag not in PHRASING:
            self._unclosed(frame.tag, frame.place)

    def _flush(self) -> None:
        if not self._words:
            return
        words, self._words = "".join(self._words), []
        if not words.isascii():
            words = controls.shown(words)
        blank = not words.strip(" \t\n")
        tag = self.stack[-1].tag
        if blank and (tag in _PROSE or tag in TABLE_PARTS or tag in ("ul", "ol", "dl", "table", "figure")):
            return
        if not blank:
            line, self.line = self.line, self._line
            self._ready_for_text()
            self.line = line
        parent = self.stack[-1].element
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + words
        else:
            parent.text = (parent.text or "") + words

    # --- what may stand where ---

    def _ready_for_text(self) -> None:
        self._fit("")
        if self.stack[-1].tag in _PROSE:
            self._push("p", {"data-line": self.line} if self.line else {}, implied=True)
        for format_ in self.formats:
            if format_.frame is None:
                attrs = {k: v for k, v in format_.attrs.items() if k != "id"}
                format_.frame = self._push(format_.tag, attrs, raw=True)

    def _ready_for_block(self, tag: str, raw: bool = False) -> bool:
        while (top := self.stack[-1].tag) in PHRASING or top == "p":
            self._pop()
        if top in _NO_BLOCKS:
            if tag in HEADINGS and top == "summary":
                return True
            # <h1> around a Markdown paragraph is a heading; a second block in it was never meant.
            element = self.stack[-1].element
            begun = len(element) or (element.text or "").strip()
            if tag not in HEADINGS and (raw or (tag == "p" and not begun)):
                return False
            self._imply_end()
            return self._ready_for_block(tag, raw)
        self._fit(tag)
        return True

    def _fit(self, tag: str) -> None:
        """Open the list item or cell that content needs and its author left out."""
        top = self.stack[-1].tag
        if top in ("ul", "ol") and tag != "li":
            self._push("li", {}, implied=True)
        elif top == "dl" and tag not in ("dt", "dd", "div"):
            self._push("dd", {}, implied=True)
        elif (top == "table" or top in TABLE_PARTS - {"caption"}) and tag not in TABLE_PARTS | _CELLS:
            if top == "table":
                self._push("tbody", {}, implied=True)
            if self.stack[-1].tag != "tr":
                self._push("tr", {}, implied=True)
            self._push("td", {}, implied=True)

    def _nearest(self, names: frozenset[str] | set[str]) -> Frame | None:
        """The innermost open element of these names that raw HTML may still add to."""
        for frame in reversed(self.stack):
            if frame.tag in names:
                return frame
            if not frame.raw and not frame.implied and frame.tag != "p" and frame.tag not in PHRASING:
                return None
        return None

    def _back_to(self, frame: Frame) -> None:
        while self.stack[-1] is not frame:
            self._imply_end()

    def _structure(self, tag: str) -> bool:
        """Make room for a list or table part. False when it has no list or table to stand in."""
        self._flush()
        if tag == "li":
            home = self._nearest({"ul", "ol"})
            if home is None:
                self.open("ul", raw=False, implied=True)
            else:
                self._back_to(home)
        elif tag in ("dt", "dd"):
            home = self._nearest({"dl"})
            if home is None:
                self.open("dl", implied=True)
            else:
                self._back_to(home)
        elif tag in TABLE_PARTS or tag in _CELLS:
            return self._table_part(tag)
        elif tag == "summary":
            top = self.stack[-1]
            return top.tag == "details" and not len(top.element)
        elif tag == "figcaption":
            return self.stack[-1].tag == "figure"
        return True

    def _table_part(self, tag: str) -> bool:
        table = self._nearest({"table"})
        if table is None:
            return False
        groups = {"thead", "tbody", "tfoot", "table"}
        if tag in groups or tag == "caption":
            home = table
        else:
            home = self._nearest(groups if tag == "tr" else groups | {"tr"}) or table
        self._back_to(home)
        if home is table and (tag == "tr" or tag in _CELLS):
            self._push("tbody", {}, implied=True)
        if tag in _CELLS and self.stack[-1].tag != "tr":
            self._push("tr", {}, implied=True)
        return True

    # --- raw inline markup ---

    def _start_format(self, tag: str, attrs: dict[str, str], place: Place) -> None:
        self._flush()
        if tag == "a" and "href" not in attrs:
            # A target, however it is closed: <a name="x">, with or without </a>.
            if "id" in attrs:
                self._ready_for_text()
                linked = any(frame.tag == "a" for frame in self.stack)
                target = "span" if linked else "a"
                etree.SubElement(self.stack[-1].element, target, {"id": attrs["id"]})
            return
        if tag == "a" and not self.leave_link():
            return
        self._ready_for_text()
        depth = next(
            n for n in range(len(self.stack), 0, -1)
            if self.stack[n - 1].tag not in PHRASING
            and not (self.stack[n - 1].tag == "p" and self.stack[n - 1].implied)
        )  # fmt: skip
        frame = self._push(tag, attrs, raw=True, place=place)
        self.formats.append(Format(tag, attrs, place, depth, frame))

    def _end_format(self, tag: str, place: Place, quiet: bool = False) -> None:
        found = next((f for f in reversed(self.formats) if f.tag == tag), None)
        if found is None:
            if tag != "a" and not quiet:
                self.report("MDN004", place, f"</{tag}> closes nothing", level="warning")
            return
        if found.frame is not None:
            inner = self.stack[self.stack.index(found.frame) + 1 :]
            if any(not f.raw for f in inner):
                if not quiet:
                    self.report("MDN004", place, f"</{tag}> stands inside other markup", level="warning")
                return
            self.close(found.frame)
        self.formats.remove(found)
