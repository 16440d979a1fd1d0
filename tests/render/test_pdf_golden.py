"""Public failures of PDF builds, one case each; the numbers are those of the study's list of cases."""

from __future__ import annotations

import dataclasses
import re
import resource
import time

import pypdfium2
import pytest

from bookpress.model import Asset, Page
from render import fixture, pdfs

HEAD = '<h1 id="top">Case</h1>'


def chapter(body: str, slug: str = "case") -> str:
    return f'<section class="chapter" id="{slug}">{HEAD}{body}</section>'


def made_of(folder, body: str, **changes) -> pdfs.Made:
    return pdfs.make(fixture.of_bodies(folder, chapter(body), **changes), folder)


def table(policy: str, heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<figure class="table {policy}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></figure>"
    )


def spent_so_far() -> float:
    """Processor seconds of this process and of those it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ink_right(made: pdfs.Made, page: int) -> tuple[float, float]:
    """Rightmost edge of any character on a page, and the page's width."""
    document = pypdfium2.PdfDocument(made.file)
    try:
        words = document[page].get_textpage()
        edges = [words.get_charbox(n)[2] for n in range(words.count_chars())]
        return max(edges), document[page].get_width()
    finally:
        document.close()


# --- F03: a wide table is clipped in silence ----------------------------------------------------------


WIDE = [[f"interconnect{r}bidirectional{c}" for c in range(8)] for r in range(3)]


@pytest.mark.parametrize("policy", ["wrap tight", "landscape tight", "stack"])
def test_f03_no_policy_lets_ink_leave_the_page(tmp_path, policy):
    made = made_of(tmp_path, table(policy, [f"Column{c}" for c in range(8)], WIDE))
    said = "".join("".join(made.pages).split())
    assert all(cell in said for row in WIDE for cell in row), "nothing is lost"
    assert made.problems == []
    for n in range(2, len(made.pages)):
        right, width = ink_right(made, n)
        assert right <= width - 12 * 72 / 25.4


def test_f03_what_does_not_fit_is_a_problem_with_its_line(tmp_path):
    """A cell that may not wrap: found in the laid-out boxes."""
    cells = "".join(f'<td class="short">{"unbroken" * 9}{n}</td>' for n in range(3))
    heads = "".join(f'<th scope="col">C{n}</th>' for n in range(3))
    body = (
        '<p>Before.</p><figure class="table wrap"><table><thead><tr>' + heads
        + "</tr></thead><tbody><tr>" + cells + "</tr></tbody></table></figure>"
    )  # fmt: skip
    book = fixture.of_bodies(tmp_path, chapter(body))
    line = int(re.search(r'<tr data-line="(\d+)"><td', book.chapters[0].body)[1])
    found = pdfs.make(book, tmp_path).problems
    assert {p.code for p in found} == {"PDF001"}
    assert ("case.md", line) in {(p.path, p.line) for p in found}
    assert any("out of the page's column" in p.message and p.hint for p in found)


# --- F04: huge tables ------------------------------------------------------------------------------------


def test_f04_a_table_of_2000_rows_repeats_its_header_in_time(tmp_path):
    rows = [[f"row {n}", str(n * 7), "steady"] for n in range(2000)]
    begin = spent_so_far()
    made = made_of(tmp_path, table("wrap", ["Name", "Value", "State of the run"], rows))
    spent = spent_so_far() - begin
    assert spent < 30, "processor seconds"
    pages = [said for said in made.pages if "steady" in said]
    assert len(pages) > 30
    assert all("State of the run" in said for said in pages)
    assert "row 1999" in pages[-1]
    headers = [e for e in made.of_role("TH")]
    assert len(headers) == 3, "repetitions are artifacts, not header cells again"


# --- F06: a missing image is only logged ------------------------------------------------------------------


IMAGE = '<p>Text.</p><figure class="image"><img src="asset:x.png" alt="Nothing to see" width="10" height="10"/></figure>'


