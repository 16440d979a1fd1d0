"""A Hub on 127.0.0.1: what the real client, the `hf` command, curl and pip need of one, with faults on request.

A real HTTP server: routes in hubroutes.py over a store on the disk, hubstore.py. Large files (by suffix) go through LFS and are
downloaded by a redirect to another origin, as on the Hub. A Fault names a route, what goes wrong there, and how
many times.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hubplumbing import READ, WRITE, Fault
from hubroutes import LARGE, Handler
from hubstore import Store

__all__ = ["LARGE", "READ", "WRITE", "Fault", "LoopbackHub"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: LoopbackHub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is its own affair; anything else is a fault of this server."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class Request:
    method: str
    path: str
    role: str
    body: bytes


class LoopbackHub:
    """The server with its store, its faults and what it was asked."""

    def __init__(self, folder: Path):
        self.store = Store(folder)
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.hub = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def note(self, method: str, path: str, role: str, body: bytes) -> None:
        with self._lock:
            self.requests.append(Request(method, path, role, body))

    def fault(self, route: str) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if re.search(fault.route, route) and fault.times != fault.seen:
                    fault.seen += 1
                    return fault
        return None

    def asked(self, pattern: str) -> int:
        """How many requests fit a pattern over "METHOD /path"."""
        return sum(bool(re.search(pattern, f"{r.method} {r.path}")) for r in self.requests)

    def reset(self, folder: Path) -> None:
        """Forget everything and start over in another folder, at the same address."""
        self.store, self.faults = Store(folder), []
        self.requests.clear()

    @contextlib.contextmanager
    def running(self) -> Iterator[LoopbackHub]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop.set()
            self._server.shutdown()
            self._server.server_close()
