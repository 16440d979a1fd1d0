"""How long the threads of this process were ready to run and waited for a core, as the kernel counts it.

A rank that moves data slowly because its host has more to do than cores looks like one with a slow link;
this tells the two apart. Comes in: /proc. Goes out: nanoseconds, or None where the kernel does not tell.
"""

from __future__ import annotations

import os
import time
from typing import Optional


def core_wait_ns(threads: str = "/proc/self/task") -> Optional[int]:
    """The sum over all threads since they began."""
    total: Optional[int] = None
    try:
        numbers = os.listdir(threads)
    except OSError:
        return None
    for number in numbers:
        try:
            with open(os.path.join(threads, number, "schedstat"), encoding="ascii") as file:
                total = (total or 0) + int(file.read().split()[1])
        except (OSError, ValueError, IndexError):
            continue  # a thread that ended meanwhile, or a kernel without this count
    return total


class CoreWait:
    """The share of the time since it was made that this process waited for a core, at most 1; 0 when unknown."""

    def __init__(self) -> None:
        self._begun, self._waited = time.perf_counter_ns(), core_wait_ns()

    def share(self) -> float:
        now, elapsed = core_wait_ns(), time.perf_counter_ns() - self._begun
        if now is None or self._waited is None or elapsed <= 0:
            return 0.0
        return min(1.0, max(0, now - self._waited) / elapsed)
