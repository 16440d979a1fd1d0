"""Search over our own book, asked with what people really typed: data/questions holds their messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bookpress import build
from bookpress.config import read_config

from .test_browser import ask

ROOT = Path(__file__).resolve().parents[2]
SYMPTOMS = "when-it-goes-wrong"  # the chapter's table of messages leads on to the section


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    config, _ = read_config(ROOT / "book.toml")
    return build.prepare(config, tmp_path_factory.mktemp("cache"))[0]


def test_a_pasted_message_finds_its_answer(browser, book, make):
    folder, _ = make(book)
    files = sorted((ROOT / "data" / "questions").glob("*.yaml"))
    questions = [entry for file in files for entry in yaml.safe_load(file.read_text())]
    places = {c.path: c.url for c in book.chapters}
    browser.get((folder / "index.html").as_uri())
    ask(browser, "rank")
    raw = (folder / "ui-assets" / "search-index.js").read_text()
    index = json.loads(raw[raw.index(",") + 1 : raw.rindex(")")])
    find = (
        "return arguments[0].map(q => bookSearch.find(q).results.slice(0, 5).map(r => r.section))"
    )
    # A message has to lead to its section at once; a question in other words within a screen of results.
    for kind, first, floor in (("message", 3, 0.9), ("question", 5, 0.8)):
        asked = [q for q in questions if q.get(kind)]
        found = 0
        for entry, sections in zip(
            asked, browser.execute_script(find, [q[kind] for q in asked]), strict=True
        ):
            path, _, anchor = entry["section"].partition("#")
            rows = [index["sections"][s] for s in sections[:first]]
            hits = {(index["chapters"][row[0]][0], row[1]) for row in rows}
            found += bool(hits & {(places[path], anchor), (places[path], SYMPTOMS)})
        assert found / len(asked) >= floor, f"{found} of {len(asked)} {kind}s lead to their section"
