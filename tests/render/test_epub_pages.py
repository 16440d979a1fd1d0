"""Chapter pages of the EPUB: links, notes, tables, code, and what night mode may not hide."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bookpress import templates
from bookpress.epub import images, line_map, pages
from render import epubs, fixture
from render.epubs import body, find, of, page


def test_links_between_chapters():
    _, _, entries = epubs.whole()
    hangs = page(entries, "hangs")
    targets = find(hangs, "//h:a/@href")
    assert "accelerators.xhtml#which-number" in targets
    assert not [t for t in targets if t.startswith(("book:", "file:", "asset:"))]


def test_file_links_go_to_the_source_or_nowhere():
    link = body('<p><a href="file:scripts/x.py#L3">x.py</a></p>')
    _, entries, _ = of(link)
    assert find(page(entries), "//h:a/@href") == [
        "https://example.org/fixture/blob/0123456789abcdef0123456789abcdef01234567/scripts/x.py#L3"
    ]
    _, entries, _ = of(link, source_url="")
    assert find(page(entries), "//h:a") == []
    assert "".join(find(page(entries), "//h:p")[0].itertext()) == "x.py"


def test_notes_pop_up():
    _, _, entries = epubs.whole()
    tree = page(entries, "accelerators")
    references = find(tree, "//h:a[@epub:type='noteref']")
    notes = {n.get("id"): n for n in find(tree, "//h:aside[@epub:type='footnote']")}
    assert {r.get("href")[1:] for r in references} == set(notes) == {"fn-1", "fn-2", "fn-3"}
    assert len(find(tree, "//h:aside[@id='fn-1']//h:a[@role='doc-backlink']")) == 2  # D04
    assert "".join(notes["fn-2"].itertext()).split()[:3] == ["2", "Vendor", "figure,"]
    assert find(tree, "//h:section[@class='footnotes']//h:ol") == []


def test_remote_image_is_a_problem_at_its_line():  # E18
    book, _, problems = of(body('<p>t</p><p><img src="https://example.org/x.png" alt="x"/></p>'))
    assert [(p.code, p.path, p.level) for p in problems] == [("EPB004", "one.md", "error")]
    line = int(re.search(r'data-line="(\d+)"><img', book.chapters[0].body).group(1))
    assert problems[0].line in (line, line + 1)


def test_image_of_a_foreign_format_is_a_problem(tmp_path):
    asset = fixture.asset(tmp_path, "x.bmp", b"BM", "image/bmp", 1, 1)
    (tmp_path / "cover.svg").write_text(epubs.COVER)
    book = fixture.of_bodies(tmp_path, body('<p><img src="asset:x.bmp" alt="x"/></p>'), cover="cover.svg")
    _, problems = epubs.made(dataclasses.replace(book, assets={"x.bmp": asset}), tmp_path / "x.epub")
    assert [p.code for p in problems] == ["EPB003"]


def test_body_that_is_no_xml_is_a_problem(tmp_path):
    (tmp_path / "cover.svg").write_text(epubs.COVER)
    book = fixture.of_bodies(tmp_path, body("<p>t</p>"), cover="cover.svg")
    broken = dataclasses.replace(book.chapters[0], body=book.chapters[0].body.replace("</p>", ""))
    entries, problems = epubs.made(dataclasses.replace(book, chapters=(broken,)), tmp_path / "x.epub")
    assert [p.code for p in problems] == ["EPB005"]
    assert entries == {}


def test_folded_text_is_open_and_void_tags_are_closed():  # C09, C10
    inner = '<details><summary>More</summary><h2 id="h">H</h2><p>a<br/>b</p></details><table><tbody><tr><td></td></tr></tbody></table>'
    _, entries, problems = of(body(inner))
    assert problems == []
    text = entries["EPUB/chapters/one.xhtml"]
    assert b'<details open="open"' in text
    assert b"<br/>" in text
    assert b"<td></td>" in text
    assert b"chapters/one.xhtml#h" in entries["EPUB/nav.xhtml"]


def test_tables_keep_alignment_by_class_and_label_narrow_cells():  # E24
    _, _, entries = epubs.whole()
    tree = page(entries, "accelerators")
    assert find(tree, "//@align | //@style") == []
    assert find(tree, "//h:td[@class='right']")
    stacked = find(tree, "//h:figure[@class='table stack']//h:td[1]/@data-label")
    assert set(stacked) == {"Symptom"}
    assert find(tree, "//h:figure[@class='table wrap']//@data-label") == []


def test_many_columns_are_labelled_for_phones():
    rows = "<tr>" + "<th scope='col' class='left'>h</th>" * 5 + "</tr>", "<tr><td>1</td>" + "<td></td>" * 4 + "</tr>"
    table = f'<figure class="table wrap"><table><thead>{rows[0]}</thead><tbody>{rows[1]}</tbody></table></figure>'
    _, entries, _ = of(body(table))
    assert find(page(entries), "//h:table/@class") == ["stacks-late"]
    assert len(find(page(entries), "//h:td[@data-label]")) == 1  # an empty cell is not shown there


@pytest.mark.parametrize(
    ("cell", "kinds"),
    [
        ("NCCL_IB_QPS_PER_CONNECTION", ["stacks-late"]),  # twice 26 letters, and no line ends in one
        ("<code>NCCL_IB_QPS_PER_CONNECTION</code>", []),
        ("nccl-ib-qps-per-connection", []),
        ("of many short words, which a narrow column parts anywhere", []),
    ],
)
def test_few_columns_of_long_words_are_labelled_for_phones(cell, kinds):
    head, row = "<th scope='col' class='left'>h</th>" * 2, f"<td>{cell}</td>" * 2
    table = f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"
    _, entries, _ = of(body(f'<figure class="table wrap">{table}</figure>'))
    assert find(page(entries), "//h:table/@class") == kinds


def test_empty_header_cell_is_no_header():
    table = (
        '<figure class="table wrap"><table><thead><tr><th scope="col" class="left"></th><th scope="col" class="left">a</th>'
        "</tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></figure>"
    )
    _, entries, _ = of(body(table))
    assert len(find(page(entries), "//h:th")) == 1
    assert not find(page(entries), "//h:td/@scope")


def test_code_keeps_every_character():
    book, _, entries = epubs.whole()
    for chapter in book.chapters:
        found = ["".join(c.itertext()) for c in find(page(entries, chapter.slug), "//h:pre/h:code")]
        assert found == [f.text for f in chapter.fences]


def test_names_in_code_keep_their_hyphens():
    _, entries, _ = of(body("<p>Run <code>mamf-finder.py --json x</code>.</p>"))
    assert ["".join(held.itertext()) for held in find(page(entries), "//h:code/h:span[@class='whole']")] == ["-f", "--j"]
    assert "".join(find(page(entries), "//h:p")[0].itertext()) == "Run mamf-finder.py --json x."
    assert ".whole { white-space: nowrap; }" in (templates.FOLDER / "css" / "epub.css").read_text()


def test_no_marks_of_the_press_remain():
    _, _, entries = epubs.whole()
    for name, data in entries.items():
        if name.endswith(".xhtml"):
            assert not re.search(rb"data-(line|fence|lang|site)=", data), name


def test_lines_lead_back_to_the_markdown():
    book, _, entries = epubs.whole()
    names, _ = images.images(book)
    for chapter in book.chapters:
        to_markdown = line_map(book, chapter, names)
        lines = entries[f"EPUB/chapters/{chapter.slug}.xhtml"].decode().splitlines()
        for anchor in chapter.anchors:
            if anchor.kind == "section":
                number = next(n for n, text in enumerate(lines, 1) if f'id="{anchor.id}"' in text)
                at = lines[number - 1].index(f'id="{anchor.id}"')
                column = lines[number - 1].index(">", at) + 2
                assert to_markdown(number, column) == anchor.line


def test_admonitions_say_what_they_are():  # E21
    _, _, entries = epubs.whole()
    tree = page(entries, "accelerators")
    titles = ["".join(t.itertext()) for t in find(tree, "//h:p[@class='admonition-title']")]
    assert titles == ["Note", "Tip", "Important", "Warning", "Caution"]
    assert set(re.findall(r"content:\s*([^;]+)", sheet())) == {'attr(data-label) ": "'}  # no icon by style


def sheet() -> str:
    return re.sub(r"/\*.*?\*/", "", templates.text("css/epub.css"), flags=re.S)


def luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_style_leaves_the_page_to_the_reader():  # E19
    css = sheet()
    assert "var(" not in css
    assert not re.search(r"--[a-z]", css)
    assert not re.search(r"(^|[},\s])(body|html)\b[^{}]*\{", css)
    assert "px;\n  font-size" not in css
    for rule in re.findall(r"\{([^}]*)\}", css):
        assert not re.search(r"(?<!-)font-size:\s*[\d.]+(px|pt)", rule)


@pytest.mark.parametrize("ground", ["#ffffff", "#000000"])
def test_colors_hold_by_day_and_by_night(ground):  # E22, B12
    colors = set(re.findall(r"(?<![-\w])color:\s*(#[0-9a-f]{6})", sheet()))
    assert len(colors) > 4
    for color in colors:
        pale, dark = sorted((luminance(color), luminance(ground)), reverse=True)
        assert (pale + 0.05) / (dark + 0.05) >= 4.5, color


def test_pictures_have_a_ground_of_their_own():  # E22
    assert re.search(r"\bimg \{[^}]*background-color: #ffffff", sheet())


def test_task_boxes_become_signs():
    boxes = '<ul><li><input type="checkbox" disabled="disabled" checked="checked"/> a</li><li><input type="checkbox" disabled="disabled"/> b</li></ul>'
    _, entries, _ = of(body(boxes))
    assert "".join(find(page(entries), "//h:ul")[0].itertext()) == "☒ a☐ b"


def test_page_names_cannot_meet_ours():
    _, entries, _ = of(body("<p>t</p>", "nav"), body("<p>t</p>", "cover"))
    assert {"EPUB/nav.xhtml", "EPUB/chapters/nav.xhtml", "EPUB/chapters/cover.xhtml"} <= set(entries)
    assert pages.name_of("nav") == "chapters/nav.xhtml"
