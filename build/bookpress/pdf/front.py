"""The pages that the press adds: cover, title, colophon, contents, part openings.

In: the Book. Out: markup and drawings, ready for `layout`. Page numbers are slots, so none of these is laid out
again because a chapter grew.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import fonts, templates
from ..cache import file_digest
from ..model import Asset, Book, Chapter
from ..problems import Problem
from ..prove import marks
from .outline import Entry
from .sheet import millimetres
from .stamps import roman

FRONT, CONTENTS = ".front", ".contents"  # names no chapter's slug can have


@dataclass(frozen=True)
class Row:
    """A line of the contents or of a part's page."""

    kind: str  # part chapter section
    target: str
    number: str
    title: str
    summary: str = ""
    sections: tuple[Row, ...] = field(default=())


def part_name(index: int) -> str:
    """Destination of the page that opens a part."""
    return f".part-{index}"


def part_number(book: Book, index: int) -> str:
    """I, II, III … over the parts that have a title, are numbered and hold chapters."""
    filled = {c.part for c in book.chapters}
    counted = [i for i, p in enumerate(book.parts) if p.title and p.numbered and i in filled]
    return roman(counted.index(index) + 1).upper() if index in counted else ""


def chapters_of(book: Book, index: int) -> list[Chapter]:
    return [c for c in book.chapters if c.part == index]


def opens_part(book: Book, chapter: Chapter) -> bool:
    """True for the first chapter of a part that has a page of its own."""
    return bool(part_number(book, chapter.part)) and chapters_of(book, chapter.part)[0].slug == chapter.slug


def _chapter_row(chapter: Chapter) -> Row:
    sections = tuple(
        Row("section", f"{chapter.slug}#{a.id}", a.number, a.text) for a in chapter.headings if a.level == 2
    )
    return Row("chapter", chapter.slug, chapter.number, chapter.title, chapter.meta.summary, sections)


def _rows(book: Book) -> Iterator[Row]:
    for chapter in book.chapters:
        if opens_part(book, chapter):
            title = book.parts[chapter.part].title
            yield Row("part", part_name(chapter.part), part_number(book, chapter.part), title)
        yield _chapter_row(chapter)


def contents(book: Book) -> str:
    return templates.env().get_template("print/contents.html").render(rows=list(_rows(book)))


def part_page(book: Book, index: int) -> str:
    rows = [_chapter_row(c) for c in chapters_of(book, index)]
    page = templates.env().get_template("print/part.html")
    return page.render(number=part_number(book, index), title=book.parts[index].title, rows=rows)


def outline(book: Book) -> list[Entry]:
    """Bookmarks: contents, parts, chapters, sections; three levels in all."""
    entries = [Entry("Contents", CONTENTS)]
    level = entries
    for chapter in book.chapters:
        numbered_part = bool(part_number(book, chapter.part))
        if opens_part(book, chapter):
            number, title = part_number(book, chapter.part), book.parts[chapter.part].title
            entries.append(Entry(f"Part {number}: {title}", part_name(chapter.part), open=True))
        level = entries[-1].kids if numbered_part else entries
        level.append(_chapter_entry(chapter, deep=not numbered_part))
    return entries


def _chapter_entry(chapter: Chapter, deep: bool) -> Entry:
    title = f"{chapter.number}  {chapter.title}" if chapter.number else chapter.title
    entry = Entry(title, chapter.slug)
    for anchor in chapter.headings:
        said = f"{anchor.number}  {anchor.text}" if anchor.number else anchor.text
        item = Entry(said, f"{chapter.slug}/{anchor.id}")
        if anchor.level == 2:
            entry.kids.append(item)
        elif anchor.level == 3 and deep and entry.kids:
            entry.kids[-1].kids.append(item)
    return entry


def cover_image(book: Book) -> Asset | None:
    """The image that book.toml names as cover; None where the press draws its own or the file is not there."""
    root = book.config.root.resolve()
    file = (root / book.config.cover).resolve()
    if not book.config.cover or not file.is_file() or not file.is_relative_to(root):
        return None
    mime = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Asset(book.config.cover, file, mime, file_digest(file))


def cover_problems(book: Book) -> list[Problem]:
    if book.config.cover and cover_image(book) is None:
        return [Problem("book.toml", 0, 0, "PDF002", f"the cover {book.config.cover} is not in the book's folder")]
    return []


def front(book: Book) -> tuple[str, dict[str, bytes]]:
    """Cover, title page, colophon; and the cover's drawing where it is ours."""
    config = book.config
    drawings = {}
    image = cover_image(book)
    if image is None:
        drawings["cover.svg"] = cover_svg(book).encode()
    said = ", ".join(t for t in (config.title, config.subtitle) if t)
    markup = templates.env().get_template("print/front.html").render(
        config=config, stamp=book.stamp, cover=f"asset:{image.path}" if image else "drawing:cover.svg",
        cover_alt=f"Cover: {said}", facts=facts(book), licenses=_licenses(book),
        proofs=marks.rows(book),
    )  # fmt: skip
    return markup, drawings


