"""A chapter alone: places, line ends, titles, what is reported and what is read."""

import gc
import random
from dataclasses import replace

from lxml import etree
from smallbook import assert_valid, book_of, codes, config_of, draft_of, expanded_of, tree_of

from bookpress import pandoc, parse
from bookpress.code import visible
from bookpress.html import text

PIECES = [
    "<p>", "</p>", "<p align=center>", "<div>", "</div>", "<b>", "</b>", "<i>", "</i>", "<a href='#x'>",
    "<a name=x>", "</a>", "<ul>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "<th>", "</table>", "</td>",
    "<details>", "<summary>s</summary>", "</details>", "<h2>raw</h2>", "<h3>open", "<pre>", "</pre>", "<br>",
    "<img src=a.png alt=picture>", "<rank>", "<center>", "</center>", "<dl><dt>t<dd>d", "</dl>", "<hr>",
    "<!-- c -->", "<script>x</script>", "text", "**bold**", "`code`", "- item", "> quote", "## Head",
    "```sh\nls\n```", "| a | b |\n| - | - |\n| 1 | 2 |", "1. one\n\n   ```\n   x\n   ```", "[l](#head)",
    "$x^2$", "[^n]", "\n\n[^n]: note\n\n", "<figure>", "<figcaption>", "</figure>", "<blockquote>", "</blockquote>",
]  # fmt: skip


