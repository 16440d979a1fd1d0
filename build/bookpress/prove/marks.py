"""Beside prove: data/proofs.json, what the outputs say of each fence's proof.

`prove --record` writes it, `build` reads it into Book.proofs. It is committed, so that every build of a
commit says the same, wherever `prove` ran. Entries go by the fence's hash: a fence that changed since has no
entry, and nothing is said of it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model import Book, Chapter, Config, Proven
from ..problems import Problem
from .plan import fence_hash
from .proofs import MODES, Proof

SCHEMA = 1
_DAMAGED = (ValueError, KeyError, TypeError)


def file_of(config: Config) -> Path:
    return config.root / config.data / "proofs.json"


def write(proofs: Sequence[Proof], config: Config) -> Path:
    """Every good proof, by chapter in reading order; chapters that were not proven now keep theirs."""
    try:
        chapters = dict(_read(file_of(config)))
    except _DAMAGED:
        chapters = {}
    for path in {p.chapter for p in proofs}:
        chapters[path] = {
            p.hash: {"mode": p.mode, "where": p.where, "date": p.date[:10]}
            for p in proofs if p.chapter == path and p.status == "ok"
        }  # fmt: skip
    order = [path for part in config.parts for path in part.chapters]
    kept = {path: chapters[path] for path in order if path in chapters}
    text = json.dumps({"schema": SCHEMA, "chapters": kept}, indent=1, ensure_ascii=False)
    file = file_of(config)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text + "\n", encoding="utf-8")
    os.replace(temporary, file)
    return file


def read(
    config: Config, chapters: Sequence[Chapter]
) -> tuple[Mapping[str, Mapping[int, Proven]], list[Problem]]:
    """(chapter path → fence index → its proof, problems). Stale entries are left out."""
    if not config.features.proofs:
        return {}, []
    try:
        kept = _read(file_of(config))
    except _DAMAGED as error:
        path = file_of(config).relative_to(config.root).as_posix()
        hint = "write it again: bookpress prove --record"
        return {}, [Problem(path, 1, 1, "PRV011", f"cannot be read: {error}", hint)]
    found: dict[str, dict[int, Proven]] = {}
    for chapter in chapters:
        entries = kept.get(chapter.path, {})
        for fence in chapter.fences:
            entry = entries.get(fence_hash(fence))
            if entry is not None and entry["mode"] == fence.mode:
                found.setdefault(chapter.path, {})[fence.index] = Proven(**entry)
    return found, []


@dataclass(frozen=True)
class Row:
    """A line of the colophon's table; `counts` go with `names`."""

    title: str
    blocks: int
    counts: tuple[int, ...]
    names: tuple[str, ...] = ("Run", "In Slurm", "On GPUs", "Parsed", "Shown")


def rows(book: Book) -> list[Row]:
    """The proofs by chapter, and in all; nothing for a book that asks for none."""
    if not book.config.features.proofs:
        return []
    found = []
    for chapter in book.chapters:
        blocks = [f for f in chapter.fences if f.mode != "output"]
        proven = Counter(p.mode for p in book.proofs.get(chapter.path, {}).values())
        proven["shown"] = sum(f.mode == "shown" for f in blocks)
        if blocks:
            title = f"{chapter.number} {chapter.title}".strip()
            found.append(Row(title, len(blocks), tuple(proven[m] for m in MODES)))
    if found:
        sums = tuple(map(sum, zip(*(r.counts for r in found), strict=True)))
        found.append(Row("In all", sum(r.blocks for r in found), sums))
    return found


def _read(file: Path) -> Mapping[str, Mapping[str, Any]]:
    if not file.is_file():
        return {}
    data = json.loads(file.read_text(encoding="utf-8"))
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema {data['schema']}, this press reads {SCHEMA}")
    return data["chapters"]
