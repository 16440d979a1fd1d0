"""Part of prove: does what ran print what the book shows?

An `output` fence is the real output with two liberties: a line that is only `…` stands for any lines (also
none), `…` inside a line for any characters, and `[[~ 12.3 ±20% ]]` for a number within a tolerance. Trailing
blanks do not count. Everything else must be equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ELISION = "…"
_TOLERANCE = re.compile(r"\[\[~\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*±\s*([\d.]+)\s*(%?)\s*\]\]")
_NUMBER = r"([-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?)"


@dataclass(frozen=True)
class Mismatch:
    """The first line that the run did not print. `row` counts the output fence's lines from 0."""

    row: int
    want: str
    got: str

    def __str__(self) -> str:
        return f"shows {self.want!r}, the run printed {self.got!r}"


@dataclass(frozen=True)
class _Line:
    """One shown line as a pattern, with the tolerances of its captured numbers."""

    row: int
    text: str
    pattern: re.Pattern
    tolerances: tuple[tuple[float, float], ...]  # (value, allowed difference)

    def matches(self, line: str) -> bool:
        found = self.pattern.fullmatch(line)
        if not found:
            return False
        numbers = (float(g.replace(",", "")) for g in found.groups())
        return all(abs(n - v) <= d for n, (v, d) in zip(numbers, self.tolerances, strict=True))


def shown(text: str) -> str:
    """What a reader sees of an output fence: a tolerance shows its number alone."""
    return _TOLERANCE.sub(lambda m: m[1], text)


def _line(row: int, text: str) -> _Line:
    parts, tolerances, at = [], [], 0
    for match in re.finditer(f"{ELISION}|{_TOLERANCE.pattern}", text):
        parts.append(re.escape(text[at : match.start()]))
        if match[0] == ELISION:
            parts.append(".*")
        else:
            value, spread = float(match[1]), float(match[2])
            tolerances.append((value, abs(value) * spread / 100 if match[3] else spread))
            parts.append(_NUMBER)
        at = match.end()
    parts.append(re.escape(text[at:]))
    return _Line(row, text, re.compile("".join(parts)), tuple(tolerances))


def _rows(text: str) -> list[str]:
    rows = [row.rstrip() for row in text.replace("\r\n", "\n").split("\n")]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    return rows


def compare(want: str, got: str) -> Mismatch | None:
    """The first mismatch between an output fence and a run's output, or None."""
    got_rows = _rows(got)
    blocks: list[list[_Line]] = [[]]  # runs of lines between elisions
    for row, text in enumerate(want.split("\n")):
        if text.strip() == ELISION:
            blocks.append([])
        elif text.strip() or blocks[-1] or len(blocks) > 1:
            blocks[-1].append(_line(row, text.rstrip()))
    while blocks[-1] and not blocks[-1][-1].text:
        blocks[-1].pop()
    at = 0
    for number, block in enumerate(blocks):
        first, last = number == 0, number == len(blocks) - 1
        if first or not block:
            start = at
        elif last:  # after the last elision the output must end as shown
            start = max(at, len(got_rows) - len(block))
        else:
            start = next(
                (s for s in range(at, len(got_rows) + 1) if _at(block, got_rows, s) is None), -1
            )
        if block:
            wrong = _at(block, got_rows, start) if start >= at else block[0]
            if wrong is not None:
                where = start + block.index(wrong) if start >= at else at
                return Mismatch(wrong.row, wrong.text, got_rows[where] if where < len(got_rows) else "")
        at = start + len(block)
    if not blocks[-1] and len(blocks) > 1:
        return None
    if at < len(got_rows):
        return Mismatch(want.count("\n"), "(end of output)", got_rows[at])
    return None


def _at(block: list[_Line], rows: list[str], start: int) -> _Line | None:
    """The first line of the block that does not match the output from `start`, or None."""
    for offset, line in enumerate(block):
        if start + offset >= len(rows) or not line.matches(rows[start + offset]):
            return line
    return None
