"""Stage 2: Source → Expanded. Jinja2 over the prose, never over code, with each line's origin kept.

Delimiters are `[[ … ]]`, `[% … %]`, `[# … #]`, because stock ones die on or eat `${{ secrets.X }}`, Helm
templates and awk (mkdocs#2829, mkdocs-macros-plugin#57 and #78). Code spans and fences are taken out before
and put back after; values are escaped for Markdown and never templated again (roboflow/inference#2012).
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .calculators import worked_example
from .facts import FactError, Facts, figure
from .messages import index_of_messages
from .model import Config, Expanded, Source
from .problems import Problem
from .tabulate import link, tabulate

# Unicode noncharacters: never part of a text, so they can stand for code and carry line numbers.
_CODE, _LINE, _END = "\ufdd0", "\ufdd1", "\ufdd2"
_OWN = re.compile("[\ufdd0-\ufdd2]")
_FENCE = re.compile(r"^(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}(?=[^`]*$)|~{3,})")
_TICKS = re.compile(r"`+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|$~#])")


class Markdown(str):
    """Text that is already Markdown and is not escaped again."""


def escape(text: str) -> str:
    """Plain text as Markdown that shows exactly this text, also inside a table cell."""
    return _MARKDOWN.sub(r"\\\1", _OWN.sub("", text)).replace("\n", " ")


def _finalize(value: Any) -> str:
    return value if isinstance(value, Markdown) else escape(figure(value))


def protect(text: str) -> tuple[str, list[str]]:
    """Replace the content of fences and code spans, line by line, by tokens. Out: text, the pieces."""
    pieces: list[str] = []

    def keep(piece: str) -> str:
        pieces.append(piece)
        return f"{_CODE}{len(pieces) - 1}{_END}"

    out: list[str] = []
    prose: list[str] = []
    fence = ""

    def flush() -> None:
        if prose:
            out.extend(_spans("\n".join(prose), keep).split("\n"))
            prose.clear()

    for line in _OWN.sub("", text).split("\n"):
        opened = _FENCE.match(line)
        if fence:
            out.append(keep(line))
            body = line.strip(" \t>")
            if body and not body.strip(fence[0]) and len(body) >= len(fence):
                fence = ""
        elif opened:
            flush()
            fence = opened.group(1)
            out.append(keep(line))
        else:
            prose.append(line)
    flush()
    return "\n".join(out), pieces


def _spans(text: str, keep) -> str:
    """Take code spans out of prose: a run of n backticks up to the next run of n in the same paragraph."""
    out, at = [], 0
    while opened := _TICKS.search(text, at):
        paragraph = text.find("\n\n", opened.end())
        stop = len(text) if paragraph < 0 else paragraph
        closed = next(
            (m for m in _TICKS.finditer(text, opened.end(), stop) if m[0] == opened[0]), None
        )
        out.append(text[at : opened.start()])
        end = closed.end() if closed else opened.end()
        out.append("\n".join(keep(p) for p in text[opened.start() : end].split("\n")))
        at = end
    return "".join(out) + text[at:]


def _number_lines(text: str, first: int) -> str:
    """Put a line mark before each line that does not begin inside a tag or with a block tag."""
    out, inside = [], ""
    closing = {"[[": "]]", "[%": "%]", "[#": "#]"}
    for number, line in enumerate(text.split("\n"), first):
        plain = not inside and not line.lstrip().startswith(("[%", "[#"))
        out.append(f"{_LINE}{number}{_END}{line}" if plain else line)
        for token in re.findall(r"\[\[|\[%|\[#|\]\]|%\]|#\]", line):
            if inside and token == inside:
                inside = ""
            elif not inside and token in closing:
                inside = closing[token]
    return "\n".join(out)


def _unnumber(text: str, first: int) -> tuple[str, tuple[int, ...]]:
    lines, origins, current = [], [], first
    mark = re.compile(f"{_LINE}(\\d+){_END}")
    for line in text.split("\n"):
        found = mark.search(line)
        if found:
            current = int(found[1])
        lines.append(mark.sub("", line))
        origins.append(current)
    return "\n".join(lines), tuple(origins)


class _Context:
    """What a chapter's template can call; remembers every file it read."""

    def __init__(self, source: Source, config: Config, facts: Facts):
        self.source, self.config, self.facts = source, config, facts
        self.reads: dict[str, str] = {}

    def names(self) -> dict[str, Any]:
        return {
            "fact": self.fact,
            "value": lambda path, digits=None: figure(self.facts.sourced(path).value, digits),
            "unit": lambda path: self.facts.fact(path).unit,
            "verified": lambda path: self.facts.sourced(path).verified,
            "source": self.source_of,
            "table": lambda name: Markdown(tabulate(self.facts, name, escape)),
            "calculator": lambda name: Markdown(worked_example(self.facts, name, escape)),
            "messages": lambda: Markdown(index_of_messages(self.facts, self.source.path)),
            "measurement": self.measurement,
            "record": self.record,
            "number": figure,
            "book": {"title": self.config.title, "version": self.config.version},
        }

    def fact(self, path: str, digits: int | None = None) -> Markdown:
        fact = self.facts.sourced(path)
        text = escape(figure(fact.value, digits))
        return Markdown(f"{text}\u00a0{escape(fact.unit)}" if fact.unit else text)

    def source_of(self, path: str) -> Markdown:
        fact = self.facts.sourced(path)
        links = "; ".join(link(s, escape) for s in fact.sources)
        return Markdown(f"{links} (checked {fact.verified})")

    def record(self, file: str) -> Any:
        """A measurement file beside the chapter, parsed."""
        folder = PurePosixPath(self.source.path).parent
        path = (self.config.root / folder / file).resolve()
        if not path.is_relative_to(self.config.root) or not path.is_file():
            raise FactError("TPL007", f"no measurement file '{file}'", "the path is relative to the chapter")
        raw = path.read_bytes()
        self.reads[path.relative_to(self.config.root).as_posix()] = hashlib.sha256(raw).hexdigest()
        try:
            return json.loads(raw)
        except ValueError:
            raise FactError("TPL007", f"measurement file '{file}' is not JSON") from None

    def measurement(self, file: str, key: str, digits: int | None = None) -> str:
        node = self.record(file)
        for part in key.split("."):
            try:
                node = node[int(part)] if isinstance(node, list) else node[part]
            except (KeyError, IndexError, ValueError, TypeError):
                known = ", ".join(map(str, node)) if isinstance(node, dict) else ""
                message = f"'{file}' has no '{key}' (at '{part}')"
                raise FactError("TPL007", message, f"known: {known[:120]}" if known else "") from None
        return figure(node, digits)


