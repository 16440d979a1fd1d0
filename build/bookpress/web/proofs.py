"""What the strip over a code block says of its proof: what ran, where and when.

Stands beside web/body.py. In: a chapter's fences, proofs.json of the last `prove`, and the records of GPU
fences that lie beside the chapter. Out: fence index → a few words. Nothing is said of a fence whose proof
is not at hand or belongs to an older text: a mode in the source is a promise, not a proof.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model import Chapter

Proven = Mapping[tuple[str, int], Mapping[str, Any]]
_WORDS = {"run": "ran", "slurm": "ran in Slurm", "gpu": "ran"}


def read(file: Path | None) -> Proven:
    """Proofs by chapter and fence index; none when `prove` has not run."""
    if file is None or not file.is_file():
        return {}
    data = json.loads(file.read_text(encoding="utf-8"))
    return {(p["chapter"], p["index"]): p for p in data["proofs"] if p["status"] == "ok"}


def said(chapter: Chapter, root: Path, proven: Proven) -> Mapping[int, str]:
    """The words for each fence of a chapter."""
    modes = {f.mode for f in chapter.fences}
    if not modes & {*_WORDS, "parse", "shown"}:
        return {}
    from ..prove.plan import fence_hash  # here: other people's books need none of it
    from ..prove.records import key_of, read_records

    records = read_records(root, chapter.path) if "gpu" in modes else {}
    words = {}
    for fence in chapter.fences:
        if fence.mode == "shown":
            words[fence.index] = f"not run: {fence.attrs.get('reason', '')}".rstrip(": ")
            continue
        proof = proven.get((chapter.path, fence.index), {})
        if fence.mode == "gpu":
            proof = _recorded(records.get(key_of(fence), {}))
        if fence.mode not in (*_WORDS, "parse") or proof.get("hash") != fence_hash(fence):
            continue
        if fence.mode == "parse":
            words[fence.index] = "✓ checked"
        else:
            day, where = str(proof.get("date", ""))[:10], str(proof.get("where", ""))
            words[fence.index] = f"✓ {_WORDS[fence.mode]} {day}" + (f", {where}" if where else "")
    return words


def _recorded(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record of a GPU fence in the form of a proof."""
    versions = [f"{name} {version}" for name, version in record.get("versions", {}).items()]
    return {**record, "where": ", ".join([record.get("device", ""), *versions])}
