"""The index of messages: exact texts, one line each, sorted by what is readable, links from the page's folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bookpress.config import read_config
from bookpress.facts import FactError, Facts
from bookpress.messages import index_of_messages

ROOT = Path(__file__).resolve().parents[2]
PAGE = "chapters/back/messages.md"


def facts(tmp_path: Path, **files: str) -> Facts:
    folder = tmp_path / "data" / "questions"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return Facts(tmp_path / "data")


def entry(name: str, message: str, section: str = "chapters/a/b.md#c") -> str:
    return (
        f"- id: {name}\n  question: Why?\n  message: {message}\n"
        f"  source: https://example.org/{name}\n  section: {section}\n"
    )


def test_sorted_by_letters_with_a_heading_each_and_relative_links(tmp_path):
    data = facts(
        tmp_path, one=entry("x", "'[rank3]: late'") + entry("y", "bus error"), two=entry("z", "RuntimeError")
    )
    assert index_of_messages(data, PAGE).split("\n") == [
        "## B",
        "",
        "- `bus error` → [Section](../a/b.md#c)",
        "",
        "## R",
        "",
        "- `[rank3]: late` → [Section](../a/b.md#c)",
        "- `RuntimeError` → [Section](../a/b.md#c)",
    ]


def test_a_time_in_front_does_not_decide_the_place(tmp_path):
    data = facts(tmp_path, one=entry("x", "'[2024-05-08 19:00:00][cublasLt] bad'") + entry("y", "1/2 joined"))
    text = index_of_messages(data, PAGE)
    assert "## 0–9\n\n- `1/2 joined`" in text
    assert "## C\n\n- `[2024-05-08 19:00:00][cublasLt] bad`" in text


def test_one_message_with_two_answers_is_one_line(tmp_path):
    data = facts(tmp_path, one=entry("x", "Bus error") + entry("y", "bus error", "chapters/d/e.md#f"))
    assert "- `Bus error` → [Section](../a/b.md#c), [Section](../d/e.md#f)" in index_of_messages(data, PAGE)


def test_a_message_with_backticks_stays_as_printed(tmp_path):
    data = facts(tmp_path, one=entry("x", '"use `torchrun`"') + entry("y", '"`a``b`"'))
    text = index_of_messages(data, PAGE)
    assert "- `` use `torchrun` `` → " in text
    assert "``` `a``b` ```" in text


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "no file"),
        ({"one": "a: b\n"}, "must be a list"),
        ({"one": "- id: x\n  question: q\n  source: s\n"}, "question 1 has no 'section'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, files, word):
    with pytest.raises(FactError, match=word) as caught:
        index_of_messages(facts(tmp_path, **files), PAGE)
    assert caught.value.code == "TPL008"


def test_our_index_has_every_message_once():
    config, _ = read_config(ROOT / "book.toml")
    data = Facts(config.root / config.data)
    text = index_of_messages(data, PAGE)
    lines = [line for line in text.split("\n") if line.startswith("- ")]
    printed = {
        " ".join(entry["message"].split()).casefold()
        for file in (config.root / config.data / "questions").glob("*.yaml")
        for entry in data.file(f"questions/{file.stem}")
        if entry.get("message")
    }
    assert len(lines) == len(printed) > 20
    assert all(re.search(r"→ \[Section\]\(\.\./", line) for line in lines)
