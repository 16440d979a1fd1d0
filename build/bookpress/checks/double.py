"""Two builds of the same book, made to differ in everything but the book, give the same bytes.

Stands outside the pipeline: it copies the book twice and starts the press for each copy, from another
folder, with another hash seed, time zone and locale, and cold caches. What then differs between the two
output folders depends on the machine or the moment. Costs two full builds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ..problems import Problem, WrongUse

PRESS = Path(__file__).parents[2]
# what belongs to a checkout, not to the book
APART = shutil.ignore_patterns(".git", ".venv", ".cache", "dist", "node_modules", "__pycache__")
SETTINGS = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4711", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
)


def check(book_toml: Path, epoch: int, outputs: Sequence[str] = ("pdf", "epub", "web")) -> list[Problem]:
    """A problem for each file that is not the same in both builds."""
    with tempfile.TemporaryDirectory(prefix="bookpress-double-") as scratch:
        folders = [Path(scratch) / name for name in ("one", "two/deeper")]
        for folder, setting in zip(folders, SETTINGS, strict=True):
            _build(book_toml, folder, epoch, setting, outputs)
        return compare(*(folder / "out" for folder in folders))


def compare(one: Path, two: Path) -> list[Problem]:
    """A problem for each file that differs between two folders, naming the first part that does."""
    names = sorted({p.relative_to(f).as_posix() for f in (one, two) for p in f.rglob("*") if p.is_file()})
    made = []
    for name in names:
        first, second = one / name, two / name
        if not (first.is_file() and second.is_file()):
            made.append(Problem(name, 0, 0, "CHK004", "only one of the two builds wrote it"))
        elif first.read_bytes() != second.read_bytes():
            made.append(Problem(name, 0, 0, "CHK004", f"the two builds differ: {_where(first, second)}"))
    return made


def _build(book_toml: Path, folder: Path, epoch: int, setting: dict, outputs: Sequence[str]) -> None:
    root = folder / "book"
    shutil.copytree(book_toml.parent, root, ignore=APART)
    command = [sys.executable, "-m", "bookpress", "build", "--quiet", "--only", *outputs]
    command += ["--book", str(root / book_toml.name), "--out", str(folder / "out")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    environment |= setting | {"PYTHONPATH": str(PRESS), "SOURCE_DATE_EPOCH": str(epoch)}
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise WrongUse(f"the book does not build: {run.stderr[-2000:]}")


def _where(first: Path, second: Path) -> str:
    if zipfile.is_zipfile(first) and zipfile.is_zipfile(second):
        with zipfile.ZipFile(first) as a, zipfile.ZipFile(second) as b:
            if a.namelist() != b.namelist():
                return "other entries, or in another order"
            changed = [n for n in a.namelist() if a.read(n) != b.read(n)]
            return f"entry {changed[0]}" if changed else "times or modes of the entries"
    one, two = first.read_bytes(), second.read_bytes()
    at = next((i for i, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two)))
    digests = (hashlib.sha256(data).hexdigest()[:8] for data in (one, two))
    return f"from byte {at} on ({' and '.join(digests)})"
