"""Beside tidy: a number and its unit stay on one line.

The body's text comes in as the author typed it, "4.8 TB/s" with a plain space, and goes out with a space that
no line ends at. Code, formulas and drawings keep theirs. Values that templates print have it already.
"""

from __future__ import annotations

import re

from lxml import etree

_KEPT = frozenset(("code", "pre", "kbd", "samp", "math", "svg", "script", "style"))
_SIZES = r"[kKMGTPE]i?(?:B|b|bit)(?:/s)?|B|bits?|bytes?"
_RATES = r"[kMGTPE]?(?:FLOPS?|FLOP/s|OPS|Hz)|FLOP/byte|tokens/s"
_OTHERS = r"[kM]?W|[kM]?Wh|[nµm]?s|min|h|nm|[mck]?m|V|A|°C|SMs|dollars"
_GAP = re.compile(rf"(?<=\d) (?=(?:{_SIZES}|{_RATES}|{_OTHERS})(?![\w/]))")


def bind(root: etree._Element) -> None:
    """Replace the spaces in place."""
    if root.text:
        root.text = _GAP.sub("\u00a0", root.text)
    for child in root:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _KEPT:
            bind(child)
        if child.tail:
            child.tail = _GAP.sub("\u00a0", child.tail)
