"""The first thing that a tool's process does: signals that end it wait until somebody is there to tell the end.

While modules are imported, Python answers Ctrl-C with a traceback and SIGTERM with a silent death, and the first
process of a container never gets to know of SIGTERM at all.
"""

from __future__ import annotations

import _signal  # `signal` itself takes a tenth of a second to import

ENDING = [getattr(_signal, ending) for ending in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(_signal, ending)]


def hold_signals(held: bool) -> None:
    """Signals that come meanwhile are delivered after; processes that are started meanwhile inherit the hold."""
    if hasattr(_signal, "pthread_sigmask"):
        _signal.pthread_sigmask(_signal.SIG_BLOCK if held else _signal.SIG_UNBLOCK, ENDING)
