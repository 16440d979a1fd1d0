"""Facts: data/*.yaml by dotted path, each figure with unit, source and date.

Used by expand. A file's top level may hold `units` (key → unit) and records by id; a record states
`source` (or `sources`), `verified` and `confidence` for the figures in it, and a figure that differs from
its record is a mapping {value, unit, source, verified, confidence, note}. A path starts with the file's
stem: `accelerators.nvidia_h200_sxm.memory_gb`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .problems import near

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RECORD_KEYS = ("source", "sources", "verified", "confidence")


class FactError(Exception):
    """A path that leads nowhere, or a fact without a source; `hint` names the nearest key."""

    def __init__(self, code: str, message: str, hint: str = ""):
        super().__init__(message)
        self.code, self.hint = code, hint


@dataclass(frozen=True)
class Fact:
    """One figure with everything a reader may ask about it."""

    path: str
    value: Any
    unit: str
    sources: tuple[str, ...]
    verified: str
    confidence: str
    note: str = ""


class Facts:
    """The data folder of one book, read file by file on first use."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._files: dict[str, Any] = {}
        self.digests: dict[str, str] = {}  # file name → sha256 of every file read so far
        self.touched: set[str] = set()  # names asked for since the caller last cleared it

    def names(self) -> list[str]:
        return sorted(p.stem for p in self.folder.glob("*.yaml")) if self.folder.is_dir() else []

    def file(self, stem: str) -> Any:
        """The parsed content of data/STEM.yaml."""
        self.touched.add(f"{stem}.yaml")
        if stem not in self._files:
            path = self.folder / f"{stem}.yaml"
            if not path.is_file():
                raise FactError("TPL003", f"no data file '{stem}.yaml'", near(stem, self.names()))
            raw = path.read_bytes()
            try:
                self._files[stem] = yaml.load(raw, Loader=_LOADER)
            except yaml.YAMLError as error:
                mark = getattr(error, "problem_mark", None)
                where = f" line {mark.line + 1}" if mark else ""
                raise FactError("TPL005", f"{path.name}{where} is not valid YAML") from None
            self.digests[f"{stem}.yaml"] = hashlib.sha256(raw).hexdigest()
        return self._files[stem]

    def walk(self, path: str) -> tuple[Any, list[Any], list[str]]:
        """The node at a dotted path, the nodes on the way (outermost first), and the keys walked."""
        stem, *keys = path.split(".")
        node = self.file(stem)
        # A file may wrap its records in a key of its own name: accelerators.yaml: {accelerators: {…}}.
        if keys and isinstance(node, Mapping) and keys[0] not in node and stem in node:
            keys = [stem, *keys]
        trail = [node]
        for depth, key in enumerate(keys):
            if isinstance(node, list) and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, Mapping) and key in node:
                node = node[key]
            else:
                known = [str(k) for k in node] if isinstance(node, Mapping) else []
                at = ".".join([stem, *keys[:depth]])
                raise FactError("TPL002", f"no fact '{path}': '{at}' has no '{key}'", near(key, known))
            trail.append(node)
        return node, trail, keys

    def fact(self, path: str) -> Fact:
        """The figure at `path`, with unit and source inherited from its record and its file."""
        node, trail, keys = self.walk(path)
        own = node if isinstance(node, Mapping) and "value" in node else {}
        if isinstance(node, Mapping) and not own:
            raise FactError("TPL002", f"'{path}' is no figure but a group", near("", map(str, node)))
        if isinstance(node, list):
            raise FactError("TPL002", f"'{path}' is a list, not a figure")
        about: dict[str, Any] = {}
        for scope in [*trail[:-1], own]:
            if isinstance(scope, Mapping):
                about.update({k: scope[k] for k in _RECORD_KEYS if scope.get(k)})
        sources = about.get("sources") or about.get("source") or ()
        if own.get("source"):
            sources = own["source"]
        sources = (sources,) if isinstance(sources, (str, Mapping)) else tuple(sources)
        units = trail[0].get("units", {}) if isinstance(trail[0], Mapping) else {}
        unit = own.get("unit") or next((units[k] for k in reversed(keys) if k in units), "")
        return Fact(
            path=path,
            value=own["value"] if own else node,
            unit=str(unit),
            sources=tuple(_source(s) for s in sources),
            verified=str(about.get("verified", "")),
            confidence=str(about.get("confidence", "")),
            note=str(own.get("note", "")),
        )

    def sourced(self, path: str) -> Fact:
        """Like fact, but a figure without source and date is an error: it may not be printed."""
        fact = self.fact(path)
        if not fact.sources or not fact.verified:
            lack = "source" if not fact.sources else "verified date"
            raise FactError("TPL004", f"fact '{path}' has no {lack}", "state it at the figure or its record")
        return fact


def _source(entry: Any) -> str:
    """A source is a URL or document; the mapping form {url, title} keeps its title as `title <url>`."""
    if isinstance(entry, Mapping):
        title, url = str(entry.get("title", "")), str(entry.get("url", ""))
        return f"{title} <{url}>" if title and url else title or url
    return str(entry)


def figure(value: Any, digits: int | None = None) -> str:
    """A number as the book prints it: thousands grouped from 10,000, no trailing zeros."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "–" if value is None else str(value)
    if digits is not None:
        value = round(float(value), digits)
        text = f"{value:,.{digits}f}" if abs(value) >= 10_000 else f"{value:.{digits}f}"
    elif isinstance(value, int):
        text = f"{value:,}" if abs(value) >= 10_000 else str(value)
    else:
        text = f"{value:,.10g}" if abs(value) >= 10_000 else f"{value:.10g}"
    return text.replace("-", "\u2212", 1) if text.startswith("-") else text
