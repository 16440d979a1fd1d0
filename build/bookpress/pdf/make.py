"""Conducts the PDF output: which pieces there are, which must be laid out, and the last file.

In: the Book. Out: the file at `target`, and every problem that layout found, from the cache as well.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

from .. import fonts, templates
from ..cache import Cache, digest, file_digest
from ..model import Asset, Book, Chapter
from ..problems import Problem
from . import front
from .assemble import Piece, assemble
from .fragment import Body, Sheet
from .prepare import Setting, page
from .sheet import columns, style

Progress = Callable[[str, int, int], None]
_LIBRARIES = ("weasyprint", "pydyf", "fonttools", "tinycss2", "cssselect2", "Pyphen", "pillow", "ziamath")
_CROSS = re.compile(r'href="(book:[^"]+)"')
_CHARACTERS_PER_PAGE = 5200  # of markup, on the default page
# The press's modules that shape a page, besides this package: a change elsewhere lays nothing out again.
_SOURCES = ("model", "problems", "templates", "fonts", "code", "rows", "mathtex", "cache")
_SHARED_OBJECTS = {"libpango-1.0.so.0": "pango_version_string", "libharfbuzz.so.0": "hb_version_string"}


@dataclass(frozen=True)
class Order:
    """A piece to be made: its name, its key, and how to describe the job to a worker."""

    name: str
    key: str
    front: bool
    folio: bool
    weight: int
    chapter: Chapter | None = None
    markup: str = ""
    drawings: tuple[tuple[str, bytes], ...] = ()
    setting: Setting | None = None


@functools.cache
def _machine() -> str:
    """Versions of everything outside the press that shapes a page."""
    found = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    for library, function in _SHARED_OBJECTS.items():
        try:
            call = getattr(ctypes.CDLL(library), function)
        except (OSError, AttributeError):
            found.append(f"{library} unknown")  # other systems: the libraries' own versions have to do
            continue
        call.restype = ctypes.c_char_p
        found.append(f"{library} {call().decode()}")
    return "; ".join(found)


@functools.cache
def _common() -> str:
    """Hash of code, templates' folder of print pages, fonts, tools: part of every key."""
    names = ("print.html", "cover.svg", "print/front.html", "print/contents.html", "print/part.html")
    pages = [templates.text(n) for n in names]
    press = Path(__file__).parents[1]
    sources = [*(press / f"{name}.py" for name in _SOURCES), *sorted((press / "pdf").glob("*.py"))]
    files = [file_digest(f) for f in [*sources, *(f.file for f in fonts.faces())]]
    return digest(_machine(), *pages, *files)


def make(book: Book, target: Path, cache: Path, jobs: int, progress: Progress) -> list[Problem]:
    """Write the PDF of `book` to `target`."""
    css = style(book.config)
    orders = _orders(book, css)
    outline = front.outline(book)
    wanted = digest(_common(), repr(book.config.identifier), repr(book.stamp), repr(_described(book)),
                    repr(outline), *(o.key for o in orders))  # fmt: skip
    last = _Last(cache, book.config.slug)
    if (known := last.problems(wanted)) is not None:
        last.copy(target)
        progress("layout", len(orders), len(orders))
        return known
    store = Cache(cache)
    sheets = _sheets(orders, book, css, store, cache, jobs, progress)
    pieces = [
        Piece(o.name, o.key, s, functools.partial(_body, store, o.key), o.front)
        for o, s in zip(orders, sheets, strict=True)
    ]
    progress("bind", 0, 1)
    data = assemble(pieces, outline, book.config, book.stamp, store)
    problems = sorted({p for s in sheets for p in s.problems})
    last.keep(wanted, data, problems)
    last.copy(target)
    store.trim(["sheet", "body", "block", "subset", "picture"])
    progress("bind", 1, 1)
    return problems


def _described(book: Book) -> tuple:
    c = book.config
    return (c.title, c.authors, c.description, c.publisher, c.license, c.language, c.slug)


def _body(store: Cache, key: str) -> Body:
    body = store.get("body", key)
    if body is None:
        raise RuntimeError(f"the cache lost an entry while it was in use: body {key[:12]}")
    return body


def _orders(book: Book, css: str) -> list[Order]:
    """All pieces in reading order."""
    config = book.config
    base = Setting(config.title, config.language, columns(config),
                   config.source_url.replace("{commit}", book.stamp.commit or "HEAD"), config.title)  # fmt: skip
    common = digest(_common(), css, repr(base))
    markup, drawings = front.front(book)
    orders = [
        _page_order(front.FRONT, page(base, config.title, markup, "front"), common, drawings, front=True, folio=False),
        _page_order(front.CONTENTS, page(base, "Contents", front.contents(book), "contents"), common, {}, front=True),
    ]  # fmt: skip
    first = next((n for n, c in enumerate(book.chapters) if book.parts[c.part].numbered), 0)
    pages = expected_pages(book)
    for n, chapter in enumerate(book.chapters):
        part = book.parts[chapter.part].title
        if front.opens_part(book, chapter):
            opening = page(base, part, front.part_page(book, chapter.part), "part-page")
            orders.append(_page_order(front.part_name(chapter.part), opening, common, {}, front=n < first, folio=False))
        digits = tuple((href, len(str(pages(href)))) for href in sorted(set(_CROSS.findall(chapter.body))))
        setting = replace(base, running=part or config.title, digits=digits)
        orders.append(_chapter_order(book, chapter, setting, common, n < first))
    return orders


