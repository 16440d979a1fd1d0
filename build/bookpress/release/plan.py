"""What publishing would change: the release's files against what the server has. Pure, nothing is asked here.

In: the files of a release, the state of the repository on the Hub. Out: a Plan, whose rows a person reads
before saying yes and which publish carries out; and problems that forbid it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..archives import Packed
from ..problems import Problem
from .versions import FORM, number


@dataclass(frozen=True)
class Remote:
    """A file on the server: large ones are known by their SHA-256, others by git's object id."""

    size: int
    sha256: str = ""
    git_oid: str = ""


@dataclass(frozen=True)
class State:
    """The repository as the server told it."""

    head: str = ""  # commit of main; "" when the repository is not there or empty
    there: bool = False
    files: Mapping[str, Remote] = field(default_factory=dict)  # of main
    tags: tuple[str, ...] = ()
    tagged: str = ""  # the commit of this release's tag, if there is one
    tagged_files: Mapping[str, Remote] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()  # names in main's SHA256SUMS: files that an earlier release put there
    private: bool = False


@dataclass(frozen=True)
class Row:
    """One file of the plan."""

    name: str
    size: int
    sha256: str
    state: str  # new changed same gone


@dataclass(frozen=True)
class Plan:
    """What there is to do, in this order: create, commit, tag."""

    rows: tuple[Row, ...]
    create: bool
    commit: bool
    tag: bool

    @property
    def adds(self) -> tuple[str, ...]:
        return tuple(r.name for r in self.rows if r.state in ("new", "changed"))

    @property
    def deletes(self) -> tuple[str, ...]:
        return tuple(r.name for r in self.rows if r.state == "gone")

    @property
    def nothing(self) -> bool:
        return not (self.create or self.commit or self.tag)


def git_oid(data: bytes) -> str:
    """The object id that git gives these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def same(file: Packed, remote: Remote | None) -> bool:
    """Whether the server has these very bytes."""
    if remote is None or remote.size != len(file.data):
        return False
    return remote.sha256 == file.sha256 if remote.sha256 else remote.git_oid == git_oid(file.data)


def differing(files: Sequence[Packed], there: Mapping[str, Remote]) -> list[str]:
    """Names of the release's files that the server lacks or has with other bytes."""
    return [f.name for f in files if not same(f, there.get(f.name))]


def decide(files: Sequence[Packed], state: State, tag: str) -> tuple[Plan, list[Problem]]:
    """The plan, and what forbids it."""
    there = state.tagged_files if state.tagged else state.files
    rows = []
    for file in files:
        remote = there.get(file.name)
        how = "same" if same(file, remote) else "changed" if remote else "new"
        rows.append(Row(file.name, len(file.data), file.sha256, how))
    names = {f.name for f in files}
    if not state.tagged:
        # Only what an earlier release has put there goes; other people's files stay.
        gone = sorted((state.listed & set(state.files)) - names)
        rows += [Row(name, state.files[name].size, state.files[name].sha256, "gone") for name in gone]
    differs = any(row.state != "same" for row in rows)
    plan = Plan(
        tuple(rows), create=not state.there, commit=differs and not state.tagged, tag=not state.tagged
    )  # fmt: skip
    return plan, _forbidden(rows, state, tag)


def _forbidden(rows: Sequence[Row], state: State, tag: str) -> list[Problem]:
    if state.tagged:
        other = [row.name for row in rows if row.state != "same"]
        hint = "a published version never changes; release the next one"
        return [Problem(name, 0, 0, "HUB001", f"{tag} is published with other bytes", hint) for name in other]
    newer = [t for t in state.tags if t[:1] == "v" and FORM.fullmatch(t[1:]) and number(t[1:]) > number(tag[1:])]
    if newer:
        last = max(newer, key=lambda t: number(t[1:]))
        message = f"the server has {last}; {tag} would become the latest again"
        return [Problem("book.toml", 0, 0, "HUB002", message, "release a version above it")]
    return []


def lines(plan: Plan, title: str, place: str, tag: str) -> list[str]:
    """The plan as a person reads it."""
    out = [f"{title} {tag} → {place}"]
    width = max((len(row.name) for row in plan.rows), default=4)
    for row in plan.rows:
        digest = row.sha256[:16] or "-"
        out.append(f"  {row.state:8}{row.name:{width}}  {row.size:>12,} bytes  sha256 {digest}")
    todo = [
        *(["create the repository, private (CREATE=1)"] if plan.create else []),
        *([f"one commit: {len(plan.adds)} files added or changed, {len(plan.deletes)} removed"] if plan.commit else []),
        *([f"compare every hash on the server, then tag {tag}"] if plan.tag else []),
    ]
    return [*out, *(f"  to do: {line}" for line in todo or [f"nothing: {tag} is published with these bytes"])]
