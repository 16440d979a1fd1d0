"""Beside parse: a code block's opening line → its Fence: language, mode, attributes.

The line is read here and not taken from pandoc's classes, which put the language last or first depending
on how it was written. What is wrong with a fence is reported here; what is in it, in code.py.
"""

from __future__ import annotations

import re

from . import controls, include, mdbook
from .drafting import Drafting
from .infostring import OPENING, Info, read_info
from .markup import Place
from .model import Fence
from .pandoc import Attr, settings
from .problems import near

MODES = ("run", "slurm", "gpu", "parse", "shown", "output")
KEYS = (
    "id", "timeout", "exit", "setup", "session", "needs", "gpus", "reason", "of", "caption", "include",
    "region",
)  # fmt: skip
_NUMBERS = ("timeout", "exit", "gpus")


class Fences:
    """Reads the fences of one chapter in order."""

    def __init__(self, draft: Drafting):
        self.draft = draft
        self.proofs = draft.config.features.proofs
        self.anchors: dict[int, str] = {}  # fence → the #id that links may lead to
        self._places: list[Place] = []

    def read(self, attr: Attr, text: str, place: Place) -> Fence:
        """Record one code block. Out: its Fence, included code already in its text."""
        if not self._opens(place[0]):
            place = self._search(place, text)
        row = place[0]
        source = self.draft.rows[row - 1] if 0 < row <= len(self.draft.rows) else ""
        opening = OPENING.match(source)
        if opening and text.partition("\n")[0].strip() == source.strip(" \t>"):
            opening = None  # indented code that begins with a line of backticks
        info = _info(opening["info"] if opening else "")
        lang, ident, classes, values = info.lang, info.id, list(info.classes), info.values
        # A line {#id .class} above the fence arrives through pandoc only.
        if attr[0] != values.get("id"):
            ident = ident or attr[0]
        classes += [c for c in attr[1] if c not in classes and c != lang and re.fullmatch(r"[\w-]+", c)]
        values = {**settings(attr), **values}
        if opening:
            self._check_closed(row, opening["mark"], text)
        if info.garbage and self.proofs:
            message = f"cannot read '{info.garbage}' in the fence's attributes"
            self.draft.report("FEN009", place, message, 'write {.mode key=value key="two words"}')
        mode = self._mode(lang, classes, values, place, bool(opening))
        if "include" in values:
            text = include.include(self.draft, values, text, (row, source.find("include=") + 1 or 1))
        elif "{{" in text and not self.draft.config.features.strict:
            text = mdbook.included(self.draft, text, (row, 1))
        fence = Fence(
            index=len(self.draft.fences), line=self.draft.line(row), lang=lang,
            text=controls.restore(text), mode=mode,
            id=values.pop("id", "") or ident, attrs=values, hidden="hidden" in classes,
        )  # fmt: skip
        if ident:
            self.anchors[fence.index] = ident
        if self.proofs:
            self._check_keys(fence, place)
        self.draft.fences.append(fence)
        self._places.append(place)
        return fence

    def _opens(self, row: int) -> bool:
        return 0 < row <= len(self.draft.rows) and bool(OPENING.match(self.draft.rows[row - 1]))

    def _search(self, place: Place, text: str) -> Place:
        """Where a fence opens that has no place of its own (in a footnote): soon after what came before."""
        first = text.partition("\n")[0].strip()
        for row in range(max(place[0], 1), min(place[0] + 60, len(self.draft.rows))):
            if self._opens(row) and self.draft.rows[row].strip() == first:
                return row, 1
        return place

    def _check_closed(self, row: int, mark: str, text: str) -> None:
        last = row + text.count("\n") + 2
        for number in range(row + 1, min(last, len(self.draft.rows)) + 1):
            body = self.draft.rows[number - 1].strip(" \t>")
            if body and not body.strip(mark[0]) and len(body) >= len(mark):
                return
        hint = f"close it with {mark[:20]}; a fence that holds ``` needs four"
        self.draft.report("FEN001", (row, 1), "this fence is not closed", hint, self.draft.lenient)

    def _mode(
        self, lang: str, classes: list[str], values: dict[str, str], place: Place, fenced: bool
    ) -> str:
        modes = [c for c in classes if c in MODES]
        if lang == "output":
            modes = modes or ["output"]
        if "gpus" in values and not modes:
            modes = ["gpu"]
        if not self.proofs:
            return modes[0] if modes else ""
        for name in classes:
            if name not in MODES and name != "hidden":
                self.draft.report("FEN003", place, f"unknown mode '.{name}'", near(name, (*MODES, "hidden")))
        if len(modes) > 1:
            self.draft.report("FEN010", place, f"two modes: {' and '.join(modes)}", "keep one")
        if not modes and not any(c != "hidden" for c in classes):
            hint = "add {.run}, {.slurm}, {.gpu}, {.parse} or {.shown reason=…}"
            what = "fence has no mode" if fenced else "indented code has no mode"
            self.draft.report("FEN002", place, what, hint if fenced else "make it a fence")
        return modes[0] if modes else ""

    def _check_keys(self, fence: Fence, place: Place) -> None:
        for key, value in fence.attrs.items():
            if key not in KEYS:
                self.draft.report("FEN004", place, f"unknown attribute '{key}'", near(key, KEYS))
            elif key in _NUMBERS and not value.isdecimal():
                self.draft.report("FEN005", place, f"{key}={value} is not a whole number")
        if fence.mode == "shown" and not fence.attrs.get("reason"):
            hint = 'add reason="why nothing can check it"'
            self.draft.report("FEN008", place, "a shown fence gives no reason", hint)

    def check(self) -> None:
        """What only the whole chapter shows: ids used twice, outputs and set-ups that name nothing."""
        seen: dict[str, int] = {}
        fences = self.draft.fences
        for fence, place in zip(fences, self._places, strict=True):
            if fence.id and fence.id in seen:
                message = f"fence id '{fence.id}' is used twice"
                self.draft.report("FEN006", place, message, f"first in line {seen[fence.id]}")
            elif fence.id:
                seen[fence.id] = fence.line
        if not self.proofs:
            return
        for fence, place in zip(fences, self._places, strict=True):
            of, setup = fence.attrs.get("of"), fence.attrs.get("setup")
            if of is not None and of not in seen:
                message = f"output of '{of}': no fence has this id"
                self.draft.report("FEN007", place, message, near(of, seen))
            if setup is not None and setup not in seen and not self._fixture(setup):
                message = f"setup '{setup}' is neither a fence nor a folder in fixtures/"
                self.draft.report("FEN007", place, message, near(setup, seen))

    def _fixture(self, name: str) -> bool:
        path = self.draft.inside(f"fixtures/{name}")
        return path is not None and (self.draft.config.root / path).is_dir()


def _info(text: str) -> Info:
    """The info string; {.run} alone is a mode without language, {python} a language as in notebooks."""
    info = read_info(text)
    if text.startswith("{") and info.lang in (*MODES, "hidden"):
        info.classes.insert(0, info.lang)
        info.lang = ""
    elif not info.lang and info.garbage.isidentifier():
        info.lang, info.garbage = info.garbage, ""
    return info
