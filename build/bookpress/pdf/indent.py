"""Blanks that survive copying: indents and gaps in code, said as text.

Used by `layout` while it walks a page. Readers rebuild text from where glyphs stand: they drop what opens a line,
so pasted Python would lose its structure, and make one blank of several; layout itself draws no glyph for blanks
before a change of color. The first piece of an indented line, and any piece with a gap in it, gets an ActualText,
which Poppler's readers (Evince, Okular, pdftotext) then copy. PDFium (Chromium) ignores it.
"""

from __future__ import annotations

import re

from weasyprint.formatting_structure import boxes

_GAP = re.compile(r"\S(?:\s{2,}|\t)\S")


class Indents:
    """Fed with the text boxes of one page in order; knows where lines start."""

    def __init__(self) -> None:
        self.baseline: float | None = None
        self.blanks = ""
        self.opening = False

    def of(self, box: boxes.TextBox) -> str:
        """What the box says where glyphs alone would lose blanks; "" for any other box."""
        baseline = round(box.position_y + box.baseline, 1)
        if baseline != self.baseline:
            self.baseline, self.blanks, self.opening = baseline, "", True
        if not box.text.strip():
            self.blanks += box.text if self.opening else ""
            return ""
        opens, self.opening = self.opening, False
        said = self.blanks + box.text if opens else box.text
        return said if (opens and said[:1].isspace()) or _GAP.search(said) else ""
