"""Citations and the list of works: numbers by first use over the book, links both ways."""

from smallbook import assert_valid, book_of, codes

WORKS = """
smith:
  title: On Hangs
  author: A. Smith
  year: 2024
  url: https://example.org/hangs
  accessed: 2026-11-30
jones: {title: "Q & A <fast>", author: [B. Jones, C. Doe.], year: 2023, doi: 10.1000/x}
unused: {title: Never cited}
"""


def works(tmp_path, text: str = WORKS):
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "bibliography.yaml").write_text(text)


def test_numbers_follow_first_use_over_the_book_and_lead_back(tmp_path):
    works(tmp_path)
    texts = {"a.md": "See [@jones] and *[@smith; @jones]*.\n", "b.md": "- again [@smith]\n"}
    book, problems = book_of(tmp_path, texts)
    assert codes(problems) == []
    first, second, listing = book.chapters
    cited = ["".join(s.itertext()) for c in (first, second) for s in assert_valid(c.body).findall(".//span[@class='citation']")]
    assert cited == ["[1]", "[2, 1]", "[2]"]
    assert (listing.slug, listing.number, listing.url) == ("bibliography", "", "bibliography.html")
    items = assert_valid(listing.body).findall(".//li")
    assert [i.get("id") for i in items] == ["ref-1", "ref-2"]
    text = ["".join(i.itertext()).split(" ↩")[0] for i in items]
    assert text == [
        "B. Jones, C. Doe. Q & A <fast>. 2023. https://doi.org/10.1000/x.",
        "A. Smith. On Hangs. 2024. https://example.org/hangs (accessed 2026-11-30).",
    ]
    back = [a.get("href") for a in items[0].iter("a") if a.get("class") == "fnback"]
    assert back == ["book:a#cite-1", "book:a#cite-2-2"]
    for href in back:
        assert f'id="{href.split("#")[1]}"' in first.body
    assert (book.parts[-1].chapters, book.parts[-1].numbered) == (("data/bibliography.yaml",), False)
    assert listing.part == len(book.parts) - 1


def test_unknown_key_names_the_nearest_and_its_place(tmp_path):
    works(tmp_path)
    _, problems = book_of(tmp_path, {"a.md": "text\n\nmore [@smit] here\n"})
    assert [(p.code, p.line, p.col, p.hint) for p in problems] == [("LNK008", 3, 6, "did you mean 'smith'?")]


def test_code_links_and_mail_are_no_citations(tmp_path):
    works(tmp_path)
    source = "`[@smith]` [@smith](https://x.y) a@b.org [@ smith]\n\n```\n[@smith]\n```\n"
    book, problems = book_of(tmp_path, {"a.md": source})
    assert codes(problems) == []
    assert [c.slug for c in book.chapters] == ["a"]


def test_a_book_without_works_keeps_the_text(tmp_path):
    book, problems = book_of(tmp_path, {"a.md": "see [@smith]\n"})
    assert codes(problems) == []
    assert "see [@smith]" in book.chapters[0].body


def test_faulty_entries_are_placed_in_the_file(tmp_path):
    works(tmp_path, "a: {title: T, autor: X}\nb: {year: 2020}\nc: just text\n")
    _, problems = book_of(tmp_path, {"a.md": "x\n"})
    found = [(p.path, p.line, p.code) for p in problems]
    assert found == [("data/bibliography.yaml", n, "LNK009") for n in (1, 2, 3)]
    assert problems[0].hint == "did you mean 'author'?"


def test_broken_yaml_is_a_problem_and_no_traceback(tmp_path):
    works(tmp_path, "a: [\n")
    _, problems = book_of(tmp_path, {"a.md": "x [@a]\n"})
    assert codes(problems) == ["LNK009", "LNK008"]