def test_f06_an_image_that_is_not_there_is_an_error(tmp_path):
    book = fixture.of_bodies(tmp_path, chapter(IMAGE))
    line = int(re.search(r'<img[^>]*data-line="(\d+)"', book.chapters[0].body)[1])
    (found,) = pdfs.make(book, tmp_path).problems
    assert (found.code, found.level, found.path, found.line) == ("PDF002", "error", "case.md", line)
    assert "x.png" in found.message


def test_f06_a_damaged_image_is_an_error(tmp_path):
    broken = tmp_path / "x.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\nnot an image at all")
    book = fixture.of_bodies(tmp_path, chapter(IMAGE))
    asset = Asset("x.png", broken, "image/png", "0" * 64, 10, 10)
    book = dataclasses.replace(book, assets={"x.png": asset})
    (found,) = pdfs.make(book, tmp_path).problems
    assert (found.code, found.level) == ("PDF002", "error")


# --- F07: emoji moved or scaled between versions -------------------------------------------------------


def test_f07_emoji_stand_on_the_line_at_the_size_of_text(tmp_path):
    made = made_of(tmp_path, "<p>Healthy \u2705 broken \u274c started \U0001f680 done.</p>")
    assert made.problems == []
    page = made.page_with("Healthy")
    document = pypdfium2.PdfDocument(made.file)
    try:
        words = document[page].get_textpage()
        said = words.get_text_range()
        base = words.get_charbox(said.index("Healthy"))
        for sign in "\u2705\u274c":
            left, bottom, right, top = words.get_charbox(said.index(sign))
            assert 5 < right - left < 16, "about an em wide"
            assert base[1] - 4 < bottom < base[1] + 3
            assert base[3] - 5 < top < base[3] + 5
    finally:
        document.close()
    fonts = {str(f.BaseFont) for p in made.document.pages for f in p.Resources.Font.values()}
    assert any("Noto-Emoji" in name for name in fonts)


# --- F15: memory grows with pages ------------------------------------------------------------------------


@pytest.mark.slow
def test_f15_time_and_memory_grow_no_faster_than_pages(tmp_path):
    prose = "".join(f"<p>{'Ranks wait for the slowest of them, and the log names the victim. ' * 8}</p>" for _ in range(50))
    program = """
import resource, sys
from pathlib import Path
from render import fixture, pdfs, test_pdf_golden as golden
count, folder = int(sys.argv[1]), Path(sys.argv[2])
book = fixture.of_bodies(folder, golden.chapter(sys.stdin.read() * count))
made = pdfs.make(book, folder, jobs=1)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(len(made.pages), used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
    few = _measured(program, prose, 1, tmp_path / "few")
    many = _measured(program, prose, 3, tmp_path / "many")
    assert many[0] > 2.2 * few[0]
    assert many[1] < 3.6 * few[1] + 1
    per_page = (many[2] - few[2]) / (many[0] - few[0])
    assert per_page < 3000, "KiB a page"


def _measured(program: str, prose: str, count: int, folder) -> tuple[float, ...]:
    folder.mkdir()
    return tuple(float(v) for v in pdfs.alone(program, str(count), str(folder), stdin=prose).split())


# --- F16: a dead link inside the chapter is only logged ---------------------------------------------------


def test_f16_a_dead_link_is_an_error_at_its_line(tmp_path):
    book = fixture.of_bodies(tmp_path, chapter('<p>One.</p><p>See <a href="#zzz">there</a>.</p>'))
    line = int(re.findall(r'<p data-line="(\d+)"', book.chapters[0].body)[1])
    (found,) = pdfs.make(book, tmp_path).problems
    assert (found.code, found.level, found.line) == ("PDF003", "error", line)
    assert "zzz" in found.message


GLYPHLESS = """
import sys
from pathlib import Path
from bookpress import fonts
fonts.activate(Path(sys.argv[1]))
from bookpress.pdf import layout, sheet
from render import fixture
markup = '<html lang="en"><body><p>One.</p><p data-line="9">Cuneiform: \U00012000.</p></body></html>'
css = sheet.style(fixture.config(Path(sys.argv[1]), ()))
job = layout.Job("a", "", "case.md", css, None, {}, markup=markup)
for p in layout.lay_out(job)[0].problems:
    print(p.code, p.level, p.path, p.line, "U+12000" in p.message)
