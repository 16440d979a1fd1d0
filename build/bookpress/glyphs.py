"""Characters that no face of the book has: found in the source, before a page shows a box.

Called by `parse` last. In: the chapter's tree and its text. Out: one problem per character and line;
in books that are not strict per character, since a page in a script that the faces lack would give thousands, and
the PDF shows U+FFFD there. The faces' character tables are read once per process, only for what lies beyond ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from lxml import etree

from . import fonts
from .model import Config, Expanded
from .problems import Problem

# Nothing to draw: joiners, variation selectors, direction marks, soft hyphen, byte order mark, tags of emoji.
_UNSEEN = re.compile("[\u00ad\u034f\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufe00-\ufe0f\ufeff"
                     "\U000e0000-\U000e01ef]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")
_MATHML = "{http://www.w3.org/1998/Math/MathML}"


@cache
def has(char: str) -> bool:
    """Does some face of the text stack set this character? The stacks of code and headings end the same."""
    return bool(_UNSEEN.match(char)) or any(ord(char) in fonts.covered(f) for f in fonts.families("text"))


def check(tree: etree._Element, source: Expanded, config: Config) -> list[Problem]:
    """Report every character of the chapter that would print as a box."""
    shown = _shown(tree)
    lost = {c for c in shown if not has(c)}
    if not lost:
        return []
    level = "error" if config.features.strict else "warning"
    found: list[Problem] = []
    placed: set[str] = set()
    for at, text in enumerate(source.text.split("\n")):
        line = source.lines[at] if at < len(source.lines) else at + 1
        for char in sorted(lost.intersection(text) - (set() if config.features.strict else placed)):
            placed.add(char)
            found.append(_problem(source.source.path, line, text.index(char) + 1, char, level))
    # Written as an entity or come in with included code: the block's line is the best there is.
    for char in sorted(lost - placed):
        found.append(_problem(source.source.path, _line_of(tree, char), 1, char, level))
    return found


def _shown(tree: etree._Element) -> set[str]:
    """Characters beyond ASCII that a reader will see; mathtex looks after formulas."""
    chars: set[str] = set()
    for element in tree.iter(etree.Element):
        if element.tag.startswith(_MATHML):
            texts: tuple[str | None, ...] = (element.tail,) if element.tag == _MATHML + "math" else ()
        else:
            texts = (element.text, element.tail)
        for text in texts:
            if text and not text.isascii():
                chars.update(_BEYOND_ASCII.findall(text))
    return chars


def _line_of(tree: etree._Element, char: str) -> int:
    for element in tree.iter(etree.Element):
        if char in (element.text or "") or any(char in (child.tail or "") for child in element):
            while element is not None:
                if line := element.get("data-line"):
                    return int(line)
                element = element.getparent()
    return 0


def _problem(path: str, line: int, col: int, char: str, level: str) -> Problem:
    name = unicodedata.name(char, "no name")
    return Problem(path, line, col, "GLY001", f"no font of the book has '{char}' (U+{ord(char):04X})",
                   f"{name.lower()}: write it differently", level)
