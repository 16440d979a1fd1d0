"""Beside the pools: worker processes end with the build that started them, however it ended.

The workers of a killed build wait for work on a queue whose ends they hold themselves, so they would wait for ever.
SIGTERM keeps its default: it ends the build at once, and the workers follow. Unwinding the pools from a handler can
block on a lock that the interrupted code holds.
"""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process


def end_with_parent() -> None:
    """For a pool's initializer: leave as soon as the process that started the pool is gone."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_leave_after, args=(parent,), daemon=True).start()


def _leave_after(parent) -> None:
    parent.join()
    os._exit(1)
