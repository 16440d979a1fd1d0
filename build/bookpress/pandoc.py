"""Beside parse: the one door to pandoc. Markdown text goes in, pandoc's tree (JSON) comes out.

The tree, not pandoc's HTML: it tells raw HTML from text, keeps attributes in order, carries positions at a
third of the time and half of the bytes that HTML with positions costs, and leaves the markup to us.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lxml import etree

from .problems import ToolMissing

# No automatic ids: heading ids are GitHub's, made in headings.py. No YAML block: load.py took it.
READ = "gfm+attributes+sourcepos-gfm_auto_identifiers-yaml_metadata_block"
_SPAN = re.compile(r"(\d+):(\d+)-(\d+):(\d+)")

# A chapter of a megabyte takes a fifth of both; what takes more is a knot in the text.
_SECONDS, _MEMORY = 120, "3g"

Node = dict[str, Any]
Attr = list  # [id, [classes], [[key, value]]]


class Unread(Exception):
    """pandoc could not read a text in the time and memory it has."""


@functools.cache
def executable() -> str:
    """The pandoc that pypandoc brings along; found by its place, which costs no process."""
    try:
        import pypandoc
    except ImportError:
        raise ToolMissing("pandoc is missing: pip install pypandoc_binary") from None
    bundled = Path(pypandoc.__file__).parent / "files" / "pandoc"
    if bundled.is_file():
        return str(bundled)
    try:
        return pypandoc.get_pandoc_path()
    except OSError:
        raise ToolMissing("pandoc is missing: pip install pypandoc_binary") from None


def _run(arguments: Sequence[str], text: str) -> str:
    command = [executable(), "+RTS", f"-M{_MEMORY}", "-RTS", "--preserve-tabs", "--sandbox", "--quiet", *arguments]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unread(f"pandoc found no end in {_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Unread(f"pandoc stopped: {said or f'status {done.returncode}'}")
    return done.stdout.decode()


def read(text: str) -> list[Node]:
    """The blocks of a Markdown text, with positions."""
    return json.loads(_run(["-f", READ, "-t", "json"], text))["blocks"]


def mathml(formulas: Sequence[tuple[str, bool]]) -> list[etree._Element | None]:
    """(TeX, display) pairs as <math> elements, in one process; None where the TeX cannot be read."""
    if not formulas:
        return []
    blocks = []
    for tex, display in formulas:
        kind = {"t": "DisplayMath" if display else "InlineMath"}
        plain = {"t": "Plain", "c": [{"t": "Math", "c": [kind, tex]}]}
        blocks.append({"t": "Div", "c": [["", [], []], [plain]]})
    document = {"pandoc-api-version": [1, 23, 1], "meta": {}, "blocks": blocks}
    out = _run(["-f", "json", "-t", "html5", "--mathml", "--wrap=none"], json.dumps(document))
    found = []
    for div in etree.fromstring(f"<body>{out}</body>"):
        math = div[0] if len(div) else None
        usable = math is not None and etree.QName(math).localname == "math"
        if usable:
            math.tail = None
        found.append(math if usable else None)
    return found


def place(attr: Attr) -> tuple[int, int]:
    """First (line, column) that a node covers, (0, 0) when pandoc gives none.

    A block in a list may carry its list's position first and its own last; a table its body first.
    """
    pos = ""
    for key, value in attr[2]:
        if key == "data-pos":
            pos = value
    spans = [(int(a), int(b)) for a, b, _, _ in _SPAN.findall(pos)]
    return min(spans) if spans else (0, 0)


def width(attr: Attr) -> int:
    """Columns that a node of one line covers."""
    spans = _SPAN.findall("".join(value for key, value in attr[2] if key == "data-pos"))
    return max(1, int(spans[0][3]) - int(spans[0][1])) if len(spans) == 1 else 1


def is_wrapper(attr: Attr) -> bool:
    """True for a Div or Span that pandoc added only to hold a position."""
    return not attr[0] and not attr[1] and all(k in ("wrapper", "data-pos") for k, _ in attr[2])


def settings(attr: Attr) -> dict[str, str]:
    """An attribute list's own keys and values."""
    return {k: v for k, v in attr[2] if k not in ("wrapper", "data-pos")}


def first_place(nodes: Any) -> tuple[int, int]:
    """First place in a tree of nodes that has one, for nodes that carry none themselves."""
    if isinstance(nodes, dict):
        return first_place(nodes.get("c"))
    if not isinstance(nodes, list):
        return (0, 0)
    if len(nodes) == 3 and isinstance(nodes[0], str) and isinstance(nodes[2], list):
        return place(nodes)
    for node in nodes:
        found = first_place(node)
        if found != (0, 0):
            return found
    return (0, 0)
