"""The EPUB as a package: archive, manifest, spine, metadata, ways in. Case numbers: the study of failures."""

from __future__ import annotations

import dataclasses
import io
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lxml import etree

from bookpress import epub
from bookpress.epub import metadata
from render import epubs, fixture
from render.epubs import body, find, of, opf, page

NASTY = "Q & A <fast> “x” Box<T>"


def test_mimetype_is_first_and_stored():
    _, file, _ = epubs.whole()
    with zipfile.ZipFile(file) as archive:
        first, *rest = archive.infolist()
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert first.extra == b""
    assert [i.filename for i in rest] == sorted(i.filename for i in rest)
    assert {i.date_time for i in (first, *rest)} == {(2026, 11, 30, 0, 0, 0)}
    assert file.read_bytes()[30:58] == b"mimetypeapplication/epub+zip"


@pytest.mark.parametrize("escaped", ["Q &amp; A &lt;fast&gt; “x” Box&lt;T&gt;"])
def test_titles_are_escaped_once_everywhere(escaped):  # E01, C07
    heading = body('<h2 id="s"><code>Box&lt;T&gt;</code> &amp; more</h2><p>t</p>', title=escaped)
    _, entries, problems = of(heading, title=NASTY)
    assert problems == []
    for name in ("nav.xhtml", "toc.ncx", "content.opf", "title.xhtml"):
        text = entries[f"EPUB/{name}"].decode()
        assert "&amp;amp;" not in text
        assert NASTY in "".join(etree.fromstring(text.encode()).itertext())
    assert find(page(entries), "//h:title")[0].text == NASTY
    nav = "".join(etree.fromstring(entries["EPUB/nav.xhtml"]).itertext())
    ncx = "".join(etree.fromstring(entries["EPUB/toc.ncx"]).itertext())
    assert "Box<T> & more" in nav
    assert "Box<T> & more" in ncx


def test_pages_keep_head_and_case():  # E03, E04
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><title>t</title><rect width="1" height="1"/></svg>'
    _, entries, _ = of(body(f"<p>{svg}</p>"))
    text = entries["EPUB/chapters/one.xhtml"]
    assert text.startswith(b'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>')
    assert b'<link rel="stylesheet" type="text/css" href="../css/epub.css"/>' in text
    assert b'viewBox="0 0 1 1"' in text
    assert "EPUB/css/epub.css" in entries


def test_cover_is_a_page_and_an_image():  # E06, E07
    _, _, entries = epubs.whole()
    package = opf(entries)
    spine = find(package, "//opf:itemref/@idref")
    first = find(package, f"//opf:item[@id='{spine[0]}']/@href")
    assert first == ["cover.xhtml"]
    assert find(package, "//opf:item[@properties='cover-image']/@href") == ["images/cover.png"]
    ident = find(package, "//opf:item[@properties='cover-image']/@id")
    assert find(package, "//opf:meta[@name='cover']/@content") == ident
    png = entries["EPUB/images/cover.png"]
    assert struct.unpack(">II", png[16:24]) == (1760, 2500)


def test_properties_come_from_the_page():  # E09, E10
    formula = f'<p><span class="math inline">{fixture.math("x", "<mi>x</mi>")}</span></p>'
    drawing = '<p><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/></svg></p>'
    _, entries, _ = of(
        body(formula, "formula"), body(drawing, "drawing"), body(formula + drawing, "both"), body("", "none")
    )
    found = {
        item.get("href"): item.get("properties")
        for item in find(opf(entries), "//opf:item[contains(@href, 'chapters/')]")
    }
    assert found == {
        "chapters/formula.xhtml": "mathml",
        "chapters/drawing.xhtml": "svg",
        "chapters/both.xhtml": "mathml svg",
        "chapters/none.xhtml": None,
    }


BUILD = """
import sys
from pathlib import Path
from render import epubs, fixture
root = Path(sys.argv[1]); root.mkdir(parents=True)
(root / "cover.svg").write_text(epubs.COVER)
_, problems = epubs.made(fixture.book(root, cover="cover.svg"), root / "out" / "book.epub")
assert not problems
"""


def test_same_bytes_wherever_and_whenever(tmp_path):  # E12
    tests = Path(__file__).parents[1]
    made = []
    for number, zone in enumerate(("UTC", "Pacific/Kiritimati")):
        root = tmp_path / ("x" * number) / f"book{number}"
        path = f"{tests}:{tests.parent / 'build'}"
        env = os.environ | {"PYTHONHASHSEED": str(number + 1), "TZ": zone, "PYTHONPATH": path}
        cwd = tmp_path if number else tests
        subprocess.run([sys.executable, "-c", BUILD, str(root)], check=True, cwd=cwd, env=env)
        made.append((root / "out" / "book.epub").read_bytes())
    assert made[0] == made[1]


