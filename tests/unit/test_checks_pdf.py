"""Ink where it should not be, and code on the page that is not its source."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pikepdf
import pytest

from bookpress.checks import fences, ink, pdftext
from render import epubs, fixture

TESTS = Path(__file__).parents[1]
MAKE = """
import sys
from pathlib import Path
from render import fixture
from bookpress import pdf
if __name__ == "__main__":
    root = Path(sys.argv[1])
    problems = pdf.make(fixture.book(root), root / "book.pdf", root / "cache", 1, lambda *_: None)
    assert not problems, problems
"""


@functools.cache
def made():
    """The fixture's PDF. Its own process: fonts are set up before layout is loaded."""
    root = epubs.folder()
    environment = {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'build'}", "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", MAKE, str(root)], check=True, env=environment)
    return fixture.book(root), root / "book.pdf"


def draw(target: Path, *operators: str, width: float = 498.9, height: float = 708.66) -> Path:
    """A PDF with one page for each string of operators."""
    with pikepdf.new() as pdf:
        for content in operators:
            page = pdf.add_blank_page(page_size=(width, height))
            page.contents_add(pdf.make_stream(content.encode()))
        pdf.save(target)
    return target


def inked(tmp_path, *operators):
    return [p.message for p in ink.check(draw(tmp_path / "x.pdf", *operators), fixture.book(tmp_path))]


def test_the_fixture_is_clean():
    book, file = made()
    assert ink.check(file, book) == []
    assert fences.check_pdf(file, book) == []


def test_ink_inside_is_fine(tmp_path):
    assert inked(tmp_path, "60 100 300 400 re f", "0 g 0 0 498.9 708.66 re f", "") == []


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ("60 100 400 10 re f", "pt of ink right of the text"),
        ("450 100 60 1 re f", "of ink right of the page"),
        ("30 100 100 1 re f", "of ink left of the text"),
        ("0.3 w 100 -20 m 100 100 l S", "of ink below the page"),
        ("100 700 10 30 re f", "of ink above the page"),
        ("0.9 g 440 100 30 30 re f", "of ink right of the text"),
    ],
)
def test_ink_outside(tmp_path, operators, said):
    assert any(said in message for message in inked(tmp_path, operators))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("done", "do ne"),
        ("for pid in", "for pid  in"),
        ("    tr", "   tr"),
        ("; do\n", "; do\n\n"),
        ("'\\0'", "'\\1'"),
        ("\ndone", " done"),
        ("# stops", "#stops"),
    ],
)
def test_each_lost_character_is_seen(old, new):
    """The page is right and the source is changed: what differs is found all the same."""
    book, _ = made()
    chapter = book.chapter("hangs")
    fence = chapter.fences[0]
    assert old in fence.text
    (problem,) = checked(book, chapter, dataclasses.replace(fence, text=fence.text.replace(old, new, 1)))
    assert (problem.code, problem.path, problem.line) == ("CHK001", "debugging/hangs.md", fence.line)


@pytest.mark.parametrize(
    ("index", "old", "new"),
    [(2, "segment-seg", "segment- seg"), (2, "segment-segment", "segmentsegment"), (2, "xxx", "xx"),
     (3, "\n\n\t", "\n\t"), (3, "\ttab", "tab"), (3, "}}  &", "}} &"), (1, "漢字", "漢"), (1, "│ 🚀", "│  🚀")],
)  # fmt: skip
def test_in_long_lines_tabs_and_other_scripts(index, old, new):
    book, _ = made()
    chapter = book.chapter("hangs")
    fence = chapter.fences[index]
    assert old in fence.text
    assert checked(book, chapter, dataclasses.replace(fence, text=fence.text.replace(old, new, 1)))


def checked(book, chapter, fence):
    fences_ = tuple(fence if f.index == fence.index else f for f in chapter.fences)
    changed = dataclasses.replace(chapter, fences=fences_)
    chapters = tuple(changed if c.slug == chapter.slug else c for c in book.chapters)
    return fences.check_pdf(made()[1], dataclasses.replace(book, chapters=chapters))


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed (poppler-utils)")
def test_copied_code_keeps_its_blanks():
    book, file = made()
    copied = subprocess.run(["pdftotext", str(file), "-"], check=True, capture_output=True).stdout.decode()
    lines = [line for fence in book.chapter("hangs").fences for line in fence.text.split("\n")]
    fits = [line for line in lines if line.strip() and len(line) <= 88 and '"  #' not in line]
    assert len(fits) > 10
    assert [line for line in fits if f"\n{line}\n" not in copied] == []


def test_missing_block():
    book, file = made()
    code = '<figure class="code" data-lang=""><pre><code>more</code></pre></figure>'
    longer = fixture.chapter(fixture.HANGS.replace("<hr/>", code + "<hr/>"), 2, "debugging/")
    chapters = tuple(longer if c.slug == "hangs" else c for c in book.chapters)
    problems = fences.check_pdf(file, dataclasses.replace(book, chapters=chapters))
    assert any("missing" in p.message for p in problems)


def test_unicode_maps_in_both_forms():
    cmap = (
        b"2 beginbfchar\n<0001> <0041>\n<0002> <D83DDE80>\nendbfchar\n"
        b"2 beginbfrange\n<0010> <0012> <0061>\n<0020> <0021> [<0066> <00660069>]\nendbfrange"
    )
    assert pdftext.unicode_map(cmap) == {
        1: "A", 2: "🚀", 0x10: "a", 0x11: "b", 0x12: "c", 0x20: "f", 0x21: "fi",
    }  # fmt: skip
