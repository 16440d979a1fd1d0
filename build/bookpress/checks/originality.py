"""Runs of eight words and more that a book shares with other people's texts.

Stands beside the checks of finished outputs, for `bookpress check --against FOLDER`: in come the chapters'
bodies and a folder of Markdown or plain text, out comes one Problem for each shared run of words. Code,
quotations, formulas and addresses are left out on both sides: those may, or must, be alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lxml import etree

from ..html import BLOCKS
from ..model import Book, Chapter
from ..problems import Problem, WrongUse

RUN = 8  # words; shorter runs are idiom
_KINDS = (".md", ".markdown", ".rst", ".txt")
_SILENT = frozenset(("pre", "code", "kbd", "blockquote", "q", "math", "svg", "script", "style"))
_BLOCKS = BLOCKS | {"caption", "figcaption", "td", "th", "summary"}
_CUT = "§"  # stands where something was left out, and matches nothing
_WORDS = re.compile(rf"{_CUT}|[^\W_]+(?:['’][^\W_]+)*")
# What is no prose in a Markdown file, front matter and fences first.
_NO_PROSE = (
    re.compile(r"\A---\n.*?\n---\n", re.S),
    re.compile(r"^[ \t>]*(```+|~~~+)[^\n]*\n.*?(?:^[ \t>]*\1[ \t]*$|\Z)", re.S | re.M),
    re.compile(r"^(?: {4}|\t| {0,3}>).*$", re.M),
    re.compile(r"(`+).+?\1", re.S),
    re.compile(r"(?<=\])\([^)\s]*(?:\s[^)]*)?\)|<?\bhttps?://\S+|<[^<>]+>"),
)
Shingles = Mapping[tuple[str, ...], str]


def check(folder: Path, book: Book) -> list[Problem]:
    """Every run of words that a chapter shares with a text below `folder`."""
    if not folder.is_dir():
        raise WrongUse(f"--against: {folder} is no folder")
    theirs = shingles(folder)
    return [problem for chapter in book.chapters for problem in _chapter(chapter, theirs)]


def shingles(folder: Path) -> Shingles:
    """All runs of RUN words of the texts below `folder` → the first file that has it."""
    found: dict[tuple[str, ...], str] = {}
    for file in sorted(p for p in folder.rglob("*") if p.suffix.lower() in _KINDS and p.is_file()):
        name = file.relative_to(folder).as_posix()
        for block in prose(file.read_text(encoding="utf-8", errors="replace")):
            words = _words(block)
            for start in range(len(words) - RUN + 1):
                run = tuple(words[start : start + RUN])
                if _CUT not in run:
                    found.setdefault(run, name)
    return found


def prose(markdown: str) -> list[str]:
    """The paragraphs, list items and table cells of a Markdown text, without what is no prose."""
    for pattern in _NO_PROSE:
        markdown = pattern.sub("\n" if pattern.flags & re.M else f" {_CUT} ", markdown)
    return re.split(r"\n\s*\n|\n[ \t]*(?:[-*+]|\d+[.)]|#+)[ \t]|\|", markdown)


def _chapter(chapter: Chapter, theirs: Shingles) -> Iterator[Problem]:
    for line, text in blocks(etree.fromstring(chapter.body)):
        words, start = _words(text), 0
        while start <= len(words) - RUN:
            source = theirs.get(tuple(words[start : start + RUN]))
            if source is None:
                start += 1
                continue
            end = start + RUN
            while end < len(words) and tuple(words[end - RUN + 1 : end + 1]) in theirs:
                end += 1
            message = f"{end - start} words as in {source}: {' '.join(words[start:end])}"
            yield Problem(chapter.path, line, 0, "CHK006", message, "write it anew, or quote it")
            start = end


def blocks(body: etree._Element) -> Iterator[tuple[int, str]]:
    """(line in the Markdown file, own text) of every block of a body, in order."""
    for element in body.iter(*_BLOCKS):
        inside = {element, *element.iterancestors()}
        if any(e.tag in _SILENT for e in inside):
            continue
        lined = next((e for e in (element, *element.iterancestors()) if e.get("data-line")), None)
        line = int(lined.get("data-line")) if lined is not None else 0
        text = "".join(_own(element)).strip()
        if text:
            yield line, text


def _own(element: etree._Element) -> Iterator[str]:
    """Text of a block that belongs to no block inside it."""
    yield element.text or ""
    for child in element:
        kind = etree.QName(child).localname if isinstance(child.tag, str) else ""
        if kind and kind not in _SILENT | _BLOCKS:
            yield from _own(child)
        elif kind:
            yield f" {_CUT} "
        yield child.tail or ""


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORDS.findall(text)]
