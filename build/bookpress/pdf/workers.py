"""Lays pieces out: one here, several in fresh processes.

In: Orders. Out: for each its Sheet and Body, or the Problem that stopped it.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from .. import fonts
from ..model import Asset, Book
from ..orphans import end_with_parent
from ..problems import Problem, ToolMissing
from .fragment import Body, Sheet
from .front import FRONT, cover_image
from .orders import Order


def laid_out(
    missing: Sequence[int], orders: Sequence[Order], book: Book, css: str, cache: Path, jobs: int
) -> Iterator[tuple[int, tuple[Sheet, Body] | Problem]]:
    """Lay out pieces: here when it is one and this process can, in fresh processes otherwise."""
    tasks = [_task(orders[n], book, css, cache) for n in missing]
    if len(tasks) < 2 and _may_lay_out_here(cache):
        fonts.activate(cache)
        for n, task in zip(missing, tasks, strict=True):
            yield n, _work(task)
        return
    # A fresh interpreter a worker: Pango reads its font configuration once in a process.
    with ProcessPoolExecutor(
        min(jobs, len(tasks)), get_context("spawn"), initializer=_begin, initargs=(cache,)
    ) as pool:
        futures = {pool.submit(_work, task): n for n, task in zip(missing, tasks, strict=True)}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _may_lay_out_here(cache: Path) -> bool:
    """False once the layout engine was loaded with other fonts than this cache's configuration names."""
    wanted = fonts.environment(cache)["FONTCONFIG_FILE"]
    return "weasyprint" not in sys.modules or os.environ.get("FONTCONFIG_FILE") == wanted


def _begin(cache: Path) -> None:
    """Start a worker: our fonts only; no garbage collection, since a worker is short-lived and allocates trees."""
    end_with_parent()
    fonts.activate(cache)
    gc.disable()
    # Leave without taking half a gigabyte of trees apart: the results are handed over by then.
    atexit.register(os._exit, 0)


def _task(order: Order, book: Book, css: str, cache: Path) -> dict:
    """A Job as plain values: the class lives in a module that loads the layout engine."""
    chapter = order.chapter
    assets: dict[str, Asset] = {}
    if chapter is not None:
        assets = {path: book.assets[path] for path in chapter.assets if path in book.assets}
    elif order.name == FRONT and (cover := cover_image(book)):
        assets[cover.path] = cover
    return {
        "name": order.name, "cache_key": order.key, "path": order.path, "css": css,
        "setting": order.setting, "assets": assets, "chapter": chapter, "markup": order.markup,
        "drawings": dict(order.drawings), "folio": order.folio, "cache": cache,
    }  # fmt: skip


def _work(task: dict) -> tuple[Sheet, Body] | Problem:
    """One piece; a fault of the layout engine is reported at the chapter that it could not carry."""
    from .layout import Job, lay_out  # here: an unchanged book must not wait for the layout engine

    was_on = gc.isenabled()
    gc.disable()
    try:
        return lay_out(Job(**task))
    except ToolMissing:
        raise
    except Exception as error:  # WeasyPrint stops at some input with an assertion or an index
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        return Problem(
            task["path"], 0, 0, "PDF006", f"layout stopped: {said}",
            f"in {Path(place.filename).name}:{place.lineno}; halve the chapter to find the block",
        )  # fmt: skip
    finally:
        if was_on:
            gc.enable()
