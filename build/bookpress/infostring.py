"""Beside parse: the info string of a fence, `lang {#id .class key=value}`, read without any library.

Shared by fences.py (inside the press) and prove/scan.py (on machines that have only Python).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

OPENING = re.compile(
    r"^(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>.*?)[ \t]*$"
)
_LANG = re.compile(r"[^\s{},:=\"'`]+")
_ATTRIBUTE = re.compile(
    r"""\s*(?:\#(?P<id>[^\s{}\#.="']+)|\.(?P<cls>[\w-]+)"""
    r"""|(?P<key>[\w:-]+)=(?:"(?P<dq>(?:\\.|[^"\\])*)"|'(?P<sq>[^']*)'|(?P<bare>[^\s"'{}]+)))\s*"""
)


@dataclass
class Info:
    """What an info string says; `garbage` is what could not be read."""

    lang: str = ""
    id: str = ""
    classes: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    garbage: str = ""


def read_info(text: str) -> Info:
    """Read an info string. The first class stands for the language where no language word comes first."""
    word = _LANG.match(text)
    info = Info(lang=word.group(0) if word else "")
    rest = text[word.end() :] if word else text
    start, end = rest.find("{"), rest.rfind("}")
    if start >= 0 and end < start:
        info.garbage = rest[start:]
    elif start >= 0:
        _read_attributes(rest[start + 1 : end], info)
    if not info.lang and info.classes:
        info.lang = info.classes.pop(0)  # ```{.bash .run}, pandoc's own way
    return info


def _read_attributes(text: str, info: Info) -> None:
    at = 0
    while at < len(text):
        match = _ATTRIBUTE.match(text, at)
        if not match or match.end() == at:
            info.garbage = text[at:].strip()
            return
        at = match.end()
        if match["id"]:
            info.id = match["id"]
        elif match["cls"]:
            info.classes.append(match["cls"])
        else:
            value = next(v for v in (match["dq"], match["sq"], match["bare"]) if v is not None)
            info.values[match["key"]] = re.sub(r"\\(.)", r"\1", value) if match["dq"] else value
