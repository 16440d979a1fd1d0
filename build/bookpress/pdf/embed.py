"""The fonts of the finished file: one program a face, holding the glyphs that the whole book uses.

In the worker: what a piece uses of each font. In the assembly: the union over all pieces, subset once by HarfBuzz
(kept in the cache by glyph set), and the PDF font objects. Glyph numbers are retained, so content streams that
were written long ago stay right when other chapters bring new glyphs.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from .. import fonts
from ..cache import Cache, digest
from ..problems import ToolMissing
from .fragment import FontUse
from .objects import array, dictionary, number, shared, text

FOLIO = "FOLIOS"  # name of the font that stamps use
_FOLIO_FAMILY = "Source Sans 3"
_FOLIO_TEXT = "0123456789ivxlcdm()p. "
# Tables that shaping needs and a PDF does not.
_DROPPED = ("BASE", "DSIG", "GDEF", "GPOS", "GSUB", "JSTF", "LTSH", "PCLT", "STAT", "kern", "FFTM")


@functools.cache
def _stems() -> Mapping[str, str]:
    """Content hash → file stem, for the bundled faces."""
    return {hashlib.sha256(f.file.read_bytes()).hexdigest(): f.file.stem for f in fonts.faces()}


def font_uses(used: Mapping) -> tuple[FontUse, ...]:
    """What one laid-out document uses. A font that is not ours means that the machine's fonts leaked in."""
    uses: dict[str, FontUse] = {}
    for font in used.values():
        stem = _stems().get(hashlib.sha256(font.file_content).hexdigest())
        if stem is None:
            raise ToolMissing(f"layout took {font.family}, which the book does not bundle; is fontconfig set up?")
        use = FontUse(
            name=font.hash, family=font.family, base=font.name.decode().partition("+")[2], stem=stem,
            flags=font.flags, ascent=font.ascent, descent=font.descent,
            widths=dict(font.widths), unicode=dict(font.to_unicode),
        )  # fmt: skip
        uses[use.name] = _both(uses[use.name], use) if use.name in uses else use
    return tuple(uses[n] for n in sorted(uses))


def _both(one: FontUse, other: FontUse) -> FontUse:
    """Two uses of a font as one. Of two texts for a glyph the plainer wins, whatever the order of chapters."""
    unicode = dict(one.unicode)
    for glyph, value in other.unicode.items():
        known = unicode.get(glyph)
        unicode[glyph] = value if known is None else min(known, value, key=lambda t: (len(t), t))
    return replace(one, widths={**one.widths, **other.widths}, unicode=unicode)


def union(pieces: Iterable[tuple[FontUse, ...]]) -> tuple[FontUse, ...]:
    """All uses, merged by name, with the font of the folios."""
    uses: dict[str, FontUse] = {FOLIO: folio_font()[0]}
    for piece in pieces:
        for use in piece:
            uses[use.name] = _both(uses[use.name], use) if use.name in uses else use
    return tuple(uses[n] for n in sorted(uses))


@functools.cache
def folio_font() -> tuple[FontUse, Mapping[str, tuple[int, int]]]:
    """The font of stamped numbers: its use, and character → (glyph, width)."""
    import uharfbuzz

    face = fonts.face(_FOLIO_FAMILY)
    font = uharfbuzz.Font(uharfbuzz.Face(uharfbuzz.Blob.from_file_path(str(face.file))))
    scale = 1000 / font.face.upem
    glyphs = {}
    for char in _FOLIO_TEXT:
        glyph = font.get_nominal_glyph(ord(char))
        glyphs[char] = (glyph, round(font.get_glyph_h_advance(glyph) * scale))
    use = FontUse(
        name=FOLIO, family=face.family, base=face.family.replace(" ", "-"), stem=face.file.stem,
        flags=4, ascent=984, descent=-273,
        widths=dict(glyphs.values()), unicode={g: c for c, (g, _) in glyphs.items()},
    )  # fmt: skip
    return use, glyphs


def _program(stem: str, glyphs: frozenset[int], cache: Cache) -> bytes:
    """The compressed subset of a font file, preceded by its plain length (4 bytes)."""
    wanted = digest(_sha(stem), repr(sorted(glyphs)))
    found = cache.get("subset", wanted)
    if found is None:
        import uharfbuzz

        path = next(f.file for f in fonts.faces() if f.file.stem == stem)
        request = uharfbuzz.SubsetInput()
        request.glyph_set.update(glyphs)
        flags = uharfbuzz.SubsetFlags
        request.flags = flags.RETAIN_GIDS | flags.NO_HINTING | flags.NOTDEF_OUTLINE
        request.drop_table_tag_set.update(int.from_bytes(t.encode(), "big") for t in _DROPPED)
        data = uharfbuzz.subset(uharfbuzz.Face(uharfbuzz.Blob.from_file_path(str(path))), request).blob.data
        found = len(data).to_bytes(4, "big") + zlib.compress(bytes(data), 9)
        cache.put("subset", wanted, found)
    return found


