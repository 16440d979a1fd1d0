"""Each chapter answers the questions recorded for it: section there, message findable, sources public.

data/questions/CHAPTER.yaml holds what people asked in public threads. The file is the chapter's test and
feeds the book's index of messages.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "data/questions").glob("*.yaml"))
ENTRIES = [
    (file.stem, entry)
    for file in FILES
    for entry in yaml.safe_load(file.read_text(encoding="utf-8"))
]


def plain(text: str) -> list[str]:
    """Words without numbers and punctuation, as an index of messages would compare them."""
    return re.findall(r"[a-z_]{2,}", re.sub(r"\S*\d\S*", " ", text.lower()))


@cache
def chapter(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def anchors(path: str) -> frozenset[str]:
    found = set()
    for title in re.findall(r"^#{2,6} (.+)$", chapter(path), re.M):
        own = re.search(r"\{#([\w-]+)[^}]*\}\s*$", title)
        found.add(own[1] if own else re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return frozenset(found)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_there_are_enough_questions_each_with_its_own_public_source(file: Path) -> None:
    entries = [entry for stem, entry in ENTRIES if stem == file.stem]
    sources = [entry["source"] for entry in entries]
    assert len(set(sources)) >= 20
    assert all(source.startswith("https://") for source in sources)


def test_ids_are_unique_and_keys_known() -> None:
    ids = [entry["id"] for _, entry in ENTRIES]
    assert len(set(ids)) == len(ids)
    for _, entry in ENTRIES:
        optional = {"message", "title"}  # as printed; the thread's title where nothing was printed
        assert set(entry) - optional == {"id", "question", "source", "section"}, entry["id"]


@pytest.mark.parametrize("entry", [e for _, e in ENTRIES], ids=lambda entry: entry["id"])
def test_section_exists(entry: dict) -> None:
    path, _, anchor = entry["section"].partition("#")
    assert anchor in anchors(path)


@pytest.mark.parametrize(
    "entry", [e for _, e in ENTRIES if e.get("message")], ids=lambda entry: entry["id"]
)
def test_reader_who_searches_for_the_message_finds_it(entry: dict) -> None:
    text = " ".join(plain(chapter(entry["section"].partition("#")[0])))
    words = plain(entry["message"])
    size = min(3, len(words))
    pieces = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    assert any(piece in text for piece in pieces), f"no part of {entry['message']!r} is there"
