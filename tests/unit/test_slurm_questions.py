"""The Slurm chapter answers the questions recorded for it: section there, message findable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHAPTER = "chapters/orchestration/slurm-users.md"
TEXT = (ROOT / CHAPTER).read_text(encoding="utf-8")
QUESTIONS = [
    entry
    for entry in yaml.safe_load((ROOT / "data/questions.yaml").read_text(encoding="utf-8"))
    if entry["section"].startswith(f"{CHAPTER}#")
]


def plain(text: str) -> list[str]:
    """Words without numbers and punctuation, as an index of messages would compare them."""
    return re.findall(r"[a-z_]{2,}", re.sub(r"\S*\d\S*", " ", text.lower()))


def anchors() -> set[str]:
    titles = re.findall(r"^#{2,6} (.+)$", TEXT, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_there_are_enough_questions_each_with_a_public_source() -> None:
    assert len(QUESTIONS) >= 20
    assert all(entry["source"].startswith("https://") for entry in QUESTIONS)
    assert len({entry["source"] for entry in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("entry", QUESTIONS, ids=lambda entry: entry["id"])
def test_section_exists(entry: dict) -> None:
    assert entry["section"].partition("#")[2] in anchors()


@pytest.mark.parametrize("entry", [q for q in QUESTIONS if q["message"]], ids=lambda q: q["id"])
def test_reader_who_searches_for_the_message_finds_it(entry: dict) -> None:
    words, chapter = plain(entry["message"]), " ".join(plain(TEXT))
    size = min(3, len(words))
    pieces = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    assert any(piece in chapter for piece in pieces), f"no part of {entry['message']!r} is there"
