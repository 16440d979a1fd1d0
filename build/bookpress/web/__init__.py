"""The web edition: a folder of static pages that works from a server and from a disk.

Stands last in the pipeline, beside pdf and epub. In: a Book. Out: files in the target folder, and problems.
A file whose bytes did not change keeps its time stamp, a file that no longer belongs is removed (G04).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ..model import Book
from ..problems import Problem, WrongUse
from . import fonts, search
from .site import OWN, SHELL_IDS, Site

__all__ = ["OWN", "Site", "budget", "check", "fonts", "make"]


def make(
    book: Book,
    target: Path,
    progress: Callable[[str, int, int], None],
    downloads: Sequence[str] = (),
) -> list[Problem]:
    """Write the site into `target`.

    `downloads` names the PDF and EPUB that will lie beside that folder.
    """
    _own(target)
    site = Site(book, downloads)
    problems = check(site) + budget(site)
    written: set[Path] = set()
    total = len(site.pages) + len(site.files)
    for done, path in enumerate(site.paths()):
        progress("web", min(done, total), total)
        data = site.read(path)
        if data is None:
            raise AssertionError(f"{path} is listed but has no content")
        file = target / path
        _write(file, data)
        written.add(file)
    _sweep(target, written)
    progress("web", total, total)
    return problems


def _own(target: Path) -> None:
    """Take a folder that is new, empty, or a site of ours: everything else in it would be removed."""
    if target.is_dir() and any(target.iterdir()) and not (target / OWN).is_dir():
        raise WrongUse(f"{target} holds files that are no web edition; give an empty folder")
    (target / OWN).mkdir(parents=True, exist_ok=True)


def check(site: Site) -> list[Problem]:
    """What an author must know about: addresses and ids that collide, redirects that lead nowhere."""
    problems = list(site.moved.problems)
    for chapter in site.book.chapters:
        for anchor in chapter.anchors:
            if anchor.id in SHELL_IDS or anchor.id.startswith(("ui-help", "ui-search", "ui-moves")):
                hint = "give the heading an id of its own: ## Title {#my-id}"
                message = f"id '{anchor.id}' is one of the page's own"
                problems.append(Problem(chapter.path, anchor.line, 1, "WEB001", message, hint))
        if chapter.url == "index.html" or chapter.url.split("/")[0] == OWN:
            hint = "rename the chapter's file"
            message = f"the page {chapter.url} would stand where the press puts its own"
            problems.append(Problem(chapter.path, 1, 1, "WEB002", message, hint))
    return problems


def budget(site: Site) -> list[Problem]:
    """Readers fetch the whole index at their first search."""
    size = sum(len(zlib.compress(s.encode(), 6)) for s in (site.search.index, site.search.texts))
    if size <= search.BUDGET:
        return []
    message = f"the search index has {size:,} bytes compressed, the budget is {search.BUDGET:,}"
    return [Problem(site.book.config.path.name, 1, 1, "WEB006", message, "", "warning")]


def _write(file: Path, data: bytes) -> None:
    """Write a file unless it already holds these bytes."""
    if file.is_file() and file.read_bytes() == data:
        return
    if file.is_dir():
        raise NotADirectoryError(f"{file} is a folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_bytes(data)
    os.replace(new, file)


def _sweep(target: Path, written: set[Path]) -> None:
    """Remove what an earlier build left. Only inside a folder that holds a site of ours."""
    for old in sorted(target.rglob("*"), reverse=True):
        if old.is_dir() and not old.is_symlink():
            if not any(old.iterdir()):
                old.rmdir()
        elif old not in written:
            old.unlink()
