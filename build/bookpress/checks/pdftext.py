"""The text of the finished PDF as its structure tree gives it: what assistive technology reads.

Used by fences.py. Every structure element is read through its marked content, glyph by glyph over the fonts'
ToUnicode maps, with the place of each line on the page, so that nothing is guessed from distances: blanks
are glyphs in code, and a line that the layout broke is told from a line of the source by its indent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pikepdf
from pikepdf import Array, Dictionary, Name

_HEX = re.compile(rb"<([0-9A-Fa-f\s]*)>")
_SECTION = re.compile(rb"begin(bfchar|bfrange)(.*?)end\1", re.S)
_RANGE = re.compile(rb"<([^>]+)>\s*<([^>]+)>\s*(<[^>]+>|\[[^\]]*\])")
_HERE = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Glyph:
    """One glyph: what it stands for, where it starts and how far it advances, in points."""

    text: str
    x: float
    advance: float


@dataclass(frozen=True)
class Run:
    """Glyphs of one text object; `x`, `y` are the start of its baseline from the page's lower left."""

    font: str
    x: float
    y: float
    glyphs: tuple[Glyph, ...]


@dataclass(frozen=True)
class Line:
    """The runs of an element that share a baseline."""

    page: int
    y: float
    runs: tuple[Run, ...]

    @property
    def glyphs(self) -> tuple[Glyph, ...]:
        return tuple(glyph for run in self.runs for glyph in run.glyphs)

    @property
    def text(self) -> str:
        return "".join(glyph.text for glyph in self.glyphs)


@dataclass(frozen=True)
class Element:
    """A structure element with the text below it; `inner` are the roles of elements inside it."""

    role: str
    lines: tuple[Line, ...]
    inner: frozenset[str]

    @property
    def fonts(self) -> frozenset[str]:
        return frozenset(run.font for line in self.lines for run in line.runs)


@dataclass(frozen=True)
class Font:
    name: str  # without the subset's tag
    unicode: Mapping[int, str]
    widths: Mapping[int, float]  # thousandths of the size
    default: float


def elements(file: Path, roles: frozenset[str]) -> Iterator[Element]:
    """Elements of the given roles in reading order, each with all text below it."""
    with pikepdf.open(file) as pdf:
        reader = _Reader(pdf)
        yield from reader.walk(pdf.Root.StructTreeRoot, roles)


class _Reader:
    """Reads pages when an element first asks for them, each once."""

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        self.pages = list(pdf.pages)
        self.index = {page.obj.objgen: n for n, page in enumerate(self.pages)}
        self.content: dict[int, Mapping[int, list[Run]]] = {}
        self.fonts: dict[tuple[int, int], Font] = {}

    def walk(self, node: Dictionary, roles: frozenset[str]) -> Iterator[Element]:
        for kid in _kids(node):
            if not isinstance(kid, Dictionary) or "/S" not in kid:
                continue
            role = str(kid.S).lstrip("/")
            if role in roles:
                lines = tuple(_lines(self._runs(kid, kid.get("/Pg"))))
                if lines:
                    yield Element(role, lines, frozenset(_inner(kid)))
            else:
                yield from self.walk(kid, roles)

    def _runs(self, node: Dictionary, page: Dictionary | None) -> Iterator[tuple[int, Run]]:
        """(page, run) for all text below an element, in reading order."""
        for kid in _kids(node):
            if isinstance(kid, int):
                yield from self._marked(page, kid)
            elif "/MCID" in kid:
                yield from self._marked(kid.get("/Pg", page), int(kid.MCID))
            elif "/S" in kid:
                yield from self._runs(kid, kid.get("/Pg", page))

    def _marked(self, page: Dictionary, mcid: int) -> Iterator[tuple[int, Run]]:
        number = self.index[page.objgen]
        if number not in self.content:
            self.content[number] = self._read(self.pages[number])
        for run in self.content[number].get(mcid, ()):
            yield number, run

    def _read(self, page: pikepdf.Page) -> Mapping[int, list[Run]]:
        """Marked content id → runs of one page."""
        found: dict[int, list[Run]] = {}
        matrices, matrix = [], _HERE
        marks: list[int | None] = []
        font, size, line, moved = None, 0.0, _HERE, 0.0
        for operands, operator in pikepdf.parse_content_stream(page):
            name = str(operator)
            if name == "q":
                matrices.append(matrix)
            elif name == "Q":
                matrix = matrices.pop()
            elif name == "cm":
                matrix = _times(tuple(float(v) for v in operands), matrix)
            elif name in ("BDC", "BMC"):
                marks.append(_mcid(operands, page))
            elif name == "EMC":
                marks.pop()
            elif name == "Tf":
                font, size = self._font(page.Resources.Font[operands[0]]), float(operands[1])
            elif name == "Tm":
                line, moved = tuple(float(v) for v in operands), 0.0
            elif name == "Td":
                line, moved = _times((1, 0, 0, 1, float(operands[0]), float(operands[1])), line), 0.0
            elif name == "BT":
                line, moved = _HERE, 0.0
            elif name in ("TD", "T*", "'", '"'):
                raise ValueError(f"text operator {name} is not one that the press writes")
            elif name in ("Tj", "TJ"):
                at = _times(line, matrix)
                run, end = _run(operands[0], font, size * at[0], at[4] + moved, at[5])
                moved = end - at[4]
                mcid = next((m for m in reversed(marks) if m is not None), None)
                if mcid is not None:
                    found.setdefault(mcid, []).append(run)
        return found

    def _font(self, font: Dictionary) -> Font:
        key = font.objgen
        if key not in self.fonts:
            inner = font.DescendantFonts[0]
            name = str(font.BaseFont).lstrip("/").partition("+")
            self.fonts[key] = Font(
                name[2] or name[0],
                unicode_map(font.ToUnicode.read_bytes()),
                dict(_widths(inner.get("/W", Array()))),
                float(inner.get("/DW", 1000)),
            )
        return self.fonts[key]


