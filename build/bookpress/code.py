"""Fences become coloured, breakable code. Called by `parse` for each fence, by `pdf` before layout.

    highlight(fence, path, config)  → inner markup of <code>, and problems
    printed(fence)                  → its text as readers see it, what `highlight` marks up
    visible(text)                   → control bytes in caret notation, as `cat -v` writes them
    fit(body, columns)              → for print: every line and every long word of a chapter ends inside
                                      the column, the text unchanged (rows.py, breaks.py)
    breakable(code, columns)        → the same for one block of code
    css(theme)                      → the rules that colour it

The text content of the markup equals `printed(fence)` byte for byte: spans are flat, and a lexer that
would drop or change a character loses its colours, never the character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from lxml import etree
from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Token, _TokenType

from .breaks import loosen
from .model import Config, Fence
from .problems import Problem, near
from .prove import compare
from .rows import breakable, columns_of

__all__ = ["PLAIN", "breakable", "css", "fit", "highlight", "printed", "visible"]

_CSS = Path(__file__).parents[2] / "templates" / "css"

# Languages shown without colours on purpose. `output` is what a proven fence printed.
PLAIN = frozenset({"", "text", "txt", "plain", "plaintext", "output", "none", "log", "csv", "tsv"})

# Names people write that Pygments does not know.
_ALIASES = {
    "cu": "cuda", "env": "bash", "dotenv": "bash", "jsonl": "json", "ndjson": "json", "json5": "json",
    "jsonc": "json", "sbatch": "bash", "slurm": "bash", "hostfile": "ini", "promql": "promql",
    "py3": "python", "ipynb": "json", "c++11": "cpp", "gitconfig": "ini",
}

# Pygments' token types, cut down to what the style sheet draws apart: fewer spans, faster layout.
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Token.Comment.Preproc, "cp"), (Token.Comment.PreprocFile, "s"), (Token.Comment.Hashbang, "c"),
    (Token.Comment, "c"), (Token.Keyword.Constant, "kc"), (Token.Keyword, "k"),
    (Token.Operator.Word, "k"), (Token.Literal.String.Doc, "sd"), (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"), (Token.Literal.Date, "m"), (Token.Literal.Scalar, ""),
    (Token.Name.Function, "nf"), (Token.Name.Class, "nf"), (Token.Name.Namespace, "nn"),
    (Token.Name.Decorator, "nd"), (Token.Name.Builtin, "nb"), (Token.Name.Exception, "nb"),
    (Token.Name.Tag, "nt"), (Token.Name.Attribute, "na"), (Token.Name.Variable, "nv"),
    (Token.Generic.Prompt, "gp"), (Token.Generic.Output, "go"), (Token.Generic.Deleted, "gd"),
    (Token.Generic.Inserted, "gi"), (Token.Generic.Heading, "gh"), (Token.Generic.Subheading, "gh"),
    (Token.Generic.Error, "go"), (Token.Generic.Traceback, "go"), (Token.Generic.Strong, "k"),
)

# Not in XML, or in XML but never visible: C0 without tab and newline, DEL, C1, two non-characters.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
# Legal, yet the pasted command is not the one that was read: no-break space, zero width, direction.
_DECEPTIVE = re.compile("[\u00a0\u00ad\u200b-\u200f\u202a-\u202f\u2060-\u2069\ufeff]")


def highlight(fence: Fence, path: str, config: Config) -> tuple[str, list[Problem]]:
    """Inner markup of `<code>` for a fence, with everything the author should know about it."""
    problems = [] if fence.hidden else list(_inspect(fence, path, config))
    name = fence.lang.lower()
    text = printed(fence)
    if name in PLAIN:
        return escape(text), problems
    lexer = _lexer(name)
    if lexer is None:
        if config.features.strict:
            problems.append(Problem(path, fence.line, 1, "COD001", f"unknown language '{fence.lang}'",
                                    near(name, _names()) or "write `text` for code without colours"))
        return escape(text), problems
    runs = list(_runs(lexer, text))
    if "".join(value for _, value in runs) != text:
        return escape(text), problems
    return "".join(_span(kind, value) for kind, value in runs), problems


def fit(body: etree._Element, columns: int = 88) -> None:
    """Prepare a chapter's body for paper, in place. `columns` of code fit the width of the text."""
    for pre in body.iter("{*}pre"):
        for code in pre.iter("{*}code"):
            breakable(code, columns)
    loosen(body)


