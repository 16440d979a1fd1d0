"""Problems in print: one line each, and an error only where a book must stop."""

from bookpress.codes import CODES
from bookpress.problems import Problem, errors, relaxed


def test_a_problem_is_one_line_of_bearable_length():
    shown = str(Problem("a.md", 3, 1, "MTH001", "cannot read\n\n  x" + "y" * 500, "write\nless"))
    assert shown.startswith("a.md:3:1 MTH001 cannot read x")
    assert "\n" not in shown
    assert len(shown) < 220
    assert shown.endswith("… (write less)")


def test_what_is_lost_on_a_page_stops_strict_books_only():
    found = [Problem("a.md", 1, 0, code, "x") for code in ("PDF001", "EPB003", "PDF006", "EPB001")]
    assert [p.code for p in errors(relaxed(found, strict=False))] == ["PDF006", "EPB001"]
    assert errors(relaxed(found, strict=True)) == found
    assert all(p.code in CODES for p in found)
