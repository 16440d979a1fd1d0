"""Where a line of running text may end: names, paths, units and note marks stay whole, long ones part at joints.

Called by `pdf` on each chapter's body before layout (`loosen`, with `rows` for the blocks of code), by `web`
(`hold`) and by `epub` (`hold_hyphens`). None adds a character to the text: a `<wbr/>` allows a break, `<span class="whole">` (white-space: nowrap)
forbids one. Why layout is not left to itself:

* It ends a line after the hyphen of `--gpus`, the slash of GB/s, and before the mark of a note that follows a
  full stop. A short name is never parted; a long one after `/`, `_`, `=`, `,` and their like or before a later
  `--`, and before a single hyphen only where nothing else is left. Never after a hyphen: readers drop the
  hyphen on copy, and `kube-flannel.yml` becomes `kubeflannel.yml` (Kozea/WeasyPrint#2132).
* WeasyPrint wraps a word that is too long only when a break point stands before it: `(` and a long name in
  code run off the page together (Kozea/WeasyPrint#2900).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from lxml import etree

_LONG = 25  # characters of a word in text from which it gets break points; shorter words just move down
_LONG_CODE = 20  # the same in code on paper: most names stay whole
_TIGHT = 4  # the same in tables that have to break words
_WHOLE = 28  # characters of a piece that stays whole in text and on a phone, two thirds of its line
_WHOLE_CELL = 22  # the same in cells on paper
_PIECE = 4  # a name is not parted for less than this
_WORD = re.compile(rf"\S{{{_LONG},}}")
# After these a path, an address or an identifier may be cut; a run of them stays together.
_MARKS = r"/._,=:;&?@|+)\]}"
_JOINT = re.compile(rf"(?<=[{_MARKS}])(?=[^{_MARKS}\s])|(?<=[^\s-])(?=--)")
_HYPHEN = re.compile(r"(?<=[^\s-])(?=-)")
_HYPHENS = re.compile(r"-+[^\s-]?")
_RISKY = re.compile(r"[^\w.\s](?=\S)|\.(?=\d)")  # where layout may end a line though there is no space
# GB/s, TB/s/GPU, I/O, B/s: so short that the part after the slash looks lost on the next line.
_RATE = re.compile(r"(?<![\w/.-])[^\W\d_]{1,6}(?:/[^\W\d_]{1,4}){1,2}(?![\w/-])")
_LAST_WORD = re.compile(r"[^\s\u200b]{1,24}$")
_OPAQUE = frozenset(("pre", "math", "svg", "wbr", "script"))

Piece = str | tuple[str] | None  # text; text that must not be parted; a break point


def loosen(body: etree._Element, whole: int = _WHOLE) -> None:
    """For paper: give every long word of a chapter's body its break points; the text stays the same."""
    name = etree.QName(body).localname
    if name in _OPAQUE:
        return
    if name == "code":
        _loosen_code(body, whole)
        return
    if name == "figure" and "tight" in body.get("class", "").split():
        whole = _TIGHT
    elif name in ("td", "th", "dd"):
        whole = min(whole, _WHOLE_CELL)
    for child in list(body):
        if isinstance(child.tag, str):
            loosen(child, whole)
    _rewrite_text(body, _in_words)


def hold(body: etree._Element, cell: bool = False) -> None:
    """For screens: keep short names in code and rates whole; long names part at their joints."""
    name = etree.QName(body).localname
    if name in _OPAQUE:
        return
    if name == "code":
        _hold_code(body, cell)
        return
    cell = cell or name in ("td", "th")
    for child in list(body):
        if isinstance(child.tag, str):
            hold(child, cell)
    _rewrite_text(body, _rates)


def hold_hyphens(body: etree._Element) -> None:
    """For reading systems, whose lines may be shorter than a name: no line ends after a hyphen of a name in code."""
    for code in [c for c in body.iter("code") if c.getparent() is None or c.getparent().tag != "pre"]:
        if len(code) == 0 and _HYPHENS.search(code.text or ""):
            pieces, code.text = list(_kept(code.text, 0)), None
            _fill(code, 0, pieces)


def bind_marks(body: etree._Element) -> None:
    """Tie the mark of a note to the word before it."""
    for mark in [a for a in body.iter("a") if a.get("class") == "fnref"]:
        before, parent = mark.getprevious(), mark.getparent()
        text = (parent.text if before is None else before.tail) or ""
        word = _LAST_WORD.search(text)
        tied = etree.Element("span", {"class": "whole"})
        if word:
            text, tied.text = text[: word.start()], word[0]
        elif before is None or text or not _is_word(before):
            continue
        tied.tail, mark.tail = mark.tail, None
        parent.replace(mark, tied)
        if word and before is None:
            parent.text = text
        elif word:
            before.tail = text
        else:
            tied.append(before)
        tied.append(mark)


