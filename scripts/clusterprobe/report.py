"""The report: text as results arrive, one JSON document, and the last line that scripts look for.

Only the printing rank (rank 0) writes; the others hold a silent report with the same methods. Every
method may be called from any thread. `finish` counts once: whoever comes first, the orderly end, the
watchdog or a signal, decides the verdict.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, TextIO

from clusterprobe.deadline import STREAM_PATIENCE, bounded, say_in_time
from clusterprobe.exits import EXIT_STATUS, OK, PARTIAL, UNEXPECTED, USAGE, ProbeFailure
from clusterprobe.streams import is_utf8, say
from clusterprobe.strictjson import claim_file, replace_file, strict_json
from clusterprobe.version import PROBE_VERSION, SCHEMA_VERSION

DOCUMENT_PATIENCE = 60.0  # seconds that the reader of the document on stdout has, and a write before the last one
SAVE_INTERVAL = 2.0  # seconds between writes of unfinished reports


def utc_stamp(when: Optional[float] = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))


def blank_document(tool: str, argv: Sequence[str], config: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": tool,
        "version": PROBE_VERSION,
        "argv": list(argv),
        "started": utc_stamp(),
        "ended": None,
        "status": "running",
        "rc": None,
        "reason": None,
        "next_step": None,
        "env": {},
        "world": None,
        "config": config,
        "stages": [],
        "results": [],
        "per_rank": [],
        "pairs": [],
        "telemetry": [],
        "warnings": [],
    }


class Report:
    """`line` and `row` print; `add` collects; `finish` writes the verdict."""

    def __init__(
        self,
        tool: str,
        argv: Sequence[str],
        config: Dict[str, Any],
        target: Optional[str],
        prints: bool = True,
        force: bool = False,
    ) -> None:
        self.tool = tool
        self.prints = prints
        self.document = blank_document(tool, argv, config)
        self.path: Optional[str] = None
        self.finished: Optional[int] = None
        self.before_verdict: Callable[[], Sequence[str]] = list  # at an early end: keeps what there is, returns lines
        self._lock = threading.RLock()
        self._writing = threading.Lock()  # of the file, which may take long where the disk is slow
        self._saved = 0.0
        self._target = target
        self._to_stdout = target == "-"
        self._lost = False
        self._widths: List[int] = []
        self._open = False
        self._stuck = False  # a line never ended; no other is begun
        if prints:
            self._claim(force)

    def _claim(self, force: bool) -> None:
        if self._to_stdout or self._target == "none":
            return
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        wanted = self._target or f"{self.tool}-{stamp}-{os.getpid()}.json"
        if os.path.isfile(wanted) and os.path.getsize(wanted) and not force:
            self._target = "none"
            raise ProbeFailure(
                USAGE, f"the report file {wanted} exists", "name another or add --force"
            )
        self.path, warnings = claim_file(wanted, strict_json(self.document))
        for text in warnings:
            self.warn(text)
        self._lost = self.path is None and self._target is not None

    @property
    def stream(self) -> TextIO:
        """Where text goes: stdout, or stderr when stdout carries the JSON document."""
        return sys.stderr if self._to_stdout else sys.stdout

    def line(self, text: str = "") -> None:
        """One line of text from the printing rank; a stream that fails ends neither text nor run."""
        if not self.prints or self._stuck:
            return
        with self._lock:
            say(text, self.stream)

    def heading(self, columns: Sequence[str], widths: Sequence[int]) -> None:
        """Start a table; `row` uses the same widths. A negative width aligns to the left."""
        self._widths = list(widths)
        self.row(columns)

    def row(self, cells: Sequence[object]) -> None:
        self.line(self.row_text(cells))

    def row_text(self, cells: Sequence[object]) -> str:
        parts = []
        for cell, width in zip(cells, self._widths):
            text = "-" if cell is None else str(cell)
            parts.append(text.ljust(-width) if width < 0 else text.rjust(width))
        return "  ".join(parts).rstrip()

    def put(self, key: str, value: Any) -> None:
        """Set a whole field of the document: env, world, config …"""
        with self._lock:
            if key not in self.document:
                raise KeyError(key)
            self.document[key] = value

    def add(self, key: str, entry: Any) -> None:
        """Append to results, per_rank, pairs, telemetry or stages, and save what there is."""
        with self._lock:
            self.document[key].append(entry)
        self.save()

    def warn(self, text: str) -> None:
        with self._lock:
            self.document["warnings"].append(text)
        self.line(f"warning: {text}")

    def save(self, now: bool = False) -> None:
        """Write the unfinished document, at most every two seconds."""
        with self._lock:
            if self.path is None or self.finished is not None:
                return
            if not now and time.monotonic() - self._saved < SAVE_INTERVAL:
                return
            self._saved = time.monotonic()
            path, text = self.path, strict_json(self.document)
        with self._writing:
            try:
                if self.finished is None:
                    replace_file(path, text)
            except OSError:
                pass  # the final write reports it, with a second place to write to

    def finish(self, rc: int, reason: str, next_step: str = "") -> int:
        """Write the verdict once and print the last lines. Returns the code that counts.

        A line may be stuck in a terminal or pipe that nobody reads, and hold the lock: the file is written all the same.
        """
        lock = self._lock
        if not lock.acquire(timeout=STREAM_PATIENCE):
            self._stuck, lock = True, threading.RLock()
            self._lock = lock  # who is stuck keeps the old one
            lock.acquire()
        try:
            if self.finished is not None:
                return self.finished
            if self._lost and rc == OK:
                rc, reason = (
                    PARTIAL,
                    f"{reason}; the report that was asked for could not be written",
                )
            self.finished = rc
            self.document.update(
                ended=utc_stamp(),
                status=EXIT_STATUS.get(rc, "error"),
                rc=rc,
                reason=reason,
                next_step=next_step or None,
            )
            if not self.prints:
                return rc
            last_lines = self.before_verdict()
            where = self._final_write()
            if self._lost and rc == OK:
                rc = self.finished = PARTIAL
                reason = f"{reason}; the report that was asked for could not be written"
                self.document.update(status=EXIT_STATUS[rc], rc=rc, reason=reason)
            lines = [*last_lines, f"why: {reason}", *([f"next: {next_step}"] if next_step else [])]
            lines.append(
                f"RESULT status={EXIT_STATUS.get(rc, 'error')} rc={rc} tool={self.tool} json={where}"
            )
            say_in_time("\n".join(lines), self.stream)
            return rc
        finally:
            lock.release()

    def _final_write(self) -> str:
        if self._to_stdout:
            self._lost = not bounded(self._document_out, DOCUMENT_PATIENCE) or self._lost
            return "none" if self._lost else "-"
        if self.path is None:
            return "none"
        self._writing.acquire(timeout=DOCUMENT_PATIENCE)  # for good: an unfinished one that comes late would replace this
        try:
            replace_file(self.path, strict_json(self.document))
            return self.path
        except OSError as error:
            self.warn(f"cannot write {self.path}: {error.strerror or error}")
        again, warnings = claim_file(self.path, strict_json(self.document))
        for text in warnings[1:]:
            self.warn(text)
        self.path, self._lost = again, again is None
        return again or "none"

    def _document_out(self) -> None:
        try:
            sys.stdout.write(strict_json(self.document, ascii_only=not is_utf8(sys.stdout)) + "\n")
            sys.stdout.flush()
        except (OSError, ValueError):
            self._lost = True


def exit_code(rc: int, exit_zero: bool) -> int:
    """What the process ends with: --exit-zero hides verdicts, not crashes, wrong use or interruptions."""
    judged = (OK, UNEXPECTED, USAGE, 130, 143)
    return rc if not exit_zero or rc in judged else OK
