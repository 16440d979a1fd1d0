"""Dead links in finished folders and files are found, live ones left alone."""

from __future__ import annotations

import zipfile

import pytest

from bookpress.checks import links
from render import epubs, fixture

PAGE = '<html><head><link rel="stylesheet" href="{up}a.css"></head><body id="top">{body}</body></html>'


@pytest.fixture
def site(tmp_path):
    root = tmp_path / "web"
    (root / "debugging").mkdir(parents=True)
    (root / "index.html").write_text(PAGE.format(up="", body='<a href="debugging/hangs.html#a b">x</a>'))
    (root / "debugging/index.html").write_text(PAGE.format(up="../", body=""))
    (root / "debugging/hangs.html").write_text(PAGE.format(up="../", body='<p id="a b">x</p>'))
    (root / "a.css").write_text("p { background: url(p.png) }")
    (root / "p.png").write_bytes(epubs.PNG)
    return root


def put(site, body):
    (site / "debugging/hangs.html").write_text(PAGE.format(up="../", body=f'<p id="a b"></p>{body}'))


def found(site, tmp_path):
    return links.check_web(site, fixture.book(tmp_path / "book"))


@pytest.mark.parametrize(
    "link",
    [
        "#a%20b", "#a b", "hangs.html", "../index.html#top", "../", "./", "../debugging/", "https://example.org/#x",
        "mailto:a@example.org", "../p.png", "#", "data:image/png;base64,AAAA", "hangs.html?q=1#a%20b",
    ],
)  # fmt: skip
def test_live(site, tmp_path, link):
    put(site, f'<a href="{link}">x</a>')
    assert found(site, tmp_path) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("#nope", "no such anchor"),
        ("../index.html#nope", "no such anchor"),
        ("gone.html", "no such file"),
        ("../Index.html", "no such file"),
        ("../../outside.html", "leads out"),
        ("/index.html", "leads out"),
        ("book:hangs", "not an address"),
        ("file:///etc/passwd", "not an address"),
    ],
)
def test_dead(site, tmp_path, link, why):
    put(site, f'<a href="{link}">x</a>')
    (problem,) = found(site, tmp_path)
    assert problem.code == "CHK002"
    assert problem.path == "debugging/hangs.md"
    assert why in problem.message


def test_images_candidates_and_style_sheets(site, tmp_path):
    put(site, '<img src="x.png" srcset="y.png 2x, ../p.png 1x">')
    (site / "a.css").write_text("p { background: url('q.png') }")
    targets = sorted(p.message.split()[0] for p in found(site, tmp_path))
    assert targets == ["q.png", "x.png", "y.png"]


def test_epub(tmp_path):
    book, file, _ = epubs.whole()
    assert links.check_epub(file, book) == []
    broken = changed(file, tmp_path / "broken.epub", b"accelerators.xhtml#tbl-dense", b"accelerators.xhtml#nope")
    (problem,) = links.check_epub(broken, book)
    assert (problem.code, problem.path) == ("CHK002", "debugging/hangs.md")
    chapter = book.chapter("hangs")
    assert 0 < problem.line < chapter.headings[0].line
    assert "no such anchor" in problem.message


def changed(file, target, old: bytes, new: bytes):
    """A copy of an archive with bytes replaced in the entries that hold them."""
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(target, "w") as copy:
        hits = 0
        for item in source.infolist():
            data = source.read(item)
            hits += data.count(old)
            copy.writestr(item, data.replace(old, new))
    assert hits
    return target


def test_a_download_lies_beside_the_site(tmp_path):
    site = tmp_path / "dist" / "web"
    site.mkdir(parents=True)
    page = '<!doctype html><html lang="en"><title>x</title><p><a href="../book-1.pdf">PDF</a></p></html>'
    (site / "index.html").write_text(page)
    book = fixture.book(tmp_path / "book")
    assert [p.code for p in links.check_web(site, book)] == ["CHK002"]
    (tmp_path / "dist" / "book-1.pdf").write_bytes(b"%PDF-1.7")
    assert links.check_web(site, book) == []
