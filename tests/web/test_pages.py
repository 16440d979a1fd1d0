"""The files of the site: addresses, links, bytes. No browser here."""

from __future__ import annotations

import dataclasses
import posixpath
import random
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from fontTools.ttLib import TTFont
from lxml import html

from bookpress import web
from bookpress.model import Part, Proven
from bookpress.web.body import relative
from render import fixture


def pages(folder: Path) -> dict[str, html.HtmlElement]:
    found = {}
    for file in sorted(folder.rglob("*.html")):
        found[file.relative_to(folder).as_posix()] = html.fromstring(file.read_bytes())
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def test_every_link_inside_the_site_arrives(site):
    trees = pages(site)
    ids = {url: {e.get("id") for e in tree.iter() if e.get("id")} for url, tree in trees.items()}
    seen = 0
    for url, tree in trees.items():
        for element in tree.iter("a", "link", "img", "script"):
            target = element.get("href") or element.get("src")
            parts = urlsplit(target or "")
            if not target or parts.scheme:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(url), unquote(parts.path)))
            path = url if not parts.path else path
            assert (site / path).is_file(), f"{url}: {target}"
            if parts.fragment:
                assert unquote(parts.fragment) in ids[path], f"{url}: {target}"
            seen += 1
    assert seen > 100


def test_no_canonical_target_is_left(site):
    for url, tree in pages(site).items():
        for element in tree.iter():
            for name in ("href", "src"):
                assert not re.match(r"(book|file|asset):", element.get(name) or ""), url
            assert not {"data-line", "data-fence"} & set(element.keys())


def test_ids_are_unique_and_the_shell_keeps_to_its_prefix(site):
    for url, tree in pages(site).items():
        ids = [e.get("id") for e in tree.iter() if e.get("id")]
        assert len(ids) == len(set(ids)), url
        shell = [
            e.get("id")
            for e in tree.iter()
            if e.get("id") and not e.xpath("ancestor-or-self::article")
        ]
        own = [i for i in shell if not i.startswith(("ui-", "part-"))]
        assert own == [], f"{url}: {own}"


def test_code_keeps_its_text(site, tmp_path):
    book = fixture.book(tmp_path)
    for chapter in book.chapters:
        tree = html.fromstring((site / chapter.url).read_bytes())
        shown = [c.text_content() for c in tree.xpath("//figure[contains(@class,'code')]/pre/code")]
        assert shown == [f.text for f in chapter.fences]


def test_what_a_chapter_says_of_itself(site):
    tree = html.fromstring((site / "hardware/accelerators.html").read_bytes())
    facts = " ".join(tree.xpath("string(//dl[@class='ui-facts'])").split())
    assert facts == "Verified2026-11-30 Applies totorch 2.13, CUDA 13"
    assert tree.xpath("//link[@rel='prev']/@href") == ["../preface.html"]
    assert tree.xpath("//link[@rel='next']/@href") == ["../debugging/hangs.html"]
    edit = tree.xpath("//footer//a[text()='Source of this page']/@href")
    assert edit == ["https://example.org/fixture/blob/HEAD/hardware/accelerators.md"]
    assert tree.xpath("//a[@class='ui-self']/@href") == [
        "#eq-mfu",
        "#fig-roofline",
        "#tbl-dense",
        "#tbl-wide",
    ]
    assert "Link to “1.2 Setup”" in tree.xpath("//a[@class='ui-anchor']/@aria-label")
    assert [i.get("loading") for i in tree.iter("img")] == [None, "lazy"]
    assert all(i.get("width") and i.get("height") for i in tree.iter("img"))


def test_titles_are_escaped_once(make, tmp_path):
    body = '<section class="chapter" id="q"><h1 id="t">Q &amp; A <code>Box&lt;T&gt;</code></h1><p>x</p></section>'
    target, _ = make(fixture.of_bodies(tmp_path / "b", body, title="R & D <fast>"))
    tree = html.fromstring((target / "q.html").read_bytes())
    assert tree.findtext(".//title") == "Q & A Box<T> · R & D <fast>"
    assert tree.xpath("string(//h1)") == "Q & A Box<T>"
    assert "&amp;amp;" not in (target / "index.html").read_text()


def test_two_folders_hold_the_same_bytes(make, tmp_path):
    one, _ = make(fixture.book(tmp_path / "one"), "one-web")
    two, _ = make(fixture.book(tmp_path / "else" / "two"), "two-web")
    assert contents(one) == contents(two)
    for name, data in contents(one).items():
        assert str(tmp_path).encode() not in data, name


