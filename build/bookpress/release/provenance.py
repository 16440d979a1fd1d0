"""provenance.json: from which commit, with which tools and proofs, and how a release can be made again.

In: the book with its stamp, the files of the release. Out: the bytes of the record. No clock and no path of
this machine enters it, so that the same commit and tools give the same record.
"""

from __future__ import annotations

import hashlib
import json
import platform
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..archives import Packed
from ..model import Book
from ..prove import marks
from .git import asked

NAME, SCHEMA = "provenance.json", 1
LOCK = "requirements.lock"


def _system() -> str:
    try:
        return str(platform.freedesktop_os_release().get("PRETTY_NAME", ""))
    except OSError:
        return f"{platform.system()} {platform.release()}"


def _made_with(book: Book) -> dict[str, str]:
    found = {
        "system": _system(), "machine": platform.machine(), "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION, **book.stamp.tools,
    }  # fmt: skip
    lock = book.config.root / LOCK
    if lock.is_file():
        found[f"{LOCK} sha256"] = hashlib.sha256(lock.read_bytes()).hexdigest()
    return found


def _proofs(book: Book) -> list[dict[str, Any]]:
    """Code blocks by chapter and how they were proven; the last row is their sum."""
    return [
        {"chapter": row.title, "blocks": row.blocks, **dict(zip(map(str.lower, row.names), row.counts, strict=True))}
        for row in marks.rows(book)
    ]


def how(root: Path, tag: str) -> list[str]:
    """Commands that make the files of the release again."""
    make = "make artefacts" if (root / "Makefile").is_file() else "python -m bookpress artefacts"
    return [f"git checkout {tag}", make, "cd dist/release && sha256sum --check SHA256SUMS"]


def record(book: Book, tag: str, files: Sequence[Packed]) -> Packed:
    """The record over all files but itself and SHA256SUMS."""
    config, stamp = book.config, book.stamp
    data = {
        "schema": SCHEMA,
        "title": config.title,
        "version": config.version,
        "tag": tag,
        "commit": stamp.commit,
        "tree": asked(config.root, "rev-parse", "HEAD^{tree}") if stamp.commit else "",
        "clean": not stamp.dirty,
        "date": stamp.date,
        "source_date_epoch": stamp.epoch,
        "repository": config.repository,
        "hub": {"type": config.hub_type, "repo": config.hub_repo},
        "made_with": _made_with(book),
        "made_by": how(config.root, tag),
        "proofs": _proofs(book),
        "files": [
            {"path": f.name, "size": len(f.data), "sha256": f.sha256} for f in sorted(files, key=lambda f: f.name)
        ],
    }
    return Packed(NAME, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())
