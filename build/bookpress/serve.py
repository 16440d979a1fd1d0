"""`make serve`: the web edition while one writes. Watches, makes the changed page again, reloads it.

Stands beside build.py and uses its reading half. In: book.toml. Out: pages over HTTP, problems on the
terminal and over the page. Pages are made when a browser asks for them and kept until their chapter changes,
so an edit costs one chapter's parse, the linking, and one page; PDF and EPUB are never made here (G04).
"""

from __future__ import annotations

import errno
import json
import logging
import mimetypes
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from watchfiles import DefaultFilter, watch

from . import build, web
from .config import read_config
from .model import Book
from .problems import BOOK, OK, Problem, WrongUse, errors, report
from .templates import FOLDER as TEMPLATES

EVENTS = "/ui-events"
_HEARTBEAT_S = 10
_TYPES = {".js": "text/javascript", ".woff2": "font/woff2", ".svg": "image/svg+xml"}


@dataclass
class State:
    """The site as it is now, and who wants to hear of changes. One lock guards all of it."""

    book_toml: Path
    cache: Path
    site: web.Site | None = None
    problems: list[Problem] = field(default_factory=list)
    generation: int = 0
    changed_in: dict[str, int] = field(default_factory=dict)  # page → generation of its last change
    kept: dict[str, bytes] = field(default_factory=dict)  # pages already made
    listeners: set[queue.SimpleQueue] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)
    boot: str = field(default_factory=lambda: format(time.time_ns(), "x"))

    def read(self, path: str) -> bytes | None:
        """One file of the site; pages are kept until their chapter changes."""
        with self.lock:
            if self.site is None:
                return self._unreadable()
            if path not in self.site.pages:
                return self.site.read(path)
            if path not in self.kept:
                self.kept[path] = self.site.read(path) or b""
            seen = f'<html data-ui-seen="{self.boot}.{self.generation}" '.encode()
            return self.kept[path].replace(b"<html ", seen, 1)

    def _unreadable(self) -> bytes:
        """Until book.toml can be read there is no site: the problems alone, asking again each second."""
        lines = "".join(f"<li>{escape(str(p))}" for p in self.problems)
        return f'<!DOCTYPE html><meta http-equiv="refresh" content="1"><title>Problems</title><ol>{lines}</ol>'.encode()

    def rebuild(self) -> list[str]:
        """Read the book again. Out: the pages that differ now."""
        config, problems = read_config(self.book_toml)
        if config is None or errors(problems):
            self._publish(problems, [])
            return []
        book, found = build.prepare(config, self.cache, build.default_jobs())
        return self._take(book, problems + found)

    def restyle(self) -> list[str]:
        """Templates changed: the same book in new clothes."""
        if self.site is None:
            return self.rebuild()
        return self._take(self.site.book, self.problems, templates=True)

    def _take(self, book: Book, problems: list[Problem], templates: bool = False) -> list[str]:
        site = web.Site(book, live=True)
        pages = list(site.pages) if templates or self.site is None else changed(self.site, site)
        with self.lock:
            self.site = site
            self.generation += 1
            for page in pages:
                self.changed_in[page] = self.generation
                self.kept.pop(page, None)
        self._publish(sorted({*problems, *web.check(site)}), pages)
        return pages

    def _publish(self, problems: Iterable[Problem], pages: list[str]) -> None:
        with self.lock:
            news = list(problems)
            if not pages and news == self.problems:
                return
            self.problems = news
            for listener in self.listeners:
                if pages:
                    listener.put(("changed", pages))
                listener.put(("problems", self._shown()))

    def _shown(self) -> list[dict]:
        return [asdict(p) for p in sorted(self.problems, key=lambda p: p.level != "error")[:50]]

    def listen(self, page: str, seen: str) -> queue.SimpleQueue:
        """A queue of events for one open page, beginning with what it missed since it was sent."""
        listener: queue.SimpleQueue = queue.SimpleQueue()
        boot, _, generation = seen.partition(".")
        with self.lock:
            late = boot != self.boot or self.changed_in.get(page, 0) > int(generation or 0)
            if late:
                listener.put(("changed", [page]))
            listener.put(("problems", self._shown()))
            self.listeners.add(listener)
        return listener


def changed(old: web.Site, new: web.Site) -> list[str]:
    """Pages of `new` that differ from `old`: one chapter's, or all when the contents changed."""
    if _shell(old) != _shell(new):
        return list(new.pages)
    before = {c.slug: c for c in old.book.chapters}
    pages = [] if old.book.stamp == new.book.stamp else ["index.html", "colophon.html"]
    for chapter in new.book.chapters:
        images = [p for p in chapter.assets if old.book.assets.get(p) != new.book.assets.get(p)]
        if before.get(chapter.slug) != chapter or images:
            pages.append(chapter.url)
            if before[chapter.slug].meta != chapter.meta:
                pages.append("index.html")
    return list(dict.fromkeys(pages))


def _shell(site: web.Site) -> tuple:
    """What every page shows besides its chapter."""
    book = site.book
    chapters = tuple((c.slug, c.url, c.number, c.title, c.part) for c in book.chapters)
    # Not the whole stamp: the first edit makes the tree dirty, and only the colophon says so.
    return (book.config, book.stamp.version, chapters, site.moved)


