"""What the strip over a code block says of its proof: what ran, where and when.

Stands beside web/body.py. In: a chapter's fences and what Book.proofs holds of them. Out: fence index → a few
words. Nothing is said of a fence without a proof: a mode in the source is a promise, not a proof.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Chapter, Proven

_WORDS = {"run": "ran", "slurm": "ran in Slurm", "gpu": "ran"}


def said(chapter: Chapter, proven: Mapping[int, Proven]) -> Mapping[int, str]:
    """The words for each fence of a chapter."""
    words = {}
    for fence in chapter.fences:
        proof = proven.get(fence.index)
        if fence.mode == "shown":
            words[fence.index] = f"not run: {fence.attrs.get('reason', '')}".rstrip(": ")
        elif proof is not None and proof.mode == "parse":
            words[fence.index] = "✓ checked"
        elif proof is not None:
            where = f", {proof.where}" if proof.where else ""
            words[fence.index] = f"✓ {_WORDS[proof.mode]} {proof.date}{where}"
    return words
