"""Where the version stands. book.toml is its home; the other places repeat it and must agree.

In: the book's folder. Out: the places with what they say, problems, and on a bump the new text of each file.
Nothing here writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..model import Config
from ..problems import Problem, WrongUse

FORM = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
# A version is three numbers: it must be the same in a Python package, a git tag and a file's name.
_SHAPE = "a version is three numbers: 1.2.0"


@dataclass(frozen=True)
class Place:
    """A line of a file that states the version."""

    path: str
    pattern: re.Pattern[str]  # group 1: what stands before the version; 2: the version; 3: behind


def _place(path: str, before: str, after: str) -> Place:
    return Place(path, re.compile(rf"(?m)^({before})([^\"'\s]*)({after})"))


BOOK = _place("book.toml", r"version[ \t]*=[ \t]*\"", r"\"")
REPEATS = (
    _place("scripts/clusterprobe/version.py", r"PROBE_VERSION = \"", r"\""),
    _place("build/bookpress/__init__.py", r"__version__ = \"", r"\""),
    _place("CITATION.cff", r"version: \"?", r"\"?$"),
)
_RELEASED = re.compile(r"(?m)^date-released:.*$")


def number(version: str) -> tuple[int, ...]:
    """For comparing; anything that is not three numbers is wrong use."""
    match = FORM.fullmatch(version)
    if not match:
        raise WrongUse(f"'{version}' is no version; {_SHAPE}")
    return tuple(int(part) for part in match.groups())


def _read(root: Path, place: Place) -> tuple[str, re.Match[str] | None]:
    try:
        text = (root / place.path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return "", None
    return text, place.pattern.search(text)


def _places(root: Path) -> Iterator[tuple[Place, str, re.Match[str] | None]]:
    for place in (BOOK, *REPEATS):
        text, match = _read(root, place)
        if text:
            yield place, text, match


def disagreements(config: Config) -> list[Problem]:
    """Places that do not repeat the version of book.toml."""
    found = []
    for place, text, match in _places(config.root):
        said = match[2] if match else ""
        if said != config.version:
            line = text.count("\n", 0, match.start()) + 1 if match else 1
            message = f"the version here is '{said}', in book.toml '{config.version}'"
            found.append(Problem(place.path, line, 1, "REL004", message, "`make release` writes all of them"))
    return found


def bumped(root: Path, version: str, date: str) -> dict[str, str]:
    """Path → new text of every file that states the version. `date` is the day of the release."""
    number(version)
    new = {}
    for place, text, match in _places(root):
        if match is None:
            continue  # disagreements() has said so
        text = text[: match.start(2)] + version + text[match.end(2) :]
        if place.path == "CITATION.cff":
            line = f"date-released: {date}"
            text = _RELEASED.sub(line, text) if _RELEASED.search(text) else f"{text.rstrip()}\n{line}\n"
        new[place.path] = text
    return new
