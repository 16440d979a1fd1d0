"""Beside the pools: worker processes end with the build that started them, however it ended.

The workers of a killed build wait for work on a queue whose ends they hold themselves, so they would wait for ever.
"""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import parent_process
from types import FrameType


def end_with_parent() -> None:
    """For a pool's initializer: leave as soon as the process that started the pool is gone."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_leave_after, args=(parent,), daemon=True).start()


def _leave_after(parent) -> None:
    parent.join()
    os._exit(1)


def stop_on_term() -> None:
    """Take SIGTERM, as services, containers and `timeout` send it, like Ctrl-C: stages clean up, then 143."""
    signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