class Handler(BaseHTTPRequestHandler):
    """Pages, files and the stream of events."""

    protocol_version = "HTTP/1.1"
    state: State  # set by serve()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == EVENTS:
            self._events(parse_qs(url.query))
            return
        path = unquote(url.path).lstrip("/")
        if not path or path.endswith("/"):
            path += "index.html"
        data, status = self.state.read(path), 200
        if data is None:
            data, status, path = self.state.read("404.html") or b"not found\n", 404, "404.html"
        self.send_response(status)
        self.send_header("Content-Type", _content_type(path))
        self.send_header("Content-Length", str(len(data)))
        # Font files carry a hash in their names; without them at once a reloaded page would jump.
        self.send_header(
            "Cache-Control", "max-age=604800" if path.endswith(".woff2") else "no-store"
        )
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815 - the name http.server looks for

    def _events(self, query: Mapping[str, list[str]]) -> None:
        state = self.state
        listener = state.listen(query.get("page", [""])[0], query.get("seen", [""])[0])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                try:
                    name, data = listener.get(timeout=_HEARTBEAT_S)
                    message = f"event: {name}\ndata: {json.dumps(data)}\n\n"
                except queue.Empty:
                    message = ": still here\n\n"
                self.wfile.write(message.encode())
                self.wfile.flush()
        except OSError:
            pass  # the page was closed or left: nobody to tell
        finally:
            with state.lock:
                state.listeners.discard(listener)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not news here; rebuilds and problems are."""


def _content_type(path: str) -> str:
    kind = (
        _TYPES.get(Path(path).suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    )
    return (
        kind + "; charset=utf-8"
        if kind.startswith("text/") or kind.endswith("javascript")
        else kind
    )


class Sources(DefaultFilter):
    """What shapes the pages: the book and our part of the templates, nothing that the press writes."""

    STYLES = re.compile(r"/(web/|js/|fonts/|icon\.svg|css/(tokens|base|web)\.css)")

    def __init__(self, *written: Path):
        super().__init__()
        self.written = tuple(f"{p}/" for p in written)

    def __call__(self, change, path: str) -> bool:
        if path.startswith(self.written) or not super().__call__(change, path):
            return False
        shared = path.startswith(str(TEMPLATES))
        return not shared or bool(self.STYLES.match(path.removeprefix(str(TEMPLATES))))


def serve(
    book_toml: Path,
    out: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    cache: Path | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Serve until Ctrl-C (or `stop`). Out: exit status, 1 when the book has errors at the end."""
    book_toml = book_toml.resolve()
    folder = book_toml if book_toml.is_dir() else book_toml.parent
    read_config(book_toml)  # a file that is not there ends here, not in a loop of retries
    cache = (cache or out.resolve().parent / ".cache").resolve()
    state = State(book_toml, cache)
    Handler.state = state
    server = _server(host, port)
    print(f"reading {folder} …", flush=True)
    logging.getLogger("watchfiles").setLevel(logging.ERROR)  # it announces Ctrl-C as a warning
    answering: threading.Thread | None = None
    try:
        # The first, empty turn comes when the watcher stands: an edit during the first build is not lost.
        for changes in watch(
            folder, TEMPLATES, watch_filter=Sources(out.resolve(), cache), debounce=300, step=20,
            stop_event=stop, raise_interrupt=False, rust_timeout=200, yield_on_timeout=True,
        ):  # fmt: skip
            if answering is None:
                web.fonts.make()  # seconds on a bare machine: before the first request, not within it
                _work(state.rebuild, state)
                answering = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
                answering.start()
                name, number = server.server_address[:2]
                print(
                    f"http://{name}:{number}/ reloads at every saved change; Ctrl-C ends",
                    flush=True,
                )
            elif changes:
                styles = all(Path(path).is_relative_to(TEMPLATES) for _, path in changes)
                _work(state.restyle if styles else state.rebuild, state)
    except KeyboardInterrupt:
        pass
    finally:
        if answering is not None:  # shutdown() waits for a loop that has begun, else for ever
            server.shutdown()
        server.server_close()
    return BOOK if errors(state.problems) else OK


def _server(host: str, port: int) -> ThreadingHTTPServer:
    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise WrongUse(
                f"port {port} is in use; give another with --port, 0 takes any free one"
            ) from None
        raise WrongUse(f"cannot listen on {host}:{port}: {error.strerror}") from None
    server.daemon_threads = True
    return server


def _work(step, state: State) -> None:
    """One rebuild, with its time. A defect of the press is printed whole and the last good pages stay."""
    start, before = time.perf_counter(), state.problems
    try:
        pages = step()
    except WrongUse as error:  # book.toml moved away under us: the last good pages stay
        print(f"bookpress: {error}", file=sys.stderr, flush=True)
        return
    except Exception:
        traceback.print_exc()
        return
    if not pages and state.problems == before:
        return
    seconds = time.perf_counter() - start
    what = pages[0] if len(pages) == 1 else f"{len(pages)} pages" if pages else "no page"
    print(f"{time.strftime('%H:%M:%S')} {what} changed, {seconds:.2f} s", flush=True)
    report((p for p in state.problems if p not in before), stream=sys.stderr)
    if state.problems:
        print(f"{len(state.problems)} problem{'' if len(state.problems) == 1 else 's'} in all", flush=True)
