"""One fault of WeasyPrint 70.0 mended: a word alone on its line in the middle of a paragraph.

Text that ends in a space before an inline element ("… corrected in <code>") may fit its line while the space does
not. Layout then takes the line for one that cannot be broken, breaks after its first word, or hyphenates that
word, and leaves the rest of the line empty. Such a space may hang over the edge: it has no ink.
"""

from __future__ import annotations

from weasyprint.layout import inline
from weasyprint.text import line_break

_split = line_break.split_first_line
_LEAST = 0.28  # ems; a text whose characters are narrower on average is not tried


def mend() -> None:
    inline.split_first_line = _split_first_line


def _split_first_line(
    text: str, style, context, max_width, justification_spacing, is_line_start=True, minimum=False
):  # fmt: skip
    """line_break.split_first_line, with the hanging space."""
    found = _split(text, style, context, max_width, justification_spacing, is_line_start, minimum)
    resume_at = found[2]
    if resume_at is None or max_width is None or not text.endswith(" "):
        return found
    if style["white_space"] != "normal" or len(text) * style["font_size"] * _LEAST > max_width:
        return found
    without = _split(text.rstrip(" "), style, context, max_width, justification_spacing, is_line_start, minimum)
    if without[2] is not None or without[3] > max_width:
        return found
    return _split(text, style, context, None, justification_spacing, is_line_start, minimum)
