"""The index of messages: data/questions/*.yaml as Markdown, each exact text with the sections that answer it.

Used by expand (`[[ messages() ]]`), so the index is an ordinary page: its links are resolved, numbered and
checked by the stages that do so for every other page, in all editions.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .facts import FactError, Facts

_FOLDER = "questions"
_NEEDED = ("id", "question", "source", "section")


@dataclass
class _Entry:
    """One message and where it is answered, in the order of the files."""

    message: str
    sections: dict[str, None] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Sorted by letters and digits alone: brackets, quotes and a time in front say nothing about the place."""
        said = re.sub(r"^\[\d{4}-\d\d-\d\d[^]]*\]", "", self.message)
        return re.sub(r"[\W_]+", " ", said).strip().casefold(), self.message


def _questions(facts: Facts) -> Iterator[Mapping[str, Any]]:
    folder = facts.folder / _FOLDER
    names = sorted(path.stem for path in folder.glob("*.yaml")) if folder.is_dir() else []
    if not names:
        raise FactError("TPL008", f"no file in {facts.folder.name}/{_FOLDER}")
    for name in names:
        entries = facts.file(f"{_FOLDER}/{name}")
        if not isinstance(entries, list):
            raise FactError("TPL008", f"{_FOLDER}/{name}.yaml must be a list of questions")
        for number, entry in enumerate(entries, 1):
            missing = [k for k in _NEEDED if not (isinstance(entry, Mapping) and entry.get(k))]
            if missing:
                raise FactError("TPL008", f"{_FOLDER}/{name}.yaml: question {number} has no '{missing[0]}'")
            yield entry


def _code(text: str) -> str:
    """A code span that holds exactly this text."""
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _initial(entry: _Entry) -> str:
    first = entry.key[0][:1]
    return first.upper() if first.isalpha() else "0–9"


def index_of_messages(facts: Facts, page: str) -> str:
    """Markdown for the page at this path: a heading a letter, a line a message.

    Raises FactError TPL008 where the folder has no questions, or an entry lacks a key.
    """
    found: dict[str, _Entry] = {}
    for question in _questions(facts):
        message = " ".join(str(question.get("message") or "").split())
        if message:
            entry = found.setdefault(message.casefold(), _Entry(message))
            entry.sections.setdefault(question["section"])
    lines: list[str] = []
    letter = ""
    here = posixpath.dirname(page)
    for entry in sorted(found.values(), key=lambda entry: entry.key):
        if _initial(entry) != letter:
            letter = _initial(entry)
            lines += ["", f"## {letter}", ""]
        links = (f"[Section]({posixpath.relpath(section, here)})" for section in entry.sections)
        lines.append(f"- {_code(entry.message)} → {', '.join(links)}")
    return "\n".join(lines).strip("\n")