def _inner(node: Dictionary) -> Iterator[str]:
    for kid in _kids(node):
        if isinstance(kid, Dictionary) and "/S" in kid:
            yield str(kid.S).lstrip("/")
            yield from _inner(kid)


def _widths(entries: Array) -> Iterator[tuple[int, float]]:
    """Glyph → width of a W array, in both of its forms."""
    items = list(entries)
    at = 0
    while at < len(items):
        first = int(items[at])
        if isinstance(items[at + 1], Array):
            yield from ((first + n, float(width)) for n, width in enumerate(items[at + 1]))
            at += 2
        else:
            yield from ((glyph, float(items[at + 2])) for glyph in range(first, int(items[at + 1]) + 1))
            at += 3


def _kids(node: Dictionary) -> list:
    kids = node.get("/K", Array())
    return [int(k) if isinstance(k, int) else k for k in (kids if isinstance(kids, Array) else [kids])]


def _mcid(operands: list, page: pikepdf.Page) -> int | None:
    if len(operands) < 2:
        return None
    properties = operands[1]
    if isinstance(properties, Name):
        properties = page.Resources.Properties[properties]
    return int(properties.MCID) if "/MCID" in properties else None


def _times(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    return (
        a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4], a[4] * b[1] + a[5] * b[3] + b[5],
    )  # fmt: skip


def _run(shown: Array | pikepdf.String, font: Font, size: float, x: float, y: float) -> tuple[Run, float]:
    """The run, and where the next one of the same text object starts."""
    glyphs, at = [], x
    for piece in shown if isinstance(shown, Array) else [shown]:
        if not isinstance(piece, pikepdf.String):
            at -= float(piece) / 1000 * size
            continue
        data = bytes(piece)
        for n in range(0, len(data) - 1, 2):
            glyph = data[n] << 8 | data[n + 1]
            advance = font.widths.get(glyph, font.default) / 1000 * size
            glyphs.append(Glyph(font.unicode.get(glyph, "\ufffd"), at, advance))
            at += advance
    return Run(font.name, x, y, tuple(glyphs)), at


def unicode_map(cmap: bytes) -> dict[int, str]:
    """Glyph → text of a ToUnicode map."""
    found: dict[int, str] = {}
    for kind, body in _SECTION.findall(cmap):
        if kind == b"bfchar":
            values = _HEX.findall(body)
            for glyph, value in zip(values[::2], values[1::2], strict=True):
                found[int(glyph, 16)] = _utf16(value)
            continue
        for first, last, target in _RANGE.findall(body):
            start, stop = int(first, 16), int(last, 16)
            if target.startswith(b"["):
                texts = [_utf16(value) for value in _HEX.findall(target)]
            else:
                text = _utf16(target.strip(b"<>"))
                texts = [text[:-1] + chr(ord(text[-1]) + n) for n in range(stop - start + 1)]
            found.update(zip(range(start, stop + 1), texts, strict=False))
    return found


def _utf16(value: bytes) -> str:
    return bytes.fromhex(value.decode().replace(" ", "")).decode("utf-16-be")


def _lines(runs: Iterator[tuple[int, Run]]) -> Iterator[Line]:
    """Runs joined while they stay on one baseline of one page."""
    current: list[Run] = []
    where = -1
    for page, run in runs:
        if current and (page != where or abs(run.y - current[0].y) > 0.5):
            yield Line(where, current[0].y, tuple(current))
            current = []
        where = page
        current.append(run)
    if current:
        yield Line(where, current[0].y, tuple(current))
