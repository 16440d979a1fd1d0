"""Part of prove: write the real output of a run into the output fence that names it.

Only fences that differ are rewritten, and elisions are lost there: the author shortens the new text again.
The Markdown outside the fences is not touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..infostring import OPENING
from ..model import Fence
from ..problems import Problem
from .compare import compare


def refresh(
    chapters: Sequence[tuple[str, Sequence[Fence]]],
    outputs: Mapping[tuple[str, str], str],
    problems: Sequence[Problem],
    root: Path,
) -> list[Problem]:
    """Rewrite differing output fences. Out: the problems that remain."""
    done: set[tuple[str, int]] = set()
    for chapter, fences in chapters:
        wrong = [
            (f, outputs[chapter, f.attrs["of"]])
            for f in fences
            if f.mode == "output" and (chapter, f.attrs.get("of")) in outputs
            and compare(f.text, outputs[chapter, f.attrs["of"]])
        ]  # fmt: skip
        if wrong:
            lines = _rewrite(root / chapter, wrong)
            done |= {(chapter, line) for line in lines}
            print(f"{chapter}: {len(lines)} output{'s' * (len(lines) != 1)} refreshed")
    return [p for p in problems if p.code != "PRV002" or not _within(p, done, chapters)]


def _within(
    problem: Problem, done: set[tuple[str, int]], chapters: Sequence[tuple[str, Sequence[Fence]]]
) -> bool:
    """True when the problem is of a fence that has been rewritten."""
    fences = next(f for path, f in chapters if path == problem.path)
    opened = max((f.line for f in fences if f.line < problem.line), default=0)
    return (problem.path, opened) in done


def _rewrite(file: Path, wrong: Sequence[tuple[Fence, str]]) -> list[int]:
    """Write the outputs into the file. Out: the lines of the fences that now hold them."""
    rows, lines = file.read_text(encoding="utf-8").split("\n"), []
    for fence, output in sorted(wrong, key=lambda item: -item[0].line):
        opened = OPENING.match(rows[fence.line - 1])
        body = output.rstrip("\n").split("\n")
        if opened is None or any(_closes(row, opened["mark"]) for row in body):
            continue  # indented code, or an output that would end the fence: its author writes it by hand
        # A list's marker is not repeated, its indent is; a quote's mark is.
        lead = re.sub(r"[^>\s]", " ", rows[fence.line - 1][: opened.start("mark")])
        empty = _closes(rows[fence.line].lstrip("> \t"), opened["mark"])
        end = fence.line if empty else fence.line + fence.text.count("\n") + 1
        rows[fence.line : end] = [(lead + row).rstrip() for row in body]
        lines.append(fence.line)
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text("\n".join(rows), encoding="utf-8")
    os.replace(temporary, file)
    return lines


def _closes(row: str, mark: str) -> bool:
    text = row.strip()
    return len(text) >= len(mark) and not text.strip(mark[0])
