"""The changelog: fragments in changelog.d/, one a change, become the section of a release.

In: the book's folder. Out: fragments, problems, and the new text of CHANGELOG.md. A fragment's name is
NAME.KIND.md; its text is what the reader is told. Fragments never conflict, unlike lines in one file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..problems import Problem, near

FILE, FOLDER = "CHANGELOG.md", "changelog.d"
KINDS = {
    "added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "security": "Security",
}  # fmt: skip
_KEPT = ("README.md", ".gitkeep")
_HEADING = re.compile(r"(?m)^## ")


@dataclass(frozen=True)
class Fragment:
    """One change as readers are told of it."""

    path: str  # relative to the book's folder
    kind: str
    text: str


def read(root: Path) -> tuple[list[Fragment], list[Problem]]:
    """All fragments, in the order of their names."""
    fragments, problems = [], []
    folder = root / FOLDER
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.name in _KEPT:
            continue
        path = f"{FOLDER}/{file.name}"
        parts = file.name.split(".")
        if len(parts) != 3 or parts[2] != "md" or parts[1] not in KINDS:
            known = near(parts[1], KINDS) if len(parts) == 3 else ""
            hint = known or f"known: {', '.join(KINDS)}"
            problems.append(Problem(path, 1, 1, "REL006", "the name is not NAME.KIND.md", hint))
            continue
        text = file.read_text(encoding="utf-8").strip()
        if not text or _HEADING.search(text) or text.startswith(("- ", "# ")):
            message = "a fragment is a paragraph, without a heading or a bullet"
            problems.append(Problem(path, 1, 1, "REL006", message, "the release adds both"))
            continue
        fragments.append(Fragment(path, parts[1], text))
    return fragments, problems


def missing(root: Path, fragments: Sequence[Fragment]) -> list[Problem]:
    """What stands in the way of a section: no fragments, or changes written into the file itself."""
    try:
        text = (root / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return [Problem(FILE, 1, 1, "REL005", "there is no CHANGELOG.md")]
    found = []
    match = re.search(r"(?mi)^## \[?unreleased", text)
    if match:
        line = text.count("\n", 0, match.start()) + 1
        hint = f"one file a change: {FOLDER}/NAME.KIND.md"
        found.append(Problem(FILE, line, 1, "REL006", "changes stand in the file, not in fragments", hint))
    if not fragments:
        hint = f"write one file a change: {FOLDER}/NAME.KIND.md"
        found.append(Problem(FOLDER, 0, 0, "REL005", "no fragments: what would readers be told?", hint))
    return found


def section(version: str, date: str, fragments: Sequence[Fragment]) -> str:
    """The release's part of the file."""
    parts = [f"## {version} ({date})"]
    for kind, title in KINDS.items():
        bullets = ["- " + f.text.replace("\n", "\n  ").replace("\n  \n", "\n\n") for f in fragments if f.kind == kind]
        if bullets:
            parts.append(f"### {title}\n\n" + "\n".join(bullets))
    return "\n\n".join(parts) + "\n"


def with_section(text: str, new: str) -> str:
    """CHANGELOG.md with the new section above the older ones."""
    match = _HEADING.search(text)
    cut = match.start() if match else len(text)
    head, rest = text[:cut].rstrip("\n"), text[cut:]
    return f"{head}\n\n{new}" + (f"\n{rest}" if rest else "")


def of_version(text: str, version: str) -> str:
    """The section of one release, without its heading; "" where there is none."""
    match = re.search(rf"(?ms)^## {re.escape(version)} .*?$\n(.*?)(?=^## |\Z)", text)
    return match[1].strip() if match else ""
