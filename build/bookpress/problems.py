"""Problems: what is wrong in a book, as data. Every stage reports here; nothing raises at an author.

A code is a stage letter pair and a number, never reused; CODES is the one list, from which the page of
problems is generated. Exit statuses: 0 clean, 1 problems in the book, 2 wrong use, 3 a tool is missing,
4 network.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

OK, BOOK, USAGE, TOOL, NETWORK = 0, 1, 2, 3, 4
_LONGEST = 160  # characters of a message or hint that is printed; JSON has the whole
# Found by the outputs when the page is made: something is lost on it, but the file is whole.
_CARRIED = frozenset(("PDF001", "PDF002", "PDF003", "PDF004", "PDF005", "EPB003", "EPB004"))


@dataclass(frozen=True, order=True)
class Problem:
    """One finding. `path` is relative to the book's folder; line and col are 1-based, 0 when unknown."""

    path: str
    line: int
    col: int
    code: str
    message: str
    hint: str = ""
    level: str = "error"  # error | warning

    def __str__(self) -> str:
        place = ":".join(str(p) for p in (self.path, self.line, self.col))
        mark = "" if self.level == "error" else f"{self.level}: "
        hint = f" ({_line(self.hint)})" if self.hint else ""
        return f"{_line(place)} {self.code} {mark}{_line(self.message)}{hint}"


def _line(words: str) -> str:
    """On one line of bearable length, whatever the author's text held."""
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


class ToolMissing(Exception):
    """A program or library the press needs is not there (exit 3). The message says how to get it."""


class WrongUse(Exception):
    """A wrong command line or a book.toml that cannot be read at all (exit 2)."""


class NetworkFailed(Exception):
    """A server did not answer, or not as agreed, after every retry (exit 4). Running again is safe."""


def near(name: str, names: Iterable[str]) -> str:
    """A hint with the nearest known name, or the known names when there are few."""
    known = sorted(names)
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if match:
        return f"did you mean '{match[0]}'?"
    return f"known: {', '.join(known)}" if 0 < len(known) <= 8 else ""


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [p for p in problems if p.level == "error"]


def relaxed(problems: Iterable[Problem], strict: bool) -> list[Problem]:
    """Problems of the outputs as a book takes them: where it is not strict, what can be carried warns."""
    return [
        p if strict or p.code not in _CARRIED else replace(p, level="warning") for p in problems
    ]


def report(problems: Iterable[Problem], as_json: bool = False, stream=None) -> None:
    """Print problems in reading order, once each."""
    stream = stream or sys.stderr
    for p in sorted(set(problems)):
        print(json.dumps(asdict(p), ensure_ascii=False) if as_json else str(p), file=stream)
