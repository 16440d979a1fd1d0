"""The search index, made ahead: which sections hold which words, and the text for excerpts.

Stands beside web/site.py. In: a Book. Out: two scripts. `search-index.js` (terms, where they stand, titles)
answers a query; `search-text.js` (the words of each section) adds excerpts and finds phrases. They are
scripts, not JSON, because a page opened from a disk may not fetch JSON.

Words are cut the way engineers type them, and js/search.js cuts queries by the same rules:
  all_reduce, all-reduce, allReduce → all, reduce and, joined, allreduce
  --ntasks-per-node → ntasks, per, node, ntaskspernode;  2.13.0 stays whole;  通信 → pairs of characters
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from ..model import Book, Chapter

BUDGET = 1_000_000  # bytes, compressed; G01: an index of many MB freezes the page

# A section is what a search answers with: headings down to this level start a new one.
DEPTH = 3

# A run of letters and digits that single marks may join; versions and decimals keep their dots.
COMPOUND = re.compile(r"[^\W_]+(?:[_\-./:]+[^\W_]+)*")
PIECE = re.compile(r"\d+(?:\.\d+)+|[^\W_]+")
CAMEL = re.compile(r"[A-Z]{2,}(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_COMMON = (
    "a an and are as at be but by can do does for from had has have how i if in into is it its me my of on or so than"
    " that the their then there these they this to was we were what when where which who why will with you your"
)
STOP = frozenset(_COMMON.split())
_LONGEST = 40  # characters of a term: longer ones are hashes and paths, which their pieces find

TEXT, HEADING, TITLE = 0, 1, 2
_BLOCK_NAMES = (
    "p li dt dd td th pre figcaption summary h1 h2 h3 h4 h5 h6 blockquote div aside figure br tr"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())


@dataclass(frozen=True)
class Section:
    """What a result points at."""

    chapter: int
    anchor: str
    title: str
    text: str
    level: int


@dataclass(frozen=True)
class Index:
    """The two scripts, and how many sections they hold."""

    index: str
    texts: str
    sections: int


def tokens(text: str) -> Iterator[str]:
    """The terms of a text, in order, repeated as they occur."""
    text = unicodedata.normalize("NFKC", text)
    for match in COMPOUND.finditer(text):
        word = match[0]
        if CJK.search(word):
            yield from _mixed(word)
            continue
        pieces = PIECE.findall(word)
        for piece in pieces:
            lower = piece.lower()
            if lower not in STOP and len(lower) <= _LONGEST:
                yield lower
            humps = CAMEL.findall(piece)
            if 1 < len(humps) <= 6 and piece.isalpha() and all(len(h) > 1 for h in humps):
                yield from (h.lower() for h in humps)
        joined = "".join(pieces).lower()
        if (
            1 < len(pieces) <= 6
            and len(joined) <= _LONGEST
            and not joined.replace(".", "").isdigit()
        ):
            yield joined


def _mixed(word: str) -> Iterator[str]:
    """Han, kana and hangul have no spaces: every two neighbours are a term (G03)."""
    end = 0
    for run in CJK.finditer(word):
        yield from tokens(word[end : run.start()])
        chars = run[0]
        yield from (
            [chars] if len(chars) == 1 else (chars[i : i + 2] for i in range(len(chars) - 1))
        )
        end = run.end()
    yield from tokens(word[end:])


def sections(chapter: Chapter, place: int) -> Iterator[Section]:
    """A chapter cut at its headings; notes make a section of their own at the end.

    Notes and registers (lists that only lead to other sections) have a level below all headings: js/search.js
    puts them behind the text that they belong or lead to.
    """
    root = etree.fromstring(chapter.body)
    anchor, title, level, words = "", chapter.title, 1, [chapter.meta.summary]
    for element in root:
        if not isinstance(element.tag, str):
            continue
        depth = int(element.tag[1]) if re.fullmatch(r"h[1-6]", element.tag) else 0
        notes = element.get("class") == "footnotes"
        if (1 < depth <= DEPTH) or notes:
            yield Section(place, anchor, title, _join(words), level)
            anchor, level, words = element.get("id") or "", depth, []
            title = "Notes" if notes else _join(_words(element, skip_number=True))
            if notes:
                anchor = next((li.get("id", "") for li in element.iter("li")), "")
                level = DEPTH + 1
                words = list(_words(element))
        elif depth != 1:
            if level == 2 and _is_register(element):
                level = DEPTH + 1
            words.extend(_words(element))
    yield Section(place, anchor, title, _join(words), level)


def _is_register(element: etree._Element) -> bool:
    """Whether each item of a list leads to a section by number, as in an index."""
    items = element.findall("li")
    return len(items) > 0 and all(item.find(".//a[@class='xref']") is not None for item in items)


def _words(element: etree._Element, skip_number: bool = False) -> Iterator[str]:
    """Visible text. Of a formula only its TeX, if short; of a note's way back nothing."""
    if not isinstance(element.tag, str):
        return
    tag = etree.QName(element).localname
    kind = element.get("class") or ""
    if tag == "math":
        tex = element.get("alttext") or ""
        yield f" {tex} " if len(tex) <= 40 else " "
        return
    if kind in ("fnref", "fnback") or tag == "svg" or (skip_number and kind == "number"):
        return
    yield " " if tag in _BLOCKS else ""
    yield element.text or ""
    for child in element:
        yield from _words(child, skip_number)
        yield child.tail or ""
    if tag == "img":
        yield element.get("alt") or ""
    yield " " if tag in _BLOCKS else ""


def _join(words) -> str:
    return " ".join("".join(words).split())


def build(book: Book) -> Index:
    """Both scripts of a book."""
    found: list[Section] = []
    for place, chapter in enumerate(book.chapters):
        found.extend(sections(chapter, place))
    where: dict[str, dict[int, int]] = {}
    for number, section in enumerate(found):
        for term, weight in _weights(section).items():
            where.setdefault(term, {})[number] = weight
    terms = sorted(where)
    data = {
        "chapters": [[c.url, c.title, c.number] for c in book.chapters],
        "sections": [[s.chapter, s.anchor, s.title, s.level] for s in found],
        "sizes": [len(s.text) for s in found],
        "terms": "\n".join(terms),
        "places": "\n".join(_postings(where[t]) for t in terms),
    }
    return Index(
        _script("index", data),
        _script("texts", "\n".join(s.text for s in found)),
        len(found),
    )


def _weights(section: Section) -> dict[str, int]:
    """Term → weight 0…7: how often it stands in the text (0…3), plus 4 in a heading or title."""
    counts = Counter(tokens(section.text))
    weights = {t: min(3, n.bit_length() - 1) for t, n in counts.items()}
    for term in set(tokens(section.title)):
        weights[term] = weights.get(term, 0) + 4
    return weights


def _postings(sections: dict[int, int]) -> str:
    """Section numbers as steps from the one before, each with its weight: step × 8 + weight, base 36."""
    out, last = [], -1
    for number in sorted(sections):
        out.append(_base36((number - last) * 8 + sections[number]))
        last = number
    return " ".join(out)


def _base36(value: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    out = ""
    while value:
        value, rest = divmod(value, 36)
        out = digits[rest] + out
    return out or "0"


def _script(kind: str, data: object) -> str:
    raw = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # U+2028 and U+2029 end a line in old scripts; "</" would end the element if a page were inlined.
    raw = raw.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("</", "<\\/")
    return f"bookSearch.receive({json.dumps(kind)},{raw});\n"
