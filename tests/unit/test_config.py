"""book.toml: every mistake has a code, a line and, where there is one, the nearest right word."""

from pathlib import Path

import pytest

from bookpress.config import read_config
from bookpress.problems import WrongUse

GOOD = """[book]
title = "My Book: 2nd"
version = "1.0"

[[part]]
title = "A"
chapters = ["a.md"]
"""


def read(tmp_path: Path, text: str):
    (tmp_path / "book.toml").write_text(text)
    return read_config(tmp_path)


def test_smallest_book(tmp_path):
    config, problems = read(tmp_path, GOOD)
    assert problems == []
    assert (config.slug, config.parts[0].chapters, config.root) == ("my-book-2nd", ("a.md",), tmp_path)
    assert not config.features.templating  # other people's [[wiki links]] stay text


@pytest.mark.parametrize(
    ("change", "code", "line", "words"),
    [
        (('version = "1.0"', 'versoin = "1.0"'), "CFG002", 3, "did you mean 'version'?"),
        (('version = "1.0"', "version = 1"), "CFG003", 3, "must be a string"),
        (('version = "1.0"', 'version = "../../1"'), "CFG003", 3, "names files"),
        (('[[part]]\ntitle = "A"\nchapters = ["a.md"]', "[x]\n"), "CFG002", 5, "unknown table [x]"),
        (('version = "1.0"\n', ""), "CFG005", 1, "needs 'version'"),
        (('title = "A"', 'name = "A"'), "CFG002", 6, "unknown key 'name' in [[part]]"),
        (('["a.md"]', '"a.md"'), "CFG003", 5, "list of paths"),
        (('["a.md"]', "[]"), "CFG004", 1, "no chapters"),
        (('version = "1.0"', 'version = "1.0"\nslug = "a/b"'), "CFG003", 4, "names files"),
        (("[[part]]", "[pages]\n[[part]]"), "CFG002", 5, "did you mean [page]".replace("[page]", "'page'")),
        (("[[part]]", '[page]\nwidth = "wide"\n[[part]]'), "CFG003", 6, "no length"),
        (("[[part]]", "[features]\nproof = true\n[[part]]"), "CFG002", 6, "did you mean 'proofs'?"),
        (('version = "1.0"', 'version = "1.0'), "CFG001", 3, "not valid TOML"),
    ],
)
def test_mistakes(tmp_path, change, code, line, words):
    _, problems = read(tmp_path, GOOD.replace(*change))
    match = [p for p in problems if p.code == code]
    assert match, problems
    assert match[0].line == line
    assert words in str(match[0])


def test_a_missing_file_is_wrong_use(tmp_path):
    with pytest.raises(WrongUse, match="give --book"):
        read_config(tmp_path / "nowhere" / "book.toml")


@pytest.mark.parametrize("part", ["3", '"a.md"', '["a.md"]'])
def test_a_part_that_is_no_table(tmp_path, part):
    _, problems = read(tmp_path, f'part = {part}\n[book]\ntitle = "T"\nversion = "1"\n')
    assert [p.code for p in problems] == ["CFG003", "CFG004"]
