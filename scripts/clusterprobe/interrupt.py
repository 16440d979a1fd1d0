"""Ctrl-C, SIGTERM and a closed terminal: keep what was measured, say so, and end within seconds.

The handler of Python runs only between bytecodes, never while the main thread waits in a collective. The
C-level handler writes to a wake-up socket at once, and a thread that reads it does the rest.

Each process has one watch. Before it, signals are held back from the first line on (hold.py), and in a local
rank from birth.
"""

from __future__ import annotations

import signal
import socket
import threading
from typing import Callable, List, Optional

from clusterprobe.exits import INTERRUPTED, TERMINATED
from clusterprobe.hold import ENDING, hold_signals


def signal_exit(signum: int) -> int:
    return INTERRUPTED if signum == signal.SIGINT else TERMINATED


def signal_name(signum: int) -> str:
    return "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name


def ending_signals(by_launcher: bool = False) -> List[int]:
    """Those that were not ignored at the start: nohup has SIGHUP ignored, and the shell of a script Ctrl-C, for what
    it puts in the background. A launcher that was put there passes Ctrl-C on because it was meant.
    """
    return [
        signum
        for signum in ENDING
        if signal.getsignal(signum) != signal.SIG_IGN or (by_launcher and signum == signal.SIGINT)
    ]


class InterruptWatch:
    """Gives the first signal to the teller of the moment, in a thread; without one it waits, and none is lost."""

    def __init__(self, by_launcher: bool = False) -> None:
        self._teller: Optional[Callable[[int], None]] = None
        self._turn = threading.Condition()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._watched = ending_signals(by_launcher)
        for signum in self._watched:
            signal.signal(signum, leave_to_watch)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._wait, name="interrupt", daemon=True).start()
        hold_signals(False)

    def pass_to(self, teller: Callable[[int], None]) -> None:
        """Who tells it from now on. Does not return while the last one tells, which ends the process."""
        with self._turn:
            self._teller = teller
            self._turn.notify()

    def _wait(self) -> None:
        signum = 0
        while signum not in self._watched:
            signum = self._reader.recv(1)[0]
        with self._turn:
            self._turn.wait_for(lambda: self._teller is not None)
            self._teller(signum)


def leave_to_watch(signum: int, frame: object) -> None:
    """The watch's thread does the work; without a handler Python would raise."""
