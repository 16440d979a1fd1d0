"""Beside parse: control bytes on their way through a chapter.

XML cannot hold them, and pandoc and lxml each stumble in their own way. So they travel as private-use
characters: code gets its bytes back (code.py shows them as ^[ and reports them), prose gets U+FFFD.
"""

from __future__ import annotations

import re

FOUND = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_BASE = 0xF0000
_TRAVEL = re.compile(f"[{chr(_BASE)}-{chr(_BASE + 0x9F)}]")


def hide(text: str) -> str:
    """Text that every tool takes."""
    return FOUND.sub(lambda m: chr(_BASE + ord(m[0])) if ord(m[0]) < 0xA0 else "\ufffd", text)


def restore(text: str) -> str:
    """The bytes as they were."""
    return _TRAVEL.sub(lambda m: chr(ord(m[0]) - _BASE), text)


def shown(text: str) -> str:
    """Text for a reader: a mark where a byte was."""
    return _TRAVEL.sub("\ufffd", text)
