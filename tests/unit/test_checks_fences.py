"""A character lost from a fence, in any output, is a problem at its line."""

from __future__ import annotations

import dataclasses

import pytest

from bookpress.checks import fences
from render import epubs, fixture
from unit.test_checks_links import changed


def test_epub_is_equal():
    book, file, _ = epubs.whole()
    assert sum(len(fences.shown(c)) for c in book.chapters) == 6
    assert fences.check_epub(file, book) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n\n\ttab and a blank", b"\n\ttab and a blank"),
        (b"\ttab and", b"    tab and"),
        (b"    py-spy dump", b"   py-spy dump"),
        (b"&lt;pad&gt;", b"pad"),
        ("…\nThread".encode(), b"Thread"),
        (b"segment-segment-", b"segmentsegment-"),
    ],
)
def test_epub_with_a_lost_character(tmp_path, old, new):
    book, file, _ = epubs.whole()
    broken = changed(file, tmp_path / "x.epub", old, new)
    problems = fences.check_epub(broken, book)
    assert {(p.code, p.path) for p in problems} == {("CHK001", "debugging/hangs.md")}
    lines = {f.line for f in book.chapter("hangs").fences}
    assert all(p.line in lines for p in problems)


def test_missing_and_foreign_blocks():
    chapter = epubs.whole()[0].chapter("hangs")
    texts = [f.text for f in fences.shown(chapter)]
    (missing,) = fences.compare(chapter, texts[:-1], "the EPUB")
    assert (missing.line, "missing" in missing.message) == (fences.shown(chapter)[-1].line, True)
    (foreign,) = fences.compare(chapter, [*texts, "rm -rf /"], "the EPUB")
    assert "no fence wrote" in foreign.message


def test_web(tmp_path):
    book, _, _ = epubs.whole()
    for chapter in book.chapters:
        page = tmp_path / chapter.url
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<!doctype html><html><body>{chapter.body}</body></html>", encoding="utf-8")
    assert fences.check_web(tmp_path, book) == []
    page = tmp_path / book.chapter("hangs").url
    page.write_text(page.read_text(encoding="utf-8").replace("│ 漢字", "│漢字"), encoding="utf-8")
    (problem,) = fences.check_web(tmp_path, book)
    assert problem.line == book.chapter("hangs").fences[1].line
    assert "line 6 of the fence" in problem.message


SOURCE = """\
Text.

```bash {.run}
a  b
\tc

d
```

1. item

   ~~~yaml
   key:
     - ``` not the end

   last: 1
   ~~~

> ````markdown
> ```sh
> ls
> ```
>
> end
> ````
"""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (3, "a  b\n\tc\n\nd"),
        (12, "key:\n  - ``` not the end\n\nlast: 1"),
        (19, "```sh\nls\n```\n\nend"),
        (1, None),
        (99, None),
    ],
)
def test_fences_are_read_from_the_file_itself(line, text):
    assert fences.written_at(SOURCE.splitlines(), line) == text


def test_source_differs(tmp_path):
    (tmp_path / "one.md").write_text("# One\n\n```\na\tb\n```\n")
    code = '<figure class="code" data-lang=""><pre><code>a\tb</code></pre></figure>'
    book = fixture.of_bodies(tmp_path, epubs.body(code))
    chapter = book.chapters[0]
    fence = dataclasses.replace(chapter.fences[0], line=3)
    assert fences.check_source(with_fence(book, fence)) == []
    (problem,) = fences.check_source(with_fence(book, dataclasses.replace(fence, text="a   b")))
    assert (problem.path, problem.line, problem.code) == ("one.md", 3, "CHK001")
    lost = dataclasses.replace(book, chapters=(dataclasses.replace(chapter, body="<section/>", fences=(fence,)),))
    assert "missing" in fences.check_source(lost)[0].message


def with_fence(book, fence):
    return dataclasses.replace(book, chapters=(dataclasses.replace(book.chapters[0], fences=(fence,)),))


def test_difference_names_the_place():
    said = fences.difference("one\ntwo\nthree", "one\ntwo\nthre")
    assert "line 3" in said


def test_a_tolerance_is_compared_as_readers_see_it(tmp_path):
    chapter = epubs.whole()[0].chapter("hangs")
    fence = dataclasses.replace(fences.shown(chapter)[0], mode="output", text="took [[~ 12.3 ±20% ]] s")
    others = [f.text for f in fences.shown(chapter)[1:]]
    changed = tuple(fence if f.index == fence.index else f for f in chapter.fences)
    chapter = dataclasses.replace(chapter, fences=changed)
    assert list(fences.compare(chapter, ["took 12.3 s", *others], "the EPUB")) == []
    (problem,) = fences.compare(chapter, [fence.text, *others], "the EPUB")
    assert problem.line == fence.line