"""


def test_f09_a_character_without_a_glyph_is_named(tmp_path):
    """In a chapter `glyphs` has reported it and U+FFFD stands there; what the press itself would print is caught here."""
    assert pdfs.alone(GLYPHLESS, str(tmp_path)) == "PDF004 error case.md 9 True\n"


# --- B04: a long block of code is cut after its first page --------------------------------------------------


@pytest.mark.parametrize("around", ["{}", "<ol><li>{}</li></ol>", '<aside class="admonition note"><p class="admonition-title">Note</p>{}</aside>'])
def test_b04_every_line_of_a_long_fence_is_there(tmp_path, around):
    text = "\n".join(f"line {n:03d} of the run" for n in range(300))
    fence = f'<figure class="code" data-lang="text"><pre><code class="language-text">{text}</code></pre></figure>'
    made = made_of(tmp_path, around.format(fence))
    said = " ".join(" ".join(made.pages).split())
    assert [n for n in range(300) if f"line {n:03d} of the run" not in said] == []
    assert made.problems == []


def test_a_dead_link_to_another_chapter_is_an_error_at_its_line(tmp_path):
    book = fixture.of_bodies(tmp_path, chapter('<p>See <a href="book:elsewhere#x">there</a>.</p>'))
    line = int(re.search(r'<p data-line="(\d+)"', book.chapters[0].body)[1])
    (found,) = pdfs.make(book, tmp_path).problems
    assert (found.code, found.level, found.line) == ("PDF003", "error", line)


def test_a_cover_image_fills_the_first_page_and_a_missing_one_is_an_error(tmp_path):
    (tmp_path / "front.png").write_bytes(fixture.png(352, 500))
    made = made_of(tmp_path, "<p>Text.</p>", cover="front.png")
    assert made.problems == []
    assert made.document.pages[0].Resources.XObject
    assert made.pages[0].strip() == ""
    (found,) = made_of(tmp_path, "<p>Text.</p>", cover="gone.png").problems
    assert (found.code, found.path) == ("PDF002", "book.toml")


@pytest.mark.parametrize(("width", "height"), [("7in", "9.25in"), ("210mm", "297mm"), ("148mm", "210mm")])
def test_any_page_holds_every_block(tmp_path, width, height):
    """The fixture on letter-like, A4 and A5 pages. Its table of ten columns is made for the default page: on a
    smaller one it runs over, and is the only thing that does."""
    book = fixture.book(tmp_path, page=Page(width, height))
    made = pdfs.make(book, tmp_path)
    body = book.chapter("accelerators").body
    wide = body[body.index('id="tbl-wide"') : body.index("</figure>", body.index('id="tbl-wide"'))]
    lines = {int(n) for n in re.findall(r'data-line="(\d+)"', wide)}
    assert [p for p in made.problems if p.line not in lines] == []
    if width == "210mm":
        assert made.problems == []


def test_no_word_stands_alone_when_only_a_space_does_not_fit(tmp_path):
    """Found in our own preface: `com-` had a line to itself."""
    made = made_of(
        tmp_path,
        "<p>Say where it stands (chapter and section), what it should be, and the source or the command that shows "
        "it, in an issue of the book's repository. A figure is corrected in <code>data/</code> or in a measurement "
        "file, so it changes wherever it is shown.</p>",
    )  # fmt: skip
    lines = made.pages[made.page_with("Say where it stands")].split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("Say where"))
    assert all(len(line) > 60 for line in lines[start : start + 2])


def test_no_word_stands_alone_when_a_number_moves_on_with_its_unit(tmp_path):
    """A first word that grows brings `9 GB/s` past the end of the first line; the words before it stay there."""
    body = "".join(f"<p>{'i' * n} {'word ' * 11}at 9\u00a0GB/s and more words.</p>" for n in range(10, 60))
    made = made_of(tmp_path, body)
    assert made.problems == []
    said = [line for page in made.pages[2:] for line in page.split("\n")]
    first = [line for line in said if line.startswith("ii")]
    assert len(first) == 50
    assert 3 < sum("GB/s" in line for line in first) < 47, "the end of the line was passed"
    assert [line for line in first if line.count("word") < 7] == []
    assert [line for line in said if line.startswith("GB/s")] == []


# --- where pages and lines end ------------------------------------------------------------------------


def test_the_mark_of_a_note_never_begins_a_line(tmp_path):
    """After a full stop layout would let it; a first word that grows brings the mark past the end of a line."""
    mark = '<a class="fnref" role="doc-noteref" id="fnref-{0}" href="#fn-{0}"><sup>{0}</sup></a>'
    numbers = range(10, 60)
    lines = "".join(f"<p>{'i' * n} {'word ' * 11}ends.{mark.format(n)} More words.</p>" for n in numbers)
    notes = "".join(f'<li id="fn-{n}" role="doc-footnote"><p>Note.</p></li>' for n in numbers)
    made = made_of(tmp_path, lines + f'<section class="footnotes" role="doc-endnotes"><ol>{notes}</ol></section>')
    assert made.problems == []
    said = [line for page in made.pages[2:] for line in page.split("\n")]
    assert sum("ends." in line for line in said) == len(numbers)
    assert 3 < sum(line.startswith("More words") for line in said) < len(numbers), "the end of the line was passed"
    assert [line for line in said if re.match(r"\d+ More", line)] == []


def test_no_page_holds_the_last_row_of_a_table_alone(tmp_path):
    """Tables of growing length, each in a chapter of its own, so that one would end a row behind its page."""
    sizes = range(20, 44)
    tables = {n: table("wrap", ["Row"], [[f"{n}r{k}z"] for k in range(n)]) for n in sizes}
    made = pdfs.make(fixture.of_bodies(tmp_path, *(chapter(t, f"of{n}") for n, t in tables.items())), tmp_path)
    assert made.problems == []
    ends = {n: made.pages[made.page_with(f"{n}r{n - 1}z")] for n in sizes}
    assert 5 < sum(f"{n}r0z" not in page for n, page in ends.items()) < len(sizes), "some were parted"
    assert [n for n, page in ends.items() if f"{n}r{n - 2}z" not in page] == []


def test_no_page_holds_the_first_row_of_a_table_alone(tmp_path):
    """The same table behind a growing number of lines, until it would begin a row before the end of its page."""
    lines = range(10, 30)
    cells = table("wrap", ["Row"], [[f"r{k}z"] for k in range(6)])
    bodies = (chapter("<p>A line.</p>" * n + cells, f"after{n}") for n in lines)
    made = pdfs.make(fixture.of_bodies(tmp_path, *bodies), tmp_path)
    assert made.problems == []
    starts = [page for page in made.pages if "r0z" in page]
    assert len(starts) == len(lines)
    assert 1 < sum("r5z" not in page for page in starts) < len(lines), "some were parted"
    assert [page for page in starts if "r1z" not in page] == []


def test_text_fills_the_page_before_a_figure_that_does_not_fit(tmp_path):
    figure = '<figure class="figure" id="fig"><img src="asset:tall.png" alt="Tall." width="400" height="420"/></figure>'
    filler = "".join(f"<p>Before {n}. {'word ' * 60}</p>" for n in range(5))
    after = "".join(f"<p>Behind {n}. {'word ' * 60}</p>" for n in range(4))
    assets = {"tall.png": fixture.asset(tmp_path, "tall.png", fixture.png(400, 420), "image/png", 400, 420)}
    book = fixture.of_bodies(tmp_path, chapter(f'{filler}{figure}{after}<h2 id="s">Next</h2><p>End.</p>'))
    made = pdfs.make(dataclasses.replace(book, assets=assets), tmp_path)
    assert made.problems == []
    page = made.places["case/fig"][0]
    assert "Before 4." in made.pages[page - 1]
    assert "Behind 0." in made.pages[page - 1]
    assert "Next" not in made.pages[page - 1]
    said = "".join(made.pages)
    assert [said.count(f"Behind {n}.") for n in range(4)] == [1, 1, 1, 1]
    roles = [e.S for e in made.elements if e.S in ("/P", "/Figure", "/H2")]
    assert roles.index("/Figure") < len(roles) - 5, "tags keep the order of the source"


TALL = '<figure class="figure" id="fig"><img src="asset:tall.png" alt="Tall." width="400" height="420"/></figure>'
SMALL = '<figure class="figure" id="small"><img src="asset:small.png" alt="Small." width="40" height="40"/></figure>'
WORDS = f"<p>Words. {'word ' * 60}</p>"
NOTED = '<p>Noted.<a class="fnref" role="doc-noteref" id="fnref-1" href="#fn-1"><sup>1</sup></a></p>'
NOTES = '<section class="footnotes" role="doc-endnotes"><ol><li id="fn-1" role="doc-footnote"><p>Said.</p></li></ol></section>'
CODE = '<figure class="code" data-lang="{0}"><pre><code>{1}</code></pre></figure>'
# What follows a figure that its page has no room for.
FOLLOWERS = {
    "heading": f'<h2 id="next">Next</h2>{WORDS}',
    "figure": f"{SMALL}{WORDS}",
    "list": f"<p>They are:</p><ul><li>first</li><li>second</li></ul>{WORDS}",
    "row": table("wrap", ["Row"], [["<br/>".join(["whole row"] * 24)]]),
    "note": f"{NOTED}{WORDS * 3}{NOTES}",
    "run": f"<p>Run:</p>{CODE.format('bash', 'command')}{CODE.format('output', 'answer')}{WORDS}",
}


def test_a_figure_passes_no_heading_no_figure_and_parts_nothing_that_belongs_together(tmp_path):
    """What fits no better stays behind the figure, too; a note comes along with what calls it."""
    before = "".join(f"<p>Before {n}. {'word ' * 60}</p>" for n in range(5))
    book = fixture.of_bodies(tmp_path, *(chapter(before + TALL + after, f"of-{n}") for n, after in FOLLOWERS.items()))
    assets = {
        f"{name}.png": fixture.asset(tmp_path, f"{name}.png", fixture.png(*size), "image/png", *size)
        for name, size in (("tall", (400, 420)), ("small", (40, 40)))
    }
    made = pdfs.make(dataclasses.replace(book, assets=assets), tmp_path)
    assert made.problems == []

    def order(name: str) -> tuple[int, float]:
        page, height = made.places[name]
        return page, -height

    page_before = {name: made.pages[made.places[f"of-{name}/fig"][0] - 1] for name in FOLLOWERS}
    assert all("Before 4." in page for page in page_before.values()), "the figures did not fit"
    assert order("of-heading/fig") < order("of-heading/next")
    assert order("of-figure/fig") < order("of-figure/small")
    assert re.search(r"They are:\s+•?\s*first\s+•?\s*second", page_before["list"])
    row = made.places["of-row/fig"][0]
    assert ["whole row" in page for page in made.pages[row - 1 : row + 2]] == [False, False, True]
    assert re.search(r"Noted\.1.*Said\.", page_before["note"], re.DOTALL)
    assert "".join(made.pages).count("Said.") == 1
    assert re.search(r"Run:\s+command\s+answer", page_before["run"])
