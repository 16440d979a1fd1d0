"""Part of prove: fences straight from the Markdown files, with the standard library alone.

A CUDA machine gets a plain copy of the tree and has Python and torch, not pandoc. This reader knows fences
and nothing else; a test holds it to what the real parser finds in every chapter.
"""

from __future__ import annotations

from pathlib import Path

from ..infostring import OPENING, read_info
from ..model import Config, Fence


def chapter_files(config: Config) -> list[str]:
    """Chapters in book order, as paths relative to the book's folder."""
    return [c for part in config.parts for c in part.chapters if (config.root / c).is_file()]


def scan(path: Path) -> list[Fence]:
    """The fences of one chapter in order, with line, language, mode and text."""
    rows = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n").split("\n")
    fences: list[Fence] = []
    row = 0
    while row < len(rows):
        opened = OPENING.match(rows[row])
        if not opened or ("`" in opened["mark"] and "`" in opened["info"]):
            row += 1
            continue
        body, end = [], row + 1
        while end < len(rows) and not _closes(rows[end], opened["mark"]):
            body.append(rows[end])
            end += 1
        indent = opened.start("mark")
        fences.append(_fence(len(fences), row + 1, opened["info"], [_unindent(b, indent) for b in body]))
        row = end + 1
    return fences


def _closes(row: str, mark: str) -> bool:
    text = row.strip(" \t>")
    return len(text) >= len(mark) and not text.strip(mark[0])


def _unindent(row: str, indent: int) -> str:
    """A row without the fence's own indent or quote marks, as CommonMark takes them off."""
    kept = row[indent:] if not row[:indent].strip(" \t>") else row.lstrip()
    return kept


def _fence(index: int, line: int, info: str, body: list[str]) -> Fence:
    words = read_info(info)
    modes = [c for c in words.classes if c in ("run", "slurm", "gpu", "parse", "shown", "output")]
    if words.lang == "output":
        modes = modes or ["output"]
    if "gpus" in words.values and not modes:
        modes = ["gpu"]
    values = dict(words.values)
    text = "\n".join(body)
    return Fence(
        index=index, line=line, lang=words.lang, text=text, mode=modes[0] if modes else "",
        id=values.pop("id", "") or words.id, attrs=values, hidden="hidden" in words.classes,
    )  # fmt: skip
