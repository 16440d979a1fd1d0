"""Slurm's compressed host lists and per-node counts, in plain Python (`scontrol` is often absent in containers).

`n[01-03,7],login` becomes names in Slurm's order; `2(x2),1` becomes [2, 2, 1].
"""

from __future__ import annotations

import itertools
import re
from typing import List

_COUNT_PATTERN = re.compile(r"^(\d+)(?:\(x(\d+)\))?$")


def split_outside_brackets(text: str) -> List[str]:
    """Parts between commas that stand outside of [...]; ValueError for unbalanced brackets."""
    parts, depth, current = [], 0, ""
    for char in text:
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
            continue
        depth += {"[": 1, "]": -1}.get(char, 0)
        if depth not in (0, 1):
            raise ValueError(f"unbalanced brackets in node list {text!r}")
        current += char
    if depth:
        raise ValueError(f"unbalanced brackets in node list {text!r}")
    return [part.strip() for part in [*parts, current] if part.strip()]


def _expand_range(item: str, whole: str) -> List[str]:
    first, dash, last = item.strip().partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise ValueError(f"{item!r} is not a number or a range in node list {whole!r}")
    if not dash:
        return [first]
    if int(last) < int(first):
        raise ValueError(f"range {item!r} runs backwards in node list {whole!r}")
    width = len(first)
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1)]


def expand_nodelist(text: str) -> List[str]:
    """Host names in order. Several brackets in one name multiply: r[1-2]n[1-2] has four hosts."""
    hosts: List[str] = []
    for part in split_outside_brackets(text):
        fields = re.split(r"\[([^\]]*)\]", part)  # literal, inside, literal, inside, … literal
        choices = [
            [field]
            if place % 2 == 0
            else [value for item in field.split(",") for value in _expand_range(item, text)]
            for place, field in enumerate(fields)
        ]
        hosts.extend("".join(pieces) for pieces in itertools.product(*choices))
    return hosts


def expand_task_counts(text: str) -> List[int]:
    """SLURM_TASKS_PER_NODE: `2(x2),1` is [2, 2, 1]."""
    counts: List[int] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = _COUNT_PATTERN.match(part)
        if not found:
            raise ValueError(f"{part!r} is not a task count such as 4 or 2(x3)")
        counts.extend([int(found.group(1))] * int(found.group(2) or 1))
    return counts