def environment() -> jinja2.Environment:
    return ImmutableSandboxedEnvironment(
        block_start_string="[%",
        block_end_string="%]",
        variable_start_string="[[",
        variable_end_string="]]",
        comment_start_string="[#",
        comment_end_string="#]",
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def expand(source: Source, config: Config, facts: Facts) -> tuple[Expanded, list[Problem]]:
    """Run the templates of one chapter. On an error the text stays as written and the problem says where."""
    count = source.text.count("\n") + 1
    plain = Expanded(source, source.text, tuple(range(source.first_line, source.first_line + count)))
    if not config.features.templating or not re.search(r"\[\[|\[%|\[#", source.text):
        return plain, []
    text, pieces = protect(source.text)
    for tag in re.finditer(r"\[\[.*?\]\]|\[%.*?%\]", text, re.DOTALL):
        if _CODE in tag[0]:
            line = source.first_line + text.count("\n", 0, tag.start())
            message, hint = "backticks inside a template tag are a code span", "put the code span outside of the tag"
            return plain, [Problem(source.path, line, 1, "TPL001", message, hint)]
    context = _Context(source, config, facts)
    facts.touched.clear()
    try:
        template = environment().from_string(_number_lines(text, source.first_line))
        out = template.render(context.names())
    except (jinja2.TemplateError, FactError, TypeError, ValueError, ArithmeticError) as error:
        return plain, [_problem(source, error)]
    restored = re.sub(f"{_CODE}(\\d+){_END}", lambda m: pieces[int(m[1])], out)
    body, lines = _unnumber(restored, source.first_line)
    data = {f"{config.data}/{k}": v for k, v in facts.digests.items() if k in facts.touched}
    reads = tuple(sorted({**data, **context.reads}.items()))
    return Expanded(source, body, lines, reads), []


def _problem(source: Source, error: Exception) -> Problem:
    """The template line of an error: from Jinja's own record, or from the frame inside the template."""
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while line is None and trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    # The innermost template frame wins; syntax errors carry their own line.
    at = source.first_line + (line or 1) - 1
    code = getattr(error, "code", "TPL001")
    message = " ".join(str(error).split()) or type(error).__name__
    hint = getattr(error, "hint", "") or (
        "to show [[ … ]] literally, put it in a code span" if code == "TPL001" else ""
    )
    return Problem(source.path, at, 1, code, message, hint)


def facts_for(config: Config) -> Facts:
    return Facts(Path(config.root / config.data))