def test_fonts_repeat_byte_for_byte():
    from bookpress.web import fonts

    face = min(fonts.FACES, key=lambda f: len(f.keep))
    data = fonts.subset(face)
    assert data == fonts.subset(face)
    assert data[:4] == b"wOF2"


def test_linked_files_travel_only_without_a_source_address(make, tmp_path):
    body = (
        '<section class="chapter" id="c"><h1 id="t">T</h1><p><a href="file:tools/x.sh">x</a> '
        '<a href="file:no/such.sh">y</a> <a href="file:.env">z</a> <a href="file:../../etc/hosts">w</a></p></section>'
    )
    book = fixture.of_bodies(tmp_path / "b", body, source_url="")
    (book.config.root / "tools").mkdir(parents=True)
    (book.config.root / "tools" / "x.sh").write_text("echo hi\n")
    (book.config.root / ".env").write_text("SECRET=1\n")
    target, _ = make(book)
    assert (target / "tools/x.sh").read_text() == "echo hi\n"
    assert not (target / ".env").exists()
    tree = html.fromstring((target / "c.html").read_bytes())
    assert [a.text for a in tree.xpath("//p/a") if a.text in "xyzw"] == ["x"]


def test_a_folder_with_other_files_is_refused(tmp_path):
    from bookpress.problems import WrongUse

    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(WrongUse, match="no web edition"):
        web.make(fixture.book(tmp_path / "b"), tmp_path, lambda *a: None)
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_relative_addresses():
    assert relative("index.html", "a/b.html") == "../index.html"
    assert relative("a/c.html#x", "a/b.html") == "c.html#x"
    assert relative("a/简介.html", "b.html") == "a/%E7%AE%80%E4%BB%8B.html"


def test_a_block_says_only_what_was_proven(make, tmp_path):
    book = fixture.book(tmp_path / "b")
    hangs = book.chapters[2]
    fences = [
        dataclasses.replace(hangs.fences[0], mode="run"),
        hangs.fences[1],
        dataclasses.replace(hangs.fences[2], mode="run"),
        dataclasses.replace(hangs.fences[3], mode="shown", attrs={"reason": "needs a rack"}),
        dataclasses.replace(hangs.fences[4], mode="parse"),
    ]
    chapter = dataclasses.replace(hangs, fences=tuple(fences))
    book = dataclasses.replace(book, chapters=(*book.chapters[:2], chapter, book.chapters[3]))
    proven = {0: Proven("run", "Debian 12", "2026-11-30"), 4: Proven("parse", "", "")}
    target, _ = make(dataclasses.replace(book, proofs={hangs.path: proven}))
    tree = html.fromstring((target / hangs.url).read_bytes())
    said = [e.text for e in tree.xpath("//span[@class='ui-proof']")]
    assert said == ["✓ ran 2026-11-30, Debian 12", "not run: needs a rack", "✓ checked"]


def test_subsets_carry_their_own_name_and_the_license(site):
    for file in (site / "ui-assets" / "fonts").glob("press-s*.woff2"):
        with TTFont(file) as font:
            names = {n.nameID: n.toUnicode() for n in font["name"].names}
        assert names[1].startswith("Press "), file.name
        assert "Source" not in names[4] + names[6], "a reserved name stays with the original"
        assert names[0]


# --- public failures, by their number in the list of cases ---


def test_d07_an_id_of_the_page_is_refused(make, tmp_path):
    bodies = (
        '<section class="chapter" id="a"><h1 id="t">T</h1><h2 id="search">Search</h2><h2 id="theme">Theme</h2></section>',
        '<section class="chapter" id="b"><h1 id="t">T</h1><h2 data-line="9" id="ui-contents">UI contents</h2></section>',
    )
    target, problems = make(fixture.of_bodies(tmp_path / "b", *bodies))
    tree = html.fromstring((target / "a.html").read_bytes())
    assert [e.tag for e in tree.xpath("//*[@id='search' or @id='theme']")] == ["h2", "h2"]
    assert [(p.code, p.path) for p in problems] == [("WEB001", "b.md")]
    assert problems[0].line > 0
    assert "ui-contents" in problems[0].message


def test_d12_the_order_of_outputs_does_not_matter(make, tmp_path):
    from bookpress import epub

    book = fixture.book(tmp_path / "b")
    before, _ = make(book, "before")
    epub.make(book, tmp_path / "x.epub", tmp_path / "cache", lambda *a: None)
    after, _ = make(book, "after")
    assert contents(before) == contents(after)
    assert not [
        name for name, data in contents(after).items() if b".epub" in data or b".xhtml" in data
    ]


