"""Calculators on paper: what a formula may hold, values from facts with their sources, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from bookpress.calculators import define, evaluate, worked_example
from bookpress.expand import escape
from bookpress.facts import FactError, Facts

ROOT = Path(__file__).resolve().parents[2]
LINKS = """
units: {rate: GB/s}
fast: {source: https://example.org/fast, verified: 2026-11-30, confidence: verified, rate: 450}
"""
RING = """
title: Time of a ring
inputs:
  n: {label: Ranks, default: 8, min: 2}
  rate: {label: Rate, fact: links.fast.rate}
presets:
  rate: [{label: fast, fact: links.fast.rate}, {label: slow, value: 50}]
outputs:
  share: {label: Share, formula: 2 * (n - 1) / n}
  time: {label: Time, unit: s, formula: share / rate, digits: 5}
note: One node.
"""


def facts(tmp_path: Path, text: str) -> Facts:
    (tmp_path / "calculators").mkdir()
    (tmp_path / "calculators" / "ring.yaml").write_text(text)
    (tmp_path / "links.yaml").write_text(LINKS)
    return Facts(tmp_path)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("2 + 3 * 4", 14),
        ("2 - 3 - 4", -5),
        ("-2 ** 2", -4),
        ("2 ** -1 ** 2", 0.5),
        ("(a + 1) / 4", 1.5),
        ("max(a, 7, min(1, 2))", 7),
        ("ceil(a / 2) + floor(2.9) + sqrt(16) + log2(8)", 12),
        ("1e3 * .5", 500),
    ],
)
def test_a_formula_has_its_value(formula, value):
    assert evaluate(formula, {"a": 5}) == value


@pytest.mark.parametrize("formula", ["1 / (a - 5)", "sqrt(0 - 1)", "(0 - 8) ** 0.5", "9.0 ** 999", "log2(0)"])
def test_no_value_is_no_number(formula):
    assert math.isnan(evaluate(formula, {"a": 5}))


@pytest.mark.parametrize(
    "formula", ["b", "a.real", "__import__('os')", "a if a else 1", "a % 2", "a // 2", "'x'", "True", "1 +", "max()"]
)
def test_what_a_formula_may_not_hold(formula):
    with pytest.raises(FactError) as caught:
        evaluate(formula, {"a": 5})
    assert caught.value.code == "TPL009"


def test_the_worked_example_shows_values_sources_and_results(tmp_path):
    text = worked_example(facts(tmp_path, RING), "ring", escape)
    assert text.startswith("Table: Time of a ring {#calc-ring}\n\n| Quantity")
    assert "| Ranks (`n`) | 8 |  | example |" in text
    assert re.search(r"\| Rate \(`rate`\) \| 450 \| GB/s \| .*example\.org/fast.* \(checked 2026-11-30\) \|", text)
    assert "| **Time** (`time`) | **0.00389** | s | `share / rate` |" in text
    assert text.endswith("\n\nOne node.")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("title: Time of a ring", ""), "needs 'title'"),
        (("formula: share / rate", "formula: shar / rate"), "no 'shar'"),
        (("default: 8", "default: many"), "that is a number"),
        (("fact: links.fast.rate}\npresets", "fact: links.slow.rate}\npresets"), "no 'slow'"),
        (("presets:\n  rate", "presets:\n  rat"), "which is no input"),
        (("note:", "notes:"), "unknown key 'notes'"),
        (("min: 2", "mim: 2"), "unknown key 'mim'"),
    ],
)
def test_a_wrong_definition_is_named(tmp_path, change, word):
    with pytest.raises(FactError, match=word):
        define(facts(tmp_path, RING.replace(*change)), "ring")


def test_an_unknown_calculator_names_the_nearest(tmp_path):
    with pytest.raises(FactError) as caught:
        define(facts(tmp_path, RING), "rings")
    assert "ring" in caught.value.hint


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "data/calculators").glob("*.yaml")))
def test_our_calculators_have_a_result_for_their_defaults(name):
    made = define(Facts(ROOT / "data"), name)
    assert all(row["value"] is not None and row["value"] >= 0 for row in made["outputs"])
