"""The cache: results by content hash, so that nothing is made twice and nothing stale is used.

An entry's key covers everything that shapes it: the input, the press's own code and, where a result read
further files, their digests. Deleting the folder is always safe.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_KEEP_DAYS = 14
_HASH = 32  # bytes of SHA-256 before each entry


def digest(*parts: str | bytes) -> str:
    """One hash over parts, each with its length, so that no two lists of parts collide."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "big") + raw)
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """Hash of a file's bytes, or "" when it is not there."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


@functools.cache
def press_digest() -> str:
    """Hash of the press's own code: a changed stage makes its old results stale."""
    here = Path(__file__).parent
    files = sorted(here.rglob("*.py"))
    return digest(*(part for f in files for part in (str(f.relative_to(here)), f.read_bytes())))


class Cache:
    """A folder of pickles by kind and key. Only this program writes it, so loading it is safe."""

    def __init__(self, folder: Path):
        self.folder = folder

    def _file(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:40]

    def get(self, kind: str, key: str) -> Any | None:
        """The entry, or None. A damaged entry is as good as none."""
        file = self._file(kind, key)
        try:
            raw = file.read_bytes()
        except OSError:
            return None
        # The hash in front tells a damaged entry before its bytes can mean anything else.
        if hashlib.sha256(raw[_HASH:]).digest() != raw[:_HASH]:
            return None
        try:
            value = pickle.loads(raw[_HASH:])
        except (AttributeError, ImportError, TypeError):  # a class that has changed since
            return None
        if time.time() - file.stat().st_mtime > 86_400:
            os.utime(file)  # still in use: trim() looks at this
        return value

    def put(self, kind: str, key: str, value: Any) -> None:
        file = self._file(kind, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        raw = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        # Written beside and renamed: an interrupted build leaves no half entry.
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(hashlib.sha256(raw).digest() + raw)
            os.replace(name, file)
        except OSError:  # a full disk: the next try needs the room that a half entry takes
            os.unlink(name)
            raise

    def drop(self, kind: str, key: str) -> None:
        self._file(kind, key).unlink(missing_ok=True)

    def trim(self, kinds: Iterable[str]) -> None:
        """Drop entries that no build has used for two weeks."""
        limit = time.time() - _KEEP_DAYS * 86_400
        for kind in kinds:
            for file in (self.folder / kind).glob("*"):
                if file.stat().st_mtime < limit:
                    file.unlink(missing_ok=True)
