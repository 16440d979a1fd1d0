"""Text flows round a figure that does not fit: what follows it fills the page, and the figure comes after that.

A figure is one block, so where it does not fit its page ends early, by a third and more. WeasyPrint has no floats
that go to the next page; here its layout of a chapter's section is asked again, with the figure behind the block
that followed it. Only the page is laid out again, and only boxes move: tags keep the order of the source.
A figure never passes a heading or another figure, never leaves a line that announces it, and never comes between
a command and its output.
"""

from __future__ import annotations

from weasyprint.formatting_structure import boxes
from weasyprint.layout import block

_lay_out = block.block_container_layout
_HEADINGS = frozenset(("h2", "h3", "h4", "h5", "h6"))
_LEAST = 1 / 8  # of the page's height; less blank is left alone


def flow() -> None:
    block.block_container_layout = _block_container_layout


def _block_container_layout(context, box, *rest, **named):
    """block.block_container_layout; of a chapter's section, with as much text before a figure as there is room."""
    if box.element_tag == "section" and "chapter" in _classes(box):
        return _chapter(context, box, *rest, **named)
    return _lay_out(context, box, *rest, **named)


def _chapter(
    context, box, bottom_space, skip_stack, page_is_empty, absolute_boxes, fixed_boxes, adjoining_margins, *rest
):  # fmt: skip
    top = box.position_y

    def lay_out():
        box.position_y = top
        margins = list(adjoining_margins or ())  # layout adds to it
        return _lay_out(
            context, box, bottom_space, skip_stack, page_is_empty, absolute_boxes, fixed_boxes, margins, *rest
        )  # fmt: skip

    found = lay_out()
    while (waits := _figure_that_waits(context, box, found)) is not None:
        start, (index, to) = found[1], waits
        block.remove_placeholders(context, [found[0]], absolute_boxes, fixed_boxes)
        _move(box, index, to)
        found = lay_out()
        if found[1] == start:  # not even the first lines fit
            block.remove_placeholders(context, [found[0]], absolute_boxes, fixed_boxes)
            _move(box, to, index)
            return lay_out()
    return found


def _figure_that_waits(context, box: boxes.Box, found: tuple) -> tuple[int, int] | None:
    """Place of the figure that the page has no room for, and its place behind what can take the room."""
    part, resume_at = found[:2]
    if part is None or not part.children or not resume_at or None not in resume_at.values():
        return None
    (index,) = resume_at
    while index < len(box.children) and box.children[index].element_tag in _HEADINGS:
        index += 1  # a heading stays with what follows it
    last = part.children[-1]
    blank = context.page_bottom - last.position_y - last.margin_height()
    if blank < _LEAST * context.current_footnote_area.page.height or not _floats(*box.children[index : index + 1]):
        return None
    for to, follower in enumerate(box.children[index + 1 :], index + 1):
        if not _passes(follower):
            return None
        if "announces" not in _classes(follower) and not any(map(_is_output, box.children[to + 1 : to + 2])):
            return index, to
    return None


def _floats(box: boxes.Box | None = None) -> bool:
    return box is not None and box.element_tag == "figure" and not {"figure", "image"}.isdisjoint(_classes(box))


def _passes(box: boxes.Box) -> bool:
    """May a block come before a figure that it followed?"""
    kinds = set(_classes(box))
    if box.element_tag == "figure":
        return not kinds.isdisjoint({"code", "table"}) and "landscape" not in kinds
    return box.element_tag in ("p", "ul", "ol", "dl", "div", "aside", "blockquote")


def _is_output(box: boxes.Box) -> bool:
    return box.element is not None and box.element.get("data-lang") == "output"


def _classes(box: boxes.Box) -> list[str]:
    return [] if box.element is None else box.element.get("class", "").split()


def _move(box: boxes.Box, index: int, to: int) -> None:
    children = list(box.children)
    children.insert(to, children.pop(index))
    box.children = children
