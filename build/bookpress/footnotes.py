"""Beside parse: footnotes of one chapter, numbered in order of first reference.

pandoc repeats a note's blocks at every reference; the place of the note's text tells which are one. A note
referenced twice is printed once with two ways back (asciidoctor-epub3#447 repeats its id instead).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lxml import etree

from .drafting import Drafting
from .markup import Builder, Place
from .pandoc import Node, first_place

if TYPE_CHECKING:
    from .blocks import Blocks

_DEFINED = re.compile(r"^ {0,3}\[\^([\w.-]+)\]:")
_REFERENCE = re.compile(r"\[\^([\w.-]+)\](?!:)")


def unwound(draft: Drafting, text: str) -> str:
    """Text without references from notes to notes: pandoc drops them, and never ends where they go in a circle."""
    rows, inside, mark = text.split("\n"), "", ""
    for n, row in enumerate(rows):
        words = row.strip()
        if mark or re.match(r"`{3,}[^`]*$|~{3,}", words):
            opened = mark or re.match(r"`+|~+", words)[0]
            mark = "" if mark and words.startswith(mark) and not words.strip(mark[0]) else opened
            continue
        if defined := _DEFINED.match(row):
            inside = defined[1]
        elif row[:1].strip() and (n == 0 or not rows[n - 1].strip()):
            inside = ""
        for call in _REFERENCE.finditer(row) if inside else ():
            message = f"footnote '{inside}' refers to footnote '{call[1]}'; a note in a note is not carried"
            hint = "say it in one note, or refer to both from the text"
            draft.report("MDN016", (n + 1, call.start() + 1), message, hint, draft.lenient)
        if inside:
            rows[n] = _REFERENCE.sub(r"\\[\1\\]", row)
    return "\n".join(rows)


@dataclass
class Note:
    number: int
    blocks: list[Node]
    place: Place
    references: list[str] = field(default_factory=list)  # ids


class Notes:
    """The notes met so far."""

    def __init__(self, draft: Drafting):
        self.draft = draft
        self.found: dict[Place, Note] = {}

    def reference(self, blocks: list[Node], place: Place, builder: Builder) -> None:
        """Write the mark of a note."""
        at = first_place(blocks)
        note = self.found.get(at) or Note(len(self.found) + 1, blocks, at)
        self.found[at] = note
        ident = f"fnref-{note.number}" + (f"-{len(note.references) + 1}" if note.references else "")
        note.references.append(ident)
        if not builder.leave_link():
            mark = builder.open("sup", {"class": "fnref", "id": ident})
            builder.text(str(note.number))
            builder.close(mark)
            return
        attrs = {"class": "fnref", "role": "doc-noteref", "id": ident, "href": f"#fn-{note.number}"}
        link = builder.open("a", attrs)
        mark = builder.open("sup")
        builder.text(str(note.number))
        builder.close(mark)
        builder.close(link)

    def write(self, blocks: Blocks) -> None:
        """Add the section of notes at the end of the chapter; a note may bring further ones."""
        if not self.found:
            return
        builder = blocks.builder
        section = builder.open("section", {"class": "footnotes", "role": "doc-endnotes"})
        listing = builder.open("ol")
        done = 0
        while done < len(self.found):
            note = list(self.found.values())[done]
            line = str(self.draft.line(note.place[0]))
            attrs = {"id": f"fn-{note.number}", "role": "doc-footnote", "data-line": line}
            item = builder.open("li", attrs)
            blocks.write(note.blocks)
            builder.close(item)
            if item is not None:
                _way_back(item.element, note)
            done += 1
        builder.close(listing)
        builder.close(section)

    def check(self) -> None:
        """Report notes that are defined and never referenced; pandoc drops them."""
        used = {row for row, _ in self.found}
        for number, source in enumerate(self.draft.rows, 1):
            match = _DEFINED.match(source)
            # The note's text may begin on a following line.
            near_by = any(number <= row <= number + 2 for row in used)
            if match and not near_by and not self._in_code(number):
                message = f"footnote '{match.group(1)}' is never referenced"
                self.draft.report("MDN008", (number, 1), message, level="warning")

    def _in_code(self, row: int) -> bool:
        line = self.draft.line(row)
        fences = self.draft.fences
        return any(f.line <= line <= f.line + f.text.count("\n") + 2 for f in fences)


def _way_back(item: etree._Element, note: Note) -> None:
    """Append the links back to the last paragraph of a note."""
    last = item[-1] if len(item) and item[-1].tag == "p" else None
    target = last if last is not None else etree.SubElement(item, "p")
    for ident in note.references:
        if len(target):
            target[-1].tail = (target[-1].tail or "") + " "
        else:
            target.text = (target.text or "") + " "
        attrs = {"class": "fnback", "role": "doc-backlink", "href": f"#{ident}"}
        etree.SubElement(target, "a", attrs).text = "↩"


def lint(draft: Drafting, words: str, row: int) -> None:
    """Report `[^x]` that stayed text: its note is nowhere."""
    for match in _REFERENCE.finditer(words):
        place = draft.find(row, match.group(0))
        message = f"footnote '{match.group(1)}' has no text"
        hint = f"add a line [^{match.group(1)}]: …"
        draft.report("MDN007", place, message, hint, draft.lenient)
