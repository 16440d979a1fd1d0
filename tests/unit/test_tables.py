"""Tables: structure for ears, a policy that clips nothing, rows that add up."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree

from bookpress import parse, pipetables, tables
from bookpress.model import Config, Expanded, Features, FrontMatter, Source

CONFIG = Config(root=Path("/book"), path=Path("/book/book.toml"), title="T", slug="t", version="1",
                features=Features(front_matter_required=False))


def table(width: int, cell: str, rows: int = 3, head: str = "H") -> str:
    head_row = "| " + " | ".join(f"{head}{n}" for n in range(width)) + " |\n"
    row = "| " + " | ".join([cell] * width) + " |\n"
    return head_row + "|" + "---|" * width + "\n" + row * rows


def read(text: str) -> tuple[etree._Element, list[str]]:
    expanded = Expanded(Source("a.md", "a", "a.html", 0, FrontMatter(title="A"), text, 1), text,
                        tuple(range(1, text.count("\n") + 2)))
    draft = parse.parse(expanded, CONFIG)
    return etree.fromstring(draft.body), [str(p) for p in draft.problems if p.code.startswith("TAB")]


def policy(text: str) -> str:
    root, _ = read(text)
    return next(f.get("class") for f in root.iter("figure") if "table" in f.get("class", ""))


# --- policy ---


@pytest.mark.parametrize(("text", "wanted"), [
    (table(3, "a few words here"), "table wrap"),
    (table(8, "Longwordnumber" * 2), "table stack"),  # F03
    (table(9, "Longwordnumber"), "table landscape dense"),
    (table(31, "12345"), "table stack"),
    (table(9, "words of prose " * 9), "table landscape"),
    (table(2, "`NCCL_IB_GID_INDEX`"), "table wrap"),
])
def test_policy_follows_the_widest_words(text, wanted):
    assert policy(text) == wanted


@pytest.mark.parametrize("wide", ["wrap", "landscape", "stack"])
def test_the_author_has_the_last_word(wide):
    text = f"Table: Caption. {{#tbl-x wide={wide}}}\n\n" + table(3, "word")
    assert policy(text) == f"table {wide}"
    assert policy(text.replace("word", "Longwordnumber" * 9)).startswith(f"table {wide}")


def test_a_page_cannot_turn_inside_a_list():
    nested = "- item\n\n" + "".join(f"  {line}\n" for line in table(10, "Longwordnumber").splitlines())
    assert policy(nested) == "table stack"


def test_an_irregular_table_is_never_stacked():
    html = "<table><tr><td rowspan='2'>" + "a" * 60 + "</td><td colspan='3'>" + "b" * 120 + "</td></tr>" \
           "<tr><td>x</td><td>y</td><td>" + "c" * 99 + "</td></tr></table>\n"
    assert policy(html) == "table landscape dense tight"


def test_short_columns_keep_their_words_together():
    root, _ = read("| Device | What it does |\n|---|---|\n| H100 SXM | " + "long prose " * 20 + "|\n")
    assert [c.get("class") for c in root.iter("td", "th")] == ["short", None, "short", None]


# --- structure ---


def test_headers_have_a_scope_and_alignment_is_a_class():  # F13, E24
    root, _ = read("| A | B |\n|:--|--:|\n| x | 1 |\n")
    assert [(h.get("scope"), h.get("class")) for h in root.iter("th")] == [("col", "left"), ("col", "right")]
    assert not root.xpath("//*[@align or @style]")


def test_a_row_is_headed_by_its_first_cell():
    root, _ = read("<table><tr><td></td><th>B</th></tr><tr><th>r</th><td>1</td></tr></table>\n")
    scopes = {"".join(h.itertext()): h.get("scope") for h in root.iter("th")}
    assert scopes["r"] == "row"
    assert scopes["B"] == "col"


def test_an_empty_header_cell_heads_nothing():
    root, _ = read("| | B |\n|---|---|\n| x | 1 |\n")
    assert ["".join(h.itertext()) for h in root.iter("th")] == ["B"]


# --- rows that add up ---


@pytest.mark.parametrize(("row", "wanted"), [
    ("| a | b |", 2), ("a | b", 2), (r"| a \| b |", 1), ("| `x | y` | z |", 3), ("|a|", 1), ("| a", 1),
    ("||", 1), (r"| a \\| b |", 2), ("a", 1),
])
def test_cells_are_counted_as_github_counts_them(row, wanted):
    assert pipetables.cells(row) == wanted


def test_a_pipe_in_code_is_named_by_line():  # C01
    _, problems = read("# T\n\n| a | b |\n|---|---|\n| ok | ok |\n| `x | y` | z |\n")
    assert problems == ["a.md:6:1 TAB001 row has 3 cells, header has 2: the rest is dropped"
                        " (write \\| inside `x | y`)"]


def test_missing_cells_are_a_warning():
    _, problems = read("> | a | b |\n> |---|---|\n> | 1 |\n")
    assert problems == ["a.md:3:1 TAB002 warning: row has 1 cells, header has 2 (add the missing cells)"]


def test_tables_in_code_are_text():
    _, problems = read("```text\n| a | b |\n|---|---|\n| 1 | 2 | 3 |\n```\n\n"
                       "    | a | b |\n    |---|---|\n    | 1 | 2 | 3 |\n")
    assert problems == []


def test_a_table_that_became_text_is_reported():
    _, problems = read("| a | b |\n|---|---|---|\n| 1 | 2 |\n")
    assert problems[0].startswith("a.md:1:1 TAB003 no table: header has 2 cells, the row of dashes below has 3")
    _, problems = read("# T\n\nSome text\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert problems == ["a.md:4:1 TAB005 no table: it continues the paragraph above"
                        " (put an empty line before it)"]


def test_a_caption_without_a_table_is_reported():
    _, problems = read("Table: Lost. {#tbl-x}\n\nText.\n\n| a |\n|---|\n| 1 |\n")
    assert [p[:15] for p in problems] == ["a.md:1:1 TAB004"]


def test_two_thousand_rows_take_no_time():  # F04
    rng = random.Random(1)
    row = lambda n: f"| {n} | node{n // 8:03d} | {rng.random() * 400:.1f} | fine |\n"  # noqa: E731
    root = etree.fromstring(
        "<section><figure class='table'><table><thead><tr><th>a</th><th>b</th><th>c</th><th>d</th></tr>"
        "</thead><tbody>" + "<tr><td>1</td><td>node</td><td>3.5</td><td>fine words</td></tr>" * 2000
        + "</tbody></table></figure></section>")
    text = "| a | b | c | d |\n|---|---|---|---|\n" + "".join(map(row, range(2000)))
    source = Expanded(Source("a.md", "a", "a.html", 0, FrontMatter(), text, 1), text,
                      tuple(range(1, text.count("\n") + 2)))
    assert tables.finish(root, source, CONFIG) == []
    assert root[0].get("class") == "table wrap"