def test_entries_of_the_contents_are_unique():  # E13, E15, D13
    same = '<h2 id="setup">Setup</h2><p>a</p><h2 id="setup-1">Setup</h2><p>b</p>'
    _, entries, _ = of(body(same), body("<p>no sections</p>", "two", "Two"))
    nav, ncx = etree.fromstring(entries["EPUB/nav.xhtml"]), etree.fromstring(entries["EPUB/toc.ncx"])
    targets = find(nav, "//h:nav[@epub:type='toc']//h:a/@href")
    assert targets == [
        "chapters/one.xhtml", "chapters/one.xhtml#setup", "chapters/one.xhtml#setup-1", "chapters/two.xhtml",
    ]  # fmt: skip
    assert find(ncx, "//ncx:content/@src") == targets
    points = find(ncx, "//ncx:navPoint/@id")
    assert len(points) == len(set(points)) == 4
    assert find(ncx, "//@playOrder") == []
    assert find(nav, "//h:ol[not(h:li)]") == []
    for target in targets:
        file, _, anchor = target.partition("#")
        assert not anchor or find(etree.fromstring(entries[f"EPUB/{file}"]), f"//*[@id='{anchor}']")


def test_every_file_is_in_the_manifest_once():  # E16
    _, _, entries = epubs.whole()
    package = opf(entries)
    ids, hrefs = find(package, "//opf:item/@id"), find(package, "//opf:item/@href")
    assert len(ids) == len(set(ids))
    apart = {"mimetype", "META-INF/container.xml", "EPUB/content.opf"}
    assert sorted(f"EPUB/{href}" for href in hrefs) == sorted(set(entries) - apart)


def test_parts_chapters_and_sections_nest():
    _, _, entries = epubs.whole()
    nav = etree.fromstring(entries["EPUB/nav.xhtml"])
    top = find(nav, "//h:nav[@epub:type='toc']/h:ol/h:li/h:a")
    assert [a.text for a in top] == ["Preface", "Part I: Hardware", "Part II: Debugging", "Glossary"]
    second = find(nav, "//h:nav[@epub:type='toc']/h:ol/h:li/h:ol/h:li/h:a")
    assert [a.text for a in second] == ["1 Accelerators & their limits", "2 When a job hangs"]
    spine = [find(opf(entries), f"//opf:item[@id='{i}']/@href")[0] for i in find(opf(entries), "//opf:itemref/@idref")]
    assert spine == [
        "cover.xhtml", "title.xhtml", "nav.xhtml", "chapters/preface.xhtml", "part-i.xhtml",
        "chapters/accelerators.xhtml", "part-ii.xhtml", "chapters/hangs.xhtml", "chapters/glossary.xhtml",
        "colophon.xhtml",
    ]  # fmt: skip
    kinds = [find(page(entries, s), "//h:body/@epub:type")[0] for s in ("preface", "hangs", "glossary")]
    assert kinds == ["frontmatter", "bodymatter", "backmatter"]
    marks = find(nav, "//h:nav[@epub:type='landmarks']//h:a/@epub:type")
    assert marks == ["cover", "titlepage", "toc", "bodymatter", "colophon"]


def test_one_file_per_chapter_with_its_own_ids():  # D09, D06
    one, two = (body('<h2 id="简介">简介</h2><p>t</p>', slug) for slug in ("one", "two"))
    _, entries, problems = of(one, two)
    assert problems == []
    nav = entries["EPUB/nav.xhtml"].decode()
    assert 'href="chapters/one.xhtml#简介"' in nav
    assert 'href="chapters/two.xhtml#简介"' in nav


def test_language_is_on_the_package_and_every_page():  # E19
    _, entries, _ = of(body("<p>Guten Tag</p>"), language="de")
    xml_lang = "{http://www.w3.org/XML/1998/namespace}lang"
    assert opf(entries).get(xml_lang) == "de"
    assert find(opf(entries), "//dc:language")[0].text == "de"
    for name, data in entries.items():
        if name.endswith(".xhtml"):
            root = etree.fromstring(data)
            assert (root.get("lang"), root.get(xml_lang)) == ("de", "de")


