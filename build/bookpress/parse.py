"""Stage 3: Expanded → Draft. One chapter alone, read by pandoc, written as the canonical body.

Pure for its input and the files it includes, so it runs in worker processes and its result is cached. The
order inside: pandoc's tree, blocks and raw HTML into one tree, notes, captions and formulas, then title,
ids and the checks of the content modules.
"""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from html import escape
from urllib.parse import unquote

from lxml import etree

from . import (
    cite,
    controls,
    dialects,
    figures,
    footnotes,
    glyphs,
    headings,
    html,
    mathtex,
    pandoc,
    tables,
    texmend,
)
from .blocks import Blocks
from .drafting import Drafting
from .fences import Fences
from .footnotes import Notes
from .inlines import Inlines
from .markup import Builder
from .model import Config, Draft, Expanded
from .problems import Problem
from .rawhtml import RawReader
from .tidy import tidy

_DEEPEST = 160  # elements in elements; XML parsers stop at 256, and outputs put more around
_NESTING = re.compile(r"[ \t>*+-]*")
# Liquid's and mdBook's tags; other braces in prose may well be meant.
_TAG = re.compile(r"\{%-?\s*\w[^%]*%\}|\{\{\s*#\w[^}]*\}\}|\{\{-?\s*(?:site|page|'[^']*')[^}]*\}\}")


@dataclass(frozen=True)
class _Readers:
    draft: Drafting
    blocks: Blocks
    notes: Notes


def _readers(expanded: Expanded, config: Config, rows: list[str]) -> _Readers:
    draft = Drafting(expanded, config, rows)
    builder = Builder(draft.report)
    notes = Notes(draft)
    inlines = Inlines(draft, builder, RawReader(draft, builder), notes)
    return _Readers(draft, Blocks(draft, builder, inlines, Fences(draft)), notes)


def parse(expanded: Expanded, config: Config) -> Draft:
    """Read one chapter."""
    # pandoc's tree is 10⁵ small objects and no cycle: the collector would walk it over and over.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _parse(expanded, config)
    except (RecursionError, pandoc.Unread) as reason:
        source, hint = expanded.source, "end the run of >, list marks or open tags"
        problem = Problem(source.path, _deepest(expanded), 1, "MDN014", "blocks nest too deeply", hint)
        if isinstance(reason, pandoc.Unread):
            hint = "halve the chapter to find the block"
            problem = Problem(source.path, source.first_line, 1, "MDN017", str(reason), hint)
        body = f'<section class="chapter" id="{source.slug}"><h1 id="title">{escape(source.path)}</h1></section>'
        return Draft(source, body, source.path, (), (), (problem,))
    finally:
        if collecting:
            gc.enable()


def _parse(expanded: Expanded, config: Config) -> Draft:
    text = expanded.text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    raw, text = text, controls.hide(text)
    if not config.features.strict:
        text = texmend.joined(dialects.translate(text, config.features.templating))
    readers = _readers(expanded, config, text.split("\n"))
    draft, blocks = readers.draft, readers.blocks
    blocks.write(pandoc.read(footnotes.unwound(draft, text) if "[^" in text else text))
    blocks.builder.finish()  # what raw HTML left open ends before the notes
    readers.notes.write(blocks)
    blocks.write_captions()
    root = blocks.builder.finish()
    root.set("class", "chapter")
    root.set("id", expanded.source.slug)
    _formulas(blocks.inlines)
    blocks.fences.check()
    readers.notes.check()
    if controls.FOUND.search(raw):
        _control_bytes(draft, raw.split("\n"))
    tidy(root)
    if _depth(root) > _DEEPEST:
        raise RecursionError
    _words(draft, root)
    title, anchors, aliases = headings.settle(draft, root)
    _images(draft)
    _content_checks(draft, root)
    return Draft(
        source=expanded.source,
        body=html.serialise(root),
        title=title,
        anchors=tuple(anchors),
        fences=tuple(draft.fences),
        problems=tuple(sorted(set(draft.problems))),
        reads=tuple(sorted(draft.reads.items())),
        sites=tuple(draft.sites),
        aliases=tuple(sorted(aliases.items())),
    )


def _depth(root: etree._Element) -> int:
    """Elements in elements, at most."""
    depth = deepest = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
    return deepest


