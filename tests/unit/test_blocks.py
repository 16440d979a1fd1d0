"""Canonical blocks: captions, tables, tasks, admonitions, code, equations."""

from smallbook import assert_valid, book_of, codes, draft_of, tree_of

from bookpress.html import text

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="40" viewBox="0 0 120 40"><rect width="120" height="40" fill="#fff"/></svg>'


def test_caption_is_markdown_and_links_in_it_are_resolved(tmp_path):
    (tmp_path / "f.svg").write_text(SVG)
    source = '# T\n\n![the rate falls](f.svg){#fig-a caption="See `x` and [T](#t), 1. *item*, **b**."}\n'
    book, problems = book_of(tmp_path, {"a.md": source})
    assert codes(problems) == []
    root = assert_valid(book.chapters[0].body)
    caption = root.find(".//figcaption")
    assert text(caption) == "Figure 1.1 See x and T, 1. item, b."
    assert caption.find("a").get("href") == "#t"


def test_a_caption_that_looks_like_a_list_stays_one_line(tmp_path):
    (tmp_path / "f.svg").write_text(SVG)
    source = '![the rate falls](f.svg){#fig-a caption="- `a` and * b"}\n\n![the rate grows](f.svg){#fig-b caption="2. `c`"}\n'
    captions = [text(c) for c in tree_of(tmp_path, source).iter("figcaption")]
    assert captions == ["- a and * b", "2. c"]


def test_table_caption_only_directly_above(tmp_path):
    table = "| a |\n| - |\n| 1 |\n"
    root = tree_of(tmp_path, f"Table: One *x*. {{#tbl-x wide=landscape}}\n\n{table}\ntext\n\n{table}")
    figures = root.findall("figure")
    assert text(figures[0][0]) == "One x."
    assert (figures[0].get("id"), figures[0].get("class").split()[:2]) == ("tbl-x", ["table", "landscape"])
    assert figures[1].find("figcaption") is None


def test_unknown_table_policy(tmp_path):
    draft = draft_of(tmp_path, "Table: One. {#tbl-x wide=landscap}\n\n| a |\n| - |\n| 1 |\n")
    assert codes(draft.problems) == ["MDN012"]
    assert draft.problems[0].hint == "did you mean 'landscape'?"


def test_header_cells_without_words_head_nothing(tmp_path):
    root = tree_of(tmp_path, "|  | b |\n| - | - |\n| 1 | 2 |\n\n|  |  |\n| - | - |\n| 1 | 2 |\n")
    first, second = root.iter("table")
    assert [c.tag for c in first.find("thead/tr")] == ["td", "th"]
    assert second.find("thead") is None


def test_rows_and_blocks_know_their_lines(tmp_path):
    root = tree_of(tmp_path, "> quote\n\n| a |\n| - |\n| 1 |\n| 2 |\n\n- x\n\n  y\n- z\n")
    lines = [(e.tag, e.get("data-line")) for e in root.iter("blockquote", "tr", "li", "p")]
    assert lines == [
        ("blockquote", "1"), ("p", "1"), ("tr", "3"), ("tr", "5"), ("tr", "6"),
        ("li", "8"), ("p", "8"), ("p", "10"), ("li", "11"), ("p", "11"),
    ]  # fmt: skip


def test_tasks_tight_and_loose(tmp_path):
    root = tree_of(tmp_path, "- [ ] open\n- [x] done\n- plain\n\ntext\n\n- [ ] a\n\n  b\n")
    items = [(li.get("class"), text(li)) for li in root.iter("li")]
    assert items == [("task", "☐ open"), ("task", "☒ done"), (None, "plain"), ("task", "☐ ab")]
    assert [ul.get("class") for ul in root.iter("ul")] == ["task-list", None, "task-list"]


def test_admonitions(tmp_path):
    kinds = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
    root = tree_of(tmp_path, "".join(f"> [!{k}]\n> text *{k}*\n\n" for k in kinds) + "> [!OTHER]\n> x\n")
    asides = root.findall("aside")
    assert [a.get("class") for a in asides] == [f"admonition {k.lower()}" for k in kinds]
    assert [text(a[0]) for a in asides] == [k.capitalize() for k in kinds]
    assert root.find("blockquote") is not None


def test_attribute_lines_above_blocks(tmp_path):
    draft = draft_of(tmp_path, "{#para .lead}\nText.\n\n{#code .run}\n```py {timeout=5}\nx\n```\n")
    root = tree_of(tmp_path, "{#para .lead}\nText.\n")
    assert (root.find("p").get("id"), root.find("p").get("class")) == ("para", "lead")
    fence = draft.fences[0]
    assert (fence.lang, fence.mode, fence.id, fence.attrs) == ("py", "run", "code", {"timeout": "5"})


