"""Which chapter a page of the finished PDF belongs to, from the file's own named destinations.

Used by the checks that read the PDF, to report at a chapter what they find on a page.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pikepdf

from ..model import Book
from ..problems import Problem


class Places:
    """Page index → chapter and page label."""

    def __init__(self, file: Path, book: Book) -> None:
        self.file = file.name
        with pikepdf.open(file) as pdf:
            index = {page.obj.objgen: n for n, page in enumerate(pdf.pages)}
            self.labels = [page.label for page in pdf.pages]
            names = pikepdf.NameTree(pdf.Root.Names.Dests) if "/Names" in pdf.Root else {}
            starts = []
            for chapter in book.chapters:
                target = names.get(chapter.slug)
                if target is not None:
                    spot = target.D if isinstance(target, pikepdf.Dictionary) else target
                    starts.append((index[spot[0].objgen], chapter.path))
        self.starts = sorted(starts)

    def path(self, page: int) -> str:
        """The Markdown file of the chapter on that page; the PDF's own name before the first chapter."""
        at = bisect_right([start for start, _ in self.starts], page) - 1
        return self.starts[at][1] if at >= 0 else self.file

    def problem(self, page: int, code: str, text: str) -> Problem:
        return Problem(self.path(page), 0, 0, code, f"page {self.labels[page]} of the PDF: {text}")
