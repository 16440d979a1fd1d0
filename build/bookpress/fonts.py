"""The faces of the book: which files, for which stack, and how layout is kept to them.

Stands beside the pipeline. `glyphs` asks which characters the faces cover, `pdf` asks for an environment in
which Pango sees these files and nothing of the machine, `epub`, `web` and the colophon ask for the list.

    activate(cache)      call it before layout: WeasyPrint then sees our files only
    faces()              every file with family, weight, style, version and licence
    stack("text")        families in order of preference, for CSS
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache as memo
from pathlib import Path

from . import problems

FOLDER = Path(__file__).parents[2] / "templates" / "fonts"


@dataclass(frozen=True)
class Face:
    """One font file. `weight` is the CSS weight that the file answers to."""

    family: str
    weight: int
    style: str  # normal | italic
    file: Path
    version: str
    license: str  # SPDX id; the text lies beside the file
    omit: tuple[tuple[int, int], ...] = ()  # code points left to the next family of the stack


# The text faces draw ✓ like a root sign and have six of the twenty arrows that engineers use: those come
# from one face, DejaVu Sans, so that → and ⇒ match.
_SYMBOLS = ((0x2190, 0x21FF), (0x2713, 0x2713))


def _family(family: str, stem: str, version: str, license: str, *styles: str,
            omit: tuple[tuple[int, int], ...] = ()) -> list[Face]:
    """Faces of one family. Semibold is the family's bold: 600, softer than 700 beside running text."""
    known = {"Regular": (400, "normal"), "Italic": (400, "italic"), "SemiBold": (600, "normal"),
             "SemiBoldItalic": (600, "italic"), "Bold": (700, "normal"), "": (400, "normal")}
    return [Face(family, *known[s], FOLDER / f"{stem}{'-' if s else ''}{s}.ttf", version, license,
                 omit) for s in styles]


_FACES: tuple[Face, ...] = (
    *_family("Source Serif 4", "SourceSerif4", "4.004", "OFL-1.1",
             "Regular", "Italic", "SemiBold", "SemiBoldItalic", omit=_SYMBOLS),
    *_family("Source Sans 3", "SourceSans3", "3.052", "OFL-1.1",
             "Regular", "Italic", "SemiBold", "SemiBoldItalic", omit=_SYMBOLS),
    *_family("JetBrains Mono", "JetBrainsMono", "2.211", "OFL-1.1", "Regular", "Italic", "Bold"),
    *_family("STIX Two Math", "STIXTwoMath", "2.11", "OFL-1.1", "Regular"),
    *_family("DejaVu Sans Mono", "DejaVuSansMono", "2.37", "Bitstream-Vera", ""),
    *_family("DejaVu Sans", "DejaVuSans", "2.37", "Bitstream-Vera", ""),
    *_family("Noto Emoji", "NotoEmoji", "3.006", "OFL-1.1", "Regular"),
    *_family("Droid Sans Fallback", "DroidSansFallback", "2.55", "Apache-2.0", ""),
)

# Every stack ends in the same lenders, so a character prints in code exactly when it prints in text
# (Kozea/WeasyPrint#2880: CJK missing in `pre` only). Noto Emoji stands last: Pango takes it by itself for runs
# in emoji style, and for lone symbols such as ✔ it would lend its very wide spaces to the words around.
# The generic name is for readers that drop our files.
_LENDERS = ("DejaVu Sans", "Droid Sans Fallback", "Noto Emoji")
_STACKS: dict[str, tuple[str, ...]] = {
    "text": ("Source Serif 4", *_LENDERS, "serif"),
    "sans": ("Source Sans 3", *_LENDERS, "sans-serif"),
    "code": ("JetBrains Mono", "DejaVu Sans Mono", *_LENDERS, "monospace"),
    "math": ("STIX Two Math", "DejaVu Sans", "math"),
}


def faces() -> tuple[Face, ...]:
    return _FACES


def stack(role: str) -> str:
    """The CSS value of font-family for `text`, `sans`, `code` or `math`."""
    generic = {"serif", "sans-serif", "monospace", "math"}
    return ", ".join(f if f in generic else f'"{f}"' for f in _STACKS[role])


def face(family: str) -> Face:
    """The regular face of a family."""
    return next(f for f in _FACES if f.family == family)


_CONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{cache}</cachedir>
  {aliases}
  {omissions}
  <match target="font">
    <edit name="hinting" mode="assign"><bool>false</bool></edit>
    <edit name="autohint" mode="assign"><bool>false</bool></edit>
    <edit name="antialias" mode="assign"><bool>true</bool></edit>
  </match>
</fontconfig>
"""


def environment(cache: Path) -> dict[str, str]:
    """Write a fontconfig file under `cache` that knows our folder only; the variables that select it.

    They must be in the environment before a document is laid out. Without them a page would borrow glyphs
    from whatever the machine has, and break elsewhere.
    """
    for f in _FACES:
        if not f.file.is_file():
            raise problems.ToolMissing(f"font file {f.file.name} is missing from {FOLDER}")
    folder = cache / "fontconfig"
    folder.mkdir(parents=True, exist_ok=True)
    generic = {"serif": "Source Serif 4", "sans-serif": "Source Sans 3", "sans": "Source Sans 3",
               "monospace": "JetBrains Mono", "math": "STIX Two Math",
               # Pango asks for the family "emoji" whenever a run is written in emoji style.
               "emoji": "Noto Emoji"}
    aliases = "\n  ".join(
        f'<alias binding="same"><family>{a}</family><prefer><family>{b}</family></prefer></alias>'
        for a, b in generic.items())
    omissions = "\n  ".join(
        f'<match target="scan"><test name="family"><string>{family}</string></test>'
        '<edit name="charset" mode="assign"><minus><name>charset</name><charset>'
        + "".join(f"<range><int>{a:#x}</int><int>{b:#x}</int></range>" for a, b in omit)
        + "</charset></minus></edit></match>"
        for family, omit in sorted({(f.family, f.omit) for f in _FACES if f.omit}))
    text = _CONFIG.format(omissions=omissions, fonts=_xml(FOLDER), cache=_xml(folder / "cache"),
                          aliases=aliases)
    target = folder / "fonts.conf"
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        scratch = target.with_suffix(f".{os.getpid()}")
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(target)  # workers may start at the same moment
    return {"FONTCONFIG_FILE": str(target)}


def activate(cache: Path) -> None:
    """Put `environment(cache)` into this process, for every document laid out from now on.

    WeasyPrint reads the variable anew for each document, so a later call with another cache is fine.
    """
    os.environ.update(environment(cache))


def _xml(path: Path) -> str:
    return str(path.resolve()).replace("&", "&amp;").replace("<", "&lt;")


@memo
def _shaped(family: str):
    """HarfBuzz's view of the family's regular face."""
    import uharfbuzz  # here: only chapters beyond plain ASCII need it

    return uharfbuzz.Font(uharfbuzz.Face(uharfbuzz.Blob.from_file_path(str(face(family).file))))


def advance(family: str, char: str) -> float:
    """How far a character moves the pen, in ems."""
    font = _shaped(family)
    glyph = font.get_nominal_glyph(ord(char))
    return font.get_glyph_h_advance(glyph) / font.face.upem if glyph else 0.0


@memo
def covered(family: str) -> frozenset[int]:
    """Code points that the family's regular face sets."""
    points = set(_shaped(family).face.unicodes)
    for first, last in face(family).omit:
        points.difference_update(range(first, last + 1))
    return frozenset(points)


def families(role: str) -> tuple[str, ...]:
    """The bundled families of a stack, without the generic name."""
    return _STACKS[role][:-1]
