"""Golden books: `<case>/in` is a small book, `<case>/want` says what must come out of it.

want/problems.txt      every problem of the reading half, one a line; empty: the book is clean
want/<slug>.xhtml      the chapter's body, one block a line; checked where the file is there
want/contains.txt      each line stands in some chapter's body;  want/absent.txt: in none
want/<output>.contains.txt, want/<output>.absent.txt
                       the same over the text of an output: web, epub or pdf, built for this test

UPDATE_GOLDEN=1 pytest tests/golden   rewrites problems and bodies; read the diff before you commit it.
Case ids are those of the list of public failures that the press was built against.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from lxml import etree

from bookpress import build
from bookpress.config import read_config
from bookpress.model import Book
from missing import absent

HERE = Path(__file__).parent
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
CASES = sorted(p.name for p in HERE.iterdir() if (p / "in" / "book.toml").is_file())
_BLOCK = re.compile(
    r"(?<!^)(<(?:h[1-6]|p|ul|ol|li|dl|dt|dd|figure|figcaption|table|thead|tbody|tr|aside|blockquote"
    r"|details|summary|section|div|hr)\b)"
)


def read_book(folder: Path, cache: Path) -> tuple[Book | None, list[str]]:
    """The reading half over one book, as the command line runs it."""
    config, problems = read_config(folder / "book.toml")
    if config is None:
        return None, [str(p) for p in sorted(set(problems))]
    book, found = build.prepare(config, cache)
    return book, [str(p) for p in sorted({*problems, *found})]


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def output_text(name: str, folder: Path, out: Path) -> str:
    """Build one output and read its text back."""
    files, problems = build.build(folder / "book.toml", out, (name,), jobs=1)
    assert files, [str(p) for p in problems]
    if name == "web":
        pages = sorted((out / "web").rglob("*.html"))
        return "\n".join(p.read_text(encoding="utf-8") for p in pages)
    if name == "epub":
        with zipfile.ZipFile(next(out.glob("*.epub"))) as package:
            names = [n for n in package.namelist() if n.endswith((".xhtml", ".opf", ".ncx"))]
            return "\n".join(package.read(n).decode() for n in names)
    tool = shutil.which("pdftotext")
    if tool is None:
        absent("install pdftotext: apt-get install poppler-utils")
    pdf = next(out.glob("*.pdf"))
    done = subprocess.run([tool, "-layout", pdf, "-"], capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize("case", CASES)
def test_case(case: str, tmp_path: Path):
    folder, want = HERE / case / "in", HERE / case / "want"
    book, problems = read_book(folder, tmp_path / "cache")
    bodies = {c.slug: c.body for c in book.chapters} if book else {}
    for body in bodies.values():
        etree.fromstring(body)  # well-formed, whatever the case is about
    shown = {slug: _BLOCK.sub(r"\n\1", body) + "\n" for slug, body in bodies.items()}
    if UPDATE:
        (want / "problems.txt").write_text("".join(f"{p}\n" for p in problems), encoding="utf-8")
        for file in want.glob("*.xhtml"):
            file.write_text(shown[file.stem], encoding="utf-8")
    assert problems == lines(want / "problems.txt")
    for file in sorted(want.glob("*.xhtml")):
        assert shown[file.stem] == file.read_text(encoding="utf-8"), file.name
    check_lines(want, "", "\n".join(bodies.values()))
    for name in build.OUTPUTS:
        if list(want.glob(f"{name}.*.txt")):
            check_lines(want, f"{name}.", output_text(name, folder, tmp_path / "out"))


def check_lines(want: Path, prefix: str, text: str) -> None:
    missing = [line for line in lines(want / f"{prefix}contains.txt") if line not in text]
    assert not missing
    there = [line for line in lines(want / f"{prefix}absent.txt") if line in text]
    assert not there


def test_every_case_checks_something():
    for case in CASES:
        assert (HERE / case / "want" / "problems.txt").is_file(), case
