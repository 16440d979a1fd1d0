"""A warm cache makes the book that a cold one makes, also after chapters changed their place."""

from __future__ import annotations

from pathlib import Path

from bookpress import build
from bookpress.config import read_config


def book(root: Path, cache: Path, *parts: tuple[str, str, bool]):
    """The book with these parts: (title, its chapters, numbered)."""
    text = '[book]\ntitle = "B"\nslug = "b"\nversion = "1"\n[features]\nnumbering = true\n'
    for title, chapters, numbered in parts:
        names = ", ".join(f'"{name}.md"' for name in chapters.split())
        text += f'[[part]]\ntitle = "{title}"\nnumbered = {str(numbered).lower()}\nchapters = [{names}]\n'
    (root / "book.toml").write_text(text)
    config, problems = read_config(root / "book.toml")
    assert not problems
    made, problems = build.prepare(config, cache)
    assert not problems
    return made


def test_chapters_that_moved_stand_in_their_new_part(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\nText.\n")
    warm = tmp_path / "warm"
    book(tmp_path, warm, ("One", "a", True), ("Two", "b", True), ("Three", "c", False))
    for parts in (
        (("One", "a b c", True),),  # fewer parts than the cache has seen
        (("New", "c", True), ("Two", "b", False), ("One", "a", True)),
    ):
        now = book(tmp_path, warm, *parts)
        assert now == book(tmp_path, tmp_path / f"cold-{len(parts)}", *parts)
        assert [now.parts[c.part].title for c in now.chapters] == [
            title for title, chapters, _ in parts for _ in chapters.split()
        ]
