"""Every footnote of a chapter full of them stands in the PDF, on the page of its call or the next, once."""

from __future__ import annotations

import random
import re
from pathlib import Path

from bookpress import build
from bookpress.config import read_config
from render import pdfs

WORDS = ["the", "rank", "waits", "for", "a", "collective", "that", "never", "comes", "because", "one", "process", "left", "the", "loop", "early"]


def chapter(seed: int, paragraphs: int) -> tuple[str, int]:
    """Paragraphs and lists of uneven length with up to two notes a sentence. Out: Markdown, number of notes."""
    chance = random.Random(seed)
    lines, notes = ["# Notes\n"], []

    def words(count: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(count))

    def paragraph() -> str:
        said = []
        for _ in range(chance.randint(1, 5)):
            sentence = words(chance.randint(4, 25))
            for _ in range(chance.choice([0, 0, 1, 2])):
                notes.append(words(chance.randint(4, 40)))
                sentence += f"[^n{len(notes)}]"
            said.append(sentence + ".")
        return " ".join(said)

    for _ in range(paragraphs):
        if chance.random() < 0.4:
            lines += [f"{n}. {paragraph()}" for n in range(1, chance.randint(3, 5))] + [""]
        else:
            lines.append(paragraph() + "\n")
    lines += [f"[^n{n}]: note{n} {text}.\n" for n, text in enumerate(notes, 1)]
    return "\n".join(lines), len(notes)


def test_no_note_is_lost_where_lines_and_notes_compete_for_the_page(tmp_path: Path):
    text, count = chapter(seed=5, paragraphs=60)
    (tmp_path / "notes.md").write_text(text)
    (tmp_path / "book.toml").write_text(
        '[book]\ntitle = "N"\nslug = "n"\nversion = "1"\n[[part]]\ntitle = ""\nchapters = ["notes.md"]\n'
    )
    config, _ = read_config(tmp_path / "book.toml")
    book, problems = build.prepare(config, tmp_path / "cache")
    assert not problems
    made = pdfs.make(book, tmp_path, jobs=1)
    assert made.problems == []
    said = "\n".join(made.pages)
    found = [int(n) for n in re.findall(r"note(\d+) ", said)]
    assert sorted(found) == list(range(1, count + 1))
    assert found == sorted(found)  # in the order of their calls
    calls = {name: page for page in range(len(made.pages)) for name in made.links(page) if "fn-" in name}
    late = {name: made.places[name][0] - page for name, page in calls.items() if name in made.places}
    assert len(late) == count
    assert set(late.values()) <= {0, 1}
