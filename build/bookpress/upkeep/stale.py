"""`make stale`: facts and chapters not verified for longer than their shelf life.

In: the front matter of the chapters, every `verified` date in data/*.yaml, a day. Out: a problem for each date
that is too old, lies in the future or is none, with its line. Hardware changes faster than commands do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import yaml

from ..config import read_config
from ..load import load
from ..model import Config
from ..problems import Problem, errors

# Days that a statement is believed, by the beginning of its path; the first that fits counts.
HARDWARE, COMMANDS = 180, 365
SOFTWARE_FACTS = ("nccl_env.yaml", "xid.yaml")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Dated:
    """Something that says when it was last verified."""

    path: str
    line: int
    name: str  # the chapter's title, or the keys that lead to the fact
    verified: str
    days: int  # shelf life
    fact: bool

    def age(self, today: date) -> int:
        return (today - date.fromisoformat(self.verified)).days


def shelf_life(path: str, data: str) -> int:
    """Days for a file of the book."""
    if path.startswith(f"{data}/"):
        return COMMANDS if path.removeprefix(f"{data}/") in SOFTWARE_FACTS else HARDWARE
    return HARDWARE if path.startswith("chapters/hardware/") else COMMANDS


def _facts(file: Path, path: str, days: int) -> Iterator[Dated]:
    """Every mapping of a data file that has a `verified` date."""
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=_LOADER)
    except yaml.YAMLError:
        return  # the build reports it, with its line
    seen: set[int] = set()  # a node with an anchor is reached by each of its aliases

    def walk(node: yaml.Node | None, keys: tuple[str, ...]) -> Iterator[Dated]:
        if node is None or id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == "verified" and isinstance(value, yaml.ScalarNode):
                    yield Dated(path, value.start_mark.line + 1, ".".join(keys), value.value, days, True)
                else:
                    yield from walk(value, (*keys, str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                yield from walk(value, (*keys, str(number)))

    yield from walk(root, (file.stem,))


def _line(text_file: Path) -> int:
    lines = text_file.read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.startswith("verified:")), 1)


def dated(config: Config) -> list[Dated]:
    """Every date of the book, chapters first."""
    sources, _ = load(config)
    found = [
        Dated(s.path, _line(config.root / s.path), s.meta.title, s.meta.verified, shelf_life(s.path, config.data), False)
        for s in sources if s.meta.verified
    ]  # fmt: skip
    for file in sorted((config.root / config.data).glob("*.yaml")):
        path = f"{config.data}/{file.name}"
        found += _facts(file, path, shelf_life(path, config.data))
    return found


def judge(things: list[Dated], today: date) -> list[Problem]:
    """Problems of all dates on a day."""
    problems = []
    for thing in things:
        def bad(code: str, message: str, hint: str, thing: Dated = thing) -> None:
            problems.append(Problem(thing.path, thing.line, 1, code, message, hint))

        try:
            age = thing.age(today)
        except ValueError:
            bad("STL003", f"'{thing.verified}' is no date", "write year-month-day")
            continue
        if age < 0:
            bad("STL003", f"{thing.verified} lies in the future", "write the day on which it was verified")
        elif age > thing.days:
            code = "STL001" if thing.fact else "STL002"
            message = f"{thing.name}: verified {age} days ago, its shelf life is {thing.days}"
            bad(code, message, "check it against its source, then set the date")
    return problems


def run(book_toml: Path, today: date) -> tuple[list[str], list[Problem]]:
    """(a few lines for a person, problems)."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return [], problems
    things = dated(config)
    problems += judge(things, today)
    faulty = {(p.path, p.line) for p in problems}
    fresh = [t for t in things if (t.path, t.line) not in faulty]
    lines = [f"{len(things)} dates on {today}: {len(fresh)} fresh, {len(things) - len(fresh)} to look at"]
    if fresh:
        first = min(fresh, key=lambda t: t.days - t.age(today))
        lines.append(f"next: {first.name} ({first.path}:{first.line}) in {first.days - first.age(today)} days")
    return lines, problems
