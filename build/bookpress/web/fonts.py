"""The faces of the web edition: subsets in WOFF2, small enough to arrive with the first screen.

Stands beside web/site.py. In: the bundled TTF faces. Out: file name → bytes for `ui-assets/fonts/`, and the
@font-face rules that name them. What is kept depends on the faces alone, never on the book's text, so the
files repeat byte for byte and an edit changes none of them.

A subset is a modified font, and some of the bundled faces reserve their names (OFL): the subsets are
called Press Serif, Press Sans, Press Mono, Press Math and Press Symbols, in the file and in the CSS.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import fontTools

from ..fonts import FOLDER
from ..orphans import end_with_parent

CACHE = FOLDER.parents[1] / ".cache" / "web-fonts"

_LATIN = (
    "20-7E A0-17F 192 218-21B 2C6 2DA 2DC 391-3A1 3A3-3A9 3B1-3C9 1E9E 2010-2015 2018-201E 2020-2022 2026"
    " 202F 2030 2032 2033 2039 203A 2044 2070 2074-2079 2080-2089 20AC 2116 2122 2126 2202 2206 220F 2211"
    " 2212 221A 221E 222B 2248 2260 2264 2265"
)
_MATH = (
    "20-7E A0-FF 131 237 300-338 391-3F6 2010-2015 2020-2022 2026 2032-2034 2044 2061-2064 2102 210B-2113"
    " 2115-211D 2124 2190-21FF 2200-22FF 2308-230B 23B0-23B3 23DC-23E1 2713 27E8-27EB 27F5-27FA 2A00-2A0F"
    " 2A7D 2A7E 2AAF 2AB0 1D400-1D467 1D49C-1D4CF 1D538-1D56B 1D6A4-1D71B"
)
_SYMBOLS = (
    "2190-21FF 2200-22FF 2300-2335 2500-259F 25A0-25FF 2605 2606 2610-2612 2713-2718 27F5-27FF"
)


@dataclass(frozen=True)
class WebFace:
    """One file to make: from which face, under which name, with which characters."""

    family: str
    weight: int
    style: str
    source: str  # file name in templates/fonts
    keep: str  # code points in hex, ranges joined by a dash
    features: tuple[str, ...] = ("kern", "liga", "mark", "mkmk", "ccmp", "locl", "lnum", "tnum")

    @property
    def name(self) -> str:
        """File name; it changes when the face, the choice of characters or the subsetter does."""
        seed = f"{self} {fontTools.version}".encode() + (FOLDER / self.source).read_bytes()
        stem = f"{self.family.lower().replace(' ', '-')}-{self.weight}{self.style[0]}"
        return f"{stem}.{hashlib.sha256(seed).hexdigest()[:8]}.woff2"


FACES = (
    WebFace("Press Serif", 400, "normal", "SourceSerif4-Regular.ttf", _LATIN),
    WebFace("Press Serif", 400, "italic", "SourceSerif4-Italic.ttf", _LATIN),
    WebFace("Press Serif", 600, "normal", "SourceSerif4-SemiBold.ttf", _LATIN),
    WebFace("Press Sans", 400, "normal", "SourceSans3-Regular.ttf", _LATIN),
    WebFace("Press Sans", 600, "normal", "SourceSans3-SemiBold.ttf", _LATIN),
    # No ligatures in code: != must look like the two characters that one types.
    WebFace(
        "Press Mono", 400, "normal", "JetBrainsMono-Regular.ttf", _LATIN + " 2500-259F", ("ccmp",)
    ),
    WebFace("Press Mono", 700, "normal", "JetBrainsMono-Bold.ttf", _LATIN, ("ccmp",)),
    WebFace(
        "Press Math", 400, "normal", "STIXTwoMath-Regular.ttf", _MATH, ("ssty", "dtls", "ccmp")
    ),
    WebFace("Press Symbols", 400, "normal", "DejaVuSans.ttf", _SYMBOLS, ()),
)


def _points(ranges: str) -> list[int]:
    out: list[int] = []
    for item in ranges.split():
        first, _, last = item.partition("-")
        out.extend(range(int(first, 16), int(last or first, 16) + 1))
    return out


def _rename(font, face: WebFace) -> None:
    """Give the subset its own name and keep copyright and licence (name ids 0, 13, 14)."""
    bold = "Bold" if face.weight >= 600 else ""
    style = (bold + ("Italic" if face.style == "italic" else "")) or "Regular"
    plain = f"{face.family} {style}"
    new = {1: face.family, 2: style, 3: plain, 4: plain, 6: plain.replace(" ", "") + "-Subset"}
    table = font["name"]
    table.names = [n for n in table.names if n.nameID in (0, 13, 14) or n.nameID in new]
    for record in table.names:
        if record.nameID in new:
            record.string = new[record.nameID]


def subset(face: WebFace) -> bytes:
    """The face with the wanted characters only, as WOFF2. The same bytes each time."""
    from fontTools import subset as tool  # here: half a second to load, needed on a cold build only

    options = tool.Options()
    options.flavor = "woff2"
    options.layout_features = list(face.features)
    options.hinting = False
    options.notdef_outline = True
    options.name_IDs = [0, 1, 2, 3, 4, 6, 13, 14]
    options.drop_tables += ["FFTM"]
    font = tool.load_font(FOLDER / face.source, options)
    worker = tool.Subsetter(options)
    worker.populate(unicodes=_points(face.keep))
    worker.subset(font)
    _rename(font, face)
    out = io.BytesIO()
    tool.save_font(font, out, options)
    font.close()
    return out.getvalue()


def make(cache: Path = CACHE, jobs: int = 2) -> Mapping[str, bytes]:
    """File name → bytes. Subsets are kept beside the press, for every book: they depend on no book."""
    missing = [face for face in FACES if not (cache / face.name).is_file()]
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        # Largest first, so that the two cores end together.
        missing.sort(key=lambda f: -(FOLDER / f.source).stat().st_size)
        with ProcessPoolExecutor(min(jobs, len(missing)), initializer=end_with_parent) as pool:
            for face, data in zip(missing, pool.map(subset, missing), strict=True):
                handle, name = tempfile.mkstemp(dir=cache)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                os.chmod(name, 0o644)  # mkstemp's 0600 would keep other users of this press out
                os.replace(name, cache / face.name)
    return {face.name: (cache / face.name).read_bytes() for face in FACES}


def rules(base: str) -> str:
    """@font-face rules. `swap`: text is readable in a system face while the file is on its way.

    No preload: on a slow link the faces would take the bandwidth of the style sheet and of the first paint.
    """
    lines = []
    for face in FACES:
        span = ", ".join("U+" + item for item in face.keep.split())
        lines.append(
            f'@font-face{{font-family:"{face.family}";font-weight:{face.weight};font-style:{face.style};'
            f'font-display:swap;src:url("{base}{face.name}") format("woff2");unicode-range:{span}}}'
        )
    return "\n".join(lines) + "\n"


def licences() -> list[Path]:
    """The licence texts that travel with the subsets."""
    return sorted(p for p in FOLDER.glob("*.txt") if not p.name.startswith(("Droid", "NotoEmoji")))