def test_any_mix_of_html_and_markdown_becomes_a_valid_body(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    chance = random.Random(7)
    for _ in range(25):
        joints = ["", " ", "\n", "\n\n"]
        mix = "".join(chance.choice(PIECES) + chance.choice(joints) for _ in range(25))
        book, problems = book_of(tmp_path, {"a.md": mix}, strict=False)
        root = assert_valid(book.chapters[0].body)
        assert text(root).count("Head") <= mix.count("Head")
        assert all(p.line <= mix.count("\n") + 1 for p in problems)


def test_lines_are_those_of_the_authors_file(tmp_path):
    # Two lines of front matter before, and one template line that became three.
    item = expanded_of("a.md", "one\n\ntwo\nthree\n\n<rank>\n")
    item = replace(item, lines=(5, 6, 7, 7, 7, 8, 9))
    draft = parse.parse(item, config_of(tmp_path, strict=False))
    lines = [e.get("data-line") for e in etree.fromstring(draft.body).iter("p")]
    assert lines == ["5", "7", "8"]
    assert [(p.line, p.col) for p in draft.problems] == [(8, 1)]


def test_windows_lines_byte_order_mark_and_tabs(tmp_path):
    draft = draft_of(tmp_path, "\ufeff# T\r\n\r\n```make\r\nall:\r\n\tcc\tx\r\n```\r\n\r\n1. a\r\n\r\n\t```\r\n\tb\tc\r\n\t```\r\n")
    assert draft.title == "T"
    assert [f.text for f in draft.fences] == ["all:\n\tcc\tx", "b\tc"]


def test_fence_text_is_the_source_byte_for_byte(tmp_path):
    code = "  lead\n\n\tx <&> \"'\n\ntrail  \n\n"
    draft = draft_of(tmp_path, f"```text\n{code}\n```\n")
    assert draft.fences[0].text == code
    shown = etree.fromstring(draft.body).find(".//code")
    assert "".join(shown.itertext()) == visible(code)


def test_title_from_heading_front_matter_or_file(tmp_path):
    assert draft_of(tmp_path, "# The *title*\n\ntext\n").title == "The title"
    named = parse.parse(expanded_of("a.md", "text\n", title="From the head"), config_of(tmp_path))
    assert named.title == "From the head"
    stray = parse.parse(expanded_of("a.md", "## a\n\n# b\n", title="Head"), config_of(tmp_path))
    assert [(a.text, a.level) for a in stray.anchors] == [("Head", 1), ("a", 2), ("b", 2)]
    assert draft_of(tmp_path, "text\n", path="some/slow_links.md").title == "Slow links"
    assert draft_of(tmp_path, "text\n", path="net/README.md").title == "Net"
    second = draft_of(tmp_path, "## First\n\ntext\n\n## Second\n\n### third\n")
    assert [(a.text, a.level) for a in second.anchors] == [("First", 1), ("Second", 2), ("third", 3)]
    assert draft_of(tmp_path, "text\n\n## First\n", path="b.md").title == "B"


def test_later_h1_become_sections_with_all_below_them(tmp_path):
    root = tree_of(tmp_path, "# One\n\n## a\n\n# Two\n\n## b\n\n### c\n\n# Three\n\n## d\n")
    levels = [(h.tag, text(h)) for h in root.iter("h1", "h2", "h3", "h4")]
    assert levels == [
        ("h1", "One"), ("h2", "a"), ("h2", "Two"), ("h3", "b"), ("h4", "c"), ("h2", "Three"), ("h3", "d"),
    ]  # fmt: skip


def test_what_stands_before_the_title_stays(tmp_path):
    root = tree_of(tmp_path, "<p align=center>badge</p>\n\n# Title\n\ntext\n")
    assert [e.tag for e in root] == ["h1", "p", "p"]
    assert root[1].text == "badge"


def test_level_jumps_are_closed_and_reported(tmp_path):
    draft = draft_of(tmp_path, "# T\n\n## a\n\n#### b\n")
    assert [(a.text, a.level) for a in draft.anchors if a.kind == "section"] == [("a", 2), ("b", 3)]
    assert codes(draft.problems) == ["MDN009"]


def test_github_ids(tmp_path):
    heads = "# T\n\n## Q & A: why?\n\n## `a_b.c` (x)\n\n## Two  spaces\n\n## :rocket: Go\n\n## é ß\n\n## Mine {#own-id}\n\n## 1. One\n"
    draft = draft_of(tmp_path, heads)
    ids = [a.id for a in draft.anchors if a.kind == "section"]
    assert ids == ["q--a-why", "a_bc-x", "two--spaces", "rocket-go", "é-ß", "own-id", "1-one"]


def test_a_heading_named_like_the_chapter_keeps_its_link(tmp_path):
    book, problems = book_of(tmp_path, {"storage.md": "# Intro\n\n## Storage\n\n[x](#storage)\n"})
    assert codes(problems) == []
    root = assert_valid(book.chapters[0].body)
    heading = root.find("h2").get("id")
    assert root.get("id") == "storage"
    assert heading != "storage"
    assert root.find(".//a").get("href") == f"#{heading}"


def test_formula_that_pandoc_cannot_read(tmp_path):
    draft = draft_of(tmp_path, "text $\\nosuch{a}$ end\n\n$$\\nosuch{x}$$\n")
    assert [(p.code, p.line, p.col) for p in draft.problems] == [("MTH001", 1, 6), ("MTH001", 3, 1)]


def test_images_and_includes_are_noted_for_the_cache(tmp_path):
    (tmp_path / "code.py").write_text("x = 1\n")
    draft = draft_of(tmp_path, "```python {include=code.py}\n```\n\n![a fine picture](gone.png)\n")
    reads = dict(draft.reads)
    assert len(reads["code.py"]) == 64
    assert reads["gone.png"] == ""  # when it comes, the chapter is read again


def test_same_text_same_draft_and_the_collector_is_left_as_found(tmp_path):
    source = "# T\n\n<b>x\n\n[^a] y\n\n[^a]: z\n"
    assert gc.isenabled()
    assert draft_of(tmp_path, source) == draft_of(tmp_path, source)
    assert gc.isenabled()


def test_empty_chapter(tmp_path):
    draft = draft_of(tmp_path, "")
    assert draft.title == "A"
    assert_valid(draft.body.replace(' data-site="0"', ""))


def test_control_bytes_anywhere_break_nothing(tmp_path):
    dirty = "# T\x07\n\n[a\x01](b\x02.md \"t\x03\") ![p\x04q r](s\x05.png){#i caption=\"c\x06 `d`\"} `e\x08` $f\x0b$ <rank\x0e>\n\n"
    dirty += "```sh\x0f {.run id=\x10}\ng\x1b[0m\x00\n```\n\n| h\x7f |\n| - |\n| \x85i\ufffe |\n\nj[^1]\n\n[^1]: k\x11\n"
    book, problems = book_of(tmp_path, {"a.md": dirty}, strict=False)
    assert_valid(book.chapters[0].body)
    assert book.chapters[0].fences[0].text == "g\x1b[0m\x00"
    assert "g^[[0m^@" in book.chapters[0].body
    assert [p.line for p in problems if p.code == "MDN005"] == [1, 3, 9, 11, 15]


def test_a_comment_left_open_is_not_silent(tmp_path):
    draft = draft_of(tmp_path, "a\n\n<!-- note\n\nb\n")
    assert [(p.code, p.line) for p in draft.problems] == [("MDN003", 3)]


def test_nesting_without_end_is_a_problem_and_no_traceback(tmp_path):
    for deep in ("> " * 400 + "x\n", "<div>" * 300 + "\n"):
        draft = draft_of(tmp_path, "# T\n\n" + deep, strict=False)
        assert [(p.code, p.line) for p in draft.problems if p.level == "error"] == [("MDN014", 3)]
        assert_valid(draft.body.replace(' data-site="0"', ""))


def test_what_pandoc_does_not_end_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(pandoc, "_SECONDS", 0.001)
    draft = draft_of(tmp_path, "# T\n\ntext\n")
    assert codes(draft.problems) == ["MDN017"]
    assert_valid(draft.body.replace(' data-site="0"', ""))
    monkeypatch.setattr(pandoc, "_SECONDS", 60)
    monkeypatch.setattr(pandoc, "_MEMORY", "2m")
    assert codes(draft_of(tmp_path, "# T\n\n" + "text " * 100000).problems) == ["MDN017"]


def test_github_shows_one_of_a_light_and_a_dark_picture(tmp_path):
    draft = draft_of(tmp_path, "![the rate](a.png#gh-light-mode-only) ![the rate](b.png#gh-dark-mode-only)\n", strict=False)
    assert [s.value for s in draft.sites if s.kind == "image"] == ["a.png"]


def test_two_dollars_among_words_are_a_formula_in_the_line(tmp_path):
    source = "# T\n\nso $$a$$ is\n$$b$$\nand\n\n$$c$$\n\n- $$d$$.\n"
    kinds = [e.get("class") for e in tree_of(tmp_path, source, strict=False).iter() if e.get("class", "").startswith("math")]
    assert kinds == ["math inline", "math display", "math display", "math display"]
    assert "math inline" not in draft_of(tmp_path, source).body


def test_components_of_other_presses(tmp_path):
    source = "# T\n\n<Tabs>\n\na <rank> b.<x-note>note</x-note> </gone>\n\n</Tabs>\n\n<Clip id='x'/>\n"
    root = tree_of(tmp_path, source, strict=False)
    assert [text(p) for p in root.iter("p")] == ["a <rank> b. note </gone>"]
    draft = draft_of(tmp_path, source, strict=False)
    assert [(p.code, p.line) for p in draft.problems] == [("MDN002", 3), ("MDN001", 5), ("MDN002", 5), ("MDN002", 9)]
    assert [p.code for p in draft_of(tmp_path, source).problems].count("MDN001") == 4
