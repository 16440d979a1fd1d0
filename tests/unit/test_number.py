"""Numbers of chapters and of what they hold, and the references to them."""

from dataclasses import replace

from smallbook import STAMP, assert_valid, book_of, codes, config_of, draft_of

from bookpress import link
from bookpress.model import Part

FIGURED = '```python {{#lst-{0} caption="One"}}\nx\n```\n\n```python {{caption="Two"}}\ny\n```\n\n[](#lst-{0})\n'


def linked(tmp_path, parts, texts, **features):
    config = replace(config_of(tmp_path, tuple(texts), **features), parts=parts)
    drafts = []
    for at, part in enumerate(parts):
        for path in part.chapters:
            draft = draft_of(tmp_path, texts[path], path=path, **features)
            drafts.append(replace(draft, source=replace(draft.source, part=at)))
    return link.link(drafts, config, STAMP)


def test_chapters_count_on_over_numbered_parts(tmp_path):
    parts = (
        Part("Front", ("f.md",), False), Part("One", ("a.md", "b.md")), Part("Two", ("c.md",)),
        Part("Back", ("z.md",), False),
    )  # fmt: skip
    texts = {p: FIGURED.format(p[0]) for part in parts for p in part.chapters}
    book, problems = linked(tmp_path, parts, texts)
    assert problems == []
    assert [c.number for c in book.chapters] == ["", "1", "2", "3", ""]
    labels = [[s.text for s in assert_valid(c.body).findall(".//span[@class='label']")] for c in book.chapters]
    assert labels == [
        ["Listing 1", "Listing 2"], ["Listing 1.1", "Listing 1.2"], ["Listing 2.1", "Listing 2.2"],
        ["Listing 3.1", "Listing 3.2"], ["Listing 1", "Listing 2"],
    ]  # fmt: skip
    numbers = [[a.number for a in c.anchors if a.kind == "listing"] for c in book.chapters]
    assert numbers == [["1"], ["1.1"], ["2.1"], ["3.1"], ["1"]]


def test_moving_a_chapter_renumbers_and_changes_no_address(tmp_path):
    texts = {"a.md": "# A\n\n[](b.md)\n", "b.md": "# B\n\n[](a.md)\n"}
    for order in (("a.md", "b.md"), ("b.md", "a.md")):
        book, _ = linked(tmp_path, (Part("", order),), texts)
        bodies = {c.path: c.body for c in book.chapters}
        assert f">Chapter {order.index('b.md') + 1}</a>" in bodies["a.md"]
        assert {c.path: (c.slug, c.url) for c in book.chapters} == {"a.md": ("a", "a.html"), "b.md": ("b", "b.html")}


def test_section_numbers_only_where_asked(tmp_path):
    source = "# T\n\n## One\n\n### Deep\n\n## Two\n\n[](#two) [Section](#deep)\n"
    book, problems = book_of(tmp_path, {"a.md": source}, section_numbers=True)
    assert codes(problems) == []
    root = assert_valid(book.chapters[0].body)
    assert ["".join(h.itertext()) for h in root.iter("h2", "h3")] == ["1.1 One", "Deep", "1.2 Two"]
    assert [a.text for a in root.iter("a")] == ["Section 1.2", "Deep"]
    assert [(a.text, a.number) for a in book.chapters[0].headings] == [("One", "1.1"), ("Deep", ""), ("Two", "1.2")]
    plain, _ = book_of(tmp_path, {"a.md": source})
    assert [a.text for a in assert_valid(plain.chapters[0].body).iter("a")] == ["Two", "Deep"]


def test_without_numbering_captions_have_no_label(tmp_path):
    book, problems = book_of(tmp_path, {"a.md": "# T\n\n" + FIGURED.format("a") + "\n$$x$$ {#eq-a}\n"}, numbering=False)
    root = assert_valid(book.chapters[0].body)
    assert root.find(".//span[@class='label']") is None
    assert "".join(root.find("h1").itertext()) == "T"
    assert codes(problems) == ["NUM001"]


def test_references_to_the_wrong_kind(tmp_path):
    source = "# T\n\n## S\n\n[Table](#s) [Figure](#p) [](#p) [Table](#nope)\n\n<a id='p'></a>\n"
    _, problems = book_of(tmp_path, {"a.md": source})
    assert codes(problems) == ["NUM002", "NUM002", "NUM001", "LNK002"]
    book, problems = book_of(tmp_path, {"a.md": source}, strict=False)
    assert codes(problems) == ["NUM001", "LNK002"]
    assert [a.text for a in assert_valid(book.chapters[0].body).findall("p/a")][:2] == ["Table", "Figure"]


def test_words_that_only_begin_like_a_kind_are_kept(tmp_path):
    book, _ = book_of(tmp_path, {"a.md": "# T\n\n## S\n\n[Section two](#s) [**Table**](#s) [Table](https://x.y)\n"})
    texts = ["".join(a.itertext()) for a in assert_valid(book.chapters[0].body).iter("a")]
    assert texts == ["Section two", "Table", "Table"]