@functools.cache
def _sha(stem: str) -> str:
    return next(sha for sha, known in _stems().items() if known == stem)


def font_objects(uses: tuple[FontUse, ...], first: int, cache: Cache) -> tuple[bytes, list, list]:
    """The Font dictionary, then (number, object) and (number, dictionary, stream data), from number `first`."""
    objects: list[tuple[int, bytes]] = []
    streams: list[tuple[int, bytes, bytes]] = []
    by_stem: dict[str, set[int]] = {}
    for use in uses:
        by_stem.setdefault(use.stem, set()).update(use.widths)
    files = {}
    at = first
    for stem in sorted(by_stem):
        program = _program(stem, frozenset(by_stem[stem]), cache)
        plain, data = int.from_bytes(program[:4], "big"), program[4:]
        entries = {"Length1": b"%d" % plain, "Filter": b"/FlateDecode", "Length": b"%d" % len(data)}
        streams.append((at, dictionary(entries), data))
        files[stem] = at
        at += 1
    names = {}
    for use in uses:
        names[use.name] = shared(at)
        objects += _font(use, at, files[use.stem])
        data = zlib.compress(_to_unicode(use.unicode), 9)
        entries = {"Filter": b"/FlateDecode", "Length": b"%d" % len(data)}
        streams.append((at + 3, dictionary(entries), data))
        at += 4
    return dictionary(names), objects, streams


def _font(use: FontUse, at: int, file: int) -> list[tuple[int, bytes]]:
    """Type 0 font, its CID font and descriptor, at numbers at, at + 1, at + 2; ToUnicode is at + 3."""
    base = f"/{use.name}+{use.base}".encode()
    widest = max(use.widths.values(), default=0)
    italic = "Italic" in use.base
    font = {
        "Type": b"/Font", "Subtype": b"/Type0", "BaseFont": base, "Encoding": b"/Identity-H",
        "DescendantFonts": array(shared(at + 1)), "ToUnicode": shared(at + 3),
    }  # fmt: skip
    system = dictionary({"Registry": b"(Adobe)", "Ordering": b"(Identity)", "Supplement": b"0"})
    cid = {
        "Type": b"/Font", "Subtype": b"/CIDFontType2", "BaseFont": base, "CIDSystemInfo": system,
        "CIDToGIDMap": b"/Identity", "W": _widths(use.widths), "FontDescriptor": shared(at + 2),
    }  # fmt: skip
    descriptor = {
        "Type": b"/FontDescriptor", "FontName": base, "FontFamily": text(use.family),
        "Flags": b"%d" % use.flags, "FontBBox": array(b"0", number(use.descent), number(widest), number(use.ascent)),
        "ItalicAngle": b"-11" if italic else b"0", "Ascent": number(use.ascent),
        "Descent": number(use.descent), "CapHeight": number(use.ascent), "StemV": b"80", "FontFile2": shared(file),
    }  # fmt: skip
    return [(at, dictionary(font)), (at + 1, dictionary(cid)), (at + 2, dictionary(descriptor))]


def _widths(widths: Mapping[int, int]) -> bytes:
    """The W array: runs of neighbouring glyphs."""
    parts: list[bytes] = []
    run: list[bytes] = []
    last = -2
    for glyph in sorted(widths):
        if glyph != last + 1 and run:
            parts.append(array(*run))
            run = []
        if not run:
            parts.append(b"%d" % glyph)
        run.append(number(widths[glyph]))
        last = glyph
    if run:
        parts.append(array(*run))
    return array(*parts)


def _to_unicode(unicode: Mapping[int, str]) -> bytes:
    """The CMap from glyphs to text, for search and copy."""
    lines = [
        "/CIDInit /ProcSet findresource begin", "12 dict begin", "begincmap",
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def",
        "/CMapName /Adobe-Identity-UCS def", "/CMapType 2 def",
        "1 begincodespacerange", "<0000> <ffff>", "endcodespacerange",
    ]  # fmt: skip
    entries = sorted((g, t) for g, t in unicode.items() if t)
    for start in range(0, len(entries), 100):
        batch = entries[start : start + 100]
        lines.append(f"{len(batch)} beginbfchar")
        lines += [f"<{g:04x}> <{t.encode('utf-16-be').hex()}>" for g, t in batch]
        lines.append("endbfchar")
    lines += ["endcmap", "CMapName currentdict /CMap defineresource pop", "end", "end"]
    return "\n".join(lines).encode()
