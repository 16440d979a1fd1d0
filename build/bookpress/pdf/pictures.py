"""PNG images for the file without decoding them again for every layout.

WeasyPrint decodes each PNG and compresses it anew, a quarter of the time of a chapter with screenshots. A PNG that
PDF can hold as it is (no alpha, not interlaced) is passed through; another is split into colour and mask once and
kept in the cache by the file's hash. JPEG and SVG are left to WeasyPrint, which handles them well.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import pydyf
from PIL import Image
from weasyprint.images import RasterImage
from weasyprint.urls import iri_to_uri

from ..cache import Cache, digest
from ..model import Asset

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GRAY, _RGB, _PALETTE = 0, 2, 3
_ENCODING = "1"  # a new way of encoding gets a new key


@dataclass(frozen=True)
class Plane:
    """Compressed samples with PNG predictors, and how to read them."""

    space: str  # /DeviceGray, /DeviceRGB, or an indexed space
    colors: int
    bits: int
    data: bytes


@dataclass(frozen=True)
class Picture:
    width: int
    height: int
    color: Plane
    alpha: Plane | None = None


class PngImage(RasterImage):
    """A raster image whose PDF object is ready."""

    def __init__(self, name: str, picture: Picture):
        self.id = digest(name)[:32]
        self._dpi, self._picture = None, picture
        self.width, self.height = picture.width, picture.height
        self.ratio = picture.width / picture.height

    def get_x_object(self, interpolate: bool, dpi_ratio: float) -> pydyf.Stream:
        main = self._stream(self._picture.color)
        if self._picture.alpha is not None:
            main.extra["SMask"] = self._stream(self._picture.alpha)
        return main

    def _stream(self, plane: Plane) -> pydyf.Stream:
        parameters = {"Predictor": 15, "Columns": self.width, "Colors": plane.colors, "BitsPerComponent": plane.bits}
        return pydyf.Stream([plane.data], pydyf.Dictionary({
            "Type": "/XObject", "Subtype": "/Image", "Width": self.width, "Height": self.height,
            "ColorSpace": plane.space, "BitsPerComponent": plane.bits, "Interpolate": "true",
            "Filter": "/FlateDecode", "DecodeParms": pydyf.Dictionary(parameters),
        }))  # fmt: skip


def prepared(assets: Mapping[str, Asset], cache: Cache) -> dict[str, RasterImage]:
    """Images by address, in the form that WeasyPrint's own image cache has."""
    images = {}
    for path, asset in assets.items():
        if asset.mime != "image/png":
            continue
        picture = _picture(asset, cache)
        if picture is not None:
            url = iri_to_uri(f"asset:{path}")
            images[url] = PngImage(url, picture)
    return images


def _picture(asset: Asset, cache: Cache) -> Picture | None:
    """The picture of a PNG file; None for a damaged one, on which WeasyPrint then reports."""
    try:
        data = asset.file.read_bytes()
        plain = _as_it_is(data)
        if plain is not None:
            return plain
        key = digest(_ENCODING, asset.sha256)
        known = cache.get("picture", key)
        if known is None:
            known = _split(data)
            cache.put("picture", key, known)
        return known
    except (OSError, ValueError, SyntaxError, struct.error):
        return None


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    if not data.startswith(_SIGNATURE):
        raise ValueError("not a PNG file")
    chunks, at = [], len(_SIGNATURE)
    while at + 8 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        chunks.append((kind, data[at + 8 : at + 8 + size]))
        if kind == b"IEND":
            return chunks
        at += 12 + size
    raise ValueError("cut off before its end")


def _as_it_is(data: bytes) -> Picture | None:
    """The file's own compressed samples, where PDF reads the same form."""
    chunks = _chunks(data)
    kinds = dict(chunks)
    width, height, bits, kind, _, _, interlaced = struct.unpack(">IIBBBBB", kinds[b"IHDR"])
    if interlaced or b"tRNS" in kinds or bits > 8 or kind not in (_GRAY, _RGB, _PALETTE):
        return None
    space, colors = {_GRAY: ("/DeviceGray", 1), _RGB: ("/DeviceRGB", 3), _PALETTE: ("", 1)}[kind]
    if kind == _PALETTE:
        table = kinds[b"PLTE"]
        space = f"[/Indexed /DeviceRGB {len(table) // 3 - 1} <{table.hex()}>]"
    return Picture(width, height, Plane(space, colors, bits, b"".join(d for k, d in chunks if k == b"IDAT")))


def _split(data: bytes) -> Picture:
    """Colour and mask apart; no mask where the alpha channel hides nothing."""
    image = Image.open(io.BytesIO(data))
    if image.mode not in ("RGBA", "LA"):
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    alpha = None
    if image.mode in ("RGBA", "LA"):
        mask = image.getchannel("A")
        if mask.getextrema()[0] < 255:
            alpha = _encoded(mask)
        image = image.convert(image.mode[:-1])
    return Picture(image.width, image.height, _encoded(image), alpha)


def _encoded(image: Image.Image) -> Plane:
    out = io.BytesIO()
    image.save(out, format="PNG")
    found = _as_it_is(out.getvalue())
    if found is None:
        raise ValueError(f"no plain PNG for mode {image.mode}")
    return found.color
