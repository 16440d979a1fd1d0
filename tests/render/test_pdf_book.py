"""The finished PDF of the fixture book: numbers, ways in, structure, fonts, code, bytes."""

from __future__ import annotations

import dataclasses
import re
import shutil
import sys
from pathlib import Path

import page as page_validation
import pikepdf
import pypdfium2
import pytest

from bookpress import fonts
from bookpress.pdf import workers
from render import fixture, pdfs


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pdf")


@pytest.fixture(scope="session")
def book(folder):
    return fixture.book(folder / "source")


@pytest.fixture(scope="session")
def made(book, folder) -> pdfs.Made:
    return pdfs.make(book, folder)


def test_the_fixture_has_no_problems(made):
    assert made.problems == []


# --- numbers that are known last ---------------------------------------------------------------------


def test_contents_tell_the_page_where_the_heading_is_found(made):
    """F01: a flex link once made every number 0."""
    titles = {"accelerators/which-number": "Which number is which?", "accelerators/setup-1": "Setup, again",
              "hangs/which-rank": "Which rank is stuck?", "glossary": "Glossary"}  # fmt: skip
    contents = made.links(made.page_with("Contents"))
    for target, title in titles.items():
        told = re.search(r"(\d+)\s*$", contents[target][0])[1]
        found = [n for n, said in enumerate(made.pages) if title in said.split("Hardware")[0]]
        assert made.labels.index(told) in found
        assert made.labels.index(told) == made.places[target][0]


def test_references_to_other_chapters_tell_their_page(made):
    said = made.links(made.places["hangs"][0])["accelerators/tbl-dense"]
    told = re.search(r"\(p\.\s(\d+)\)", " ".join(said))[1]
    assert told == made.labels[made.places["accelerators/tbl-dense"][0]]


def test_a_page_number_stands_beside_the_words_of_its_link(tmp_path):
    """Where the number has two digits, though the chapter that is meant begins on page 1."""
    said = "A rank that waits for the slowest of them names the victim and not the culprit in its log. " * 6
    long = f"{'<p>' + said + '</p>'}" * 55
    made = pdfs.make(fixture.of_bodies(
        tmp_path,
        f'<section class="chapter" id="one"><h1 id="top-one">One</h1>{long}<h2 id="end">End</h2><p>It.</p></section>',
        '<section class="chapter" id="two"><h1 id="top-two">Two</h1><p><a href="book:one#end">Lookat</a>.</p></section>',
    ), tmp_path)  # fmt: skip
    page = made.page_with("Lookat")
    number = re.search(r"\(p\. (\d+)\)", made.pages[page])
    assert len(number[1]) == 2
    document = pypdfium2.PdfDocument(made.file)
    try:
        words = document[page].get_textpage()
        link, after = (words.search(text).get_next()[0] for text in ("Lookat", number[0]))
        right = words.get_charbox(link + len("Lookat") - 1)[2]
        assert words.get_charbox(after)[0] > right + 1, "points"
    finally:
        document.close()


def test_front_matter_counts_roman_and_the_body_arabic(made):
    start = made.labels.index("1")
    assert made.labels[:start] == ["i", "ii", "iii", "iv", "v"]
    assert made.labels[start:] == [str(n + 1) for n in range(len(made.labels) - start)]
    assert "Preface" in made.pages[4]
    for n, label in enumerate(made.labels):
        if n > 2 and "Part I" not in made.pages[n].title():
            assert made.pages[n].rstrip().endswith(label) or label in made.pages[n].split("\n")


def test_running_heads_name_part_and_section(made):
    later = made.pages[made.places["accelerators/dense-sparse"][0]]
    assert "Hardware 1.1 Which number is which?" in " ".join(later.split())


# --- ways in -------------------------------------------------------------------------------------------


def test_bookmarks_lead_to_parts_chapters_and_sections(made):
    with made.document.open_outline() as outline:
        top = [item.title for item in outline.root]
        assert top == ["Contents", "Preface", "Part I: Hardware", "Part II: Debugging", "Glossary"]
        chapter = outline.root[2].children[0]
        assert chapter.title == "1  Accelerators & their limits"
        assert next(c.title for c in chapter.children) == "1.1  Which number is which?"


def test_every_link_inside_the_book_lands(made):
    targets = 0
    for page in made.document.pages:
        for link in page.get("/Annots", []):
            if "/Dest" in link:
                assert str(link.Dest) in made.places
                targets += 1
            else:
                assert str(link.A.URI).startswith("https://")
            assert str(link.Contents)
    assert targets > 20


def test_a_link_that_holds_code_is_one_link(tmp_path):
    body = (
        '<section class="chapter" id="a"><h1 id="top">A</h1>'
        '<p>See <a href="https://example.org/x"><code>all_reduce</code></a>.</p></section>'
    )
    made = pdfs.make(fixture.of_bodies(tmp_path, body), tmp_path)
    links = [a for page in made.document.pages for a in page.get("/Annots", []) if "/A" in a]
    assert len(links) == 1


def test_destinations_keep_their_names_in_any_script(made):
    assert made.places["hangs/简介"][0] == made.page_with("2.2", start=made.places["hangs"][0] + 1)


# --- structure -----------------------------------------------------------------------------------------