def _deepest(expanded: Expanded) -> int:
    """The line that most likely stands deepest: by its marks and its tags."""
    rows = expanded.text.split("\n")
    weights = [len(_NESTING.match(row)[0]) + 3 * row.count("<") for row in rows]  # type: ignore[index]
    at = weights.index(max(weights))
    return expanded.lines[at] if at < len(expanded.lines) else expanded.source.first_line


def _formulas(inlines: Inlines) -> None:
    """Put the MathML of all formulas in their places."""
    waiting, draft = inlines.formulas, inlines.draft
    made = pandoc.mathml([(texmend.uncommented(tex), display) for _, tex, display, _ in waiting])
    if None in made and not draft.config.features.strict:
        made = _second_try(inlines, made)
    for (element, tex, _, place), math in zip(waiting, made, strict=True):
        if math is None:
            message = f"pandoc cannot read the formula '{mathtex.short(tex)}'"
            draft.report("MTH001", place, message, level=draft.lenient)
            element.insert(0, etree.Element("code"))
            element[0].text = tex.strip()
        else:
            math.set("alttext", tex.strip())
            element.insert(0, math)


def _second_try(inlines: Inlines, made: list[etree._Element | None]) -> list[etree._Element | None]:
    """Read what failed once more in simpler words; a formula that only defines macros shows nothing."""
    waiting, known = inlines.formulas, texmend.macros(texmend.uncommented(tex) for _, tex, _, _ in inlines.formulas)
    failed = [n for n, math in enumerate(made) if math is None]
    simpler = [(texmend.mended(texmend.uncommented(waiting[n][1]), known), waiting[n][2]) for n in failed]
    for n, math, (words, _) in zip(failed, pandoc.mathml(simpler), simpler, strict=True):
        if math is None:
            continue
        made[n] = math
        _, tex, _, place = waiting[n]
        message = f"the formula '{mathtex.short(tex)}' could only be read without its macros and sizes"
        if words:
            inlines.draft.report("MTH001", place, message, level="warning")
    return made


def _control_bytes(draft: Drafting, rows: list[str]) -> None:
    """Report control bytes in prose; those in code are code.py's."""
    spans = [(f.line, f.line + f.text.count("\n") + 2) for f in draft.fences]
    for number, row in enumerate(rows, 1):
        match = controls.FOUND.search(row)
        line = draft.line(number)
        if match and not any(first <= line <= last for first, last in spans):
            message = f"control byte {ord(match[0]):#04x} in the text"
            draft.report("MDN005", (number, match.start() + 1), message, "remove it", "warning")


def _words(draft: Drafting, root: etree._Element) -> None:
    """Walk the prose for what Markdown left as text: note marks without a note, citations, template tags."""
    cited = cite.file(draft.config).is_file()
    tagged: set[str] = set()  # names
    for element in list(root.iter()):
        if not isinstance(element.tag, str) or element.tag in ("pre", "code") or element.tag[0] == "{":
            continue
        for words in (element.text, *(child.tail for child in element)):
            if words and "[^" in words:
                footnotes.lint(draft, words, draft.row(html.line_of(element)))
            if words and "{" in words and not draft.config.features.strict and (tag := _TAG.search(words)):
                name = "".join(re.findall(r"[#\w.]+", tag[0])[:1])
                if name not in tagged:
                    tagged.add(name)
                    message = f"'{tag[0][:60]}' is a template tag of another press: shown as written"
                    hint = "reported once in a chapter"
                    draft.report_at("MDN015", html.line_of(element), message, hint, "warning")
        if cited:
            cite.mark(draft, element)


def _images(draft: Drafting) -> None:
    """Note the images that the chapter shows: their size is in the body, so a new file is a new draft."""
    for site in draft.sites:
        if site.kind == "image" and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", site.value):
            name = unquote(site.value.partition("#")[0].partition("?")[0])
            path = name.lstrip("/") if name.startswith("/") else draft.inside(name)
            if path:
                draft.read(path)


def _content_checks(draft: Drafting, root: etree._Element) -> None:
    source = draft.expanded
    draft.problems += mathtex.finish(root, source, draft.config)
    draft.problems += tables.finish(root, source, draft.config)
    draft.problems += figures.finish(root, source, draft.config)
    draft.problems += glyphs.check(root, source, draft.config)
