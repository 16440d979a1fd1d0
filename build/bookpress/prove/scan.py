"""Part of prove: fences straight from the Markdown files, with the standard library alone.

A CUDA machine gets a plain copy of the tree and has Python and torch, not pandoc. This reader knows fences
and nothing else; a test holds it to what the real parser finds in every chapter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..infostring import OPENING, read_info
from ..model import Config, Fence
from ..regions import cut

MODES = ("run", "slurm", "gpu", "parse", "shown", "output")
_ITEM = re.compile(r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]")


def chapter_files(config: Config) -> list[str]:
    """Chapters in book order, as paths relative to the book's folder."""
    return [c for part in config.parts for c in part.chapters if (config.root / c).is_file()]


def scan(path: Path) -> list[Fence]:
    """The fences of one chapter in order, with line, language, mode and text."""
    rows = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n").split("\n")
    fences: list[Fence] = []
    row = _front_matter(rows)
    while row < len(rows):
        if rows[row].lstrip().startswith("<!--"):  # a comment holds no fence
            while row < len(rows) - 1 and "-->" not in rows[row]:
                row += 1
        opened = OPENING.match(rows[row])
        if not opened or ("`" in opened["mark"] and "`" in opened["info"]) or _indented_code(rows, row):
            row += 1
            continue
        lead = rows[row][: opened.start("mark")]
        body, end = _body(rows, row + 1, lead, opened["mark"])
        fences.append(_fence(path, len(fences), row + 1, opened["info"], body))
        row = end + 1
    return fences


def _front_matter(rows: Sequence[str]) -> int:
    if rows[0].rstrip() != "---":
        return 0
    return next((n + 1 for n, row in enumerate(rows[1:], 1) if row.rstrip() in ("---", "...")), 0)


def _indented_code(rows: Sequence[str], at: int) -> bool:
    """True for a row that stands in by four and more, outside any list: code, whatever it holds."""
    width = len(rows[at]) - len(rows[at].lstrip(" "))
    if width < 4:
        return False
    for row in reversed(rows[:at]):
        indent = len(row) - len(row.lstrip(" "))
        if not row.strip() or indent >= width:
            continue
        if _ITEM.match(row):
            return False
        if indent == 0:
            return True
    return True


def _body(rows: Sequence[str], start: int, lead: str, mark: str) -> tuple[list[str], int]:
    """(content rows without the indent and quote marks of the fence, row that closes it)."""
    quoted = lead.count(">")
    width = len(lead.replace(">", "").expandtabs(4)) - quoted
    closing = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
    body: list[str] = []
    for number in range(start, len(rows)):
        row = rows[number]
        for _ in range(quoted):
            found = re.match(r"^[ \t]*> ?", row)
            if found is None:
                return body, number - 1  # the quote ended, and the fence with it
            row = row[found.end() :]
        strip = 0
        while strip < min(max(width, 0), len(row)) and row[strip] == " ":
            strip += 1
        row = row[strip:]
        if closing.match(row):
            return body, number
        body.append(row)
    return body, len(rows)


def _fence(path: Path, index: int, line: int, info: str, body: list[str]) -> Fence:
    words = read_info(info)
    if info.startswith("{") and words.lang in (*MODES, "hidden"):  # {.run} alone: a mode, no language
        words.classes.insert(0, words.lang)
        words.lang = ""
    elif not words.lang and words.garbage.isidentifier():
        words.lang = words.garbage  # {python}, as in notebooks
    modes = [c for c in words.classes if c in MODES]
    if words.lang == "output":
        modes = modes or ["output"]
    if "gpus" in words.values and not modes:
        modes = ["gpu"]
    values = dict(words.values)
    text = "\n".join(body)
    if "include" in values:
        file = path.parent / values["include"]
        source = file.read_text(encoding="utf-8-sig").replace("\r\n", "\n") if file.is_file() else ""
        text = cut(source, values.get("region", ""), values["include"]).text
    return Fence(
        index=index, line=line, lang=words.lang, text=text, mode=modes[0] if modes else "",
        id=values.pop("id", "") or words.id, attrs=values, hidden="hidden" in words.classes,
    )  # fmt: skip
