"""The card: README.md of the repository on the Hub, what a reader sees first there.

In: the book's configuration and what the release holds. Out: the card's text, and what the Hub would refuse
about its head. The Hub's own check comes before the commit; this one needs no network and names the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from .. import templates
from ..archives import Packed
from ..model import Book, Config
from ..problems import Problem, near

NAME = "README.md"
HUB = "https://huggingface.co"
_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.S)
# Licence identifiers that the Hub knows and books use; SPDX in lower case, "-or-later" forms are refused.
_LICENCES = (
    "apache-2.0 mit bsd-2-clause bsd-3-clause cc cc0-1.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-4.0 "
    "cc-by-nd-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-4.0 gfdl gpl-2.0 gpl-3.0 lgpl-2.1 lgpl-3.0 agpl-3.0 mpl-2.0 "
    "unlicense isc zlib odc-by odbl pddl other unknown"
)
LICENCES = frozenset(_LICENCES.split())
_STRINGS = ("license", "pretty_name", "license_name", "license_link")
_LISTS = ("language", "tags", "size_categories", "task_categories")


def address(config: Config) -> str:
    """Where the repository is read."""
    return f"{HUB}/{'datasets/' if config.hub_type == 'dataset' else ''}{config.hub_repo}"


def render(book: Book, tag: str, files: Sequence[Packed], tools: Sequence[str], changes: str) -> Packed:
    """The card of a release."""
    config = book.config
    sizes = {file.name: len(file.data) for file in files}
    text = templates.env().get_template("hub-card.md").render(
        book=config, stamp=book.stamp, tag=tag, base=address(config), sizes=sizes, tools=tools, changes=changes,
        language=config.language.split("-")[0].lower(), licence=config.license.lower(),
        archive=next((n for n in sizes if n.endswith(f"{config.version}.tar.gz")), ""), yaml=yaml_text,
    )  # fmt: skip
    return Packed(NAME, text.encode())


def yaml_text(value: str) -> str:
    """A string as YAML carries it on one line."""
    return yaml.safe_dump(value, allow_unicode=True, width=10_000).removesuffix("...\n").strip()


def problems(text: str, path: str = NAME) -> list[Problem]:
    """What the Hub refuses about a card's head."""

    def wrong(message: str, hint: str = "", line: int = 1) -> Problem:
        return Problem(path, line, 1, "REL011", message, hint)

    match = _HEAD.match(text)
    if not match:
        return [wrong("the card does not start with a YAML head between --- lines")]
    try:
        head: Any = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return [wrong(f"the head is not YAML: {getattr(error, 'problem', error)}", line=mark.line + 2 if mark else 1)]
    if not isinstance(head, dict):
        return [wrong("the head is not a mapping of keys to values")]
    found = [wrong(f"'{key}' is not a string") for key in _STRINGS if not isinstance(head.get(key, ""), str)]
    for key in _LISTS:
        values = head.get(key, [])
        values = [values] if isinstance(values, str) else values
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            found.append(wrong(f"'{key}' is not a list of strings"))
    licence = head.get("license", "")
    if isinstance(licence, str) and licence not in LICENCES:
        hint = near(licence, LICENCES) or "set [book] license to one that the Hub lists"
        found.append(wrong(f"the Hub knows no licence '{licence}'", hint))
    languages = head.get("language", [])
    for language in [languages] if isinstance(languages, str) else languages if isinstance(languages, list) else []:
        if not re.fullmatch(r"[a-z]{2,3}", str(language)):
            found.append(wrong(f"'{language}' is no ISO 639 language code", "write en, de, zh …"))
    return found
