"""Code: the text stays the source, every line ends inside the page, and what misleads is reported."""

from __future__ import annotations

import html
import random
import re
from pathlib import Path

import pytest
from lxml import etree

from bookpress import code, rows
from bookpress.model import Config, Features, Fence

CONFIG = Config(root=Path("/book"), path=Path("/book/book.toml"), title="T", slug="t", version="1")
LENIENT = Config(root=CONFIG.root, path=CONFIG.path, title="T", slug="t", version="1",
                 features=Features(strict=False))
NASTY = [
    "", "\n", "\n\n  x\n", "\tif x:\n\t\ty\n", "a\r\nb", "  leading", "trailing  ", "\ufeffbom",
    "$ ls\nout\n$ ", ">>> 1 +", "'unclosed", '"""doc\n', "<a & b>", "]]>", "k: [1,\n", "#!/bin/sh",
    "é漢🚀 → ┌─┐", "x = f'{a!r:>{w}}'", "- a\n+ b\n@@ -1 +1 @@", "{{ x }} ${{ y }} {% z %}", "\\", "\f",
]


def fence(text: str, lang: str = "python", **attrs: str) -> Fence:
    return Fence(0, 10, lang, text, "", attrs=attrs)


def text_of(markup: str) -> str:
    assert not re.search(r"<span[^>]*>[^<]*<span", markup), "spans are flat"
    return html.unescape(re.sub(r"</?span[^>]*>", "", markup))


@pytest.mark.parametrize("lang", ["python", "bash", "yaml", "json", "console", "pycon", "toml", "ini", "diff",
                                  "cpp", "cuda", "docker", "make", "sql", "html", "xml", "go", "rust", "text",
                                  "output", "", "hcl", "nginx", "jinja", "ps1", "tcl", "lua", "systemd"])
def test_text_is_the_source_byte_for_byte(lang):
    for text in NASTY:
        markup, _ = code.highlight(fence(text, lang), "a.md", CONFIG)
        assert text_of(markup) == code.visible(text), (lang, text)
        etree.fromstring(f"<code>{markup}</code>")


def test_tokens_are_coloured_and_joined():
    markup, problems = code.highlight(fence("# one two\nfor x in range(3):  # why\n    pass"), "a.md", CONFIG)
    assert '<span class="c"># one two</span>' in markup
    assert '<span class="k">for</span> x <span class="k">in</span> <span class="nb">range</span>' in markup
    assert problems == []


def test_unknown_language_is_a_problem_with_the_nearest_name_only_where_strict():
    _, problems = code.highlight(fence("x", "pyhton"), "a.md", CONFIG)
    assert [(p.code, p.line, p.hint) for p in problems] == [("COD001", 10, "did you mean 'python'?")]
    markup, problems = code.highlight(fence("x < y", "pyhton"), "a.md", LENIENT)
    assert (markup, problems) == ("x &lt; y", [])


def test_long_line_is_named_by_the_line_of_the_source():  # B03
    text = "short\n" + "x" * 88 + "\n" + "y" * 101
    _, problems = code.highlight(fence(text, "text"), "a.md", CONFIG)
    assert [str(p) for p in problems] == [
        "a.md:13:89 COD002 warning: the line has 101 columns, the page holds 88"
        " (break it, in shell with a final backslash)"]


def test_columns_count_tabs_and_wide_characters():
    assert rows.columns_of("\tx") == 9
    assert rows.columns_of("漢字") == 4
    assert rows.columns_of("e\u0301") == 1


def test_control_bytes_are_shown_and_reported():  # B13
    markup, problems = code.highlight(fence("ok\n\x1b[31mred\x00\x7f\x9b", "output"), "a.md", CONFIG)
    assert markup == "ok\n^[[31mred^@^?\\x9b"
    assert [(p.code, p.line, p.col, p.level) for p in problems] == [("COD003", 12, 1, "warning")]
    etree.fromstring(f"<code>{markup}</code>")


def test_characters_that_change_the_pasted_command_are_reported():
    _, problems = code.highlight(fence("ls\u00a0-l\nrm \u202ex", "bash"), "a.md", CONFIG)
    assert [(p.code, p.line, p.col) for p in problems] == [("COD004", 11, 3), ("COD004", 12, 4)]


def test_hidden_fences_are_not_criticised_for_their_looks():
    hidden = Fence(0, 10, "bash", "x" * 200, "run", hidden=True)
    assert code.highlight(hidden, "a.md", CONFIG)[1] == []


# --- for paper ---


def block(markup: str) -> etree._Element:
    return etree.fromstring(f'<figure class="code"><pre><code>{markup}</code></pre></figure>')