def test_d15_a_chapter_listed_twice_is_a_problem(tmp_path):
    from bookpress.config import read_config
    from bookpress.load import load

    (tmp_path / "a.md").write_text("# A\n")
    toml = '[book]\ntitle = "T"\nversion = "1"\n\n[[part]]\nchapters = ["a.md",\n "a.md"]\n'
    (tmp_path / "book.toml").write_text(toml)
    config, _ = read_config(tmp_path)
    sources, problems = load(config)
    assert [s.url for s in sources] == ["a.html"]
    assert [(p.code, p.path) for p in problems] == [("CFG007", "book.toml")]


def test_d16_moving_a_chapter_moves_no_address(make, tmp_path):
    book = fixture.book(tmp_path / "b")
    one, _ = make(book, "one")
    turned = dataclasses.replace(book, chapters=tuple(reversed(book.chapters)))
    two, _ = make(turned, "two")
    assert set(pages(one)) == set(pages(two))
    assert html.fromstring((two / "preface.html").read_bytes()).xpath(
        "//link[@rel='prev']/@href"
    ) == ["hardware/accelerators.html"]


def test_d16_an_old_address_leads_to_the_new_one(make, tmp_path):
    book = fixture.book(tmp_path / "b")
    (book.config.root / "data").mkdir()
    (book.config.root / "data" / "redirects.yaml").write_text(
        "gpus.html: hardware/accelerators.html\n"
        "gpus.html#which: hardware/accelerators.html#which-number\n"
        "debugging/hangs.html#old: hardware/accelerators.html#setup\n"
        "bad.html: hardware/accelerator.html\n"
        "preface.html: debugging/hangs.html\n"
        "lost.html#x: debugging/hangs.html#no-such\n"
    )
    target, problems = make(book)
    moved = html.fromstring((target / "gpus.html").read_bytes())
    assert moved.xpath("//link[@rel='canonical']/@href") == ["hardware/accelerators.html"]
    assert (
        '{"which": "hardware/accelerators.html#which-number"}' in (target / "gpus.html").read_text()
    )
    hangs = html.fromstring((target / "debugging/hangs.html").read_bytes())
    assert (
        hangs.xpath("string(//script[@id='ui-moves'])")
        == '{"old": "../hardware/accelerators.html#setup"}'
    )
    assert [(p.code, p.line) for p in sorted(problems)] == [
        ("WEB004", 4),
        ("WEB005", 5),
        ("WEB004", 6),
    ]
    assert "hardware/accelerators.html" in problems[0].hint


def test_g01_the_index_of_a_large_book_keeps_to_its_budget(tmp_path, monkeypatch):
    # 172,000 words in 770 sections, their frequencies as in prose: the size of the public book we measure with.
    chance = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(16_000)]
    shares = [1 / (n + 3) for n in range(len(words))]
    bodies = []
    for number in range(46):
        text = chance.choices(words, shares, k=3740)
        parts = [
            f'<h2 id="s{i}">{text[i]}</h2><p>{" ".join(text[i : i + 220])}</p>'
            for i in range(0, 3740, 220)
        ]
        bodies.append(
            f'<section class="chapter" id="c{number}"><h1 id="t">T</h1>{"".join(parts)}</section>'
        )
    site = web.Site(fixture.of_bodies(tmp_path / "b", *bodies))
    assert web.budget(site) == []
    assert b"search-index" not in (site.read("c0.html") or b""), "fetched at the first search only"
    monkeypatch.setattr("bookpress.web.search.BUDGET", 1000)
    assert [p.code for p in web.budget(site)] == ["WEB006"]


def test_g04_an_edit_rewrites_one_page_and_removes_what_is_gone(make, tmp_path):
    book = fixture.book(tmp_path / "b")
    target, _ = make(book)
    times = {p: p.stat().st_mtime_ns for p in target.rglob("*") if p.is_file()}
    edited = dataclasses.replace(
        book.chapters[2], body=book.chapters[2].body.replace("Drain the node", "Drain it")
    )
    chapters = (*book.chapters[:2], edited, book.chapters[3])
    make(dataclasses.replace(book, chapters=chapters))
    touched = {
        p.relative_to(target).as_posix() for p, t in times.items() if p.stat().st_mtime_ns != t
    }
    assert touched == {
        "debugging/hangs.html",
        "ui-assets/search-index.js",
        "ui-assets/search-text.js",
    } or (touched == {"debugging/hangs.html", "ui-assets/search-text.js"})
    parts = (*book.parts[:2], Part("Debugging", ()), book.parts[3])
    make(dataclasses.replace(book, parts=parts, chapters=(*book.chapters[:2], book.chapters[3])))
    assert not (target / "debugging").exists()
