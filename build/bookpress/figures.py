"""Images: are they there, how large are they, and will each output and reader show them.

Called by `parse` once the tree stands. In: the chapter's tree, with image paths as the author wrote them, and
the book's folder. Out: problems; in place, `width` and `height` in CSS pixels on every `<img>`, so that no page
jumps while it loads. What is inside an SVG file is judged in drawings.py. Nothing is fetched.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from lxml import etree
from PIL import Image, UnidentifiedImageError

from . import drawings
from .model import Config, Expanded
from .problems import Problem, near

LARGEST_BYTES, LARGEST_SIDE = 4_000_000, 4000
# What EPUB readers must open; everything else would be missing there.
_FORMATS = {"PNG", "JPEG", "GIF", "WEBP"}
_UNFIT = {"IMG005", "IMG007", "IMG008", "IMG013"}  # unreadable, runs programs, loads from elsewhere, a bomb
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
# Alternative texts that say nothing.
_EMPTY_WORDS = re.compile(r"(?:an? |the )?(?:image|img|figure|fig|picture|photo|diagram|chart|graph|plot|"
                          r"screenshot|alt(?: text)?)?[\s\d.:_-]*", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """Something about a picture file, before it has a place in a chapter."""

    code: str
    message: str
    hint: str = ""
    level: str = ""  # "": error where the book is strict


@dataclass(frozen=True)
class Picture:
    """What a file says about itself; sizes in CSS pixels, 0 when unknown."""

    width: float = 0.0
    height: float = 0.0
    findings: tuple[Finding, ...] = ()


def finish(tree: etree._Element, source: Expanded, config: Config) -> list[Problem]:
    """Check every image of a chapter and give it its size."""
    strict = config.features.strict
    rows = source.text.split("\n")
    problems = []
    for img in list(tree.iter("img")):
        line, col = _place(img, rows, source.lines)
        unfit = False
        for found in _check(img, source.source.path, config):
            level = found.level or "error" if strict else "warning"
            unfit = unfit or found.code in _UNFIT
            problems.append(Problem(source.source.path, line, col, found.code, found.message, found.hint, level))
        if unfit and not strict:
            _say_instead(img)
    return problems


def _say_instead(img: etree._Element) -> None:
    """Words for a picture that no output may show."""
    words = img.get("alt") or posixpath.basename(img.get("src") or "")
    line = img.get("data-line")
    img.tag = "span"
    img.attrib.clear()
    img.set("class", "missing-image")
    if line:
        img.set("data-line", line)
    img.text = words


def _check(img: etree._Element, chapter: str, config: Config) -> Iterator[Finding]:
    written = img.get("src") or ""
    if found := _alternative(img, written):
        yield found
    scheme = (_SCHEME.match(written) or [""])[0].lower()
    if scheme in ("data:", "file:"):
        what = "has its bytes in its address" if scheme == "data:" else "is named by its place on one machine"
        yield Finding("IMG004", f"image '{written[:40]}' {what}", "save it beside the chapter")
        return
    if scheme:
        yield Finding("IMG003", f"image '{written}' is on the network",
                      "save it beside the chapter; builds fetch nothing")
        return
    name = unquote(written.partition("#")[0].partition("?")[0])
    base = "" if name.startswith("/") else posixpath.dirname(chapter)
    path = posixpath.normpath(posixpath.join(base, name.lstrip("/")))
    file = config.root / path
    inside = not path.startswith("..") and file.resolve().is_relative_to(config.root.resolve())
    if not name or not inside:
        yield Finding("IMG004" if name else "IMG001",
                      f"image '{written}' is outside the book's folder" if name else "image without a file")
        return
    if not _exists(config.root, path):
        yield _missing(config.root, path, written)
        return
    picture = inspect(file, file.stat().st_mtime_ns)
    _set_size(img, picture)
    for found in picture.findings:
        yield Finding(found.code, f"image '{written}' {found.message}", found.hint, found.level)


def _alternative(img: etree._Element, written: str) -> Finding | None:
    alt = (img.get("alt") or "").strip()
    img.set("alt", alt)
    stem = posixpath.splitext(posixpath.basename(written))[0]
    if not alt:
        return Finding("IMG002", f"image '{written}' has no alternative text",
                       "say what the picture shows: ![its message](…)")
    if alt in (written, stem, posixpath.basename(written)) or _EMPTY_WORDS.fullmatch(alt):
        return Finding("IMG002", f"the alternative text '{alt}' does not say what the picture shows",
                       "state its message", "warning")
    return None


def _set_size(img: etree._Element, picture: Picture) -> None:
    """Width and height as attributes; what the author gave wins, the other side follows from it."""
    if "width-" in img.get("class", "") or not picture.width or not picture.height:
        return
    ratio = picture.height / picture.width
    width, height = img.get("width", ""), img.get("height", "")
    if not width.isdecimal():
        width = str(round(int(height) / ratio)) if height.isdecimal() else str(round(picture.width))
    if not height.isdecimal():
        height = str(round(int(width) * ratio))
    img.set("width", str(max(int(width), 1)))
    img.set("height", str(max(int(height), 1)))


# --- the file ---


def _exists(root: Path, path: str) -> bool:
    """Is it there under exactly this name? A disk that ignores case must not hide a wrong letter."""
    at = root
    for name in path.split("/"):
        try:
            if name not in os.listdir(at):
                return False
        except OSError:
            return False
        at = at / name
    return at.is_file()


def _missing(root: Path, path: str, written: str) -> Finding:
    folder = root / posixpath.dirname(path)
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    hint = near(posixpath.basename(path), [n for n in names if "." in n]) if names else "no such folder"
    return Finding("IMG001", f"no image '{written}'", hint)


@lru_cache(maxsize=512)
def inspect(file: Path, changed: int) -> Picture:
    """Size and findings of a picture file; `changed` keys the memory of it."""
    if file.suffix.lower() == ".svg":
        return _drawing(file)
    try:
        with Image.open(file) as image:
            return _bitmap(image, file.stat().st_size)
    except Image.DecompressionBombError:
        return Picture(0, 0, (Finding("IMG005", "has more pixels than can be opened",
                                      f"scale it to {LARGEST_SIDE} pixels", "error"),))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as reason:
        return Picture(0, 0, (Finding("IMG005", f"cannot be read: {type(reason).__name__}",
                                      "use SVG, PNG, JPEG or WebP", "error"),))


def _bitmap(image: Image.Image, size: int) -> Picture:
    width, height = image.size
    # A camera held upright: shown turned. Not asked of PNG, which would be decoded for the answer.
    if image.format in ("JPEG", "WEBP") and image.getexif().get(0x0112, 1) in (5, 6, 7, 8):
        width, height = height, width
    findings = []
    if image.format not in _FORMATS:
        findings.append(Finding("IMG005", f"is {image.format}, which EPUB readers need not open",
                                "use SVG, PNG, JPEG or WebP"))
    if getattr(image, "n_frames", 1) > 1:
        findings.append(Finding("IMG012", "is animated: pages show its first frame",
                                "show the step that matters as a still picture", "warning"))
    if size > LARGEST_BYTES or max(width, height) > LARGEST_SIDE:
        findings.append(Finding("IMG011", f"is large: {width} × {height} pixels, {size / 1e6:.1f} MB",
                                f"scale it to {LARGEST_SIDE} pixels and {LARGEST_BYTES // 10**6} MB",
                                "warning"))
    elif _is_transparent(image):
        findings.append(Finding("IMG010", "is transparent: dark strokes vanish at night",
                                "give it a white ground", "warning"))
    return Picture(width, height, tuple(findings))


def _is_transparent(image: Image.Image) -> bool:
    """Is more than a hundredth of the picture see-through (corners of a rounded window are not)?"""
    if "transparency" not in image.info and image.mode not in ("RGBA", "LA", "PA"):
        return False
    alpha = image.convert("RGBA").getchannel("A")
    clear = sum(alpha.histogram()[:128])
    return clear > alpha.width * alpha.height * 0.01


def _drawing(file: Path) -> Picture:
    drawing = drawings.read(file.read_bytes())
    findings = tuple(Finding(*found) for found in drawing.findings)
    return Picture(drawing.width, drawing.height, findings)


# --- where ---


def _place(img: etree._Element, rows: list[str], lines: tuple[int, ...]) -> tuple[int, int]:
    """Line and column of an image: its path, found from its block's line on."""
    element: etree._Element | None = img
    line = 0
    while element is not None and not line:
        line = int(element.get("data-line") or 0)
        element = element.getparent()
    written = img.get("src") or ""
    start = next((n for n, at in enumerate(lines) if at >= line), 0) if lines else max(line - 1, 0)
    for row in range(start, min(start + 60, len(rows))):
        col = rows[row].find(written) if written else -1
        if col >= 0:
            return (lines[row] if row < len(lines) else row + 1), col + 1
    return line, 1