def facts(book: Book) -> list[tuple[str, str]]:
    config, stamp = book.config, book.stamp
    tools = ", ".join(f"{name} {version}" for name, version in stamp.tools.items())
    commit = stamp.commit + (" + uncommitted changes (dirty)" if stamp.dirty else "")
    rows = [
        ("Version", stamp.version), ("Date", stamp.date), ("Commit", commit or "not under version control"),
        ("Sources", config.repository), ("Made with", tools), ("Identifier", config.identifier),
    ]  # fmt: skip
    return [(name, value) for name, value in rows if value]


def _licenses(book: Book) -> list[tuple[str, str]]:
    rows = [("Prose, figures", book.config.license), ("Code", book.config.license_code)]
    by_license: dict[str, list[str]] = {}
    for face in fonts.faces():
        families = by_license.setdefault(face.license, [])
        named = f"{face.family} {face.version}"
        if named not in families:
            families.append(named)
    rows += [("Fonts", f"{', '.join(families)}: {name}") for name, families in by_license.items()]
    return [(name, value) for name, value in rows if value]


def _wrapped(text: str, columns: int) -> list[str]:
    """Lines of about `columns` characters, as even as words allow."""
    words, lines = text.split(), [""]
    count = -(-len(text) // columns)
    even = max(len(text) / max(count, 1) * 1.12, max((len(w) for w in words), default=1))
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > even:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def cover_svg(book: Book) -> str:
    """The press's cover: a ring of ranks and the chords of their collectives above a title band."""
    config, stamp = book.config, book.stamp
    width = millimetres(config.page.width) * 72 / 25.4
    height = millimetres(config.page.height) * 72 / 25.4
    left, right = width * 0.1, width * 0.9
    size = 36 if len(config.title) <= 60 else 30
    title = _wrapped(config.title, int((right - left) / (size * 0.5)))
    subtitle = _wrapped(config.subtitle, int((right - left) / 7.0)) if config.subtitle else []
    band_top = height * 0.50
    at = band_top + 30 + size
    title_lines = [{"text": t, "y": _round(at + n * size * 1.16), "size": size} for n, t in enumerate(title)]
    at = title_lines[-1]["y"] + 30
    subtitle_lines = [{"text": t, "y": _round(at + n * 19), "size": 14} for n, t in enumerate(subtitle)]
    band_end = (subtitle_lines or title_lines)[-1]["y"] + 34
    rings, nodes = _collective(width / 2, height * 0.25, height * 0.185)
    return templates.env().get_template("cover.svg").render(
        width=_round(width), height=_round(height), left=_round(left), right=_round(right),
        foot=_round(height - 34), band={"y": _round(band_top), "h": _round(band_end - band_top)},
        title_lines=title_lines, subtitle_lines=subtitle_lines, rings=rings, nodes=nodes,
        imprint=", ".join(config.authors) or config.publisher,
        version=f"{stamp.version} · {stamp.date}",
    )  # fmt: skip


def _round(value: float) -> float:
    return round(value, 2)


def _collective(x: float, y: float, radius: float) -> tuple[list[dict], list[dict]]:
    """Sixteen ranks on a circle and a recursive-doubling exchange between them; one rank is late."""
    from math import cos, pi, sin

    count = 16
    points = [
        (x + radius * cos(2 * pi * (n - 4) / count), y + radius * sin(2 * pi * (n - 4) / count))
        for n in range(count)
    ]
    late = 3
    lines = []
    for step, stroke in ((1, "#9fc3d4"), (2, "#6f9db3"), (4, "#4d7d94"), (8, "#3a6579")):
        for n in range(count):
            if n & step:
                continue
            (x1, y1), (x2, y2) = points[n], points[n | step]
            # Chords bend towards the middle, the longer the step the more.
            bend = 0.18 + 0.6 / step
            mx, my = x + ((x1 + x2) / 2 - x) * bend, y + ((y1 + y2) / 2 - y) * bend
            d = f"M{x1:.2f} {y1:.2f} Q{mx:.2f} {my:.2f} {x2:.2f} {y2:.2f}"
            touched = late in (n, n | step)
            lines.append({"d": d, "stroke": "#d9912b" if touched else stroke, "width": 1.5 if touched else 0.9})
    lines.sort(key=lambda item: item["width"])
    nodes = [
        {"x": _round(px), "y": _round(py), "r": 7.5 if n == late else 5, "fill": "#d9912b" if n == late else "#f7f5ee"}
        for n, (px, py) in enumerate(points)
    ]
    return lines, nodes
