"""What the press takes from inside WeasyPrint: seen to be there, and seen to give the same bytes."""

from __future__ import annotations

import pytest

from render import pdfs

LAY_OUT = """
import hashlib, sys
from pathlib import Path
from bookpress import fonts
fonts.activate(Path(sys.argv[1]) / "cache")
from bookpress.pdf import layout, orders, workers
from bookpress.pdf.sheet import style
from render import fixture
book = fixture.book(Path(sys.argv[1]) / "src")
css = style(book.config)
if sys.argv[2] == "thorough":
    layout.quicken = lambda: False
for order in orders.all_orders(book, css):
    made = layout.lay_out(layout.Job(**workers._task(order, book, css, Path(sys.argv[1]) / "cache")))
    print(order.name, len(made[0].pages), hashlib.sha256(repr(made).encode()).hexdigest())
"""


@pytest.mark.slow
def test_quicker_functions_change_no_byte(tmp_path):
    quick = pdfs.alone(LAY_OUT, str(tmp_path), "quick")
    assert quick.count("\n") == 8
    assert quick == pdfs.alone(LAY_OUT, str(tmp_path), "thorough")


SEAMS = """
import inspect, weasyprint
from bookpress.pdf import flow, mend, quicken
from weasyprint import pdf as engine
from weasyprint.layout import block
print(weasyprint.VERSION == quicken.VERSION, quicken.quicken())
for function in (
    engine.generate_pdf, engine.build_fonts_dictionary, engine.add_tags,
    flow._lay_out, block.remove_placeholders, mend._lines, mend._split,
):
    print(function.__name__, *inspect.signature(function).parameters)
"""
UPDATED = """WeasyPrint changed. Read its new code of each function named above against what we put round it: layout.py
(generate_pdf, fonts, tags), flow.py (block_container_layout, remove_placeholders), mend.py (_linebox_layout,
split_first_line; does it still have the faults?) and quicken.py. Then set quicken.VERSION and the lines of this test;
test_pdf_golden.py and the slow test above show what each of them is for."""


def test_the_engine_is_the_version_that_was_studied_and_its_seams_are_there():
    """In a process of its own: once WeasyPrint is loaded, a process keeps its fonts."""
    assert pdfs.alone(SEAMS).splitlines() == [
        "True True",
        "generate_pdf document target zoom options",
        "build_fonts_dictionary pdf fonts compress subset options",
        "add_tags pdf document pdf_version page_streams",
        "block_container_layout context box bottom_space skip_stack page_is_empty absolute_boxes fixed_boxes"
        " adjoining_margins first_letter_style first_line_style discard max_lines",
        "remove_placeholders context box_list absolute_boxes fixed_boxes",
        "_linebox_layout context box index child new_children page_is_empty absolute_boxes fixed_boxes adjoining_margins"
        " bottom_space position_y skip_stack first_letter_style first_line_style draw_bottom_decoration max_lines",
        "split_first_line text style context max_width justification_spacing is_line_start minimum",
    ], UPDATED
