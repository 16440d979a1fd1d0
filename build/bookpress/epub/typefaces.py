"""The fonts an EPUB carries: a monospaced face for code, cut down to the characters of this book.

Stands inside the EPUB stage. Text, headings and formulas stay with the reader's own font: size, face
and spacing are theirs to choose. Code is different: some reading systems have no monospaced face at all,
others none with box drawing, and columns must line up. Characters that these faces lack are left to the
device, whose own emoji and CJK faces are better than any we would embed.

The licences allow subsets under the same name (none of these faces reserves its name) and ask that the
licence text travels along: it lies beside the fonts in the package.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from .. import fonts
from ..cache import Cache, digest

FOLDER = "fonts/"
_LICENCES = {
    "JetBrains Mono": "JetBrainsMono-OFL.txt",
    "DejaVu Sans Mono": "DejaVu-Bitstream-Vera.txt",
}


@dataclass(frozen=True)
class Typeface:
    """A font file of the package, with the licence that travels along."""

    name: str
    family: str
    weight: int
    style: str
    spdx: str
    license: str  # file name of the text
    content: bytes


def typefaces(code: str, cache: Path) -> tuple[Typeface, ...]:
    """Subsets that cover the characters of `code`; the second family only for what the first lacks."""
    wanted = {ord(c) for c in code if c.isprintable()}
    found: list[Typeface] = []
    for family, license_file in _LICENCES.items():
        here = wanted & fonts.covered(family)
        wanted -= here
        if not here:
            continue
        for face in (f for f in fonts.faces() if f.family == family):
            found.append(
                Typeface(f"{FOLDER}{face.file.name}", family, face.weight, face.style,
                         face.license, license_file, _subset(face.file, here, cache))
            )  # fmt: skip
    return tuple(found)


def rules(faces: Iterable[Typeface], base: str) -> str:
    """The @font-face rules of the style sheet."""
    return "".join(
        f'@font-face {{\n  font-family: "{f.family}";\n  font-weight: {f.weight};\n'
        f"  font-style: {f.style};\n  src: url({base}{f.name});\n}}\n"
        for f in faces
    )


def license_text(name: str) -> bytes:
    return (fonts.FOLDER / name).read_bytes()


def _subset(file: Path, points: set[int], cache: Path) -> bytes:
    version = metadata.version("fonttools")
    source, store = file.read_bytes(), Cache(cache)
    key = digest(source, repr(sorted(points)), version)
    kept = store.get("subset", key)
    if kept is not None:
        return kept
    from fontTools import subset  # here: a cached build does not need it

    options = subset.Options()
    options.hinting = False
    options.notdef_outline = True
    options.recalc_timestamp = False  # same bytes twice
    options.drop_tables += ["FFTM"]  # FontForge's own dates
    # no ligatures, in reading systems that ignore font-variant-ligatures too: != must stay two signs
    options.layout_features = ["ccmp", "mark", "mkmk"]
    font = subset.load_font(io.BytesIO(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=points)
    cutter.subset(font)
    out = io.BytesIO()
    subset.save_font(font, out, options)
    store.put("subset", key, out.getvalue())
    return out.getvalue()
