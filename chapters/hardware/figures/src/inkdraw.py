"""Drawing with the standard library: boxes, arrows and charts as SVG, ink on white, legible in greyscale.

Used by the scripts of this folder that draw without matplotlib. Coordinates are pixels of a drawing 600
wide, which the page sets 120 mm wide, so 14 pixels are 8 points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

FONT = "'Source Sans 3','DejaVu Sans',sans-serif"
INK, MUTED, RULE = "#1a1a1a", "#555555", "#cfd4da"
SHADES = ("#ffffff", "#d9dfe6", "#a9b4c0", "#6f7c8a")


def text(x: float, y: float, words: str, size: float = 14, anchor: str = "start", bold: bool = False,
         fill: str = INK) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (f'<text x="{x:.4g}" y="{y:.4g}" font-size="{size:g}" text-anchor="{anchor}"{weight} '
            f'fill="{fill}">{escape(words)}</text>')


def box(x: float, y: float, w: float, h: float, fill: str = "#ffffff", radius: float = 2) -> str:
    return (f'<rect x="{x:.4g}" y="{y:.4g}" width="{w:.4g}" height="{h:.4g}" rx="{radius:g}" '
            f'fill="{fill}" stroke="{INK}" stroke-width="1"/>')


def circle(x: float, y: float, r: float, fill: str = "#ffffff") -> str:
    return f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{r:.3g}" fill="{fill}" stroke="{INK}" stroke-width="1.2"/>'


def arrow(x1: float, y1: float, x2: float, y2: float, dash: str = "", both: bool = False) -> str:
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    start = ' marker-start="url(#back)"' if both else ""
    return (f'<line x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}" stroke="{INK}" '
            f'stroke-width="1.3"{extra}{start} marker-end="url(#tip)"/>')


def between(a: tuple[float, float], b: tuple[float, float], gap: float, **how) -> str:
    """An arrow from the rim of one circle of radius `gap` to the rim of another."""
    length = math.dist(a, b)
    dx, dy = (b[0] - a[0]) / length * gap, (b[1] - a[1]) / length * gap
    return arrow(a[0] + dx, a[1] + dy, b[0] - dx, b[1] - dy, **how)


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = '<marker id="{}" viewBox="0 0 8 8" refX="{}" refY="4" markerWidth="7" markerHeight="7" orient="auto">' \
           '<path d="{}" fill="#1a1a1a"/></marker>'
    marks = head.format("tip", 7, "M0 0L8 4L0 8z") + head.format("back", 1, "M8 0L0 4L8 8z")
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="{FONT}">\n<title>{escape(title)}</title>\n<defs>{marks}</defs>\n'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n')


@dataclass(frozen=True)
class Axis:
    """Values to pixels, linear or logarithmic, with its labelled ticks."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def share(self, value: float) -> float:
        scale: Callable[[float], float] = math.log if self.log else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))


class Chart:
    """A frame with two axes; points, lines and labels in data coordinates."""

    def __init__(self, x: Axis, y: Axis, left: float, top: float, width: float, height: float):
        self.x, self.y = x, y
        self.left, self.top, self.width, self.height = left, top, width, height
        self.parts: list[str] = []
        for value, label in x.ticks:
            px = self.at(value, y.low)[0]
            self.parts.append(self._rule(px, top, px, top + height))
            self.parts.append(text(px, top + height + 17, label, 13, "middle", fill=MUTED))
        for value, label in y.ticks:
            py = self.at(x.low, value)[1]
            self.parts.append(self._rule(left, py, left + width, py))
            self.parts.append(text(left - 6, py + 4, label, 13, "end", fill=MUTED))

    @staticmethod
    def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
        return (f'<line x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}" stroke="{RULE}" '
                'stroke-width="0.8"/>')

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (self.left + self.width * self.x.share(x),
                self.top + self.height * (1 - self.y.share(y)))

    def line(self, points: Sequence[tuple[float, float]], dash: str = "", width: float = 1.6) -> None:
        path = " ".join(f"{px:.5g},{py:.5g}" for px, py in (self.at(*p) for p in points))
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{INK}" '
                          f'stroke-width="{width:g}"{extra}/>')

    def mark(self, x: float, y: float, shape: str) -> None:
        px, py = self.at(x, y)
        drawn = {
            "dot": circle(px, py, 4, INK),
            "ring": circle(px, py, 4.5),
            "square": box(px - 4, py - 4, 8, 8, SHADES[2], 0),
            "diamond": f'<path d="M{px:.4g} {py - 6:.4g}L{px + 6:.4g} {py:.4g}L{px:.4g} {py + 6:.4g}'
                       f'L{px - 6:.4g} {py:.4g}z" fill="#ffffff" stroke="{INK}" stroke-width="1.2"/>',
        }
        self.parts.append(drawn[shape])

    def label(self, x: float, y: float, words: str, dx: float = 0, dy: float = 0,
              anchor: str = "start") -> None:
        px, py = self.at(x, y)
        self.parts.append(text(px + dx, py + dy, words, 14, anchor))

    def titles(self, x: str, y: str) -> None:
        middle = self.left + self.width / 2
        self.parts.append(text(middle, self.top + self.height + 38, x, 14, "middle"))
        self.parts.append(text(self.left - 50, self.top - 10, y, 14))


def sizes(*powers: int) -> list[tuple[float, str]]:
    """Ticks at powers of two of a byte count."""
    names = ("B", "KiB", "MiB", "GiB", "TiB")
    return [(2.0**p, f"{2 ** (p % 10)} {names[p // 10]}") for p in powers]
