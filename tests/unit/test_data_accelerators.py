"""The accelerator facts: schema, sources, arithmetic; the chapter's worked examples; its figures and records."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from bookfiles import load_script, plain
from bookpress.cache import digest
from bookpress.config import read_config
from bookpress.expand import expand, facts_for
from bookpress.facts import Facts
from bookpress.model import FrontMatter, Source

BOOK = Path(__file__).resolve().parents[2]
CHAPTER = BOOK / "chapters/hardware/accelerators.md"
MEASUREMENTS = CHAPTER.parent / "measurements"
VENDOR = re.compile(r"^(nvidia|amd|intel|google|aws)_")
TABLES = ("accelerators_dense", "accelerators_memory", "accelerators_cache", "accelerators_preview")
KNOWN = {"verified", "measured", "computed"}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return plain(yaml.safe_load((BOOK / "data/accelerators.yaml").read_text()))


@pytest.fixture(scope="module")
def records(data) -> dict[str, Any]:
    return {k: v for k, v in data.items() if VENDOR.match(k)}


@pytest.fixture(scope="module")
def facts() -> Facts:
    return Facts(BOOK / "data")


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return json.loads((MEASUREMENTS / "h200_ceilings.json").read_text())


def number(node: Any) -> float:
    return float(node["value"] if isinstance(node, dict) else node)


def figures(node: Any, path: str) -> Iterator[tuple[str, float]]:
    """Every number of a record that could be printed, with its dotted path."""
    if isinstance(node, dict) and "value" in node:
        yield from figures(node["value"], path)
    elif isinstance(node, dict):
        for key, child in node.items():
            if key != "contradictions":
                yield from figures(child, f"{path}.{key}")
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path, float(node)


@pytest.mark.parametrize("name", ["accelerators", "interconnects"])
def test_the_file_keeps_to_its_schema(name):
    schemas = {p.name: json.loads(p.read_text()) for p in (BOOK / "data/schema").glob("*.json")}
    registry = Registry().with_resources(
        [(key, Resource.from_contents(value)) for key, value in schemas.items()]
    )
    content = plain(yaml.safe_load((BOOK / f"data/{name}.yaml").read_text()))
    checker = jsonschema.Draft202012Validator(schemas[f"{name}.json"], registry=registry)
    assert [f"{e.json_path}: {e.message}" for e in checker.iter_errors(content)] == []


def test_the_schema_refuses_a_figure_without_value_and_an_unknown_confidence():
    schema = json.loads((BOOK / "data/schema/accelerators.json").read_text())
    record = {
        "vendor": "AMD", "product": "X", "architecture": "Y", "availability": "available",
        "source": "S", "verified": "2026-11-30", "confidence": "verified",
    }  # fmt: skip
    head = {"schema": 2, "units": {}, "documents": {}}
    checker = jsonschema.Draft202012Validator(schema)
    assert checker.is_valid({**head, "amd_x": record})
    assert not checker.is_valid({**head, "amd_x": {**record, "power_w": {"unit": "W"}}})
    assert not checker.is_valid({**head, "amd_x": {**record, "confidence": "sure"}})
    assert not checker.is_valid({**head, "amd_x": {**record, "contradictions": [{"figure": "a"}]}})


def test_every_figure_has_unit_source_date_and_confidence(records, facts):
    without_unit = {"domain", "gpus", "links", "multiprocessors", "matrix_units", "fma_per_clock"}
    without_unit |= {"compute_units", "flop_per_clock_per_unit", "shelves", "supplies_per_shelf"}
    for name, record in records.items():
        for path, _ in figures(record, f"accelerators.{name}"):
            fact = facts.sourced(path)
            assert fact.confidence, path
            assert fact.unit or path.rsplit(".", 1)[1] in without_unit, path


def test_rates_are_ordered_as_the_widths_demand(records):
    for name, record in records.items():
        rates = record.get("dense_tflops", {})
        have = {k: number(v) for k, v in rates.items() if v != "unsupported"}
        if {"bf16", "fp8"} <= have.keys():
            assert have["fp8"] >= 0.99 * have["bf16"], name
        if {"fp8", "fp4"} <= have.keys():
            assert have["fp4"] >= have["fp8"], name


def test_the_ridge_is_peak_over_bandwidth(records):
    seen = 0
    for name, record in records.items():
        for dtype in ("bf16", "fp8"):
            if f"ridge_{dtype}" in record:
                want = number(record["dense_tflops"][dtype]) / number(record["hbm_tb_per_s"])
                assert number(record[f"ridge_{dtype}"]) == pytest.approx(want, abs=0.51), name
                seen += 1
    assert seen > 25


def test_printed_peaks_follow_from_clock_and_units(records):
    for name in ("nvidia_a100_sxm", "nvidia_h100_sxm", "nvidia_h200_sxm", "nvidia_b200_sxm"):
        record = records[name]
        factors = [number(record[k]) for k in ("clock_matrix_mhz", "fma_per_clock", "matrix_units")]
        product = 2 * factors[0] * factors[1] * factors[2] / 1e6
        assert number(record["peak"]["bf16_product"]) == pytest.approx(product, rel=1e-4), name
        assert number(record["dense_tflops"]["bf16"]) == pytest.approx(product, rel=0.012), name
        assert factors[2] == 4 * number(record["multiprocessors"]), name
    for name in ("amd_mi300x", "amd_mi355x"):
        record = records[name]
        keys = ("clock_matrix_mhz", "flop_per_clock_per_unit", "compute_units")
        clock, flop, units = (number(record[k]) for k in keys)
        product = clock * flop * units / 1e6
        assert number(record["peak"]["bf16_product"]) == pytest.approx(product, rel=1e-4), name
        assert number(record["dense_tflops"]["bf16"]) == pytest.approx(product, rel=0.012), name
    h100 = records["nvidia_h100_sxm"]
    boost = 2 * number(h100["clock_max_mhz"]) * 512 * 528 / 1e6
    assert number(h100["peak"]["bf16_at_maximum_clock"]) == pytest.approx(boost, abs=0.1)


def test_rates_that_no_vendor_page_gave_follow_from_units_and_clocks(records):
    for name, dtype, units, lanes, ghz in (
        ("nvidia_h200_sxm", "fp64", 132 * 4, 32, 1.98),
        ("nvidia_h200_sxm", "fp32", 132, 128, 1.98),
        ("nvidia_b200_sxm", "fp64", 148 * 4, 16, 1.965),
    ):
        rate = 2 * units * lanes * ghz / 1000
        assert number(records[name]["dense_tflops"][dtype]) == round(rate), (name, dtype)
    for name in ("amd_mi350x", "amd_mi355x"):
        rate = (
            16384
            * number(records[name]["compute_units"])
            * number(records[name]["clock_max_mhz"])
            / 1e6
        )
        assert number(records[name]["dense_tflops"]["fp4"]) == pytest.approx(rate, abs=0.51), name
    card = records["amd_mi250x"]
    keys = ("clock_max_mhz", "flop_per_clock_per_unit", "compute_units")
    clock, flop, units = (number(card[k]) for k in keys)
    assert number(card["dense_tflops"]["bf16"]) == pytest.approx(
        clock * flop * units / 1e6, abs=0.51
    )
    assert number(card["dense_tflops"]["bf16_per_device"]) == pytest.approx(
        clock * flop * units / 2e6, abs=0.051
    )
    b200 = records["nvidia_b200_sxm"]
    assert number(b200["memory_bus_bits"]) == pytest.approx(
        7672.32e3 * 8 / (2 * number(b200["memory_clock_mhz"]))
    )


def test_memory_in_mib_gib_and_gb_are_the_same_bytes(records):
    seen = 0
    for name, record in records.items():
        if "visible_gib" in record:
            size = number(record["visible_mib"]) * 2**20
            assert number(record["visible_gib"]) == pytest.approx(size / 2**30, abs=0.051), name
            assert number(record["visible_gb"]) == pytest.approx(size / 1e9, abs=0.051), name
            seen += 1
    assert seen >= 6


def test_bandwidth_follows_from_memory_clock_and_bus(records):
    for name in ("nvidia_h200_sxm", "nvidia_b200_sxm"):
        record = records[name]
        clock, bus = number(record["memory_clock_mhz"]), number(record["memory_bus_bits"])
        product = 2 * clock * bus / 8 / 1e6
        assert number(record["hbm_product_tb_per_s"]) == pytest.approx(product, abs=0.001)
        assert number(record["hbm_tb_per_s"]) == pytest.approx(product, rel=0.005)


def test_rack_power_is_cards_times_watts(records):
    for name in ("nvidia_gb200", "nvidia_gb300", "nvidia_rubin"):
        record, rack = records[name], records[name]["rack"]
        watts = number(record["power_w"]) * rack["gpus"]
        assert number(rack["rack_gpu_kw"]) == pytest.approx(watts / 1000)
    rack = records["nvidia_gb200"]["rack"]
    assert number(rack["rack_supply_kw"]) == number(rack["shelves"]) * number(rack["shelf_kw"])


def test_contradictions_name_a_figure_of_their_record(records):
    for name, record in records.items():
        for entry in record.get("contradictions", []):
            node = record
            for key in entry["figure"].split("."):
                if name == "amd_mi455x":  # the rates are left out because of the contradiction
                    break
                assert key in node, (name, entry["figure"])
                node = node[key]


def test_measured_figures_equal_the_stored_run(records, measured):
    card, device = records["nvidia_h200_sxm"], measured["device"]
    assert number(card["visible_mib"]) == int(device["nvidia_smi"]["memory.total"].split()[0])
    assert number(card["multiprocessors"]) == device["multiprocessors"]
    assert number(card["l2_mib"]) == device["l2_bytes"] / 2**20
    assert number(card["memory_bus_bits"]) == device["memory_bus_bits"]
    assert number(card["memory_clock_mhz"]) == device["memory_clock_khz"] / 1000
    assert number(card["shared_kib"]) == device["shared_memory_per_multiprocessor_bytes"] / 2**10
    assert number(card["clock_max_mhz"]) == int(device["nvidia_smi"]["clocks.max.sm"].split()[0])
    links = plain(yaml.safe_load((BOOK / "data/interconnects.yaml").read_text()))
    copy = measured["host_copies"]["pinned"]["1 GiB"]["to_device_gb_per_s"]
    assert number(links["pcie5_x16"]["measured_one_way_gb_per_s"]) == copy


def shown(facts: Facts) -> dict[str, str]:
    """Confidence of every figure that the chapter's tables print."""
    out = {}
    for name in TABLES:
        table = yaml.safe_load((BOOK / f"data/tables/{name}.yaml").read_text())
        records, _, _ = facts.walk(table["from"])
        for row in table["rows"]:
            assert records[row].get("shown", True), row
            for column in table["columns"]:
                node: Any = records[row]
                for key in column["key"].split("."):
                    node = node.get(key) if isinstance(node, dict) else None
                if any(True for _ in figures(node, "")):
                    path = f"{table['from']}.{row}.{column['key']}"
                    out[path] = facts.fact(path).confidence
    return out