def expected_pages(book: Book) -> Callable[[str], int]:
    """About which page a `book:` link will lead to, from the lengths of the bodies alone.

    Only the number of digits matters, for the room left in the line; the true number comes at the end. It must not
    depend on an earlier build, or two builds would differ.
    """
    starts, at = {}, 1.0
    for chapter in book.chapters:
        starts[chapter.slug] = at, chapter.body
        at += len(chapter.body) / _CHARACTERS_PER_PAGE + 0.5

    def page_of(href: str) -> int:
        slug, _, ident = href.removeprefix("book:").partition("#")
        start, body = starts.get(slug, (1.0, ""))
        inside = max(body.find(f'id="{ident}"'), 0) if ident else 0
        return int(start + inside / _CHARACTERS_PER_PAGE)

    return page_of


def _page_order(
    name: str, markup: str, common: str, drawings: dict[str, bytes], front: bool, folio: bool = True
) -> Order:
    parts = [part for k in sorted(drawings) for part in (k, drawings[k])]
    key = digest(common, name, markup, str(folio), *parts)
    return Order(name, key, front, folio, len(markup), markup=markup, drawings=tuple(drawings.items()))


def _chapter_order(book: Book, chapter: Chapter, setting: Setting, common: str, front_matter: bool) -> Order:
    assets = [f"{a} {book.assets[a].sha256}" for a in chapter.assets if a in book.assets]
    key = digest(common, chapter.slug, chapter.path, chapter.title, repr(chapter.meta), chapter.body,
                 repr(setting), *assets)  # fmt: skip
    return Order(chapter.slug, key, front_matter, True, len(chapter.body), chapter=chapter, setting=setting)


def _sheets(
    orders: Sequence[Order], book: Book, css: str, store: Cache, cache: Path, jobs: int, progress: Progress
) -> list[Sheet]:
    """The sheets of all pieces; those not in the cache are laid out, long ones first."""
    sheets: list[Sheet | None] = [store.get("sheet", o.key) for o in orders]
    missing = sorted((n for n, s in enumerate(sheets) if s is None), key=lambda n: -orders[n].weight)
    done = len(orders) - len(missing)
    progress("layout", done, len(orders))
    fonts_folder = cache
    for n, sheet, body in _laid_out(missing, orders, book, css, fonts_folder, jobs):
        store.put("body", orders[n].key, body)
        store.put("sheet", orders[n].key, sheet)
        sheets[n] = sheet
        done += 1
        progress("layout", done, len(orders))
    return [s for s in sheets if s is not None]


def _laid_out(missing: Sequence[int], orders: Sequence[Order], book: Book, css: str, cache: Path, jobs: int):
    tasks = [_task(orders[n], book, css, cache) for n in missing]
    if jobs < 2 or len(tasks) < 2:
        fonts.activate(cache)
        for n, task in zip(missing, tasks, strict=True):
            yield n, *_work(task)
        return
    # A fresh interpreter a worker: Pango reads its font configuration once in a process.
    with ProcessPoolExecutor(
        min(jobs, len(tasks)), get_context("spawn"), initializer=_begin, initargs=(cache,)
    ) as pool:
        futures = {pool.submit(_work, task): n for n, task in zip(missing, tasks, strict=True)}
        for future in as_completed(futures):
            yield futures[future], *future.result()


def _begin(cache: Path) -> None:
    """Start a worker: our fonts only; no garbage collection, since a worker is short-lived and allocates trees."""
    fonts.activate(cache)
    gc.disable()
    # Leave without taking half a gigabyte of trees apart: the results are handed over by then.
    atexit.register(os._exit, 0)


def _task(order: Order, book: Book, css: str, cache: Path) -> dict:
    """A Job as plain values: the class lives in a module that loads the layout engine."""
    chapter = order.chapter
    assets: dict[str, Asset] = {}
    for path in chapter.assets if chapter else (book.config.cover,):
        if path in book.assets:
            assets[path] = book.assets[path]
    return {
        "name": order.name, "cache_key": order.key, "path": chapter.path if chapter else "book.toml", "css": css,
        "setting": order.setting, "assets": assets, "chapter": chapter, "markup": order.markup,
        "drawings": dict(order.drawings), "folio": order.folio, "cache": cache,
    }  # fmt: skip


def _work(task: dict) -> tuple[Sheet, Body]:
    from .layout import Job, lay_out  # here: an unchanged book must not wait for the layout engine

    was_on = gc.isenabled()
    gc.disable()
    try:
        return lay_out(Job(**task))
    finally:
        if was_on:
            gc.enable()


class _Last:
    """The last file made, kept beside its key, so that an unchanged book costs a copy."""

    def __init__(self, cache: Path, slug: str):
        self.file = cache / "last" / f"{slug}.pdf"
        self.record = cache / "last" / f"{slug}.json"

    def problems(self, key: str) -> list[Problem] | None:
        """Its problems, when it was made from the same inputs and is still whole."""
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if record["key"] != key or record["sha256"] != file_digest(self.file):
            return None
        return [Problem(**p) for p in record["problems"]]

    def keep(self, key: str, data: bytes, problems: Sequence[Problem]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".new")
        temporary.write_bytes(data)
        os.replace(temporary, self.file)
        record = {"key": key, "sha256": file_digest(self.file), "problems": [asdict(p) for p in problems]}
        self.record.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")

    def copy(self, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        shutil.copyfile(self.file, temporary)
        os.replace(temporary, target)
