"""Part of prove: write the real output of a run into the output fence that names it.

Only fences that differ are rewritten, and elisions are lost there: the author shortens the new text again.
The Markdown outside the fences is not touched.
"""

from __future__ import annotations

import os
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
    for chapter, fences in chapters:
        wrong = [
            (f, outputs[chapter, f.attrs["of"]])
            for f in fences
            if f.mode == "output" and (chapter, f.attrs.get("of")) in outputs
            and compare(f.text, outputs[chapter, f.attrs["of"]])
        ]  # fmt: skip
        if wrong:
            _rewrite(root / chapter, wrong)
            print(f"{chapter}: {len(wrong)} output{'s' * (len(wrong) != 1)} refreshed")
    return [p for p in problems if p.code != "PRV002"]


def _rewrite(file: Path, wrong: Sequence[tuple[Fence, str]]) -> None:
    rows = file.read_text(encoding="utf-8").split("\n")
    for fence, output in sorted(wrong, key=lambda item: -item[0].line):
        opened = OPENING.match(rows[fence.line - 1])
        if opened is None:
            continue  # an indented block: its author refreshes it by hand
        prefix = rows[fence.line - 1][: opened.start("mark")]
        body = [(prefix + row).rstrip() for row in output.rstrip("\n").split("\n")]
        rows[fence.line : fence.line + fence.text.count("\n") + 1] = body
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text("\n".join(rows), encoding="utf-8")
    os.replace(temporary, file)
