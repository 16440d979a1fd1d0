"""Conducts the PDF output: what must be laid out, what is bound, and the last file.

In: the Book. Out: the file at `target`, and every problem that layout found, from the cache as well.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from ..cache import Cache, digest, file_digest
from ..model import Book
from ..problems import Problem
from . import front
from .assemble import Piece, assemble
from .fragment import Body, Sheet
from .orders import Order, all_orders, common
from .sheet import style
from .workers import laid_out

Progress = Callable[[str, int, int], None]


def make(book: Book, target: Path, cache: Path, jobs: int, progress: Progress) -> list[Problem]:
    """Write the PDF of `book` to `target`."""
    css = style(book.config)
    orders = all_orders(book, css)
    outline = front.outline(book)
    wanted = digest(common(), repr(book.config.identifier), repr(book.stamp), repr(_described(book)),
                    repr(outline), *(o.key for o in orders))  # fmt: skip
    last = _Last(cache, book.config.slug)
    if (known := last.problems(wanted)) is not None:
        last.copy(target)
        progress("layout", len(orders), len(orders))
        return known
    store = Cache(cache)
    sheets, failed = _sheets(orders, book, css, store, cache, jobs, progress)
    if failed:
        return sorted({*failed, *(p for s in sheets for p in s.problems)})
    body_of = functools.partial(_body, store, book, css, cache)
    pieces = [
        Piece(o.name, o.key, s, functools.partial(body_of, o), o.front) for o, s in zip(orders, sheets, strict=True)
    ]
    progress("bind", 0, 1)
    data = assemble(pieces, outline, book.config, book.stamp, store)
    problems = sorted({*(p for s in sheets for p in s.problems), *_dead_links(orders, sheets), *front.cover_problems(book)})
    last.keep(wanted, data, problems)
    last.copy(target)
    store.trim(["sheet", "body", "block", "subset", "picture"])
    progress("bind", 1, 1)
    return problems


def _dead_links(orders: Sequence[Order], sheets: Sequence[Sheet]) -> list[Problem]:
    """Links into other pieces that land nowhere. `link` resolves them all; this sees that it did."""
    known = {o.name for o in orders}.union(*(s.places for s in sheets))
    return [
        Problem(o.path, line, 0, "PDF003", f"link to {target}, which is nowhere in the book")
        for o, s in zip(orders, sheets, strict=True) for target, line in s.targets if target not in known
    ]  # fmt: skip


def _described(book: Book) -> tuple:
    c = book.config
    return (c.title, c.authors, c.description, c.publisher, c.license, c.language, c.slug)


def _body(store: Cache, book: Book, css: str, cache: Path, order: Order) -> Body:
    """The objects of a piece. Bodies are read so seldom that trimming may have taken one: then lay out again."""
    body = store.get("body", order.key)
    if body is None:
        ((_, result),) = laid_out([0], [order], book, css, cache, 1)
        if isinstance(result, Problem):
            raise RuntimeError(f"{order.name} was laid out before and now is not: {result.message}")
        body = result[1]
        store.put("body", order.key, body)
    return body


def _sheets(
    orders: Sequence[Order], book: Book, css: str, store: Cache, cache: Path, jobs: int, progress: Progress
) -> tuple[list[Sheet], list[Problem]]:
    """The sheets of all pieces; those not in the cache are laid out, long ones first. And what failed."""
    sheets: list[Sheet | None] = [store.get("sheet", o.key) for o in orders]
    missing = sorted((n for n, s in enumerate(sheets) if s is None), key=lambda n: -orders[n].weight)
    done = len(orders) - len(missing)
    progress("layout", done, len(orders))
    failed: list[Problem] = []
    for n, result in laid_out(missing, orders, book, css, cache, jobs):
        if isinstance(result, Problem):
            failed.append(result)
            continue
        sheets[n], body = result
        store.put("body", orders[n].key, body)
        store.put("sheet", orders[n].key, sheets[n])
        done += 1
        progress("layout", done, len(orders))
    return [s for s in sheets if s is not None], failed


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