def test_four_of_five_printed_figures_were_read_in_their_source(facts):
    confidence = shown(facts)
    assert len(confidence) > 120
    good = [path for path, word in confidence.items() if word in KNOWN]
    assert len(good) / len(confidence) >= 0.8, f"{len(good)} of {len(confidence)}"
    read = [w for w in confidence.values() if w != "computed"]
    assert sum(w in KNOWN for w in read) / len(read) >= 0.8


# --- the chapter ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chapter() -> str:
    config, _ = read_config(BOOK / "book.toml")
    raw = CHAPTER.read_text()
    _, _, body = raw.split("---\n", 2)
    first = raw[: raw.index(body)].count("\n") + 1
    path = CHAPTER.relative_to(BOOK).as_posix()
    source = Source(
        path, "accelerators", "hardware/accelerators.html", 0, FrontMatter(), body, first
    )
    expanded, problems = expand(source, config, facts_for(config))
    assert problems == []
    return " ".join(expanded.text.replace("\u00a0", " ").split())


def test_worked_examples(chapter, measured):
    rates = {k: v["sustained"]["tflops"] for k, v in measured["by_dtype"].items()}
    steady, burst = rates["bf16"], measured["by_dtype"]["bf16"]["burst_tflops"]
    assert f"989 TFLOPS / 4.8 TB/s = {round(989 / 4.8)} FLOP/byte" in chapter
    copy = measured["device_memory"]["rates"]["copy"]["tb_per_s"]
    assert f"instead of printed ones it is {steady / copy:.0f}." in chapter
    assert f"{100 * burst / 989:.0f}% and {100 * steady / 989:.0f}% of the printed peak" in chapter
    assert f"they differ by {100 * (1 - steady / burst):.0f}% in bf16" in chapter
    mfu = 0.45 * 989
    assert f"is {mfu:.0f} TFLOPS, which is {100 * mfu / steady:.0f}% of what the card" in chapter
    read = measured["device_memory"]["rates"]["read (sum)"]["tb_per_s"]
    assert f"/ 70 GB = {read * 1e12 / 70e9:.0f} tokens/s" in chapter
    assert f"= {4.0 / 3600 / steady * 1e6:.2f} dollars" in chapter
    assert f"you would have expected {4.0 / 3600 / 989 * 1e6:.2f}" in chapter
    normal = measured["by_data"]["patterns"]["normal"]
    bound = normal["state"]["sm_mhz"]["mean"] * 1e6 * 2 * 512 * 528 / 1e12
    assert f"at most {bound:.0f} TFLOPS" in chapter
    assert f"or {100 * normal['tflops'] / bound:.0f}% of that" in chapter
    record = json.loads((MEASUREMENTS / "accelerators.gpu.json").read_text())
    read = record["fences"]["thresholds"]["output"]
    now, margin = (
        int(re.search(rf"GPU {k} Temp +: (\d+) C", read)[1]) for k in ("Current", "T.Limit")
    )
    assert f"limit is {now} + {margin} = {now + margin} °C" in chapter


