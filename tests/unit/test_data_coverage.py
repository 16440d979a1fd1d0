"""Every data file: a schema that it keeps to, and for each figure unit, source, date and confidence.

A row is one figure (a number) of a record; in files of one statement a record (Xid codes, variables of
NCCL, reported rates) it is the record. Rows that the book computes or measured itself are counted apart:
the share of `verified` is taken over the rows that somebody else's document had to supply.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from bookfiles import plain
from bookpress.facts import Facts

DATA = Path(__file__).resolve().parents[2] / "data"
FILES = sorted(path.stem for path in DATA.glob("*.yaml"))
HEAD = {"schema", "units", "documents"}
ONE_ROW_A_RECORD = {"xid", "nccl_env", "collective_rates"}
OWN = {"computed", "measured"}
WORDS = OWN | {"verified", "third_party", "secondary", "contradicted"}
# Numbers of things: the key says what is counted.
COUNTS = {
    "accelerators", "channels", "compute_units", "core", "cores", "cores_per_accelerator",
    "cores_per_socket", "days", "domain", "flop_per_clock_per_unit", "fma_per_clock", "gpus",
    "host_per_accelerator_memory", "leaf", "links", "matrix_units", "multiprocessors", "nic", "nics",
    "ports", "shelves", "sockets", "spine", "streaming_trees", "supplies_per_shelf",
    "switch_or_cable", "threads", "trees", "unexpected",
}  # fmt: skip


def numbers(node: Any, path: str) -> Iterator[str]:
    """Dotted paths of the numbers below a node; what contradicts a figure is no figure of the record."""
    if isinstance(node, dict) and "value" in node:
        yield from numbers(node["value"], path)
    elif isinstance(node, dict):
        for key, child in node.items():
            if key not in ("contradictions", "schema"):
                yield from numbers(child, f"{path}.{key}")
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path


def rows(name: str) -> list[tuple[str, str]]:
    """(path, confidence) of every row of a file."""
    facts = Facts(DATA)
    records = {k: v for k, v in facts.file(name).items() if k not in HEAD}
    if name in ONE_ROW_A_RECORD:
        return [(f"{name}.{key}", record["confidence"]) for key, record in records.items()]
    paths = [path for key, record in records.items() for path in numbers(record, f"{name}.{key}")]
    return [(path, facts.fact(path).confidence) for path in paths]


def share(found: list[tuple[str, str]]) -> float:
    """Rows read in a primary source, of those that are not the book's own."""
    taken = [word for _, word in found if word not in OWN]
    return sum(word == "verified" for word in taken) / len(taken) if taken else 1.0


@pytest.mark.parametrize("name", FILES)
def test_the_file_keeps_to_its_schema(name):
    schemas = {p.name: json.loads(p.read_text()) for p in (DATA / "schema").glob("*.json")}
    assert f"{name}.json" in schemas, f"data/{name}.yaml has no data/schema/{name}.json"
    registry = Registry().with_resources(
        [(key, Resource.from_contents(value)) for key, value in schemas.items()]
    )
    jsonschema.Draft202012Validator.check_schema(schemas[f"{name}.json"])
    checker = jsonschema.Draft202012Validator(schemas[f"{name}.json"], registry=registry)
    content = plain(yaml.safe_load((DATA / f"{name}.yaml").read_text()))
    assert [f"{e.json_path}: {e.message}" for e in checker.iter_errors(content)] == []


@pytest.mark.parametrize("name", FILES)
def test_every_figure_has_unit_source_date_and_confidence(name):
    facts = Facts(DATA)
    records = {k: v for k, v in facts.file(name).items() if k not in HEAD}
    if name in ONE_ROW_A_RECORD:
        assert all(r["source"] and r["verified"] and r["confidence"] for r in records.values())
        records = records if name == "collective_rates" else {}
    for key, record in records.items():
        for path in numbers(record, f"{name}.{key}"):
            fact = facts.sourced(path)
            assert fact.confidence in WORDS, path
            datetime.date.fromisoformat(fact.verified)
            assert fact.unit or path.rsplit(".", 1)[1] in COUNTS, f"{path} has no unit"


@pytest.mark.parametrize("name", FILES)
def test_no_document_is_listed_in_vain(name):
    text = (DATA / f"{name}.yaml").read_text()
    listed = yaml.safe_load(text).get("documents", {})
    assert [key for key in listed if f"*{key}" not in text] == []


def test_nine_rows_of_ten_were_read_in_a_primary_source(capsys):
    found = {name: rows(name) for name in FILES}
    with capsys.disabled():
        print()
        for name, own in found.items():
            words = ", ".join(
                f"{n} {word}" for word, n in sorted(Counter(w for _, w in own).items())
            )
            print(f"{name:18} {100 * share(own):5.1f}% verified ({words})")
        every = [row for own in found.values() for row in own]
        print(f"{'all':18} {100 * share(every):5.1f}% verified")
    for own in found.values():
        open_rows = [f"{path} ({word})" for path, word in own if word not in OWN | {"verified"}]
        assert share(own) >= 0.9, "\n".join(open_rows)
    assert share(every) >= 0.9