def row_texts(element: etree._Element) -> list[str]:
    return ["".join(r.itertext()) for r in element.iter("span") if r.get("class", "").startswith("row")]


def test_rows_fit_and_keep_text_and_colours():  # B01
    markup = f'a\n<span class="k">{"x" * 30}</span><span class="s">{"y" * 80}</span>\nb'
    element = block(markup)
    code.fit(element, 60)
    assert row_texts(element) == ["x" * 30 + "y" * 30, "y" * 50 + "\n"]
    assert "".join(element.itertext()) == f"a\n{'x' * 30}{'y' * 80}\nb"
    assert [s.get("class") for s in element.iter("span")] == ["row", "k", "s", "row cont", "s"]


def test_no_row_ends_in_a_hyphen():  # B06
    rng = random.Random(3)
    for _ in range(300):
        line = "".join(rng.choice("abc-./ _") for _ in range(rng.randint(50, 200)))
        if "--------" in line:
            continue
        element = block(line)
        code.fit(element, 40)
        assert "".join(element.itertext()) == line
        for row in row_texts(element)[:-1]:
            assert not row.endswith("-"), line
            assert len(row) <= 40


def test_continuations_stand_in_from_their_line():
    element = block("    x = '" + "y" * 60 + "'")
    code.fit(element, 50)
    assert [r.get("style") for r in element.iter("span") if "row" in r.get("class")] == [None, "margin-left:5ch"]
    assert [len(r) for r in row_texts(element)] == [50, 20]


def test_nested_blocks_have_fewer_columns():
    item = etree.fromstring(f"<ol><li><pre><code>{'x' * 86}</code></pre></li></ol>")
    code.fit(item, 88)
    assert [len(r) for r in row_texts(item)] == [83, 3]


def test_code_in_a_cell_is_one_text_that_layout_may_break():
    cell = etree.fromstring(f'<td><pre><code><span class="k">{"x" * 90}</span>y</code></pre></td>')
    code.fit(cell, 88)
    assert len(cell[0][0]) == 0
    assert cell[0][0].text == "x" * 90 + "y"


def test_inline_names_break_at_their_joints_and_never_after_a_hyphen():  # B07
    p = etree.fromstring("<p>(<code>/data/kube-flannel.yml</code> <code>--n</code> <code>ls</code>)</p>")
    code.fit(p)
    assert etree.tostring(p, encoding="unicode") == (
        '<p>(<code class="pieces"><wbr/><span class="whole">/data/</span><wbr/><span class="whole">kube-flannel.yml</span>'
        '</code> <code><span class="whole">--n</span></code> <code>ls</code>)</p>')


def test_long_words_in_text_get_break_points():
    p = etree.fromstring("<p>see (<a>https://example.com/a/long/address</a>) or <b>x</b> " + "y" * 30 + "</p>")
    before = "".join(p.itertext())
    code.fit(p)
    assert "".join(p.itertext()) == before
    assert p.find("a")[0].tag == "wbr"
    assert p.find("b").tail == " "


def _contrast(a: str, b: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    one, two = sorted((light(a), light(b)), reverse=True)
    return (one + 0.05) / (two + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_code_is_legible(theme):  # B12: in greyscale too, as contrast is of luminance
    tokens = (Path(code.__file__).parents[2] / "templates/css/tokens.css").read_text()
    part = tokens.partition('[data-theme="dark"]')[2 if theme == "dark" else 0]
    ground = re.search(r"--paper-code:\s*(#\w{6})", part)[1]
    colours = re.findall(r"[^-]color: ([^;]+);", code.css(theme))
    assert len(colours) >= 8
    assert all(_contrast(c, ground) >= 4.5 for c in colours), colours
    assert "var(" not in code.css(theme)
    assert "var(--code-keyword)" in code.css("web")


def test_keywords_and_comments_differ_without_colour():
    css = code.css("light")
    assert re.search(r"\.code \.k[^}]*bold", css)
    assert re.search(r"\.code \.c[^}]*italic", css)


def test_readers_see_the_number_of_a_tolerance_and_not_its_notation():
    long = "x" * 80 + " [[~ 12.5 ±20% ]]"
    shown = Fence(0, 1, "output", f"rate [[~ 12.5 ±20% ]] MB/s\n{long}", "output", attrs={"of": "a"})
    markup, problems = code.highlight(shown, "a.md", CONFIG)
    assert markup == f"rate 12.5 MB/s\n{'x' * 80} 12.5"
    assert problems == [], "the printed line is 85 columns wide"
    other = Fence(0, 1, "bash", "[[~ 1 ±2 ]]", "run")
    assert text_of(code.highlight(other, "a.md", CONFIG)[0]) == "[[~ 1 ±2 ]]"