def test_what_units_and_clocks_explain_of_gb200_over_b200(chapter, records):
    big, small = (
        number(records[k]["multiprocessors"]) * number(records[k]["clock_max_mhz"])
        for k in ("nvidia_gb200", "nvidia_b200_sxm")
    )
    assert f"explain {100 * (big / small - 1):.0f} of the 11." in chapter
    watts = [number(records[k]["power_w"]) / number(records[k]["dense_tflops"]["bf16"])
             for k in ("nvidia_a100_sxm", "nvidia_h100_sxm", "nvidia_b200_sxm", "amd_mi355x")]  # fmt: skip
    a100, h100, b200, mi355x = (f"{w:.2f}" for w in watts)
    assert (
        f"{a100} W for each printed bf16 TFLOPS of an A100 SXM, {h100} for an H100, {b200} for a"
        in chapter
    )
    assert f"B200 and {mi355x} for an MI355X." in chapter


def test_the_full_clock_lasted_as_long_as_the_text_says(chapter):
    with (MEASUREMENTS / "h200_ceilings.rates.csv").open() as file:
        rows = [(float(r["seconds"]), float(r["tflops"])) for r in csv.DictReader(file)]
    fast = [t for t, rate in rows if rate > 750]
    assert max(fast) == pytest.approx(0.08, abs=0.006)
    assert "The full clock lasted 80 ms" in chapter


