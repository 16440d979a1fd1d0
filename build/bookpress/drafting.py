"""Beside parse: a chapter while it is being read. Collects what ends in the Draft.

Comes in: the Expanded text and the Config. Every reader of the front half reports here: problems with the
place in the author's file, link sites, fences and the files that were read.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, field
from pathlib import Path

from .model import Config, Expanded, Fence, Site
from .problems import Problem


@dataclass
class Drafting:
    """One chapter in the making."""

    expanded: Expanded
    config: Config
    rows: list[str]  # the text that pandoc reads, by line
    problems: list[Problem] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    reads: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.expanded.source.path

    @property
    def folder(self) -> str:
        """The chapter's folder, relative to the book's."""
        return posixpath.dirname(self.path)

    def line(self, row: int) -> int:
        """The line of the author's file that made line `row` (1-based) of the expanded text."""
        lines = self.expanded.lines
        if not lines:
            return row
        return lines[min(max(row, 1), len(lines)) - 1]

    def row(self, line: int) -> int:
        """The first line of the expanded text that a line of the author's file made."""
        lines = self.expanded.lines
        return lines.index(line) + 1 if line in lines else line

    def report(
        self,
        code: str,
        place: tuple[int, int],
        message: str,
        hint: str = "",
        level: str = "error",
    ) -> None:
        """Add a problem; `place` is (line, column) in the expanded text."""
        row, col = place
        self.problems.append(Problem(self.path, self.line(row), col, code, message, hint, level))

    def report_at(
        self,
        code: str,
        line: int,
        message: str,
        hint: str = "",
        level: str = "error",
    ) -> None:
        """Add a problem at a line of the author's file (an element's data-line)."""
        self.problems.append(Problem(self.path, line, 1, code, message, hint, level))

    @property
    def lenient(self) -> str:
        """Level of what the press can carry: an error only where the book asks to be strict."""
        return "error" if self.config.features.strict else "warning"

    def site(self, kind: str, value: str, place: tuple[int, int], text: str = "") -> str:
        """Keep a place that link fills in. Out: its mark, an index into the draft's sites."""
        self.sites.append(Site(kind, value, text, self.line(place[0]), place[1]))
        return str(len(self.sites) - 1)

    def find(self, row: int, needle: str, span: int = 60) -> tuple[int, int]:
        """(line, column) of a text at or soon after a row, for what has no position of its own."""
        for number in range(max(row, 1), min(row + span, len(self.rows)) + 1):
            col = self.rows[number - 1].find(needle)
            if col >= 0:
                return number, col + 1
        return row, 1

    def inside(self, target: str) -> str | None:
        """A path relative to the chapter as a path relative to the book; None outside the book."""
        path = posixpath.normpath(posixpath.join(self.folder, target))
        real = (self.config.root / path).resolve()
        if path.startswith("..") or not real.is_relative_to(self.config.root.resolve()):
            return None
        return path

    def read(self, path: str) -> bytes | None:
        """A file of the book; noted, found or not, so that the cache sees it change."""
        try:
            data = Path(self.config.root / path).read_bytes()
        except OSError:
            self.reads[path] = ""
            return None
        self.reads[path] = hashlib.sha256(data).hexdigest()
        return data
