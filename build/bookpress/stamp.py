"""What every output says about its origin. Same commit and tools, same stamp, same bytes."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pypandoc

from .model import Config, Stamp
from .problems import WrongUse

_LIBRARIES = ("weasyprint", "EbookLib", "Jinja2", "pikepdf", "Pygments", "ziamath")
_LAST_EPOCH = 253_402_300_799  # 9999-12-31: dates have four digits
_FIXED_EPOCH = 1_577_836_800  # 2020-01-01: a book outside git still builds to the same bytes


def _git(root: Path, *args: str) -> str:
    """Output of a git command in the book's folder, or "" where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *args], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _epoch(commit_date: str) -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH", "").strip()
    if not given:
        return int(commit_date or _FIXED_EPOCH)
    if not (given.isascii() and given.isdigit()):
        raise WrongUse(f"SOURCE_DATE_EPOCH={given!r} is not a whole number of seconds")
    if int(given) > _LAST_EPOCH:
        raise WrongUse(f"SOURCE_DATE_EPOCH={given} lies behind the year 9999; it counts seconds")
    return int(given)


def pandoc_version() -> str:
    """Version of the pandoc that the library carries."""
    done = subprocess.run(
        [pypandoc.get_pandoc_path(), "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()[1]


def tool_versions() -> dict[str, str]:
    """Name → version of what shapes the outputs."""
    found = {name: metadata.version(name) for name in _LIBRARIES}
    return {"pandoc": pandoc_version(), **found}


def stamp(config: Config) -> Stamp:
    """Version from book.toml; commit, date and cleanliness from git where the book is in git."""
    # Only the book's own folder counts: a book may live in a corner of a larger repository.
    commit = _git(config.root, "rev-parse", "HEAD")
    epoch = _epoch(_git(config.root, "show", "-s", "--format=%ct", "HEAD") if commit else "")
    return Stamp(
        version=config.version,
        commit=commit,
        dirty=bool(commit and _git(config.root, "status", "--porcelain", "--", ".")),
        epoch=epoch,
        date=datetime.fromtimestamp(epoch, UTC).date().isoformat(),
        tools=tool_versions(),
    )
