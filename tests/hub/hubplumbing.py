"""Below the routes of the loopback Hub: bodies, answers, tokens, and the faults that a test asked for."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

WRITE, READ = "hf_" + "w" * 34, "hf_" + "r" * 34


@dataclass
class Fault:
    """What goes wrong. `route` is a pattern over "METHOD /path"; `times` how often, -1 for ever."""

    route: str
    kind: str = "status"  # status mute lost cut short stall drip forge
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    seconds: float = 0.0
    seen: int = 0


class Cut(Exception):
    """End the connection without an answer."""


class Plumbing(BaseHTTPRequestHandler):
    """One request. Routes are tried in order; the first whose pattern fits answers."""

    routes: tuple[tuple[str, str], ...] = ()  # pattern over "METHOD /path", name of the method that answers

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *words: object) -> None:
        pass

    # --- plumbing ---

    def answer(self, code: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()
        headers = dict(headers or {})
        fault = self.fault
        if fault and fault.kind == "lost":
            raise Cut
        if fault and fault.kind == "forge":
            raw = self.forged(raw)
        self.send_response(code)
        for key, value in {"Content-Length": str(len(raw)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault and fault.kind == "drip":
            for n in range(0, len(raw), max(1, len(raw) // 8)):
                self.wfile.write(raw[n : n + max(1, len(raw) // 8)])
                self.wfile.flush()
                time.sleep(fault.seconds / 8)
        elif fault and fault.kind == "short":
            self.wfile.write(raw[: len(raw) // 2])
            raise Cut
        else:
            self.wfile.write(raw)

    @staticmethod
    def forged(raw: bytes) -> bytes:
        """The same length with other content: in JSON the hashes, elsewhere the first bytes."""
        text = re.sub(rb'("oid": ")[0-9a-f]{8}', rb"\g<1>deadbeef", raw)
        return text if text != raw else b"X" * min(8, len(raw)) + raw[8:]

    def error(self, code: int, message: str, name: str = "") -> None:
        self.answer(code, {"error": message}, {"X-Error-Code": name, "X-Error-Message": message} if name else {})

    def body(self) -> bytes:
        length = self.headers.get("Content-Length")
        if length is not None:
            return self.rfile.read(int(length))
        out = b""
        while "chunked" in self.headers.get("Transfer-Encoding", ""):
            size = int(self.rfile.readline().split(b";")[0], 16)
            out += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                break
        return out

    @property
    def base(self) -> str:
        return f"http://{self.headers['Host']}"

    def role(self) -> str:
        """write, read, "" for nobody, or wrong."""
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return {WRITE: "write", READ: "read", "": ""}.get(given, "wrong")

    def handle_any(self) -> None:
        split = urlsplit(self.path)
        path, raw = split.path, self.body()
        self.query = parse_qs(split.query)
        self.server.hub.note(self.command, self.path, self.role(), raw)
        self.fault = self.server.hub.fault(f"{self.command} {path}")
        try:
            if self.fault and self.fault.kind == "cut":
                raise Cut
            if self.fault and self.fault.kind == "stall":
                self.server.hub.stop.wait(self.fault.seconds)
                raise Cut
            if self.fault and self.fault.kind in ("status", "mute"):
                words = {"error": "injected"} if self.fault.kind == "status" else b""
                return self.answer(self.fault.status, words, self.fault.headers)
            if self.role() == "wrong":
                return self.error(401, "Invalid credentials in Authorization header")
            for pattern, method in self.routes:
                match = re.fullmatch(pattern, f"{self.command} {path}")
                if match:
                    with self.server.hub.store.lock:
                        return getattr(self, method)(raw, **match.groupdict())
            return self.error(404, f"no route {self.command} {path}")
        except Cut:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(2)
        return None

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the base class's names
