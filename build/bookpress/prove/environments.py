"""Part of prove: the Python packages that some fences need, in one virtual environment of their own.

A fence says `needs="torch py-spy"`; the versions are pinned in requirements-prove.txt beside book.toml, so
that a proof always names what it ran on. All pins are installed together: torch warns without numpy, and
one environment is one download. The book's build needs none of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from ..cache import digest
from ..problems import ToolMissing

PINS = "requirements-prove.txt"
# Programs that a fence may need besides Python packages: name → Debian package.
PROGRAMS = {"gdb": "gdb", "strace": "strace", "numactl": "numactl", "fio": "fio", "jq": "jq"}


def pins(root: Path) -> dict[str, str]:
    """Package name → pinned requirement."""
    file = root / PINS
    if not file.is_file():
        return {}
    rows = (r.split("#")[0].strip() for r in file.read_text(encoding="utf-8").splitlines())
    return {re.split(r"[=<>!~\[ ;]", r, maxsplit=1)[0].lower(): r for r in rows if r}


def unknown(root: Path, needs: tuple[str, ...]) -> list[str]:
    """Needs that are neither pinned packages nor known programs."""
    known = pins(root)
    return [n for n in needs if n.lower() not in known and n not in PROGRAMS]


def versions(root: Path, needs: tuple[str, ...]) -> dict[str, str]:
    """What the needs resolve to, for the proof and its cache key."""
    known = pins(root)
    return {n: known[n.lower()] for n in needs if n.lower() in known}


def bin_dir(root: Path, cache: Path, needs: tuple[str, ...]) -> Path | None:
    """The bin folder of an environment with the needs, made on first use; None when none is needed."""
    absent = [PROGRAMS[n] for n in needs if n in PROGRAMS and not shutil.which(n)]
    if absent:
        raise ToolMissing(f"fences need programs: apt-get install {' '.join(absent)}")
    if not versions(root, needs):
        return None
    wanted = sorted(pins(root).values())
    folder = cache / "environments" / digest(*wanted, sys.version)[:16]
    mark = folder / ".installed"
    if not mark.is_file():
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        for argv in (
            [python, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted],
        ):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode:
                tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
                raise ToolMissing(f"cannot install {' '.join(wanted)}:\n{tail}")
        mark.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    return folder / "bin"
