"""The card's head, as far as this machine can judge it; and what book.toml says of the Hub."""

from __future__ import annotations

import pytest

from bookpress.config import read_config
from bookpress.release import card
from bookpress.release.card import yaml_text

GOOD = "---\nlicense: cc-by-sa-4.0\nlanguage:\n- en\npretty_name: A book\ntags:\n- gpu\n---\n\n# A book\n"


def test_good_cards_pass(made):
    assert card.problems(GOOD) == []
    assert card.problems(next(f.data.decode() for f in made.files if f.name == "README.md")) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("---\n", "\n", 1, "does not start with a YAML head"),
        ("license: cc", "license: [cc", 3, "the head is not YAML"),
        ("license: cc-by-sa-4.0\nlanguage:\n- en\npretty_name: A book\ntags:\n- gpu", "just words", 1, "not a mapping"),
        ("cc-by-sa-4.0", "CC-BY-SA-4.0", 1, "knows no licence 'CC-BY-SA-4.0'"),
        ("license: cc-by-sa-4.0\n", "", 1, "knows no licence ''"),
        ("cc-by-sa-4.0", "4", 1, "'license' is not a string"),
        ("- en", "- en-US", 1, "'en-US' is no ISO 639 language code"),
        ("- gpu", "- 4", 1, "'tags' is not a list of strings"),
        ("A book\ntags", "{a: b}\ntags", 1, "'pretty_name' is not a string"),
    ],
)
def test_bad_heads_are_named(old, new, line, words):
    found = card.problems(GOOD.replace(old, new, 1))
    assert any(words in p.message for p in found), found
    assert {p.code for p in found} == {"REL011"}
    assert found[0].line == line


@pytest.mark.parametrize("title", ["Plain", "With: colon", "'Quoted' \"twice\"", "# hash", "- dash", "1984", "no", "Ü — 简介", "x" * 200])
def test_any_title_survives_as_yaml(title):
    import yaml

    assert yaml.safe_load(f"pretty_name: {yaml_text(title)}\n") == {"pretty_name": title}


def test_table_hub_of_book_toml(tmp_path):
    text = '[book]\ntitle = "B"\nversion = "1"\n[hub]\nrepo = "a b"\ntype = "space"\nfile_budget_mb = 0\n'
    (tmp_path / "book.toml").write_text(text + '[[part]]\ntitle = ""\nchapters = ["a.md"]\n')
    config, problems = read_config(tmp_path / "book.toml")
    assert [(p.code, p.line) for p in problems] == [("CFG003", 5), ("CFG003", 6), ("CFG003", 7)]
    assert "'repo' is OWNER/NAME, not 'a b'" in problems[0].message
    assert (config.hub_repo, config.hub_type, config.hub_file_budget_mb) == ("", "dataset", 50)
