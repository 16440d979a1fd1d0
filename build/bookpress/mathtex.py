"""Formulas: MathML from pandoc made complete, and drawn for the PDF, which cannot lay MathML out.

    finish(tree, source, config)   called by `parse` once the chapter's MathML is in place: alternative text,
                           clean attributes, and a trial drawing, so that a formula that would be lost on
                           paper is a problem with a line when the book is built
    to_svg(math)           called by `pdf`: vector drawing and its size in ems

Drawings hold paths, no text: they need no font where they are shown, and the same formula gives the same
bytes everywhere. The TeX stays in `alttext` and in the annotation, for ears and for copying.
"""

from __future__ import annotations

import copy
import logging
from functools import lru_cache
from xml.etree import ElementTree

from lxml import etree

from . import fonts
from .model import Config, Expanded
from .problems import Problem

_NS = "{http://www.w3.org/1998/Math/MathML}"
_SIZE = 100.0  # drawing units an em
_MARGIN = 0.02  # ems around, so that no stroke is cut
_TOKENS = ("mi", "mn", "mo", "mtext", "ms")


class Undrawable(Exception):
    """What ziamath could not make of a formula."""


class _Listener(logging.Handler):
    """Hears what ziamath leaves out: it logs an unknown element and draws the rest."""

    refused = ""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Undefined element"):
            tag = getattr(record.args[0], "tag", "?") if isinstance(record.args, tuple) else "?"
            self.refused = f"nothing draws <{tag}>"


def finish(tree: etree._Element, source: Expanded, config: Config) -> list[Problem]:
    """Complete every `<math>` of a chapter. Out: formulas and characters that would not print."""
    problems = []
    level = "error" if config.features.strict else "warning"
    for math in tree.iter(_NS + "math"):
        tex = " ".join("".join(math.itertext(_NS + "annotation")).split())
        math.set("alttext", tex)
        for element in math.iter(_NS + "*"):
            element.attrib.pop("style", None)  # pandoc says it twice: columnalign is there too
        for table in math.iter(_NS + "mtable"):
            _rows(table)
        line = _line(math)
        if missing := _missing(math):
            problems.append(Problem(source.source.path, line, 1, "MTH003",
                                    f"no font has {missing} in ${short(tex)}$",
                                    "use the TeX command of the symbol", level))
        try:
            to_svg(math)
        except Undrawable as reason:
            problems.append(Problem(source.source.path, line, 1, "MTH002",
                                    f"${short(tex)}$ cannot be drawn: {reason}",
                                    "write it with simpler constructs", level))
    return problems


def to_svg(math: etree._Element) -> tuple[bytes, float, float, float]:
    """(SVG, width, height, depth) of a formula; sizes in ems, depth is what hangs below the baseline."""
    core = copy.deepcopy(math)
    core.tail = None
    for semantics in list(core.iter(_NS + "semantics")):
        semantics.getparent().replace(semantics, semantics[0])  # the TeX beside it is not for drawing
    for table in core.iter(_NS + "mtable"):
        sides = [cell.get("columnalign") for cell in table.iterfind(f"{_NS}mtr[1]/{_NS}mtd")]
        if sides[:2] == ["right", "left"]:  # an aligned pair, `a &= b`, closes up at the sign
            table.set("columnspacing", " ".join(("0em", "1em")[n % 2] for n in range(len(sides))))
    core.attrib.pop("alttext", None)
    return _draw(etree.tostring(core, encoding="unicode"))


def _rows(table: etree._Element) -> None:
    """No row without content, which ziamath gives a height below zero: a line end after the last one, `&` alone."""
    empty = [not any("".join(cell.itertext()).strip() for cell in row) for row in table]
    while empty and empty[-1]:
        table.remove(table[-1])
        empty.pop()
    for row, bare in zip(table, empty, strict=True):
        if bare and len(row):
            etree.SubElement(row[0], f"{_NS}mtext").text = "\u00a0"


@lru_cache(maxsize=2048)
def _draw(mathml: str) -> tuple[bytes, float, float, float]:
    import ziamath  # here: half a second that chapters without formulas need not pay

    ziamath.config.svg2 = False  # plain paths: <use> would need ids that clash when drawings meet
    ziamath.config.precision = 2
    font = str(fonts.face("STIX Two Math").file)
    said = _Listener()
    logging.getLogger().addHandler(said)
    try:
        drawn = ziamath.Math(mathml, size=_SIZE, font=font, margin=_MARGIN * _SIZE)
        svg = drawn.svgxml()
    except Exception as reason:  # a third-party parser: whatever it stumbles on becomes a problem
        raise Undrawable(f"{type(reason).__name__}: {reason}") from reason
    finally:
        logging.getLogger().removeHandler(said)
    if said.refused:
        raise Undrawable(said.refused)
    width, height = float(svg.get("width", "0")), float(svg.get("height", "0"))
    if width <= 0 or height <= 0:
        raise Undrawable("the drawing is empty")
    top = float(svg.get("viewBox", "0 0 0 0").split()[1])
    depth = height + top
    return ElementTree.tostring(svg), width / _SIZE, height / _SIZE, depth / _SIZE


def _line(element: etree._Element) -> int:
    """Line of the block that a formula stands in."""
    while element is not None:
        if line := element.get("data-line"):
            return int(line)
        element = element.getparent()
    return 0


def _missing(math: etree._Element) -> str:
    """Characters that the math face cannot set, named."""
    have = fonts.covered("STIX Two Math")
    wanted = {c for name in _TOKENS for e in math.iter(_NS + name) for c in e.text or ""}
    lost = sorted(c for c in wanted if ord(c) not in have and not c.isspace() and not _unseen(c))
    return ", ".join(f"'{c}' (U+{ord(c):04X})" for c in lost)


def _unseen(char: str) -> bool:
    """Invisible operators of MathML: function application, times, separator, plus; joiners."""
    return char in "\u200b\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\ufe0e\ufe0f"


def short(tex: str) -> str:
    """A formula in a message."""
    tex = " ".join(tex.split())
    return tex if len(tex) <= 60 else tex[:57] + "…"
