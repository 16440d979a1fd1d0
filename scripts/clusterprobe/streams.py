"""stdin, stdout and stderr as a tool needs them, before anything else. No torch.

A scheduler may close them or give them an encoding without `…` and `×`; the verdict must be printed all the same.
"""

from __future__ import annotations

import os
import sys


def settle_streams() -> None:
    """Nothing that is printed later can fail for its letters, or land in a file that took a stream's number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives to the end
        elif hasattr(stream, "reconfigure") and not is_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def is_utf8(stream: object) -> bool:
    return str(getattr(stream, "encoding", "")).lower().replace("-", "").replace("_", "") == "utf8"
