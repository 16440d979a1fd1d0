"""Two faults of WeasyPrint 70.0 mended: a word alone on its line in a paragraph, and footnotes that are lost.

Text that ends in a space before an inline element ("… corrected in <code>") may fit its line while the space does
not. Layout then takes the line for one that cannot be broken, breaks after its first word, or hyphenates that
word, and leaves the rest of the line empty. Such a space may hang over the edge: it has no ink. A no-break space
may not: it takes its word along to the next line, with what it holds to that ("1.9 " before "TB/s").

A line that fits its page only because notes called above it move on to the next page was put there without a look
at the notes that it calls itself, and those never appeared. They move on too.
"""

from __future__ import annotations

from weasyprint.layout import block, inline
from weasyprint.text import line_break

_split = line_break.split_first_line
_lines = block._linebox_layout
_SPACES = (" ", "\u00a0", "\u202f")
_LEAST = 0.28  # ems; a text whose characters are narrower on average is not tried


def mend() -> None:
    inline.split_first_line = _split_first_line
    block._linebox_layout = _linebox_layout


def _split_first_line(
    text: str, style, context, max_width, justification_spacing, is_line_start=True, minimum=False
):  # fmt: skip
    """line_break.split_first_line, with the hanging space and with the no-break space that must not hang."""
    found = _split(text, style, context, max_width, justification_spacing, is_line_start, minimum)
    resume_at = found[2]
    if resume_at is None or max_width is None or not text.endswith(_SPACES):
        return found
    if style["white_space"] != "normal" or len(text) * style["font_size"] * _LEAST > max_width:
        return found
    shown = text.rstrip("".join(_SPACES))
    without = _split(shown, style, context, max_width, justification_spacing, is_line_start, minimum)
    if without[2] is not None or without[3] > max_width:
        return found
    width = None if text.endswith(" ") else without[3] - 1  # too narrow for the last word
    return _split(text, style, context, width, justification_spacing, is_line_start, minimum)


def _linebox_layout(context, box, index, child, new_children, *rest):
    """block._linebox_layout, with no note left behind by the last line that it placed."""
    found = _lines(context, box, index, child, new_children, *rest)
    abort, _, _, _, new_footnotes, _ = found
    if not abort and new_children and context.footnotes:
        called = [d.footnote for d in new_children[-1].descendants() if d.footnote in context.footnotes]
        for footnote in called:
            context.layout_footnote(footnote)
            context.report_footnote(footnote)
            new_footnotes.append(footnote)
    context.reported_footnotes.sort(key=_place)  # those that move on together keep their order
    return found


def _place(footnote) -> int:
    """The number of a note: prepare.py gives it the id `fn-N`."""
    return int(footnote.element.get("id").rpartition("-")[2])
