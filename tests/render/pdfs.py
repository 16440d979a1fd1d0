"""Makes and reads PDFs for the tests: text by page, destinations, structure."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pikepdf
import pypdfium2

from bookpress import pdf
from bookpress.model import Book
from bookpress.problems import Problem

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Made:
    """A finished file with the problems that making it reported."""

    file: Path
    problems: list[Problem]

    @cached_property
    def document(self) -> pikepdf.Pdf:
        return pikepdf.open(self.file)

    @cached_property
    def pages(self) -> list[str]:
        """Text of each page, as a reader copies it."""
        document = pypdfium2.PdfDocument(self.file)
        try:
            return [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in document]
        finally:
            document.close()

    @cached_property
    def labels(self) -> list[str]:
        return [page.label for page in self.document.pages]

    @cached_property
    def places(self) -> dict[str, tuple[int, float]]:
        """Destination → (page index, height of the point)."""
        index = {page.obj.objgen: n for n, page in enumerate(self.document.pages)}
        tree = pikepdf.NameTree(self.document.Root.Names.Dests)
        return {name: (index[spot[0].objgen], float(spot[3])) for name, spot in tree.items()}

    def links(self, page: int) -> dict[str, list[str]]:
        """Destination → what stands inside its link rectangles on a page, numbers stamped there included."""
        found: dict[str, list[str]] = {}
        document = pypdfium2.PdfDocument(self.file)
        try:
            words = document[page].get_textpage()
            for link in self.document.pages[page].get("/Annots", []):
                if "/Dest" in link:
                    left, bottom, right, top = sorted_box([float(v) for v in link.Rect])
                    said = words.get_text_bounded(left - 1, bottom - 1, right + 1, top + 1)
                    found.setdefault(str(link.Dest), []).append(said)
        finally:
            document.close()
        return found

    def page_with(self, text: str, start: int = 0) -> int:
        return next(n for n, said in enumerate(self.pages) if n >= start and text in said)

    @cached_property
    def elements(self) -> list[pikepdf.Dictionary]:
        """All structure elements, in order of the tree."""
        found: list[pikepdf.Dictionary] = []

        def walk(node) -> None:
            for kid in kids_of(node):
                if isinstance(kid, pikepdf.Dictionary) and "/S" in kid:
                    found.append(kid)
                    walk(kid)

        walk(self.document.Root.StructTreeRoot)
        return found

    def of_role(self, role: str) -> list[pikepdf.Dictionary]:
        return [e for e in self.elements if f"/{role}" == e.S]


def sorted_box(box: list[float]) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = box
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def kids_of(node: pikepdf.Dictionary) -> list:
    kids = node.get("/K", [])
    return list(kids) if isinstance(kids, pikepdf.Array) else [kids]


def roles_below(node: pikepdf.Dictionary) -> list[str]:
    return [str(k.S)[1:] for k in kids_of(node) if isinstance(k, pikepdf.Dictionary) and "/S" in k]


def silent(stage: str, done: int, total: int) -> None:
    pass


@functools.cache
def shared_cache() -> Path:
    """One cache for the tests of a process: the press's own pages are the same in most of them."""
    folder = Path(tempfile.mkdtemp(prefix="pdf-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def make(book: Book, folder: Path, jobs: int = 2, cache: Path | None = None) -> Made:
    """The PDF of `book`, in `folder`."""
    target = folder / "book.pdf"
    return Made(target, pdf.make(book, target, cache or shared_cache(), jobs, silent))


def alone(code: str, *arguments: str, stdin: str = "", **environment: str) -> str:
    """Run Python code in a fresh interpreter with the press and the fixtures on its path."""
    path = os.pathsep.join((str(ROOT / "build"), str(ROOT / "tests")))
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, input=stdin,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip
    return run.stdout
