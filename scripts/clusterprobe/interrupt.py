"""Ctrl-C and SIGTERM: keep what was measured, say so, and end within seconds.

The handler of Python runs only between bytecodes, never while the main thread waits in a collective. The
C-level handler writes to a wake-up socket at once, and a thread that reads it does the rest.
"""

from __future__ import annotations

import signal
import socket
import threading
from typing import Callable, Optional

from clusterprobe.exits import INTERRUPTED, TERMINATED


def signal_exit(signum: int) -> int:
    return TERMINATED if signum == getattr(signal, "SIGTERM", None) else INTERRUPTED


class InterruptWatch:
    """Calls `on_signal(exit code)` in a thread at the first SIGINT or SIGTERM. It should end the process."""

    def __init__(self, on_signal: Callable[[int], None]) -> None:
        self._on_signal = on_signal
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.signum: Optional[int] = None
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._remember)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._wait, name="interrupt", daemon=True).start()

    def _remember(self, signum: int, frame: object) -> None:
        self.signum = signum  # the work is done by the thread; without a handler Python would raise

    def _wait(self) -> None:
        while True:
            data = self._reader.recv(1)
            if not data:
                return
            if data[0] in (signal.SIGINT, signal.SIGTERM):
                self._on_signal(signal_exit(data[0]))
                return

    def close(self) -> None:
        """Back to the default handlers."""
        signal.set_wakeup_fd(-1)
        for signum, default in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGTERM, signal.SIG_DFL),
        ):
            signal.signal(signum, default)
        self._writer.close()
