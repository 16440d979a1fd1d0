"""Stage 1: Config → Sources. Reads the chapter files in book order, nothing else.

Decides what never changes later: each chapter's slug (EPUB file, PDF name prefix) and web address, both
from its path alone, so that moving a chapter in the order moves no address (rust-lang/book keeps a table
of twenty redirects because its file names carry numbers).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import date, datetime
from pathlib import Path, PurePosixPath

import yaml

from .model import Config, FrontMatter, Source
from .problems import Problem, near

_FRONT_KEYS = ("title", "summary", "verified", "applies_to", "audience")
_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*\n", re.S | re.M)


def _entry_line(config: Config, entry: str) -> int:
    """Line of book.toml that names a chapter."""
    for number, line in enumerate(config.path.read_text(encoding="utf-8").splitlines(), 1):
        if f'"{entry}"' in line or f"'{entry}'" in line:
            return number
    return 1


def _resolve(config: Config, entry: str) -> tuple[str, Path | None]:
    """The chapter's path inside the book; a folder stands for its README.md."""
    path = PurePosixPath(entry)
    if "\0" in entry:  # a name that no disk can hold
        return entry, None
    file = (config.root / path).resolve()
    if file.is_dir():
        path, file = path / "README.md", file / "README.md"
    inside = file.is_relative_to(config.root)
    return path.as_posix(), file if inside and file.is_file() else None


def _web_path(path: str) -> str:
    """Path of the chapter's page: readable, stable, safe in a URL."""
    parts = [p for p in PurePosixPath(path).with_suffix("").parts if p not in ("", ".", "..")]
    if len(parts) > 1 and parts[0] == "chapters":
        parts = parts[1:]
    # Letters of any script stay (a page called 简介.html is fine); everything else becomes a dash.
    parts = [re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", p)).strip("-") for p in parts]
    if parts[-1].lower() in ("readme", "index"):
        parts[-1] = "index"
        if len(parts) == 1:  # the landing page owns index.html
            parts = ["start"]
    return "/".join(p or "page" for p in parts) + ".html"


def _slug(url: str) -> str:
    """An XML-safe ASCII name of the page."""
    stem = re.sub(r"(/index)?\.html$", "", url)
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    lost = sum(c.isalnum() and not c.isascii() for c in stem)
    if not name or lost:
        name = f"{name}-{hashlib.sha256(stem.encode()).hexdigest()[:8]}".strip("-")
    return name if name[0].isalpha() else "c-" + name


def _iso(value: object) -> str:
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value or "")


def _front_matter(
    config: Config, path: str, text: str, problems: list[Problem]
) -> tuple[FrontMatter, str, int]:
    """Split the YAML head off. Out: the head, the body, the body's first line."""
    match = _HEAD.match(text)
    need = config.features.front_matter_required
    if not match:
        if need:
            hint = "start with ---, title, summary, verified, applies_to, audience, ---"
            problems.append(Problem(path, 1, 1, "FMT001", "no front matter", hint))
        return FrontMatter(), text, 1
    body, first = text[match.end() :], text[: match.end()].count("\n") + 1
    try:
        raw = yaml.safe_load(match.group(1)) or {}
        if not isinstance(raw, dict):
            raise yaml.YAMLError("not a mapping of keys to values")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 1
        what = getattr(error, "problem", None) or str(error)
        problems.append(Problem(path, line, 1, "FMT002", f"front matter is not valid YAML: {what}"))
        return FrontMatter(), body, first
    if need:
        problems += _front_problems(path, match.group(1), raw)
    many = {k: raw.get(k) or () for k in ("applies_to", "audience")}
    lists = {k: (v,) if isinstance(v, str) else tuple(str(x) for x in v) for k, v in many.items()}
    meta = FrontMatter(
        title=str(raw.get("title") or ""),
        summary=str(raw.get("summary") or raw.get("description") or ""),
        verified=_iso(raw.get("verified")),
        **lists,
    )
    return meta, body, first


def _front_problems(path: str, head: str, raw: dict) -> list[Problem]:
    def line(key: str) -> int:
        rows = enumerate(head.splitlines(), 2)
        return next((n for n, row in rows if row.startswith(f"{key}:")), 1)

    found = []
    for key in raw:
        if key not in _FRONT_KEYS:
            hint = near(str(key), _FRONT_KEYS)
            found.append(Problem(path, line(key), 1, "FMT003", f"unknown front matter key '{key}'", hint))
    for key in _FRONT_KEYS:
        if not raw.get(key):
            found.append(Problem(path, line(key), 1, "FMT004", f"front matter needs '{key}'"))
    verified = _iso(raw.get("verified"))
    if verified and not re.fullmatch(r"\d{4}-\d\d-\d\d", verified):
        hint = "write it like 2026-11-30"
        found.append(Problem(path, line("verified"), 1, "FMT005", f"'{verified}' is no ISO date", hint))
    return found


def _read(file: Path, path: str, strict: bool, problems: list[Problem]) -> str:
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        hint = "save the file as UTF-8"
        carried = not strict and b"\0" not in data  # a file with such bytes is no text at all
        level = "warning" if carried else "error"
        message = f"byte {data[error.start]:#x} is not UTF-8"
        problems.append(Problem(path, line, 1, "CFG008", message, hint, level))
        text = data.decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load(config: Config) -> tuple[tuple[Source, ...], list[Problem]]:
    """Read every chapter in order. A chapter that is missing or listed twice is a problem and left out."""
    sources: list[Source] = []
    problems: list[Problem] = []
    toml = config.path.name
    seen: dict[str, str] = {}
    taken: dict[str, set[str]] = {"slug": set(), "url": set()}
    for index, part in enumerate(config.parts):
        for entry in part.chapters:
            path, file = _resolve(config, entry)
            line = _entry_line(config, entry)
            if file is None:
                known = [p.relative_to(config.root).as_posix() for p in config.root.rglob("*.md")]
                known = [name for name in known if name != path]  # it is there, and leads out of the folder
                hint = near(path, known) or "paths are relative to book.toml and stay inside its folder"
                problems.append(Problem(toml, line, 1, "CFG006", f"no chapter file '{entry}'", hint))
                continue
            if path in seen:
                problems.append(Problem(toml, line, 1, "CFG007", f"chapter '{entry}' is listed twice"))
                continue
            seen[path] = entry
            meta, body, first = _front_matter(config, path, _read(file, path, config.features.strict, problems), problems)
            url = _unique(_web_path(path), taken["url"])
            slug = _unique(_slug(url), taken["slug"])
            sources.append(Source(path, slug, url, index, meta, body, first))
    problems += _orphans(config, set(seen))
    return tuple(sources), problems


def _unique(name: str, taken: set[str]) -> str:
    """`name`, or with the first free number: a web path may differ only by case or odd letters."""
    stem, dot, ext = name.partition(".html")
    candidate, n = name, 1
    while candidate.lower() in taken:
        n += 1
        candidate = f"{stem}-{n}{dot}{ext}"
    taken.add(candidate.lower())
    return candidate


def _orphans(config: Config, listed: set[str]) -> list[Problem]:
    """Chapters on disk that book.toml forgot: only where the book keeps them under chapters/."""
    folder = config.root / "chapters"
    if not folder.is_dir():
        return []
    found = []
    for file in sorted(folder.rglob("*.md")):
        path = file.relative_to(config.root).as_posix()
        if path not in listed and "/fixtures/" not in path and "/measurements/" not in path:
            hint = f"add it to a [[part]] of {config.path.name} or remove it"
            found.append(Problem(path, 1, 1, "CFG009", "chapter is in no part", hint, "warning"))
    return found
