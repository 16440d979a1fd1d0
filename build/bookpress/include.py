"""Beside parse: code that a fence takes from a file, whole or by region, so that text and code cannot drift."""

from __future__ import annotations

from collections.abc import Mapping

from .drafting import Drafting
from .markup import Place
from .problems import near
from .regions import cut


def include(draft: Drafting, values: Mapping[str, str], body: str, place: Place) -> str:
    """The text a fence includes; "" after a problem. The file is noted in the draft's reads."""
    target = values["include"]
    if body.strip():
        draft.report("INC005", place, "a fence that includes a file has text of its own", "empty it")
    path = draft.inside(target)
    if path is None:
        draft.report("INC003", place, f"'{target}' leads out of the book's folder")
        return ""
    data = draft.read(path)
    if data is None:
        draft.report("INC001", place, f"no file '{target}' to include", _near_file(draft, path))
        return ""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        draft.report("INC001", place, f"'{target}' is not UTF-8 text")
        return ""
    found = cut(text, values.get("region", ""), target)
    if found.code:
        draft.report(found.code, place, found.message, found.hint)
    return found.text


def _near_file(draft: Drafting, path: str) -> str:
    folder = (draft.config.root / path).parent
    files = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
    return near(path.rsplit("/", 1)[-1], files)
