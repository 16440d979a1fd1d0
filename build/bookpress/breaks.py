"""Break points for paper in running text: long names, paths and addresses end inside the column.

Called by `pdf` on each chapter's body before layout, with `rows` for the blocks of code. A `<wbr/>` adds no
character to the page. Two faults of layout and of readers make it necessary:

* WeasyPrint wraps a word that is too long only when a break point stands before it: `(` and a long name in
  code run off the page together (Kozea/WeasyPrint#2900).
* A line may end after a hyphen, and readers then drop the hyphen on copy: `kube-flannel.yml` becomes
  `kubeflannel.yml` (Kozea/WeasyPrint#2132). In code the break goes before the hyphen instead, and the hyphen
  is held to the next character by `<span class="nb">` (white-space: nowrap).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lxml import etree

_LONG = 25  # characters of a word in text from which it gets break points; shorter words just move down
_LONG_CODE = 20  # the same in code: most names stay whole
_TIGHT = 4  # the same in tables that have to break words
_WHOLE = 22  # characters of a piece that layout need not break
_WORD = re.compile(rf"\S{{{_LONG},}}")
# After these a path, an address or an identifier may be cut; a run of them stays together.
_AFTER = re.compile(r"([/._,=:;&?@|+)\]}]+)(?=[^/._,=:;&?@|+)\]}\s])")
_HYPHENS = re.compile(r"-+[^\s-]?")
_OPAQUE = frozenset(("pre", "math", "svg", "wbr"))


def loosen(body: etree._Element, tight: bool = False) -> None:
    """Give every long word of a chapter's body its break points; the text stays the same."""
    name = etree.QName(body).localname
    if name in _OPAQUE:
        return
    if name == "code":
        _loosen_code(body, _TIGHT if tight else _LONG_CODE)
        return
    tight = tight or (name == "figure" and "tight" in body.get("class", "").split())
    for child in list(body):
        if isinstance(child.tag, str):
            loosen(child, tight)
    _loosen_text(body)


def breaks_before(word: str, code: bool) -> bool:
    """Does a word get a break point in front, whatever it is joined to?"""
    return len(word) >= (_LONG_CODE if code else _LONG)


def joints(word: str, code: bool) -> list[str]:
    """The pieces that a word without spaces may be parted into, for measuring."""
    pieces = re.split(r"(?<=[a-z])-(?=[a-z])", word) if not code else [word]
    if breaks_before(word, code):
        parts = [p for piece in pieces for p in _in_name(piece) if p]
        return [q for p in parts for q in re.split(r"(?=-)", p) if q] if code else parts
    return pieces


def _loosen_text(element: etree._Element) -> None:
    """Long words in an element's own text and in the tails of its children."""
    for child in list(element):
        if child.tail and _WORD.search(child.tail):
            text, child.tail = child.tail, None
            _fill(element, element.index(child) + 1, _in_words(text))
    if element.text and _WORD.search(element.text):
        text, element.text = element.text, None
        _fill(element, 0, _in_words(text))


def _in_words(text: str) -> Iterator[str | None]:
    """Pieces of text; None stands for a break point."""
    at = 0
    for word in _WORD.finditer(text):
        yield text[at : word.start()]
        yield None
        yield from _in_name(word[0])
        at = word.end()
    yield text[at:]


def _in_name(word: str) -> Iterator[str | None]:
    at = 0
    for mark in _AFTER.finditer(word):
        yield word[at : mark.end()]
        yield None
        at = mark.end()
    yield word[at:]


def _loosen_code(code: etree._Element, least: int) -> None:
    """Inline code: break points after the joints of a name, none after a hyphen."""
    if len(code) or not code.text:
        return  # markup inside inline code is rare and short
    words = re.split(r"(\s+)", code.text)
    if "-" not in code.text and max(map(len, words)) < least:
        return
    pieces: list[str | tuple[str] | None] = []
    longest = 0
    for word in words:
        parts = [word] if len(word) < least else [None, *_in_name(word)]
        for part in parts:
            if part is None:
                pieces.append(None)
            else:
                longest = max(longest, len(part))
                pieces += _hyphens(part) if "-" in part else (part,)
    code.text = None
    _fill(code, 0, pieces)
    if least == _LONG_CODE and longest <= _WHOLE and None in pieces:
        # Left to itself, layout fills the line with part of a piece and ignores the break point before it.
        code.set("class", f"{code.get('class', '')} pieces".strip())


def _hyphens(text: str) -> Iterator[str | tuple[str] | None]:
    """Pieces of code; a tuple holds what must not be parted."""
    at = 0
    for run in _HYPHENS.finditer(text):
        before = text[at : run.start()]
        yield before
        if before and not before[-1].isspace():
            yield None
        yield (run[0],)
        at = run.end()
    yield text[at:]


def _fill(parent: etree._Element, at: int, pieces: Iterable[str | tuple[str] | None]) -> int:
    """Insert pieces into `parent` before child `at`. Out: the index behind them."""
    for piece in pieces:
        if piece is None or isinstance(piece, tuple):
            node = etree.Element(_tag(parent, "wbr" if piece is None else "span"))
            if piece is not None:
                node.set("class", "nb")
                node.text = piece[0]
            parent.insert(at, node)
            at += 1
        elif piece and at == 0:
            parent.text = (parent.text or "") + piece
        elif piece:
            parent[at - 1].tail = (parent[at - 1].tail or "") + piece
    return at


def _tag(parent: etree._Element, name: str) -> str:
    space = etree.QName(parent).namespace
    return f"{{{space}}}{name}" if space else name
