"""Stage 0: book.toml → Config. Every key is known or a problem; nothing is guessed.

In: the path of a book.toml. Out: a Config and the problems of the file, with the line of the key at fault.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

from .model import Config, Features, Page, Part
from .problems import Problem, WrongUse, near

_BOOK_KEYS = {
    "title": str,
    "slug": str,
    "version": str,
    "language": str,
    "subtitle": str,
    "authors": list,
    "publisher": str,
    "description": str,
    "identifier": str,
    "license": str,
    "license_code": str,
    "repository": str,
    "source_url": str,
    "cover": str,
    "data": str,
    "code_width": int,
}
_TABLES = {"book", "features", "page", "hub", "part", "bench"}
# What the Hub takes as a repository's name.
# The Hub also refuses "--", "..", a last "." or "-" and the ending ".git".
HUB_REPO = re.compile(
    r"(?!.*(?:--|\.\.|\.git\Z))[A-Za-z0-9](?:[\w.-]*\w)?/[A-Za-z0-9](?:[\w.-]{0,94}\w)?", re.ASCII
)
HUB_TYPES = ("dataset", "model")
_LENGTH = re.compile(r"^\d+(\.\d+)?(mm|cm|in|pt)$")


class _Reader:
    """Walks the parsed TOML and remembers the text, so that each problem has a line."""

    def __init__(self, path: Path, text: str):
        self.name = path.name
        self.text = text
        self.problems: list[Problem] = []

    def line(self, table: str, key: str = "") -> int:
        """Line of `key` in the first `[table]` (or `[[table]]`); of the table when key is empty."""
        inside, at_table = False, 0
        for number, line in enumerate(self.text.splitlines(), 1):
            head = re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?", line)
            if head:
                inside = head.group(1) == table
                at_table = at_table or (number if inside else 0)
            elif inside and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
        return at_table or 1

    def add(self, line: int, code: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.name, line, 1, code, message, hint))

    def table(self, data: dict, name: str, kinds: dict[str, type]) -> dict[str, Any]:
        """The known keys of one table with the right types; the rest become problems."""
        raw = data.get(name, {})
        if not isinstance(raw, dict):
            self.add(self.line(name), "CFG003", f"[{name}] must be a table")
            return {}
        out: dict[str, Any] = {}
        for key, value in raw.items():
            if key not in kinds:
                self.add(
                    self.line(name, key), "CFG002", f"unknown key '{key}' in [{name}]", near(key, kinds)
                )
            elif type(value) is not kinds[key]:
                want = {"str": "a string", "bool": "true or false", "int": "a whole number"}
                need = want.get(kinds[key].__name__, "a list")
                self.add(self.line(name, key), "CFG003", f"'{key}' in [{name}] must be {need}")
            else:
                out[key] = value
        return out


def _slugify(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "book"


def _parts(reader: _Reader, data: dict) -> tuple[Part, ...]:
    parts = []
    raw = data.get("part", [])
    for entry in raw if isinstance(raw, list) else [raw]:
        if not isinstance(entry, dict):
            reader.add(reader.line("part"), "CFG003", "'part' must be tables: [[part]]")
            continue
        title, chapters = entry.get("title", ""), entry.get("chapters", [])
        for key in entry:
            if key not in ("title", "chapters", "numbered"):
                hint = near(key, ("title", "chapters", "numbered"))
                reader.add(reader.line("part", key), "CFG002", f"unknown key '{key}' in [[part]]", hint)
        if not isinstance(chapters, list) or not all(isinstance(c, str) for c in chapters):
            reader.add(reader.line("part"), "CFG003", "'chapters' in [[part]] must be a list of paths")
            continue
        parts.append(Part(str(title), tuple(chapters), bool(entry.get("numbered", True))))
    if not any(p.chapters for p in parts):
        reader.add(1, "CFG004", "no chapters", "add [[part]] with title and chapters = [\"path.md\"]")
    return tuple(parts)


def _page(reader: _Reader, data: dict) -> Page:
    raw = reader.table(data, "page", {"width": str, "height": str})
    for key, value in list(raw.items()):
        if not _LENGTH.match(value):
            line = reader.line("page", key)
            reader.add(line, "CFG003", f"'{value}' is no length", "write it like 176mm, 7in or 498pt")
            del raw[key]
    return Page(**raw)


def _hub(reader: _Reader, data: dict) -> dict[str, Any]:
    """Where releases are published."""
    raw = reader.table(data, "hub", {"repo": str, "type": str, "file_budget_mb": int})
    wrong = {
        "repo": not HUB_REPO.fullmatch(raw.get("repo") or "a/b") and "'repo' is OWNER/NAME",
        "type": raw.get("type", "dataset") not in HUB_TYPES and f"'type' is one of {', '.join(HUB_TYPES)}",
        "file_budget_mb": raw.get("file_budget_mb", 1) < 1 and "'file_budget_mb' is at least 1",
    }
    for key, message in wrong.items():
        if message:
            reader.add(reader.line("hub", key), "CFG003", f"{message}, not '{raw.pop(key)}'")
    return raw


def read_config(path: Path) -> tuple[Config | None, list[Problem]]:
    """Read a book.toml. No Config when the file is not TOML or names no title."""
    path = path.resolve()
    if path.is_dir():
        path = path / "book.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise WrongUse(f"cannot read {path}: {reason}; give --book PATH/book.toml") from None
    reader = _Reader(path, text)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        line, col = (int(place[1]), int(place[2])) if place else (1, 1)
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        return None, [Problem(path.name, line, col, "CFG001", f"not valid TOML: {message}")]
    for key in data:
        if key not in _TABLES:
            reader.add(reader.line(key), "CFG002", f"unknown table [{key}]", near(key, _TABLES))
    book = reader.table(data, "book", _BOOK_KEYS)
    for key in ("title", "version"):
        if not book.get(key, "").strip():
            reader.add(reader.line("book"), "CFG005", f"[book] needs '{key}'")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", book.get("slug", "x")):
        reader.add(reader.line("book", "slug"), "CFG003", "'slug' names files: letters, digits, . _ -")
        book.pop("slug")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", book.get("version", "x").strip() or "x"):
        reader.add(reader.line("book", "version"), "CFG003", "'version' names files: letters, digits, . _ + -")
    kinds = {f.name: bool for f in dataclasses.fields(Features)}
    features = Features(**reader.table(data, "features", kinds))
    hub = _hub(reader, data)
    page, parts = _page(reader, data), _parts(reader, data)
    if not book.get("title") or not book.get("version"):
        return None, reader.problems
    book["authors"] = tuple(str(a) for a in book.get("authors", ()))
    slug = book.pop("slug", None) or _slugify(book["title"])
    book.setdefault("identifier", "urn:bookpress:" + slug)
    config = Config(
        root=path.parent,
        path=path,
        slug=slug,
        page=page,
        features=features,
        parts=parts,
        **{f"hub_{key}": value for key, value in hub.items()},
        **book,
    )
    return config, reader.problems