def test_sixty_four_rows_cost_the_time_of_one(measured):
    rows = measured["by_rows"]["rows"]
    seconds = {m: 2 * int(m) * 8192**2 / (rows[m]["tflops"] * 1e12) for m in ("1", "64")}
    assert seconds["64"] == pytest.approx(seconds["1"], rel=0.02)


def gpu_fences() -> dict[str, str]:
    text = CHAPTER.read_text()
    found = re.finditer(r"^```bash \{\.gpu([^}]*)\}\n(.*?)^```$", text, re.S | re.M)
    return {re.search(r"id=(\w+)", m[1])[1]: m[2].rstrip("\n") for m in found}


def test_each_gpu_fence_shows_what_was_run():
    stored = json.loads((MEASUREMENTS / "accelerators.gpu.json").read_text())["fences"]
    fences = gpu_fences()
    assert fences.keys() == stored.keys()
    for name, text in fences.items():
        assert stored[name]["hash"] == digest("bash", "gpu", text, "0")[:32], name
        assert stored[name]["exit"] == 0


def test_each_gpu_output_is_in_the_record():
    stored = json.loads((MEASUREMENTS / "accelerators.gpu.json").read_text())["fences"]
    text = CHAPTER.read_text()
    for name, record in stored.items():
        block = re.search(rf"^```output \{{of={name}\}}\n(.*?)^```$", text, re.S | re.M)
        pieces = [piece.strip("\n") for piece in block[1].split("…\n")]
        at = 0
        for piece in filter(None, pieces):
            assert piece in record["output"][at:], (name, piece)
            at = record["output"].index(piece, at)


def test_the_output_of_the_run_is_the_summary_of_the_stored_json(measured):
    stored = json.loads((MEASUREMENTS / "accelerators.gpu.json").read_text())["fences"]["ceilings"]
    for dtype, row in measured["by_dtype"].items():
        pair = rf"{re.escape(dtype)} +{row['burst_tflops']:.1f} +{row['sustained']['tflops']:.1f}"
        assert re.search(pair, stored["output"]), dtype
    assert measured["command"].endswith("h200_ceilings.py --out h200_ceilings.json")


@pytest.mark.parametrize("script", ["roofline", "sustained"])
def test_figures_are_up_to_date(script):
    module = load_script(CHAPTER.parent / f"figures/src/{script}.py")
    want = module.p.inputs_hash(script, module.FACTS, module.FILES)
    svg = (CHAPTER.parent / f"figures/accelerators-{script}.svg").read_text()
    assert f"<!-- inputs {want} -->" in svg, f"run figures/src/{script}.py again"
    assert "<dc:date>" not in svg
    assert "<text" not in svg  # outlines: the same in PDF, EPUB and web
