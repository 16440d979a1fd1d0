"""EPUBCheck and Ace findings come back at the Markdown line."""

from __future__ import annotations

import re

import pytest

from bookpress.checks import ace, epubcheck
from bookpress.problems import ToolMissing
from render import epubs
from unit.test_checks_links import changed


def test_the_fixture_is_clean():
    book, file, _ = epubs.whole()
    assert epubcheck.check(file, book) == []


def test_findings_are_at_their_lines(tmp_path):  # D13, E24
    book, file, _ = epubs.whole()
    damage = {
        b"accelerators.xhtml#tbl-dense": b"accelerators.xhtml#tbl-dence",
        b'<ol start="4">': b'<ol align="4">',
        b"<dc:language>en</dc:language>": b"",
    }
    for number, (old, new) in enumerate(damage.items()):
        file = changed(file, tmp_path / f"{number}.epub", old, new)
    problems = epubcheck.check(file, book)
    chapter = book.chapter("hangs")
    assert {p.code for p in problems} == {"EPB001"}
    here = {p.message.split(":")[0]: p.line for p in problems if p.path == "debugging/hangs.md"}
    assert here == {
        "RSC-005": int(re.search(r'<ol start="4" data-line="(\d+)"', chapter.body).group(1)),
        "RSC-012": int(re.search(r'<p data-line="(\d+)"', chapter.body).group(1)),
    }
    (package,) = {p.path for p in problems} - {"debugging/hangs.md"}
    assert package == file.name
    assert any("(content.opf:" in p.message for p in problems if p.path == package)


def test_no_java_is_a_missing_tool(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing, match="apt-get install"):
        epubcheck.command()
    with pytest.raises(ToolMissing, match="chromium"):
        ace.browser()


def test_ace_findings():
    book, _, _ = epubs.whole()
    finding = {
        "earl:test": {"dct:title": "image-alt", "earl:impact": "critical"},
        "earl:result": {"earl:outcome": "fail", "dct:description": "no\n alt", "html": "<img/>"},
    }
    report = {"assertions": [{"earl:testSubject": {"url": "chapters/hangs.xhtml"}, "assertions": [finding]}]}
    (problem,) = ace.problems(report, book, "x.epub")
    assert (problem.path, problem.code) == ("debugging/hangs.md", "EPB002")
    assert problem.message == "image-alt (critical): no alt in chapters/hangs.xhtml <img/>"
