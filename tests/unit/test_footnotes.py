"""Footnotes: numbered by first use, printed once, ways back from each."""

from smallbook import assert_valid, book_of, codes, draft_of


def test_order_of_use_and_two_ways_back(tmp_path):
    source = "b[^b] a[^a] b[^b]\n\n[^a]: First defined.\n[^b]: Second.\n"
    book, problems = book_of(tmp_path, {"a.md": source})
    assert codes(problems) == []
    root = assert_valid(book.chapters[0].body)
    notes = root.findall(".//li[@role='doc-footnote']")
    assert [n.get("id") for n in notes] == ["fn-1", "fn-2"]
    assert [n.get("data-line") for n in notes] == ["4", "3"]
    assert [a.get("href") for a in notes[0].iter("a")] == ["#fnref-1", "#fnref-1-2"]
    assert [a.get("id") for a in root.iter("a") if a.get("class") == "fnref"] == ["fnref-1", "fnref-2", "fnref-1-2"]


def test_a_note_that_ends_in_code_has_its_way_back_below(tmp_path):
    draft = draft_of(tmp_path, "x[^1]\n\n[^1]: t\n\n    ```\n    c\n    ```\n")
    book, _ = book_of(tmp_path, {"a.md": "x[^1]\n\n[^1]: t\n\n    ```\n    c\n    ```\n"})
    note = assert_valid(book.chapters[0].body).find(".//li[@role='doc-footnote']")
    assert [e.tag for e in note] == ["p", "figure", "p"]
    assert draft.fences[0].text == "c"


def test_note_in_heading_table_and_link(tmp_path):
    source = "# T\n\n## H[^1]\n\n| a[^2] |\n| - |\n| 1 |\n\n[l[^3]](#h)\n\n[^1]: x\n[^2]: y\n[^3]: z\n"
    book, problems = book_of(tmp_path, {"a.md": source})
    assert codes(problems) == []
    assert_valid(book.chapters[0].body)
    assert [a.text for a in book.chapters[0].headings] == ["H"]
    assert [a.id for a in book.chapters[0].headings] == ["h"]


def test_missing_and_unused_notes(tmp_path):
    source = "a[^gone] `[^code]` b\n\n[^unused]: text\n\n```\n[^x]: in code\n[^y]\n```\n"
    found = [(p.code, p.line, p.col) for p in draft_of(tmp_path, source).problems]
    assert found == [("MDN007", 1, 2), ("MDN008", 3, 1)]


def test_raw_html_left_open_does_not_swallow_the_notes(tmp_path):
    book, _ = book_of(tmp_path, {"a.md": "x[^1]\n\n<div>\n\n<details>\n\n[^1]: t\n"}, strict=False)
    root = assert_valid(book.chapters[0].body)
    assert root[-1].get("class") == "footnotes"
