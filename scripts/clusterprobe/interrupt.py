"""Ctrl-C, SIGTERM and a closed terminal: keep what was measured, say so, and end within seconds.

The handler of Python runs only between bytecodes, never while the main thread waits in a collective. The
C-level handler writes to a wake-up socket at once, and a thread that reads it does the rest.

A process that starts ranks holds the signals back until all of them run (`hold_signals`); a new rank does so
from birth until its own watch is there, so that none dies in Python's start with a traceback.
"""

from __future__ import annotations

import signal
import socket
import threading
from typing import Callable, List, Optional

from clusterprobe.exits import INTERRUPTED, TERMINATED

HANGUP = getattr(signal, "SIGHUP", None)


def signal_exit(signum: int) -> int:
    return INTERRUPTED if signum == signal.SIGINT else TERMINATED


def signal_name(signum: int) -> str:
    return "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name


def ending_signals() -> List[signal.Signals]:
    """SIGHUP too, unless nohup had it ignored."""
    hangup = HANGUP is not None and signal.getsignal(HANGUP) != signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([HANGUP] if hangup else [])]


def hold_signals(held: bool) -> None:
    """Signals that come meanwhile are delivered after; processes that are started meanwhile inherit the hold."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, ending_signals())


class InterruptWatch:
    """Calls `on_signal(signal)` in a thread at the first one that comes. It should end the process."""

    def __init__(self, on_signal: Callable[[int], None]) -> None:
        self._on_signal = on_signal
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.signum: Optional[int] = None
        self._watched = ending_signals()
        for signum in self._watched:
            signal.signal(signum, self._remember)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._wait, name="interrupt", daemon=True).start()
        hold_signals(False)

    def _remember(self, signum: int, frame: object) -> None:
        self.signum = signum  # the work is done by the thread; without a handler Python would raise

    def _wait(self) -> None:
        while True:
            data = self._reader.recv(1)
            if not data:
                return
            if data[0] in self._watched:
                self._on_signal(data[0])
                return

    def close(self) -> None:
        """Back to the default handlers."""
        signal.set_wakeup_fd(-1)
        for signum in self._watched:
            signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)
        self._writer.close()
