"""Beside parse: lines in the dialects of other presses, rewritten to what pandoc reads; books that are not strict only.

    {% details Words %} … {% enddetails %}                    <details> with its summary (Jekyll)
    {% include figure.html path="x.png" caption="…" %}        an image with its caption (Jekyll)
    ## Heading[[its-id]]                                      a heading with its own id (doc-builder)

Line for line: no line moves, so every problem keeps its place. Code is left alone.
"""

from __future__ import annotations

import re
from html import escape

_DETAILS = re.compile(r"^(\s*)\{%-?\s*details\b\s*(.*?)\s*-?%\}\s*$")
_END = re.compile(r"^(\s*)\{%-?\s*enddetails\s*-?%\}\s*$")
_FIGURE = re.compile(r"^(\s*)\{%-?\s*include\s+\S*(?:figure|image|img)\S*\s+(.*?)\s*-?%\}\s*$")
_VALUE = re.compile(r"""([\w-]+)=(?:"((?:\\.|[^"\\])*)"|'([^']*)')""")
_HEADING = re.compile(r"^( {0,3}#{1,6}[ \t].*?)[ \t]*\[\[([A-Za-z0-9][\w.-]*)\]\][ \t]*$")
_FENCE = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")


def translate(text: str, templating: bool) -> str:
    """The text in pandoc's Markdown; where `[[ … ]]` is the book's own, headings stay."""
    rows, mark = text.split("\n"), ""
    for n, row in enumerate(rows):
        words = row.strip(" \t>")
        if mark:
            mark = "" if words.startswith(mark) and not words.strip(mark[0]) else mark
        elif fence := _FENCE.match(words):
            mark = fence[0]
        elif "{%" in row:
            rows[n] = _tag(row)
        elif "]]" in row and not templating:
            rows[n] = _HEADING.sub(r"\1 {#\2}", row)
    return "\n".join(rows)


def _tag(row: str) -> str:
    if found := _DETAILS.match(row):
        return f"{found[1]}<details><summary>{escape(found[2] or 'Details', quote=False)}</summary>"
    if found := _END.match(row):
        return f"{found[1]}</details>"
    found = _FIGURE.match(row)
    given = {k: re.sub(r"\\(.)", r"\1", a) or b for k, a, b in _VALUE.findall(found[2])} if found else {}
    path = next((given[k] for k in ("path", "src", "url", "image_path") if given.get(k)), "")
    if not path:
        return row
    caption = given.get("caption", "")
    words = re.sub(r"<[^>]*>|[\[\]*_`$\\]", "", given.get("alt") or given.get("title") or caption)
    outside = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", path)
    address = path if outside else "/" + path.lstrip("/")  # from the site's root
    attributes = f'{{caption="{caption.replace(chr(34), chr(39))}"}}' if caption else ""
    return f"{found[1]}![{words}](<{address}>){attributes}"
