"""Images of the EPUB: the cover, and each asset once under a name that every reader can open.

Stands inside the EPUB stage. The cover is the drawing that the PDF prints, turned into PNG with the bundled
fonts only: many library views show no SVG, and one design must not exist twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from lxml import etree

from .. import fonts
from ..cache import Cache, digest
from ..model import Book
from ..pdf.front import cover_svg

FOLDER = "images/"
COVER_WIDTH = 1760  # pixels: ten to the millimeter of the default page; stores ask for 1600 or more
# EPUB 3.3 core media types, with the ending that readers go by
CORE = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
}


@dataclass(frozen=True)
class Image:
    name: str  # path inside the package folder
    mime: str
    content: bytes


def images(book: Book) -> tuple[dict[str, str], tuple[Image, ...]]:
    """Names by asset key, and the files. Equal files are carried once; other formats are left out."""
    names: dict[str, str] = {}
    files: dict[str, Image] = {}
    used = dict.fromkeys(key for chapter in book.chapters for key in chapter.assets)
    for key in used:
        asset = book.assets.get(key)
        if asset is None or asset.mime not in CORE:
            continue  # the page that shows it reports EPB003
        if asset.sha256 not in files:
            stem = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(key).stem.lower()).strip("-") or "image"
            name = f"{FOLDER}{stem}-{asset.sha256[:8]}{CORE[asset.mime]}"
            files[asset.sha256] = Image(name, asset.mime, asset.file.read_bytes())
        names[key] = files[asset.sha256].name
    return names, tuple(sorted(files.values(), key=lambda image: image.name))


def cover(book: Book, cache: Path) -> Image:
    """The cover image: an image file of the book's folder, or the press's own design."""
    own = book.config.root / book.config.cover
    if book.config.cover and own.is_file():
        kinds = {ending: mime for mime, ending in CORE.items()} | {".jpeg": "image/jpeg"}
        mime = kinds.get(own.suffix.lower(), "")
        if mime != "image/svg+xml":
            return Image(f"{FOLDER}cover{CORE.get(mime, own.suffix)}", mime, own.read_bytes())
        drawing = own.read_text(encoding="utf-8")
    else:
        drawing = cover_svg(book)
    return Image(f"{FOLDER}cover.png", "image/png", _draw(drawing, cache))


def _draw(svg: str, cache: Path) -> bytes:
    svg, store = _sized(svg), Cache(cache)
    key = digest(svg, version("resvg-py"))
    kept = store.get("cover", key)
    if kept is not None:
        return kept
    import resvg_py  # here: only a changed cover needs it

    png = bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg,
            background="#ffffff",
            skip_system_fonts=True,
            font_dirs=[str(fonts.FOLDER)],
            serif_family="Source Serif 4",
            sans_serif_family="Source Sans 3",
            monospace_family="JetBrains Mono",
        )
    )
    store.put("cover", key, png)
    return png


def _sized(svg: str) -> str:
    """The drawing at full size in whole pixels: the renderer would round millimeters up, to a pale edge."""
    root = etree.fromstring(svg.encode())
    box = [float(n) for n in re.split(r"[\s,]+", (root.get("viewBox") or "").strip()) if n]
    if len(box) == 4 and box[2] > 0:
        root.set("width", str(COVER_WIDTH))
        root.set("height", str(round(COVER_WIDTH * box[3] / box[2])))
    return etree.tostring(root, encoding="unicode")


def moving(files: tuple[Image, ...]) -> bool:
    """Is any image animated? Then nobody has shown that it does not flash."""
    return any(image.mime in ("image/gif", "image/webp") and _frames(image) > 1 for image in files)


def _frames(image: Image) -> int:
    import io

    from PIL import Image as Picture

    with Picture.open(io.BytesIO(image.content)) as picture:
        return getattr(picture, "n_frames", 1)


def described(pages: Mapping[str, bytes]) -> tuple[bool, bool]:
    """Has the book images, and has each of them a text alternative?"""
    tags = [tag for content in pages.values() for tag in re.findall(rb"<img\b[^>]*>", content)]
    return bool(tags), all(re.search(rb'\balt="[^"]*\S[^"]*"', tag) for tag in tags)
