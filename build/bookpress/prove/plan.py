"""Part of prove: a chapter's fences → sessions, the units that run together in one scratch folder.

A fence runs alone, after the fence its `setup` names (and that one's own setup), or with all fences that
share its `session`, in order. A `setup` that is a folder under fixtures/ is copied into the scratch folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cache import digest
from ..model import Fence

TIMEOUT_S = 60
MEMORY_MB = 16_384
EXECUTED = ("run", "slurm", "gpu")
_SHELLS = {"bash": "bash", "sh": "sh", "shell": "bash"}


@dataclass(frozen=True)
class Step:
    """One fence to execute. A set-up step only prepares for others and proves nothing by itself."""

    fence: Fence
    proves: bool = True

    @property
    def timeout_s(self) -> int:
        return int(self.fence.attrs.get("timeout", TIMEOUT_S))

    @property
    def exit(self) -> int:
        return int(self.fence.attrs.get("exit", 0))


@dataclass(frozen=True)
class Session:
    """Fences of one chapter that share a scratch folder and a process space."""

    chapter: str  # path of the Markdown file
    mode: str  # run | slurm | gpu
    steps: tuple[Step, ...]
    fixtures: tuple[Path, ...]  # folders whose content is copied into the scratch folder
    needs: tuple[str, ...]  # Python packages the fences say they need


def fence_hash(fence: Fence) -> str:
    """Identity of what a fence does: a changed text, language or exit status makes a record stale."""
    return digest(fence.lang, fence.mode, fence.text, fence.attrs.get("exit", "0"))[:32]


def session_hash(session: Session, tools: Mapping[str, str]) -> str:
    """Identity of a session's run: steps, fixtures and tool versions."""
    parts = [session.mode, *session.needs, *(f"{k} {v}" for k, v in sorted(tools.items()))]
    for step in session.steps:
        parts += [fence_hash(step.fence), str(step.timeout_s)]
    for folder in session.fixtures:
        for file in fixture_files(folder):
            parts += [str(file.relative_to(folder)), hashlib.sha256(file.read_bytes()).hexdigest()]
    return digest(*parts)


def fixture_files(folder: Path) -> list[Path]:
    """What a run gets of the folder, sorted: also the files of a linked folder, such as the instruments' package."""
    walked = os.walk(folder, followlinks=True)
    found = (Path(place, name) for place, _, names in walked for name in names)
    return sorted(p for p in found if p.is_file() and "__pycache__" not in p.parts)


def command(fence: Fence, script: str) -> list[str] | None:
    """How a fence of this language runs, or None when prove cannot run it."""
    if fence.lang in _SHELLS:
        # As a careful reader pastes it: stop at the first failing command, also inside a pipe.
        flags = ["-e", "-o", "pipefail"] if fence.lang != "sh" else ["-e"]
        return [_SHELLS[fence.lang], *flags, script]
    if fence.lang in ("python", "py"):
        return ["python3", "-u", script]
    return None


def sessions(chapter: str, fences: Sequence[Fence], root: Path) -> list[Session]:
    """All sessions of a chapter, in reading order."""
    by_id = {f.id: f for f in fences if f.id}
    grouped: dict[str, list[Fence]] = {}
    for fence in fences:
        if fence.mode in EXECUTED:
            grouped.setdefault(fence.attrs.get("session") or f"#{fence.index}", []).append(fence)
    folder = (root / chapter).parent / "fixtures"
    out = []
    for members in grouped.values():
        before: list[Fence] = []
        fixtures: list[Path] = []
        for fence in members:
            _setups(fence, by_id, folder, before, fixtures)
        steps = [Step(f, proves=False) for f in before if f not in members]
        steps += [Step(f) for f in members]
        needs = sorted({n for s in steps for n in s.fence.attrs.get("needs", "").split()})
        out.append(Session(chapter, members[0].mode, tuple(steps), tuple(fixtures), tuple(needs)))
    return out


def _setups(
    fence: Fence, by_id: Mapping[str, Fence], folder: Path, before: list[Fence], fixtures: list[Path]
) -> None:
    """Collect what must come before a fence: its setup's setup first."""
    for name in fence.attrs.get("setup", "").split():
        other = by_id.get(name)
        if other is None:
            if (folder / name).is_dir() and folder / name not in fixtures:
                fixtures.append(folder / name)
        elif other not in before and other is not fence:
            _setups(other, by_id, folder, before, fixtures)
            before.append(other)
