"""Holds the benchmark's data against brute force: run by test_bench_values.py with a Python that has torch.

For every type and reduce op and several worlds, the terms of all ranks are reduced one after the other, in
several orders, in the type itself; the result must be the promised one exactly (averages: within the stated
tolerance). Prints one JSON object.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from clusterprobe.collective_buffers import CheckedBuffers, Region
from clusterprobe.collective_values import (
    REDUCE_OPS,
    TYPE_TRAITS,
    ReduceRule,
    known_types,
    moved_value,
    type_bytes,
)
from clusterprobe.device import load_torch

torch = load_torch()
WORLDS = tuple(map(int, sys.argv[1].split(",")))
PLACES = torch.arange(120)
COMBINE = {
    "sum": lambda a, b: a + b, "premul_sum": lambda a, b: a + b, "avg": lambda a, b: a + b, "prod": lambda a, b: a * b,
    "min": torch.minimum, "max": torch.maximum, "band": lambda a, b: a & b, "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b}


def stored(values, dtype):
    """As the type holds it, in a type that can calculate."""
    kept = values.to(getattr(torch, dtype))
    return kept.to(torch.float64) if dtype.startswith("float8") else kept.to(torch.int64) if dtype.startswith("uint") else kept


def brute(rule, order):
    total = None
    for rank in order:
        term = rule.term(rank, PLACES)
        if rule.redop == "premul_sum":
            term = term * 2
        term = stored(term, rule.dtype)
        total = term if total is None else stored(COMBINE[rule.redop](total, term), rule.dtype)
    return total


def agree(rule, total):
    expected = rule.result(PLACES)
    if rule.redop == "avg":
        quotient = stored(total / rule.n, rule.dtype) if rule.family != "int" else total // rule.n
        if rule.family == "int":
            return bool((quotient == expected).all())
        exact = expected.to(torch.float64) / rule.n
        return bool(((quotient.to(torch.complex128) - exact).abs() <= exact.abs() * rule.tolerance + 1e-4).all())
    return bool((total == stored(expected, rule.dtype)).all())


def applies(rule):
    if rule.redop in ("band", "bor", "bxor"):
        return rule.family in ("int", "bool")
    if rule.family == "bool":
        return rule.redop in ("min", "max")
    if rule.family == "complex":
        return rule.redop in ("sum", "avg")
    return rule.checkable


def reductions():
    checked, bad = 0, []
    for dtype in known_types(torch):
        for redop in REDUCE_OPS:
            for n in WORLDS:
                rule = ReduceRule(redop, dtype, n)
                if not applies(rule) or (n > 1000 and dtype not in ("float32", "bfloat16", "float8_e5m2", "int8", "float16")):
                    continue
                for seed in range(2):
                    order = list(range(n))
                    random.Random(seed).shuffle(order)
                    checked += 1
                    if not agree(rule, brute(rule, order)):
                        bad.append([dtype, redop, n])
    return checked, bad


def sensitivity():
    """A missing, doubled or swapped rank must show in the sum at some place, in every type and world."""
    blind = []
    for dtype in known_types(torch):
        if TYPE_TRAITS[dtype][0] == "bool":
            continue
        for n in (2, 3, 7, 64, 341, 4096):
            rule = ReduceRule("sum", dtype, n)
            places = torch.arange(2 * n)
            silent = [rank for rank in range(0, n, max(1, n // 50)) if not bool((rule.term(rank, places) != 0).any())]
            if silent:
                blind.append([dtype, n, silent[:3]])
            if bool((moved_value(dtype, 0, places) == moved_value(dtype, 1, places)).all()):
                blind.append([dtype, n, "moved"])
    return blind


def buffers():
    """Poison is always wrong, a fill is always right, one changed value is always found, and sizes by name are torch's."""
    bad = []
    for dtype in known_types(torch):
        for pattern in ("moved", "result"):
            made = CheckedBuffers(torch, dtype, "cpu", ReduceRule("sum", dtype, 5))
            tensor = made.empty(1001, offset=1)
            if tensor.element_size() != type_bytes(dtype):
                bad.append([dtype, "bytes", type_bytes(dtype)])
            made.targets = [Region(tensor, pattern, 3, 17)]
            made.poison()
            if made.wrong()[0] != 1001:
                bad.append([dtype, pattern, "poison", made.wrong()[0]])
            made.sources = made.targets
            made.fill()
            if made.wrong() != (0, ""):
                bad.append([dtype, pattern, "fill", made.wrong()])
            raw = tensor.view(torch.uint8)
            raw[7 * tensor.element_size()] ^= 1
            count, text = made.wrong()
            if count != 1 or "the first at 7 of 1,001" not in text:
                bad.append([dtype, pattern, "flip", count, text])
    return bad


def shares():
    """The one region of all shares equals a region per rank, and two swapped shares are found."""
    bad = []
    for dtype in known_types(torch):
        made = CheckedBuffers(torch, dtype, "cpu", None)
        tensor, share = made.empty(4 * 60, offset=1), 60
        made.sources = [Region(tensor[rank * share:(rank + 1) * share], "moved", rank, 17) for rank in range(4)]
        made.fill()
        made.targets = [Region(tensor, "moved", first=17, share=share)]
        right = made.wrong()[0]
        kept = tensor[:share].clone()
        tensor[:share] = tensor[share:2 * share]
        tensor[share:2 * share] = kept
        if right or not made.wrong()[0]:
            bad.append([dtype, right, made.wrong()[0]])
    return bad


checked, wrong = reductions()
print(json.dumps({"checked": checked, "wrong": wrong[:20], "blind": sensitivity()[:20], "buffers": buffers()[:20],
                  "shares": shares()}))
