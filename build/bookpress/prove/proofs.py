"""Part of prove: Proofs → the table by chapter and dist/proofs.json."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

MODES = ("run", "slurm", "gpu", "parse", "shown")
GOOD = ("ok", "shown")


@dataclass(frozen=True)
class Proof:
    """How one fence stands. `where` says on what it ran, `date` when (ISO, UTC)."""

    chapter: str
    line: int
    index: int
    id: str
    lang: str
    mode: str  # run slurm gpu parse shown, or "" for none
    status: str  # ok | failed | stale | missing | unproven | shown
    hash: str
    where: str = ""
    date: str = ""
    seconds: float = 0.0
    reason: str = ""  # of a shown fence
    message: str = ""  # why it failed
    cached: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    chapter: str
    modes: Counter
    unproven: int
    failing: int

    @property
    def fences(self) -> int:
        return sum(self.modes.values())

    @property
    def executed(self) -> float:
        """Share of fences that a machine executed, in percent."""
        done = sum(self.modes[m] for m in ("run", "slurm", "gpu"))
        return 100 * done / self.fences if self.fences else 0.0


def rows(proofs: Sequence[Proof]) -> list[Row]:
    """The table's rows in reading order, with a total."""
    names = list(dict.fromkeys(p.chapter for p in proofs))
    groups = [(n, [p for p in proofs if p.chapter == n]) for n in names]
    out = []
    for name, group in [*groups, ("total", list(proofs))]:
        modes = Counter(p.mode or "none" for p in group)
        unproven = sum(p.status == "unproven" for p in group)
        failing = sum(p.status in ("failed", "stale", "missing") for p in group)
        out.append(Row(name, modes, unproven, failing))
    return out


def table(proofs: Sequence[Proof]) -> str:
    """The table as text: fences by mode, and what is not proven."""
    lines = [
        f"{'chapter':44} {'fences':>6} {'run':>4} {'slurm':>5} {'gpu':>4} {'parse':>5} {'shown':>5}"
        f" {'unproven':>8} {'failing':>7} {'executed':>8}"
    ]
    for row in rows(proofs):
        m = row.modes
        lines.append(
            f"{row.chapter[-44:]:44} {row.fences:6} {m['run']:4} {m['slurm']:5} {m['gpu']:4} {m['parse']:5}"
            f" {m['shown']:5} {row.unproven:8} {row.failing:7} {row.executed:7.0f}%"
        )
    shown = [p for p in proofs if p.mode == "shown"]
    if shown:
        lines += ["", "shown, not checked:"]
        lines += [f"  {p.chapter}:{p.line}  {p.reason}" for p in shown]
    return "\n".join(lines)


def write(proofs: Sequence[Proof], file: Path) -> None:
    """proofs.json, complete or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {"schema": 1, "proofs": [asdict(p) for p in proofs]}
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, file)
