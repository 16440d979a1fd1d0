"""Last step of a build: finished files into the output folder, all of them or none.

In: files made in the cache and the web edition's folder. Out: the same files in the output folder, and
SHA256SUMS over them. Everything is first written beside its place; only when all of it is on the disk are
names changed. A folder that holds the book's sources, or a `web` that no build made, is refused.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from .model import Config
from .problems import WrongUse
from .web import OWN

SUMS = "SHA256SUMS"


def check_place(out: Path, config: Config) -> None:
    """Stop before anything is built where the outputs cannot lie, or would lie among other people's files."""
    there = next(p for p in (out, *out.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise WrongUse(f"--out {out}: {there} is no folder that can be written to")
    for part in config.parts:
        for chapter in part.chapters:
            if (config.root / chapter).resolve().is_relative_to(out):
                raise WrongUse(f"--out {out} holds the book's sources ({chapter}); give a folder of its own")
    web = out / "web"
    if web.is_dir() and any(web.iterdir()) and not (web / OWN).is_dir():
        raise WrongUse(f"{web} holds files that are no web edition; give --out another folder")


def install(made: Sequence[Path], web: Path | None, out: Path, slug: str) -> list[Path]:
    """Put the files into `out`; older versions of the same outputs go."""
    out.mkdir(parents=True, exist_ok=True)
    moves: list[tuple[Path, Path]] = []  # (written beside, its place)
    try:
        for file in made:
            _beside(file, out / file.name, moves)
        kept = _mirror(web, out / "web", moves) if web else None
        old = [p for file in made for p in out.glob(f"{slug}-*{file.suffix}") if p.name != file.name]
        if kept is not None:
            kept |= {temporary for temporary, _ in moves}
            old += [p for p in (out / "web").rglob("*") if not p.is_dir() and p not in kept]
        sums = _sums(out, {place: temporary for temporary, place in moves}, set(old))
        moves.append((out / f".{SUMS}.new", out / SUMS))
        moves[-1][0].write_bytes(sums)
    except BaseException:
        for temporary, _ in moves:
            temporary.unlink(missing_ok=True)
        raise
    for temporary, place in moves:
        os.replace(temporary, place)
    for file in old:
        file.unlink()
    _drop_empty(out / "web")
    pages = [out / "web" / "index.html"] if web else []
    return [*(out / file.name for file in made), *pages, out / SUMS]


def _beside(source: Path, place: Path, moves: list[tuple[Path, Path]]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.new")
    moves.append((temporary, place))
    try:
        shutil.copy2(source, temporary)
    except OSError as error:  # sendfile names its source alone
        error.filename2 = error.filename2 or str(temporary)
        raise


def _mirror(source: Path, target: Path, moves: list[tuple[Path, Path]]) -> set[Path]:
    """Write beside what differs from the site in `source`. Out: every place that belongs to the site."""
    places = set()
    for new in sorted(p for p in source.rglob("*") if p.is_file()):
        place = target / new.relative_to(source)
        places.add(place)
        if not place.is_file() or not filecmp.cmp(new, place, shallow=False):
            _beside(new, place, moves)
    return places


def _drop_empty(web: Path) -> None:
    for folder in sorted((p for p in web.rglob("*") if p.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def _sums(out: Path, new: dict[Path, Path], gone: set[Path]) -> bytes:
    """SHA256SUMS as `sha256sum -c` reads it: over the folder's own files and the web edition."""
    there = [*out.glob("*"), *(out / "web").rglob("*")]
    places = {p for p in there if p.is_file() and not p.name.startswith(".")} | set(new)
    lines = []
    for place in sorted(places - gone - {out / SUMS}):
        digest = hashlib.sha256(new.get(place, place).read_bytes()).hexdigest()
        lines.append(f"{digest}  {place.relative_to(out).as_posix()}\n")
    return "".join(lines).encode()
