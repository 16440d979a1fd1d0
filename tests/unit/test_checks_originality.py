"""Shared runs of words are found; code, quotations, formulas and addresses are not compared."""

from __future__ import annotations

import pytest

from bookpress import __main__ as cli
from bookpress.build import prepare
from bookpress.checks import originality
from bookpress.config import read_config
from bookpress.problems import WrongUse

THEIRS = """---
title: one two three four five six seven eight nine
---

Some words first. The quick brown fox jumps over the lazy dog every day.

- an item of a list that has ten words in it, `code in between` and more words after it than eight are

```python
these words stand in a fence and may well be shared
```

> a quotation of somebody else that both texts may of course have
"""
TOML = '[book]\ntitle = "Small"\nversion = "1"\nslug = "small"\n\n[[part]]\nchapters = ["a.md"]\n'


def found(tmp_path, text):
    (tmp_path / "theirs/deep").mkdir(parents=True)
    (tmp_path / "theirs/deep/fox.md").write_text(THEIRS)
    (tmp_path / "theirs/picture.png").write_bytes(b"\x89PNG")
    book = tmp_path / "book"
    book.mkdir()
    (book / "a.md").write_text(f"# A\n\nFirst.\n\n{text}\n")
    (book / "book.toml").write_text(TOML)
    config, _ = read_config(book / "book.toml")
    made, problems = prepare(config, tmp_path / "cache")
    assert problems == []
    return originality.check(tmp_path / "theirs", made)


def test_a_run_is_found_once_at_its_line_with_its_length(tmp_path):
    (problem,) = found(tmp_path, "In *our* book, the QUICK brown fox\njumps over the lazy dog, they say.")
    assert (problem.code, problem.path, problem.line) == ("CHK006", "a.md", 5)
    assert problem.message == "9 words as in deep/fox.md: the quick brown fox jumps over the lazy dog"


@pytest.mark.parametrize(
    "text",
    ["- an item of a list that has ten words", "| A |\n| - |\n| an item of a list that has ten words |"],
)
def test_lists_and_tables_count(tmp_path, text):
    assert [p.code for p in found(tmp_path, text)] == ["CHK006"]


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the cat.",  # seven words
        "The quick brown fox jumps\n\nover the lazy dog every day.",  # two paragraphs
        "The quick brown fox `jumps` over the lazy dog.",  # code in between
        "```text\nthe quick brown fox jumps over the lazy dog\n```",
        "> the quick brown fox jumps over the lazy dog",
        "these words stand in a fence and may well be shared",
        "a quotation of somebody else that both texts may of course have",
        "ten words in it, and more words after it than",  # their code in between
        "one two three four five six seven eight nine",  # their front matter
    ],
)
def test_no_run(tmp_path, text):
    assert found(tmp_path, text) == []


def test_a_folder_that_is_not_there_is_wrong_use(tmp_path):
    with pytest.raises(WrongUse, match="no folder"):
        originality.check(tmp_path / "nowhere", None)


def test_the_verb_takes_the_folder(tmp_path, capsys):
    found(tmp_path, "The quick brown fox jumps over the lazy dog.")
    args = ["check", "--book", str(tmp_path / "book"), "--against", str(tmp_path / "theirs")]
    assert cli.main(args) == 1
    assert "a.md:5:0 CHK006 9 words as in deep/fox.md" in capsys.readouterr().err
