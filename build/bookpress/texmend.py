"""Beside parse: formulas made fit for pandoc, with a second try at those that it cannot read.

Only in books that are not strict. In: the TeX as its author wrote it for another renderer (MathJax, KaTeX), and
the macros of the chapter. Out: the same formula without what only sets its size or colour, in names that pandoc
knows. What it says stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_ALIASES = {
    "approxeq": r"\approx", "textnormal": r"\text", "textsc": r"\text", "textup": r"\text",
    "textsf": r"\text", "mathbbm": r"\mathbb", "mathds": r"\mathbb", "cfrac": r"\frac",
    "nicefrac": r"\frac", "sfrac": r"\frac", "argmax": r"\operatorname{argmax}",
    "space": r"\ ", "argmin": r"\operatorname{argmin}",
}  # fmt: skip
_NAME = re.compile(r"\\([A-Za-z]+)")
_LOOKS = re.compile(
    r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge|displaystyle|textstyle"
    r"|scriptstyle|scriptscriptstyle|limits|nolimits|nonumber|notag|allowbreak|nobreak|relax|noindent"
    r"|centering|boldmath|smash|strut|mathstrut)(?![A-Za-z])\s?"
)
_SET = re.compile(
    r"\\(?:label|tag\*?|v?ref|eqref|vspace\*?|hspace\*?|color|textcolor|colorbox|cssId|class|html[A-Z][a-z]+)"
    r"\s*\{[^{}]*\}"
)
_DEFINED = re.compile(
    r"\\(?:def\s*\\(?P<def>[A-Za-z]+)\s*(?P<args>(?:#\d)*)\s*(?=\{)"
    r"|(?:re)?newcommand\*?\s*(?:\{\s*\\(?P<new>[A-Za-z]+)\s*\}|\\(?P<bare>[A-Za-z]+))\s*(?:\[(?P<count>\d)\])?\s*(?=\{)"
    r"|DeclareMathOperator\*?\s*\{\s*\\(?P<operator>[A-Za-z]+)\s*\}\s*(?=\{))"
)
_FARTHEST = 80  # lines of one formula
_DEEPEST = 8  # expansions of a macro by macros; one that calls itself stops here
_LONGEST = 20_000  # characters; definitions that double at each step stop here


def uncommented(tex: str) -> str:
    """TeX without its comments, which pandoc does not read in a formula."""
    return re.sub(r"(?<!\\)%[^\n]*", "", tex) if "%" in tex else tex


def joined(text: str) -> str:
    """Markdown whose `$$` blocks hold no empty lines, which MathJax reads on through and pandoc stops at.

    The line becomes a TeX comment, so that all lines keep their number.
    """
    rows = text.split("\n")
    opened, mark = -1, ""
    for n, row in enumerate(rows):
        words = row.strip(" \t>")
        if mark:
            mark = "" if words.startswith(mark) and not words.strip(mark[0]) else mark
        elif opened < 0 and (fence := re.match(r"`{3,}(?=[^`]*$)|~{3,}", words)):
            mark = fence[0]
        elif row.strip() == "$$":
            inside = range(opened + 1, n) if opened >= 0 else ()
            if opened >= 0 and any(rows[i].strip() for i in inside):
                for i in inside:
                    rows[i] = rows[i] if rows[i].strip() else "%"
            opened = -1 if opened >= 0 else n
        elif opened >= 0 and (n - opened > _FARTHEST or words.startswith(("#", "```"))):
            opened = -1  # a lone $$
    return "\n".join(rows)


class Macro(NamedTuple):
    arguments: int
    body: str


def macros(formulas: Iterable[str]) -> dict[str, Macro]:
    """What the formulas of a chapter define; in a browser it holds from there on."""
    found: dict[str, Macro] = {}
    for tex in formulas:
        for match in _DEFINED.finditer(tex):
            body = tex[match.end() + 1 : _closing(tex, match.end() + 1)]
            if name := match["operator"]:
                found[name] = Macro(0, rf"\operatorname{{{body}}}")
            else:
                count = int(match["count"] or 0) + (match["args"] or "").count("#")
                found[match["def"] or match["new"] or match["bare"]] = Macro(count, body)
    return found


def mended(tex: str, known: dict[str, Macro]) -> str:
    """The formula in words that pandoc is likelier to know; "" when it only defines macros."""
    while match := _DEFINED.search(tex):
        tex = tex[: match.start()] + tex[_closing(tex, match.end() + 1) + 1 :]
    for _ in range(_DEEPEST):
        before, tex = tex, _expanded(tex, known)
        if tex == before or len(tex) > _LONGEST:
            break
    tex = _LOOKS.sub("", _SET.sub("", tex))
    tex = _NAME.sub(lambda m: _ALIASES.get(m[1], m[0]), tex)
    tex = re.sub(r"\\(begin|end)\s+\{", r"\\\1{", tex)
    # Written twice for a Markdown reader that takes one backslash away.
    return re.sub(r"\\\\(?=[{}])", r"\\", tex).strip()


def _expanded(tex: str, known: dict[str, Macro]) -> str:
    out, at = [], 0
    for match in _NAME.finditer(tex):
        macro = known.get(match[1])
        if macro is None or match.start() < at:
            continue
        end, given = match.end(), []
        for _ in range(macro.arguments):
            value, end = _argument(tex, end)
            given.append(value)
        body = re.sub(r"#(\d)", lambda m: "".join(given[int(m[1]) - 1 : int(m[1])]), macro.body)  # noqa: B023
        # The braces keep what was one thing together.
        out += [tex[at : match.start()], "{", body, "}"]
        at = end
    return "".join(out) + tex[at:]


def _argument(tex: str, at: int) -> tuple[str, int]:
    """The group, command or character that comes next, and where it ends."""
    while at < len(tex) and tex[at].isspace():
        at += 1
    if tex[at : at + 1] == "{":
        end = _closing(tex, at + 1)
        return tex[at + 1 : end], end + 1
    command = re.compile(r"\\(?:[A-Za-z]+|.)?", re.S).match(tex, at)
    end = command.end() if command else at + 1
    return tex[at:end], end


def _closing(tex: str, at: int) -> int:
    """Where the group that is open at a place ends."""
    depth = 1
    while at < len(tex):
        if tex[at] == "\\":
            at += 1
        elif tex[at] in "{}":
            depth += 1 if tex[at] == "{" else -1
            if not depth:
                return at
        at += 1
    return at
