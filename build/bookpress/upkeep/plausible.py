"""Whether a report can be true: complete, checked, consistent in itself, not above what the hardware can do.

In: a report, the book's facts and the instruments' list of cards. Out: problems. A figure above a peak is a
mistake of the run, of the peak or of whoever edited the file; in each case it is no record.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..facts import FactError, Facts
from ..model import Config
from ..problems import Problem

PEAKS = Path("scripts/clusterprobe/matmul_peaks.py")
UNCHECKED = frozenset(("barrier",))  # moves no data that could be wrong
_SLACK = 1.02  # a clock that boosts a little above the one the peak was printed for
_ROUNDING = 0.01


def cards(root: Path) -> ModuleType | None:
    """The instruments' list of cards and peaks, standard library only; None for a book without instruments."""
    if not (root / PEAKS).is_file():
        return None
    spec = importlib.util.spec_from_file_location("bookpress_card_peaks", root / PEAKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while they are made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _complete(report: Mapping[str, Any]) -> Iterator[str]:
    if report["status"] != "ok" or report["rc"] != 0:
        yield f"the run ended with status {report['status']}, rc {report['rc']}: {report.get('reason')}"
    if report["config"].get("dry_run"):
        yield "a dry run measures nothing"
    if report["world"] is None or report["world"]["missing"]:
        yield "ranks are missing"
    if not report["results"]:
        yield "there are no results"


def _checked(results: list[Mapping[str, Any]]) -> Iterator[str]:
    for number, row in enumerate(results):
        what = f"results[{number}] ({row.get('op')})"
        if row.get("wrong"):
            yield f"{what}: {row['wrong']} wrong values"
        if row.get("status") not in ("ok", None):
            yield f"{what}: status {row.get('status')}"
        measured = row.get("kind", "figure") == "figure"
        if measured and not row.get("checked") and row.get("op") not in UNCHECKED:
            yield f"{what}: the result was not checked; run the tool without --no-check"


def _consistent(results: list[Mapping[str, Any]], ranks: int) -> Iterator[str]:
    """Rates follow from bytes and times; whoever edits one forgets the others."""
    for number, row in enumerate(results):
        time, rate = (row.get("time_us") or {}).get("median"), row.get("algbw")
        if rate and time and abs(row["bytes"] / (time * 1e-6) / rate - 1) > _ROUNDING:
            yield f"results[{number}]: algbw {rate:.4g} is not {row['bytes']} bytes in {time} us"
        members = row.get("ranks") or ranks
        if rate and row.get("op") == "all_reduce" and row.get("busbw"):
            factor = 2 * (members - 1) / members if members > 1 else 1.0
            if abs(row["busbw"] / (rate * factor) - 1) > _ROUNDING:
                yield f"results[{number}]: busbw {row['busbw']:.4g} is not {factor:.3g} × algbw"


def _possible(report: Mapping[str, Any], facts: Facts, peaks: ModuleType | None) -> Iterator[str]:
    """Below the printed matmul peak, and no faster than the device's memory."""
    names = {node["device"] for node in report["world"]["nodes"] if node["device"]}
    known = [peaks.find_card(name) for name in names] if peaks else []
    for number, row in enumerate(report["results"]):
        if row.get("above_line_rate"):
            yield f"results[{number}]: the tool itself found the rate above the line rate"
        for card in known:
            if card is None:
                continue
            dtype = str(row.get("dtype", ""))
            peak = card.peak("fp8" if dtype.startswith("fp8") else dtype)
            if row.get("tflops") and peak and row["tflops"] > peak * _SLACK:
                yield f"results[{number}]: {row['tflops']:.4g} TFLOPS, the peak of {card.record} in {dtype} is {peak}"
            memory = _memory_rate(facts, card.record)
            if row.get("busbw") and memory and row["busbw"] > memory:
                yield f"results[{number}]: busbw {row['busbw'] / 1e9:.0f} GB/s, the memory does {memory / 1e9:.0f}"


def _memory_rate(facts: Facts, record: str) -> float:
    """Bytes a second of a device's memory; 0 when the book does not know."""
    try:
        return float(facts.fact(f"accelerators.{record}.hbm_tb_per_s").value) * 1e12
    except (FactError, TypeError, ValueError):
        return 0.0


def problems(report: Mapping[str, Any], path: str, config: Config) -> list[Problem]:
    """Everything that speaks against the report."""

    def all_of(code: str, messages: Iterator[str], hint: str) -> list[Problem]:
        return [Problem(path, 0, 0, code, message, hint) for message in messages]

    found = all_of("REC002", _complete(report), "run the tool to its end and send that report")
    if report["world"] is None:
        return found
    found += all_of("REC003", _checked(report["results"]), "only checked results are records")
    found += all_of("REC004", _consistent(report["results"], report["world"]["size"]), "send the file as the tool wrote it")
    facts = Facts(config.root / config.data)
    hint = "if the run is right, the peak in data/ is wrong: open an issue with its source"
    return found + all_of("REC005", _possible(report, facts, cards(config.root)), hint)