def test_metadata():
    _, _, entries = epubs.whole()
    package = opf(entries)
    said = {p: find(package, f"//opf:meta[@property='schema:{p}']/text()") for p in (
        "accessMode", "accessModeSufficient", "accessibilityFeature", "accessibilityHazard", "version")}  # fmt: skip
    assert said["accessMode"] == ["textual", "visual"]
    assert said["accessModeSufficient"] == ["textual", "textual,visual"]
    assert {"alternativeText", "MathML", "tableOfContents"} <= set(said["accessibilityFeature"])
    assert said["accessibilityHazard"] == ["none"]
    assert said["version"] == ["2026.11"]
    assert find(package, "//opf:meta[@property='dcterms:modified']")[0].text == "2026-11-30T00:00:00Z"
    assert find(package, "//dc:title")[0].text == "A Book of Fixtures"
    assert not find(package, "//opf:meta[@property='dcterms:conformsTo']")


def test_what_is_not_there_is_not_claimed(tmp_path):
    plain = metadata.accessibility(metadata.Contents(images=False, described=True, mathml=False, moving=False))
    assert plain["accessMode"] == ["textual"]
    assert not {"alternativeText", "MathML"} & set(plain["accessibilityFeature"])
    bare = metadata.accessibility(metadata.Contents(images=True, described=False, mathml=False, moving=True))
    assert bare["accessModeSufficient"] == ["textual,visual"]
    assert "alternativeText" not in bare["accessibilityFeature"]
    assert bare["accessibilityHazard"] == ["unknown"]


def test_identifier_is_the_same_in_every_release(tmp_path):
    book = fixture.of_bodies(tmp_path, body(""), identifier="")
    later = dataclasses.replace(book, config=dataclasses.replace(book.config, version="2099.1"))
    assert metadata.identifier(book) == metadata.identifier(later)
    assert metadata.identifier(book).startswith("urn:uuid:")


def test_images_are_carried_once(tmp_path):
    same = [fixture.asset(tmp_path, f"{n}/plot 1.png", epubs.PNG, "image/png", 8, 8) for n in "ab"]
    shown = "".join(f'<p><img src="asset:{a.path}" alt="plot"/></p>' for a in same)
    book = fixture.of_bodies(tmp_path, body(shown), cover="cover.svg")
    (tmp_path / "cover.svg").write_text(epubs.COVER)
    book = dataclasses.replace(book, assets={a.path: a for a in same})
    entries, problems = epubs.made(book, tmp_path / "x.epub")
    assert problems == []
    carried = [n for n in entries if n.startswith("EPUB/images/") and not n.endswith("cover.png")]
    assert len(carried) == 1
    assert " " not in carried[0]
    assert set(find(page(entries), "//h:img/@src")) == {"../" + carried[0].removeprefix("EPUB/")}


def test_code_font_has_the_characters_and_its_licence():
    from fontTools.ttLib import TTFont

    code = '<figure class="code" data-lang=""><pre><code>if a != b: ┌─┐ é</code></pre></figure>'
    _, entries, _ = of(body(code))
    regular = TTFont(io.BytesIO(entries["EPUB/fonts/JetBrainsMono-Regular.ttf"]))
    assert {ord(c) for c in "ifab!=:┌─┐é"} <= set(regular.getBestCmap())
    assert ord("Z") not in regular.getBestCmap()
    assert not {"calt", "liga"} & {record.FeatureTag for record in features(regular)}
    assert b"SIL Open Font License" in entries["EPUB/fonts/JetBrainsMono-OFL.txt"]
    assert b"../fonts/JetBrainsMono-Regular.ttf" in entries["EPUB/css/epub.css"]
    _, entries, _ = of(body("<p>no code</p>"))
    assert not [name for name in entries if name.startswith("EPUB/fonts/")]


def features(font) -> list:
    return font["GSUB"].table.FeatureList.FeatureRecord if "GSUB" in font else []


def test_an_unchanged_book_is_not_made_again(tmp_path, monkeypatch):
    (tmp_path / "cover.svg").write_text(epubs.COVER)
    book = fixture.of_bodies(tmp_path, body("<p>t</p>"), cover="cover.svg")
    first, _ = epubs.made(book, tmp_path / "one.epub")

    def refuse(*_):
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(epub, "_made", refuse)
        second, _ = epubs.made(book, tmp_path / "two.epub")
        assert second == first
        changed = fixture.of_bodies(tmp_path, body("<p>u</p>"), cover="cover.svg")
        with pytest.raises(AssertionError, match="made again"):
            epubs.made(changed, tmp_path / "three.epub")
        (tmp_path / "cover.svg").write_text(epubs.COVER.replace("#123", "#321"))
        with pytest.raises(AssertionError, match="made again"):
            epubs.made(book, tmp_path / "four.epub")
