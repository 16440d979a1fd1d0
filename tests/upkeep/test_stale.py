"""Dates of facts and chapters against a day."""

from __future__ import annotations

from datetime import date

import pytest

from bookpress.__main__ import main
from bookpress.upkeep.stale import run

CHAPTER = "---\ntitle: {0}\nsummary: s\nverified: {1}\n---\n\n# {0}\n\nText.\n"
FACTS = """schema: 2
documents:
  sheet: &sheet {title: Sheet, verified: 2026-01-01}
part_one:
  source: *sheet
  verified: 2026-03-01
  rate: {value: 3, verified: 2026-05-20}
part_two:
  source: *sheet
  list:
    - verified: 2026-05-30
"""


@pytest.fixture
def book(tmp_path):
    for path, day in {"chapters/hardware/a.md": "2026-03-01", "chapters/debugging/b.md": "2025-12-01"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(CHAPTER.format(path[-4], day))
    (tmp_path / "data").mkdir()
    (tmp_path / "data/accelerators.yaml").write_text(FACTS)
    (tmp_path / "data/xid.yaml").write_text("codes:\n  x79:\n    verified: 2025-10-01\n")
    chapters = '["chapters/hardware/a.md", "chapters/debugging/b.md"]'
    (tmp_path / "book.toml").write_text(f'[book]\ntitle = "B"\nversion = "1"\n[[part]]\ntitle = ""\nchapters = {chapters}\n')
    return tmp_path / "book.toml"


def stale_on(book, day):
    _, problems = run(book, date.fromisoformat(day))
    return {(p.path, p.line, p.code) for p in problems}


def test_fresh(book):
    lines, problems = run(book, date(2026, 6, 1))
    assert problems == []
    assert lines == ["7 dates on 2026-06-01: 7 fresh, 0 to look at", "next: accelerators.documents.sheet (data/accelerators.yaml:3) in 29 days"]


def test_hardware_grows_stale_before_commands(book):
    """180 days from the first of March end on the 28th of August."""
    sheet = ("data/accelerators.yaml", 3, "STL001")
    assert stale_on(book, "2026-08-28") == {sheet}
    assert stale_on(book, "2026-08-29") == {sheet, ("data/accelerators.yaml", 6, "STL001"), ("chapters/hardware/a.md", 4, "STL002")}
    assert ("data/xid.yaml", 3, "STL001") in stale_on(book, "2026-10-02")
    assert ("chapters/debugging/b.md", 4, "STL002") not in stale_on(book, "2026-12-01")
    assert ("chapters/debugging/b.md", 4, "STL002") in stale_on(book, "2026-12-02")
    assert len(stale_on(book, "2028-01-01")) == 7


def test_dates_that_are_none(book, capsys):
    text = (book.parent / "data/xid.yaml").read_text()
    (book.parent / "data/xid.yaml").write_text(text.replace("2025-10-01", "last autumn"))
    (book.parent / "chapters/debugging/b.md").write_text(CHAPTER.format("B", "2027-01-01"))
    assert main(["stale", "--book", str(book), "--on", "2026-06-01"]) == 1
    err = capsys.readouterr().err
    assert "data/xid.yaml:3:1 STL003 'last autumn' is no date" in err
    assert "chapters/debugging/b.md:4:1 STL003 2027-01-01 lies in the future" in err
    with pytest.raises(SystemExit) as stop:
        main(["stale", "--book", str(book), "--on", "soon"])
    assert stop.value.code == 2


def test_by_the_command_line(book, capsys):
    assert main(["stale", "--book", str(book), "--on", "2026-06-01"]) == 0
    assert main(["stale", "--book", str(book), "--on", "2027-06-01", "--quiet"]) == 1
    assert "STL002 a: verified 457 days ago, its shelf life is 180" in capsys.readouterr().err
