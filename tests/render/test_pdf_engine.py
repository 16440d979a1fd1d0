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
from bookpress.pdf import quicken
from weasyprint import pdf as engine
print(weasyprint.VERSION == quicken.VERSION, quicken.quicken())
for function in (engine.generate_pdf, engine.build_fonts_dictionary, engine.add_tags):
    print(*inspect.signature(function).parameters)
"""


def test_the_engine_is_the_version_that_was_studied_and_its_seams_are_there():
    """In a process of its own: once WeasyPrint is loaded, a process keeps its fonts."""
    assert pdfs.alone(SEAMS).splitlines() == [
        "True True",
        "document target zoom options",
        "pdf fonts compress subset options",
        "pdf document pdf_version page_streams",
    ]
