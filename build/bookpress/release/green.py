"""Green: the book is built, checked and tested at one commit, and it is written down which.

In: a folder at a commit. Out: problems, and on success .cache/green.json, which says that this very commit
passed. Nothing else counts as green: a release and a publication run the steps when no such note is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ..problems import Problem, ToolMissing
from .git import clean_environment

NOTE = "green.json"
_TAIL = 15  # lines of a failed step that are shown
Say = Callable[[str], None]


def steps(root: Path) -> list[str]:
    """The targets of the book's Makefile that must pass, in order."""
    return ["book", *(["scripts"] if (root / "scripts").is_dir() else []), "check", "test"]


def known(cache: Path, commit: str) -> str:
    """When this commit passed, as written; "" when it is not known to have passed."""
    try:
        note = json.loads((cache / NOTE).read_text(encoding="utf-8"))
        return str(note["when"]) if commit and note["commit"] == commit else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def record(cache: Path, commit: str, passed: list[str]) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    temporary = cache / f".{NOTE}.new"
    temporary.write_text(json.dumps({"commit": commit, "steps": passed, "when": when}) + "\n", encoding="utf-8")
    os.replace(temporary, cache / NOTE)


def run(command: list[str], root: Path, log: Path, **env: str) -> int:
    """Run a command with its output in a file. The command and what it started end with this process."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        try:
            return subprocess.run(
                command, cwd=root, env={**clean_environment(), **env}, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, check=False,
            ).returncode  # fmt: skip
        except FileNotFoundError:
            raise ToolMissing(f"{command[0]} is not installed") from None


def prove(root: Path, logs: Path, say: Say) -> list[Problem]:
    """Run every step in the folder; stop at the first that fails."""
    if not (root / "Makefile").is_file():
        hint = f"targets {', '.join(steps(root))}"
        return [Problem("Makefile", 0, 0, "REL007", "there is no Makefile that says what green is", hint)]
    for step in steps(root):
        start, log = time.monotonic(), logs / f"{step}.log"
        say(f"make {step} … {os.path.relpath(log)}")
        status = run(["make", "--no-print-directory", step], root, log)
        if status:
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
            say("\n".join(f"  | {line}" for line in tail))
            return [Problem("Makefile", 0, 0, "REL007", f"make {step} ended with {status}", f"all of it: {log}")]
        say(f"make {step} passed in {time.monotonic() - start:.0f} s")
    return []
