"""The text of every fence in each finished output equals its source, character for character.

Stands after the outputs. The source is the Markdown file itself, read here line by line and not through
the press's own parser, so that a character lost on any way is seen: on reading (tabs, entities), on
highlighting, in a template, in an archive. The PDF, which holds glyphs at places and no text, is compared by
pdfcode.py.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lxml import etree, html

from ..code import printed
from ..epub.pages import name_of
from ..model import Book, Chapter, Fence
from ..problems import Problem
from .pdfcode import code_blocks, left_edge, trouble
from .pdfplaces import Places
from .pdftext import Element

_OPENING = re.compile(r"^(?P<lead>(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*)(?P<mark>`{3,}|~{3,})")


def shown(chapter: Chapter) -> tuple[Fence, ...]:
    """The fences that the outputs print, in the order of the body."""
    tree = etree.fromstring(chapter.body)
    order = [int(figure.get("data-fence")) for figure in tree.iterfind(".//figure[@data-fence]")]
    return tuple(chapter.fences[index] for index in order)


def check_source(book: Book) -> list[Problem]:
    """Fences as parsed against the lines of the Markdown file, and none of them lost."""
    made = []
    for chapter in book.chapters:
        lines = (book.config.root / chapter.path).read_text(encoding="utf-8").splitlines()
        printed = {fence.index for fence in shown(chapter)}
        for fence in chapter.fences:
            if not fence.hidden and fence.index not in printed:
                made.append(_problem(chapter, fence, "the chapter", "it is missing"))
            if "include" in fence.attrs:
                continue  # its lines are another file's
            written = written_at(lines, fence.line)
            if written is not None and written != fence.text:
                made.append(_problem(chapter, fence, "the chapter", difference(written, fence.text)))
    return made


def check_epub(file: Path, book: Book) -> list[Problem]:
    made = []
    with zipfile.ZipFile(file) as archive:
        for chapter in book.chapters:
            tree = etree.fromstring(archive.read(f"EPUB/{name_of(chapter.slug)}"))
            blocks = ["".join(e.itertext()) for e in tree.iterfind(".//{*}pre/{*}code")]
            made += compare(chapter, blocks, "the EPUB")
    return made


def check_web(folder: Path, book: Book) -> list[Problem]:
    made = []
    for chapter in book.chapters:
        data = (folder / chapter.url).read_bytes()
        tree = html.document_fromstring(data, html.HTMLParser(encoding="utf-8"))
        blocks = ["".join(e.itertext()) for e in tree.iterfind(".//pre/code")]
        made += compare(chapter, blocks, "the web edition")
    return made


def check_pdf(file: Path, book: Book) -> list[Problem]:
    """Blocks of code on the pages, chapter by chapter, against the fences that are no empty ones."""
    places = Places(file, book)
    blocks: dict[str, list[Element]] = {}
    for block in code_blocks(file):
        blocks.setdefault(places.path(block.lines[0].page), []).append(block)
    edges = sorted({round(left_edge(block), 1) for found in blocks.values() for block in found})
    made = []
    for chapter in book.chapters:
        fences = [fence for fence in shown(chapter) if fence.text.strip()]
        found = blocks.get(chapter.path, [])
        for fence, block in zip(fences, found, strict=False):
            said = trouble(printed(fence), block, edges)
            if said:
                made.append(_problem(chapter, fence, "the PDF", said))
        for fence in fences[len(found) :]:
            made.append(_problem(chapter, fence, "the PDF", "it is missing"))
        for block in found[len(fences) :]:
            text = f"the PDF has a code block that no fence wrote: {block.lines[0].text[:40]}"
            made.append(Problem(chapter.path, 0, 0, "CHK001", text))
    return made


def compare(chapter: Chapter, blocks: Sequence[str], output: str) -> Iterator[Problem]:
    """Problems of one chapter: `blocks` are the texts found in the output, in reading order."""
    fences = shown(chapter)
    for fence, block in zip(fences, blocks, strict=False):
        text = printed(fence)
        if block != text:
            yield _problem(chapter, fence, output, difference(text, block))
    for fence in fences[len(blocks) :]:
        yield _problem(chapter, fence, output, "it is missing")
    if len(blocks) > len(fences):
        extra = blocks[len(fences)].splitlines()[:1]
        message = f"{output} has a code block that no fence wrote: {extra}"
        yield Problem(chapter.path, 0, 0, "CHK001", message)


def difference(source: str, found: str) -> str:
    """Where two texts part, in words."""
    same = next(
        (i for i, (a, b) in enumerate(zip(source, found, strict=False)) if a != b),
        min(len(source), len(found)),
    )
    line = source.count("\n", 0, same) + 1
    return (
        f"line {line} of the fence reads {found[same : same + 20]!r} "
        f"where the source has {source[same : same + 20]!r}"
    )


def written_at(lines: Sequence[str], number: int) -> str | None:
    """The content of the fence that opens on that line of the file, or None when none opens there."""
    opening = _OPENING.match(lines[number - 1]) if 0 < number <= len(lines) else None
    if opening is None:
        return None
    lead, mark = opening["lead"], opening["mark"]
    quoted, width = lead.count(">"), len(lead.replace(">", "").expandtabs(4))
    closing = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
    content = []
    for line in lines[number:]:
        bare = _outdent(line, quoted, width)
        if bare is None or closing.match(bare):
            break
        content.append(bare)
    return "\n".join(content)


def _outdent(line: str, quoted: int, width: int) -> str | None:
    """The line without the quote marks and the indentation of its fence; None after the quote's end."""
    for _ in range(quoted):
        mark = re.match(r"^[ \t]*> ?", line)
        if mark is None:
            return None
        line = line[mark.end() :]
    if quoted:
        width -= quoted  # the space after each mark has gone with it
    strip = 0
    while strip < min(width, len(line)) and line[strip] == " ":
        strip += 1
    return line[strip:]


def _problem(chapter: Chapter, fence: Fence, output: str, what: str) -> Problem:
    return Problem(chapter.path, fence.line, 0, "CHK001", f"code differs in {output}: {what}")