def test_language_is_the_first_word_however_it_is_written(tmp_path):
    infos = ["bash {.run}", "{.bash .run}", "{#i .bash .run}", 'bash {.run key="a b"}', "bash{.run}", "js{1,3}", "rust,ignore", "c++", "{python}", ""]
    draft = draft_of(tmp_path, "".join(f"```{i}\nx\n```\n\n" for i in infos), strict=False)
    assert [f.lang for f in draft.fences] == ["bash"] * 5 + ["js", "rust", "c++", "python", ""]
    assert [f.mode for f in draft.fences] == ["run"] * 5 + [""] * 5


def test_hidden_fences_are_recorded_and_not_shown(tmp_path):
    draft = draft_of(tmp_path, "```sh {.run .hidden id=h}\nsecret\n```\n")
    assert (draft.fences[0].hidden, draft.fences[0].text) == (True, "secret")
    assert "secret" not in draft.body


def test_fences_in_lists_quotes_and_notes_know_line_and_language(tmp_path):
    source = "1. a\n\n   ```py\n   x\n\n   y\n   ```\n\n   ```sh\n   z\n   ```\n\n> ~~~yaml\n> k: v\n> ~~~\n\n- ```c\n  d\n  ```\n\nn[^1]\n\n[^1]: t\n\n    ```toml\n    a = 1\n    ```\n"
    fences = draft_of(tmp_path, source).fences
    found = [(f.line, f.lang, f.text) for f in fences]
    assert found == [(3, "py", "x\n\ny"), (9, "sh", "z"), (13, "yaml", "k: v"), (17, "c", "d"), (25, "toml", "a = 1")]


def test_unclosed_fences(tmp_path):
    draft = draft_of(tmp_path, "> ```sh\n> a\n\ntext\n\n````md\n```\nx\n```\n")
    assert [(p.code, p.line) for p in draft.problems] == [("FEN001", 1), ("FEN001", 6)]
    assert draft_of(tmp_path, "```\n```\n\n```\n\n```\n\n~~~~\na\n~~~~~\n").problems == ()


def test_indented_code_that_shows_a_fence(tmp_path):
    draft = draft_of(tmp_path, "text\n\n    ```sh\n    ls\n", strict=False)
    assert [(f.lang, f.text) for f in draft.fences] == [("", "```sh\nls")]
    assert draft.problems == ()


def test_mode_without_language(tmp_path):
    fence = draft_of(tmp_path, "```{.run id=x}\nls\n```\n").fences[0]
    assert (fence.lang, fence.mode, fence.id) == ("", "run", "x")


def test_display_math_alone_and_inside_a_paragraph(tmp_path):
    draft = draft_of(tmp_path, "$$a$$ {#eq-a}\n\nwords $$b$$ words\n\n```math\nc\n```\n")
    root = tree_of(tmp_path, "$$a$$ {#eq-a}\n\nwords $$b$$ words\n\n```math\nc\n```\n")
    assert [(e.tag, e.get("class")) for e in root[1:]] == [
        ("div", "math display"), ("p", None), ("div", "math display"), ("p", None), ("div", "math display"),
    ]  # fmt: skip
    assert [a.kind for a in draft.anchors if a.id == "eq-a"] == ["equation"]


def test_image_alone_becomes_a_figure_and_a_row_of_images_does_not(tmp_path):
    (tmp_path / "f.svg").write_text(SVG)
    root = tree_of(tmp_path, "![the rate falls](f.svg)\n\n[![the rate falls](f.svg)](https://x.y)\n\n![the rate falls](f.svg) ![the rate grows](f.svg)\n")
    assert [(e.tag, e.get("class")) for e in root[1:]] == [("figure", "image"), ("figure", "image"), ("p", None)]


def test_an_authors_width_wins(tmp_path):
    (tmp_path / "f.svg").write_text(SVG)
    root = tree_of(tmp_path, '![the rate falls](f.svg){width=50%}\n\n![the rate falls](f.svg){width=60}\n\n<img src="f.svg" alt="the rate falls" width="33%">\n')
    found = [(i.get("class"), i.get("width"), i.get("height")) for i in root.iter("img")]
    assert found == [("width-50", None, None), (None, "60", "20"), ("width-35", None, None)]