def _is_word(element: etree._Element) -> bool:
    """One short word in markup of its own, or the mark of another note."""
    text = "".join(element.itertext())
    return element.tag in ("a", "b", "code", "em", "i", "span", "strong") and bool(_LAST_WORD.fullmatch(text))


def breaks_before(word: str, code: bool) -> bool:
    """Does a word get a break point in front, whatever it is joined to?"""
    return len(word) >= (_LONG_CODE if code else _LONG)


def joints(word: str, code: bool) -> list[str]:
    """The pieces that a word without spaces may be parted into on paper, for measuring."""
    if code:
        return _parts(word, _WHOLE_CELL) if breaks_before(word, code) else [word]
    pieces = re.split(r"(?<=[a-z])-(?=[a-z])", word)
    return [p for piece in pieces for p in _cut(_JOINT, piece)] if breaks_before(word, code) else pieces


def _parts(name: str, whole: int) -> list[str]:
    """The pieces of a long name in code; those that are still too long part before their hyphens."""
    pieces = _cut(_JOINT, name)
    return [p for piece in pieces for p in (_cut(_HYPHEN, piece) if len(piece) > whole else [piece])]


def _cut(joint: re.Pattern[str], name: str) -> list[str]:
    """`name` parted at its joints, none so near another or an end that only a scrap comes off."""
    pieces: list[str] = []
    for piece in joint.split(name):
        if pieces and len(pieces[-1]) < _PIECE:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    if len(pieces) > 1 and len(pieces[-1]) < _PIECE:
        pieces[-2:] = ["".join(pieces[-2:])]
    return pieces


def _rewrite_text(element: etree._Element, pieces_of: Callable[[str], Iterator[Piece]]) -> None:
    """Pieces for an element's own text and for the tails of its children."""
    for child in list(element):
        if child.tail and ("/" in child.tail or _WORD.search(child.tail)):
            text, child.tail = child.tail, None
            _fill(element, element.index(child) + 1, pieces_of(text))
    if element.text and ("/" in element.text or _WORD.search(element.text)):
        text, element.text = element.text, None
        _fill(element, 0, pieces_of(text))


def _in_words(text: str) -> Iterator[Piece]:
    at = 0
    for word in _WORD.finditer(text):
        yield from _rates(text[at : word.start()])
        for piece in _cut(_JOINT, word[0]):
            yield None
            yield piece
        at = word.end()
    yield from _rates(text[at:])


def _rates(text: str) -> Iterator[Piece]:
    at = 0
    for rate in _RATE.finditer(text):
        yield text[at : rate.start()]
        yield (rate[0],)
        at = rate.end()
    yield text[at:]


def _kept(piece: str, whole: int) -> Iterator[Piece]:
    """A piece of code as it has to stand: whole, or no longer parted behind its hyphens than layout must."""
    if len(piece) <= whole:
        yield (piece,) if _RISKY.search(piece) else piece
        return
    at = 0
    for run in _HYPHENS.finditer(piece):
        yield piece[at : run.start()]
        yield (run[0],)
        at = run.end()
    yield piece[at:]


def _loosen_code(code: etree._Element, whole: int) -> None:
    if len(code) or not code.text:
        return  # markup inside inline code is rare and short
    least = min(whole, _LONG_CODE)
    pieces: list[Piece] = []
    longest = 0
    for word in re.split(r"(\s+)", code.text):
        long = len(word) >= least
        for part in _parts(word, whole) if long else [word]:
            pieces += [None] * long + [*_kept(part, whole if long else least)]
            longest = max(longest, len(part))
    if all(isinstance(p, str) for p in pieces):
        return
    code.text = None
    _fill(code, 0, pieces)
    if whole > _TIGHT and longest <= whole and None in pieces:
        # Left to itself, layout fills the line with part of a piece and ignores the break point before it.
        code.set("class", f"{code.get('class', '')} pieces".strip())


def _hold_code(code: etree._Element, cell: bool) -> None:
    if len(code) or not code.text:
        return
    pieces: list[Piece] = []
    for word in re.split(r"(\s+)", code.text):
        parts = _parts(word, _WHOLE) if len(word) > _WHOLE else [word]
        for at, part in enumerate(parts):
            # A cell is as narrow as layout can make it, so there a plain name is parted, too.
            held = cell and len(part) <= _WHOLE and part.strip()
            pieces += [None] * (at > 0) + ([(part,)] if held else [*_kept(part, _WHOLE)])
    if len(pieces) == 1 and isinstance(pieces[0], tuple):
        code.set("class", f"{code.get('class', '')} whole".strip())
    elif not all(isinstance(p, str) for p in pieces):
        code.text = None
        _fill(code, 0, pieces)


def _fill(parent: etree._Element, at: int, pieces: Iterable[Piece]) -> int:
    """Insert pieces into `parent` before child `at`. Out: the index behind them."""
    for piece in pieces:
        if piece is None or isinstance(piece, tuple):
            node = etree.Element(_tag(parent, "wbr" if piece is None else "span"))
            if piece is not None:
                node.set("class", "whole")
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