def visible(text: str) -> str:
    """Control bytes in caret notation: ESC prints as ^[ (w3c/epubcheck#670)."""
    return _CONTROL.sub(lambda m: _caret(ord(m[0])), text)


def printed(fence: Fence) -> str:
    """What a reader sees of a fence: of an output's number with a tolerance, the number alone."""
    return visible(_text(fence))


def _text(fence: Fence) -> str:
    return compare.shown(fence.text) if fence.mode == "output" else fence.text


def _caret(point: int) -> str:
    if point < 0x20:
        return "^" + chr(point + 0x40)
    if point == 0x7F:
        return "^?"
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"


def css(theme: str) -> str:
    """Rules for the spans: `web` with CSS variables, `light` and `dark` with their values put in."""
    rules = (_CSS / "code.css").read_text(encoding="utf-8")
    if theme == "web":
        return rules
    tokens = (_CSS / "tokens.css").read_text(encoding="utf-8")
    light, _, dark = tokens.partition('[data-theme="dark"]')
    values = dict(re.findall(r"(--[a-z-]+):\s*([^;]+);", light))
    if theme == "dark":
        values |= dict(re.findall(r"(--[a-z-]+):\s*([^;]+);", dark))
    return re.sub(r"var\((--[a-z-]+)\)", lambda m: values[m[1]], rules)


def _span(kind: str, value: str) -> str:
    return f'<span class="{kind}">{escape(value)}</span>' if kind else escape(value)


@cache
def _names() -> frozenset[str]:
    """Every language name that works, plug-ins of the machine left out: they would differ elsewhere."""
    found = {alias.lower() for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases}
    return frozenset(found | set(_ALIASES) | (PLAIN - {""}))


@cache
def _lexer(name: str) -> Lexer | None:
    if name not in _names():
        return None
    return get_lexer_by_name(_ALIASES.get(name, name), stripnl=False, ensurenl=False)


@cache
def _class(kind: _TokenType) -> str:
    return next((short for parent, short in _CLASSES if kind in parent), "")


def _runs(lexer: Lexer, text: str) -> Iterator[tuple[str, str]]:
    """(class, text) with neighbours of one class joined, also across blanks inside a line.

    The lexer's own tokens are read, not `get_tokens`, which rewrites line ends and drops a byte order
    mark. Some lexers close a line only at a newline, so one is lent and taken back.
    """
    kind, held, blank = "", "", ""
    left = len(text)
    for _, token, value in lexer.get_tokens_unprocessed(text + "\n"):
        value = value[:left]
        left -= len(value)
        if not value:
            continue
        if value.isspace():
            if "\n" in value:
                if held:
                    yield kind, held
                kind, held, blank = "", blank + value, ""
            else:
                blank += value
            continue
        short = _class(token)
        if short != kind and held:
            if not kind:
                held, blank = held + blank, ""
            yield kind, held
            held = ""
        if short and short != kind and blank:
            yield "", blank
            blank = ""
        kind, held, blank = short, held + blank + value, ""
    if held:
        yield kind, held
    if blank:
        yield "", blank


def _inspect(fence: Fence, path: str, config: Config) -> Iterable[Problem]:
    """What a reader of the printed page or of the clipboard would trip over."""
    included = fence.attrs.get("include")
    for number, line in enumerate(_text(fence).split("\n"), start=1):
        place = fence.line if included else fence.line + number
        where = f"line {number} of the code from {included}" if included else "the line"
        width = columns_of(line)
        if width > config.code_width:
            yield Problem(path, place, config.code_width + 1, "COD002",
                          f"{where} has {width} columns, the page holds {config.code_width}",
                          "break it, in shell with a final backslash", "warning")
        if found := _CONTROL.search(line):
            yield Problem(path, place, found.start() + 1, "COD003",
                          f"{where} holds the control byte {ord(found[0]):#04x},"
                          f" printed as {_caret(ord(found[0]))}",
                          "take colours out of captured output: NO_COLOR=1", "warning")
        if found := _DECEPTIVE.search(line):
            yield Problem(path, place, found.start() + 1, "COD004",
                          f"{where} holds the invisible character U+{ord(found[0]):04X}",
                          "replace it by a plain space or remove it", "warning")
