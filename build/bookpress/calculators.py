"""Calculators: data/calculators/NAME.yaml as a worked example on paper, and as the form that the web shows.

Used by expand (`[[ calculator("NAME") ]]` gives a table with the default inputs, their sources and the results, captioned
with the id `calc-NAME`) and by web/body.py, which puts the definition beside that table for calculator.js.

A definition:
    title: Time of a ring all-reduce              # the table's caption
    inputs:                                       # in order; names are used in the formulas
      n:    {label: Ranks, default: 8, min: 2}
      size: {label: Buffer, unit: GB, default: 2}
      rate: {label: Bandwidth of a rank one way, unit: GB/s, fact: interconnects.nvlink4.gb_per_s}
    presets:                                      # optional: a list of choices for one input, from facts
      rate: [{label: H100 NVLink, fact: …}, {label: 400 Gb/s NIC, value: 50}]
    outputs:                                      # computed in order; a later one may use an earlier one
      time: {label: Time, unit: ms, formula: 1000 * 2 * (n - 1) / n * size / rate, digits: 2}
    note: One sentence under the table.

Formulas know + - * / ** ( ), numbers, names, and min, max, ceil, floor, sqrt, log2. Browser and press must
agree on each, so there is nothing else.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from .facts import Fact, FactError, Facts, figure
from .problems import near
from .tabulate import link

ID = "calc-"
_FOLDER = "calculators"
_KEYS = {"title", "inputs", "presets", "outputs", "note"}
_INPUT_KEYS = {"label", "unit", "default", "fact", "min", "max", "digits"}
_OUTPUT_KEYS = {"label", "unit", "formula", "digits"}
_PRESET_KEYS = {"label", "fact", "value"}
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min, "max": max, "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "log2": math.log2,
}  # fmt: skip


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """The value of a formula. Raises FactError TPL009 for what a formula may not hold; NaN where it has no value."""
    try:
        tree = ast.parse(formula, mode="eval").body
    except SyntaxError:
        raise FactError("TPL009", f"formula '{formula}' cannot be read") from None
    try:
        result = float(_value(tree, values, formula))
    except (ZeroDivisionError, OverflowError, ValueError):
        return math.nan
    return result if math.isfinite(result) else math.nan


def _value(node: ast.expr, values: Mapping[str, float], formula: str) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Name(id=name):
            raise FactError("TPL009", f"formula '{formula}': no '{name}'", near(name, values))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values, formula)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = _value(left, values, formula), _value(right, values, formula)
            result = _OPERATORS[type(op)](first, second)
            return math.nan if isinstance(result, complex) else result
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and args:
            return FUNCTIONS[name](*(_value(a, values, formula) for a in args))
    raise FactError("TPL009", f"formula '{formula}' holds what no calculator knows", _known())


def _known() -> str:
    return "known: + - * / ** ( ) and " + ", ".join(sorted(FUNCTIONS))


def _checked(node: Any, keys: set[str], needed: tuple[str, ...], where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping):
        raise FactError("TPL009", f"{where} must be a mapping")
    for key in node:
        if key not in keys:
            raise FactError("TPL009", f"{where}: unknown key '{key}'", near(str(key), keys))
    for key in needed:
        if node.get(key) in (None, ""):
            raise FactError("TPL009", f"{where} needs '{key}'")
    return node


def _number(facts: Facts, node: Mapping[str, Any], key: str, where: str) -> tuple[float, Fact | None]:
    """The number stated, or taken from a fact, and that fact."""
    fact = facts.sourced(node["fact"]) if node.get("fact") else None
    given = fact.value if fact else node.get(key)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise FactError("TPL009", f"{where} needs '{key}' or 'fact' that is a number")
    return given, fact


def define(facts: Facts, name: str) -> dict[str, Any]:
    """The checked definition with all facts put in: inputs, presets and outputs with their values."""
    folder = facts.folder / _FOLDER
    names = sorted(path.stem for path in folder.glob("*.yaml")) if folder.is_dir() else []
    if name not in names:
        raise FactError("TPL009", f"no calculator '{name}' in {facts.folder.name}/{_FOLDER}", near(name, names))
    file = f"{_FOLDER}/{name}.yaml"
    raw = _checked(facts.file(f"{_FOLDER}/{name}"), _KEYS, ("title", "inputs", "outputs"), file)
    inputs, values = [], {}
    for key, node in raw["inputs"].items():
        where = f"{file}: input '{key}'"
        _checked(node, _INPUT_KEYS, ("label",), where)
        values[key], fact = _number(facts, node, "default", where)
        inputs.append(
            {
                "name": key, "label": node["label"], "value": values[key],
                "unit": node.get("unit", fact.unit if fact else ""),
                "sources": fact.sources if fact else (), "verified": fact.verified if fact else "",
                "min": node.get("min", 0), "max": node.get("max"), "digits": node.get("digits"),
                "presets": _presets(facts, raw, key, file),
            }
        )  # fmt: skip
    for key in raw.get("presets") or {}:
        if key not in raw["inputs"]:
            raise FactError("TPL009", f"{file}: presets for '{key}', which is no input", near(key, raw["inputs"]))
    outputs = []
    for key, node in raw["outputs"].items():
        _checked(node, _OUTPUT_KEYS, ("label", "formula"), f"{file}: output '{key}'")
        formula = str(node["formula"])
        values[key] = evaluate(formula, values)
        outputs.append(
            {
                "name": key, "label": node["label"], "unit": node.get("unit", ""), "formula": formula,
                "digits": node.get("digits", 2), "value": None if math.isnan(values[key]) else values[key],
            }
        )  # fmt: skip
    return {"title": raw["title"], "inputs": inputs, "outputs": outputs, "note": raw.get("note", "")}


def _presets(facts: Facts, raw: Mapping[str, Any], key: str, file: str) -> list[dict[str, Any]]:
    found = []
    for node in (raw.get("presets") or {}).get(key, ()):
        where = f"{file}: preset of '{key}'"
        _checked(node, _PRESET_KEYS, ("label",), where)
        found.append({"label": node["label"], "value": _number(facts, node, "value", where)[0]})
    return found


def worked_example(facts: Facts, name: str, escape: Callable[[str], str]) -> str:
    """Markdown of a calculator: a captioned table of inputs and results, formulas in a column of their own."""
    made = define(facts, name)
    lines = [
        f"Table: {made['title']} {{#{ID}{name}}}", "",
        "| Quantity | Value | Unit | From |", "| --- | ---: | --- | --- |",
    ]  # fmt: skip
    for row in made["inputs"]:
        shown = escape(figure(row["value"], row["digits"]))
        links = "; ".join(link(source, escape) for source in row["sources"])
        origin = f"{links} (checked {row['verified']})" if links else "example"
        lines.append(
            f"| {escape(row['label'])} (`{row['name']}`) | {shown} | {escape(row['unit'])} | {origin} |"
        )
    for row in made["outputs"]:
        shown = escape(figure(row["value"], row["digits"]))
        lines.append(
            f"| **{escape(row['label'])}** (`{row['name']}`) | **{shown}** | {escape(row['unit'])} "
            f"| `{row['formula']}` |"
        )
    if made["note"]:
        lines += ["", escape(made["note"])]
    return "\n".join(lines)