def test_pdf_ua(made):
    report = page_validation.validate_pdf(made.file, profile="ua1")
    assert [(f.rule_id, f.message) for f in report.failures] == []


def test_header_cells_have_scope(made):
    """F13: WeasyPrint writes none."""
    cells = made.of_role("TH")
    assert cells
    assert all(cell.A.Scope == "/Column" for cell in cells)


def test_figures_and_formulas_carry_their_alternative_text(made):
    said = [str(e.Alt) for e in made.of_role("Figure")]
    assert "Throughput rises with intensity until the compute roof at 200 FLOP per byte" in said
    assert r"\mathrm{MFU} = \frac{6 N T}{P}" in [str(e.Alt) for e in made.of_role("Formula")]


def test_list_items_hold_label_and_body(made):
    items = made.of_role("LI")
    assert items
    for item in items:
        assert set(pdfs.roles_below(item)) <= {"Lbl", "LBody"}
        assert "LBody" in pdfs.roles_below(item)


def test_a_paragraph_that_crosses_a_page_is_one_element(made):
    pages = {n for n, said in enumerate(made.pages) if "Long prose fills the page" in said}
    assert len(pages) > 1
    crossing = [
        e for e in made.of_role("P")
        if any(isinstance(k, pikepdf.Dictionary) and k.get("/Type") == "/MCR" for k in pdfs.kids_of(e))
    ]  # fmt: skip
    assert crossing


def test_notes_stand_at_the_foot_and_are_notes(made):
    assert len(made.of_role("Note")) == 2  # the third is called from a table and closes the chapter
    first = made.pages[made.places["accelerators"][0]]
    assert first.index("Measured with torch 2.13.0") > first.index("Without a number")


def test_metadata_in_both_places_agree(made):
    with made.document.open_metadata() as xmp:
        assert xmp["dc:title"] == made.document.docinfo["/Title"] == "A Book of Fixtures"
        assert xmp["pdfuaid:part"] == "1"
        assert xmp["xmp:CreateDate"].startswith("2026-11-30")


# --- fonts and code --------------------------------------------------------------------------------------


def _fonts(made) -> dict[str, pikepdf.Dictionary]:
    return {name: font for page in made.document.pages for name, font in page.Resources.Font.items()}


def test_only_bundled_fonts_and_each_file_once(made):
    families = {f.family for f in fonts.faces()}
    files = set()
    for font in _fonts(made).values():
        descriptor = font.DescendantFonts[0].FontDescriptor
        assert str(descriptor.FontFamily) in families
        files.add(descriptor.FontFile2.objgen)
    assert len(files) <= len(fonts.faces())
    assert sum(len(made.document.get_object(f).read_raw_bytes()) for f in files) < 200_000


def test_code_is_copied_as_it_was_written(made, book):
    """B01, B06: every character of every fence, in order, whatever was wrapped."""
    for chapter in book.chapters:
        start = made.places[chapter.slug][0]
        said = "".join("".join(made.pages[start : start + 5]).split())
        for fence in chapter.fences:
            for line in fence.text.split("\n"):
                assert "".join(line.split()) in said


# --- once, and the same ------------------------------------------------------------------------------------


def _changed(book, slug: str):
    chapters = tuple(
        dataclasses.replace(c, body=c.body.replace("Take one stack", "Take exactly one stack")) if c.slug == slug else c
        for c in book.chapters
    )
    return dataclasses.replace(book, chapters=chapters)


def test_unchanged_book_is_copied_and_a_changed_chapter_laid_out_alone(made, book, folder, monkeypatch):
    done = []
    real = workers.laid_out

    def watched(missing, orders, *rest):
        done.append([orders[n].name for n in missing])
        return real(missing, orders, *rest)

    # The package's `make` is the function; the module of that name is reached by its full name.
    monkeypatch.setattr(sys.modules["bookpress.pdf.make"], "laid_out", watched)
    before = made.file.read_bytes()
    pdfs.make(book, folder)  # other tests of this process may have bound another book since
    done.clear()
    pdfs.make(book, folder)
    assert done == []
    assert made.file.read_bytes() == before
    other = pdfs.make(_changed(book, "hangs"), folder)
    assert done == [["hangs"]]
    assert "Take exactly one stack" in "".join(other.pages)
    pdfs.make(book, folder)
    assert done == [["hangs"], []]
    assert made.file.read_bytes() == before, "bound again from the cache: the same bytes"


def test_bodies_that_the_cache_lost_are_made_again(made, book, folder):
    before = made.file.read_bytes()
    for kind in ("body", "block", "last"):
        shutil.rmtree(pdfs.shared_cache() / kind)
    pdfs.make(book, folder)
    assert made.file.read_bytes() == before


BUILD = """
import sys
from pathlib import Path
from render import fixture, pdfs
folder = Path(sys.argv[1])
pdfs.make(fixture.book(folder / "elsewhere"), folder, jobs=1, cache=folder / "cache")
"""


def test_same_bytes_in_another_folder_and_process(made, tmp_path):
    pdfs.alone(BUILD, str(tmp_path), PYTHONHASHSEED="7")
    assert (tmp_path / "book.pdf").read_bytes() == made.file.read_bytes()
