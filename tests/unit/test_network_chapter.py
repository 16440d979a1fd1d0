"""The network chapter: data under its schema, tables, formulas, worked examples, figures, instruments."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from bookfiles import load_script, plain
from bookpress.config import read_config
from bookpress.expand import expand, facts_for
from bookpress.facts import Facts
from bookpress.model import FrontMatter, Source

BOOK = Path(__file__).resolve().parents[2]
CHAPTER = BOOK / "chapters/hardware/network.md"
FIXTURES = CHAPTER.parent / "fixtures"
LOOPBACK = CHAPTER.parent / "measurements/network_loopback.json"
GOOD = {"verified", "measured", "computed"}


nt = load_script(FIXTURES / "calculators/network_time.py")


def load(name: str) -> dict[str, Any]:
    return plain(yaml.safe_load((BOOK / f"data/{name}.yaml").read_text(encoding="utf-8")))


LINKS = {k: v for k, v in load("interconnects").items() if isinstance(v, dict) and "vendor" in v}
NETWORKS = load("networks")
NODES = NETWORKS["nodes"]


def number(node: Any) -> float:
    return float(node["value"] if isinstance(node, dict) else node)


def figures(node: Any, path: str) -> Iterator[str]:
    """Dotted paths of every number that could be printed."""
    if isinstance(node, dict) and "value" in node:
        if isinstance(node["value"], (int, float)):
            yield path
    elif isinstance(node, dict):
        for key, child in node.items():
            if key not in ("contradictions", "documents", "units", "schema", "source"):
                yield from figures(child, f"{path}.{key}")
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path


# --- data -----------------------------------------------------------------------------------------


def test_networks_keep_to_their_schema():
    schemas = {p.name: json.loads(p.read_text()) for p in (BOOK / "data/schema").glob("*.json")}
    registry = Registry().with_resources(
        [(key, Resource.from_contents(value)) for key, value in schemas.items()]
    )
    checker = jsonschema.Draft202012Validator(schemas["networks.json"], registry=registry)
    assert [f"{e.json_path}: {e.message}" for e in checker.iter_errors(NETWORKS)] == []
    broken = json.loads(json.dumps(NETWORKS))
    del broken["nodes"]["aws_p5"]["nics"]
    assert not checker.is_valid(broken)


def test_every_figure_has_source_date_and_confidence_and_every_rate_a_unit():
    facts = Facts(BOOK / "data")
    seen = 0
    for name in ("interconnects", "networks"):
        for path in figures(load(name), name):
            fact = facts.sourced(path)
            assert fact.confidence, path
            if re.search(r"_per_s|_w$|percent|share", path.rsplit(".", 1)[1]):
                assert fact.unit, path
            seen += 1
    assert seen > 250


def test_nine_of_ten_figures_were_read_in_their_source_measured_or_computed():
    facts = Facts(BOOK / "data")
    words = [
        facts.fact(path).confidence
        for name in ("interconnects", "networks")
        for path in figures(load(name), name)
    ]
    assert sum(w in GOOD for w in words) / len(words) >= 0.9
    read = [w for w in words if w not in ("computed", "measured")]
    assert sum(w == "verified" for w in read) / len(read) >= 0.9


@pytest.mark.parametrize("name", sorted(NODES))
def test_a_node_is_its_nics_and_bytes_are_an_eighth_of_bits(name):
    node = NODES[name]
    line = number(node["nic_gbit_per_s"]) * number(node["nics"])
    assert number(node["node_gbit_per_s"]) == pytest.approx(line)
    assert number(node["node_gb_per_s"]) == pytest.approx(line / 8)
    share = number(node["node_gb_per_s"]) / number(node["gpus"])
    assert number(node["per_accelerator_gb_per_s"]) == pytest.approx(share)


@pytest.mark.parametrize("name", sorted(LINKS))
def test_two_way_is_twice_one_way_and_links_add_up(name):
    link = LINKS[name]
    one = number(link["one_way_gb_per_s"])
    if "two_way_gb_per_s" in link:
        assert number(link["two_way_gb_per_s"]) == pytest.approx(2 * one, rel=0.002)
    if {"links", "link_one_way_gb_per_s"} <= link.keys():
        assert number(link["links"]) * number(link["link_one_way_gb_per_s"]) == pytest.approx(one)
    if "raw_link_one_way_gb_per_s" in link:
        raw = number(link["raw_link_one_way_gb_per_s"])
        assert raw * 400 / 425 == pytest.approx(number(link["link_one_way_gb_per_s"]))
    if "measured_one_way_gb_per_s" in link:
        assert 0.8 * one < number(link["measured_one_way_gb_per_s"]) < one


@pytest.mark.parametrize("generation", [3, 4, 5, 6])
def test_pcie_follows_from_transfers_lanes_and_encoding(generation):
    record = LINKS[f"pcie{generation}_x16"]
    rate = nt.pcie_rate(generation) / 1e9
    assert number(record["one_way_gb_per_s"]) == pytest.approx(rate, abs=0.05)
    assert number(record["two_way_gb_per_s"]) == pytest.approx(2 * rate, abs=0.05)
    transfers, share = nt.PCIE[generation]
    assert number(record["gt_per_s"]) == transfers / 1e9
    first, second = map(int, re.findall(r"\d+", record["encoding"])[:2])
    assert first / second == pytest.approx(float(share))


def test_infinity_fabric_follows_from_transfers_and_width():
    for name in ("xgmi_mi250x", "xgmi_mi300"):
        link = LINKS[name]
        rate = number(link["gt_per_s"]) * number(link["lanes"]) / 8
        assert number(link["link_one_way_gb_per_s"]) == rate


def test_infiniband_ports_have_four_lanes():
    for record in NETWORKS["infiniband"].values():
        assert number(record["port_gbit_per_s"]) == 4 * number(record["lane_gbit_per_s"])


def test_measured_copy_is_the_stored_one():
    pair = json.loads((CHAPTER.parent / "measurements/h200_pair.json").read_text())
    stored = pair["copies"]["gpu0_to_gpu1"]["median_gb_per_s"]
    assert number(LINKS["nvlink4"]["measured_one_way_gb_per_s"]) == stored


# --- formulas -------------------------------------------------------------------------------------


def test_the_calculator_needs_the_standard_library_only():
    text = (FIXTURES / "calculators/network_time.py").read_text()
    names = set(re.findall(r"^(?:from|import) (\w+)", text, re.M))
    assert names <= set(sys.stdlib_module_names) | {"__future__"}


def test_switch_counts_equal_nvidias_table():
    for key, row in NETWORKS["superpod"].items():
        if key.startswith("su"):
            fabric = nt.fat_tree(row["gpus"], 64)
            assert (fabric.leaf, fabric.spine, fabric.core) == (row["leaf"], row["spine"], row["core"])


def test_fat_tree_has_ports_for_all_its_cables():
    for radix in (32, 64, 128):
        for ports in (radix + 1, radix * 3, radix**2 // 2, radix**2 // 2 + 1, radix**2):
            f = nt.fat_tree(ports, radix)
            assert f.leaf * radix >= ports + f.leaf * (radix // 2)
            uplinks = f.leaf * (radix // 2)
            assert f.spine * radix >= uplinks * (2 if f.core else 1)
            assert f.core * radix >= (uplinks if f.core else 0)
    assert nt.fat_tree(64) == nt.Fabric(1, 0, 0, 0)
    with pytest.raises(ValueError, match="three tiers"):
        nt.fat_tree(64**3 // 4 + 1)
    with pytest.raises(ValueError, match="three tiers"):
        nt.fat_tree(10_000, oversubscription=2)


def test_oversubscription_saves_switches_and_costs_bisection():
    full, half = nt.fat_tree(1024), nt.fat_tree(1024, oversubscription=2)
    assert half.leaf + half.spine < full.leaf + full.spine
    assert nt.bisection(1024, 50e9, 2) == nt.bisection(1024, 50e9) / 2


def simulated_ring(size: float, ranks: int, rate: float, latency: float) -> float:
    """Reduce-scatter then all-gather, step by step, each rank sending one piece to the next."""
    have = [[1.0 if owner == rank else 0.0 for owner in range(ranks)] for rank in range(ranks)]
    clock = 0.0
    sums = [[1 for _ in range(ranks)] for _ in range(ranks)]
    for step in range(2 * (ranks - 1)):
        sent = {}
        for rank in range(ranks):
            piece = (rank - step) % ranks if step < ranks - 1 else (rank + 1 - (step - ranks + 1)) % ranks
            sent[(rank + 1) % ranks] = (piece, sums[rank][piece])
        for rank, (piece, value) in sent.items():
            sums[rank][piece] = sums[rank][piece] + value if step < ranks - 1 else value
        clock += latency + size / ranks / rate
    assert all(value == ranks for row in sums for value in row), have
    return clock


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 17])
def test_ring_formula_equals_a_simulated_ring_that_really_reduces(ranks):
    want = simulated_ring(1e9, ranks, 50e9, 5e-6)
    assert nt.ring_all_reduce_time(1e9, ranks, 50e9, 5e-6) == pytest.approx(want)


def test_one_rank_needs_no_network():
    assert nt.ring_all_reduce_time(1e9, 1, 1e9) == nt.ring_all_gather_time(1e9, 1, 1e9) == 0.0
    assert nt.all_to_all_time(1e9, 1, 1e9) == 0.0


def test_busbw_of_a_ring_without_latency_is_its_rate():
    for ranks in (2, 8, 64):
        seconds = nt.ring_all_reduce_time(1e9, ranks, 365e9)
        assert nt.bus_bandwidth(1e9, ranks, seconds) == pytest.approx(365e9)


def test_half_speed_size():
    n = nt.half_speed_size(8e9, 8e-6)
    assert n / nt.send_time(n, 8e9, 8e-6) == pytest.approx(4e9)


def test_break_even_is_where_the_two_times_meet():
    tokens = nt.break_even_tokens(400e12, 365e9)
    for params in (8e9, 70e9):
        moved = nt.ring_all_reduce_time(2 * params, 10**6, 365e9)
        assert moved == pytest.approx(nt.step_compute_time(params, tokens, 400e12), rel=1e-5)
    assert nt.break_even_tokens(400e12, 365e9, 6) == pytest.approx(1.5 * tokens)


def test_pipelined_hierarchy_is_never_slower_than_its_sum():
    parts = (16e9, 8, 8, 370e9, 45.5e9)
    assert nt.hierarchical_all_reduce_time(*parts) < nt.hierarchical_all_reduce_time(*parts, False)


# --- the chapter ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chapter() -> str:
    config, _ = read_config(BOOK / "book.toml")
    raw = CHAPTER.read_text(encoding="utf-8")
    _, _, body = raw.split("---\n", 2)
    path = CHAPTER.relative_to(BOOK).as_posix()
    first = raw[: raw.index(body)].count("\n") + 1
    source = Source(path, "network", "hardware/network.html", 0, FrontMatter(), body, first)
    expanded, problems = expand(source, config, facts_for(config))
    assert problems == []
    return " ".join(expanded.text.replace("\u00a0", " ").split())


def test_worked_numbers_of_the_text(chapter):
    plan = 18 * number(LINKS["nvlink4"]["usable_link_one_way_gb_per_s"])
    assert round(plan, -1) == 370
    rows = json.loads((CHAPTER.parent / "measurements/nccl_pair_summary.json").read_text())["rows"]
    pair = max(r["theirs_busbw"] for r in rows if r["op"] == "all_reduce" and r["bytes"] == 2**32)
    assert f"Expect about 370 GB/s of those 450 from a ring over 8 GPUs on NVLink, {pair:.0f} from" in chapter
    assert f"{0.9 * plan:.0f} GB/s for H100 with 8 × 400" in chapter
    assert f"its log prints as `NVL[{plan:.1f}]`" in chapter
    assert f"and about {400 * nt.payload_share(4096, nt.ROCE_V2):.0f} Gb/s of 400" in chapter
    copy = number(LINKS["nvlink4"]["measured_one_way_gb_per_s"])
    assert f"is {100 * copy / 900:.0f}% of what is printed and {100 * copy / 450:.0f}% of" in chapter
    lane = 106.25 * 514 / 544 * 256 / 257
    assert lane == pytest.approx(100)
    assert "106.25 Gb/s a lane × 514/544 × 256/257 = 100" in chapter
    fabric = nt.fat_tree(1024)
    assert f"needs {fabric.leaf + fabric.spine} switches for 1,024 GPUs" in chapter
    assert nt.fat_tree(2048).core == 0
    assert nt.fat_tree(2049).core > 0
    tokens = nt.break_even_tokens(400e12, 365e9)
    assert f"4 × 400e12 / (6 × 365e9) = {tokens:.0f} tokens" in chapter
    assert round(tokens, -1) == 730
    assert "needs about 730 tokens per GPU" in chapter
    assert f"{365 / 8:.1f} GB/s, {100 * 365 / 8 / 50:.0f}% of the line" in chapter
    hierarchical = 365 * 3 / 31
    assert f"would be {hierarchical:.1f} GB/s, {100 * hierarchical / 50:.0f}%" in chapter
    assert f"= {72 * 900 / 1000:.1f} TB/s one-way" in chapter
    rack = number(LINKS["nvlink5"]["rack_two_way_tb_per_s"])
    assert rack == pytest.approx(2 * 72 * 900 / 1000, rel=0.005)
    assert "9 + 3 × 8.5 = 34.5 W" in chapter
    assert 9 + 3 * 8.5 == 34.5
    assert pytest.approx(0.05, abs=0.002) == 34.5 / 700
    row = NETWORKS["failures"]["llama3"]
    faults = row["switch_or_cable"] + row["nic"]
    assert f"one every {row['days'] * row['gpus'] / faults / 1000:.0f} days for 1,000" in chapter
    assert 100 * row["switch_or_cable"] / row["unexpected"] == pytest.approx(8.4, abs=0.06)
    assert 400e9 / 8 * 1e-3 == 50e6
    assert "has 50 MB in flight" in chapter
    assert f"light needs {1e9 * 1.468 / 299_792_458:.1f} ns for a meter" in chapter


def test_reading_of_the_sizing_example(chapter):
    compute = nt.step_compute_time(8.03e9, 16384, 400e12)
    reduce = nt.ring_all_reduce_time(2 * 8.03e9, 64, 365e9)
    assert f"is {2 / 3 * compute / reduce:.0f} times as long as its all-reduce" in chapter
    assert 2 / 3 * compute > nt.ring_all_reduce_time(2 * 8.03e9, 64, 36.5e9)
    passes = 3 * nt.ring_all_gather_time(2 * 70.6e9, 256, 365e9)
    assert passes / nt.step_compute_time(70.6e9, 8192, 400e12) == pytest.approx(1 / 8, abs=0.01)
    layer = nt.step_compute_time(70.6e9 / 80, 8192, 8 * 400e12)
    inside, across = (4 * nt.ring_all_reduce_time(8192 * 8192 * 2, 8, b) for b in (370e9, 50e9))
    assert inside / layer == pytest.approx(1 / 5, abs=0.02)
    assert f"would take {1e3 * across:.1f} ms, longer than the layer" in chapter
    assert across > layer
    assert f"43 GB/s per GPU over 400 Gb/s NICs, {100 * 43 / 50:.0f}% of the line" in chapter


def test_ratios_of_scale_up_to_scale_out(chapter):
    for name, up, out in (
        ("H100 or H200, 400 Gb/s per GPU", 450, 50), ("B200 or GB200, 400 Gb/s", 900, 50),
        ("B300 or GB300, 800 Gb/s", 900, 100), ("MI300X, 400 Gb/s", 448, 50),
    ):  # fmt: skip
        assert f"| {name} | {up} | {out} | {up / out:.0f} |" in chapter
    assert "| Gaudi 3 | 525 | 75 | 7 |" in chapter


def test_the_text_says_what_the_loopback_run_measured(chapter):
    run = json.loads(LOOPBACK.read_text())
    fit, rows = run["fit"], run["rows"]
    assert f"$\\alpha$ = {fit['latency_us']} µs and $B$ = {fit['rate_gb_per_s']} GB/s" in chapter
    assert f"within {100 * (fit['worst_factor'] - 1):.0f}%" in chapter
    for row in rows:
        model = fit["latency_us"] + row["bytes"] / fit["rate_gb_per_s"] / 1e3
        if row["bytes"] <= fit["up_to_bytes"]:
            assert abs(math.log(model / row["microseconds"])) <= math.log(fit["worst_factor"] + 0.01)
    size = nt.half_speed_size(fit["rate_gb_per_s"] * 1e9, fit["latency_us"] * 1e-6) / 1024
    assert size == pytest.approx(fit["half_speed_kib"], rel=0.01)
    assert rows[11]["bytes"] == 4 * 2**20


def test_the_reported_sweep_in_the_fence_is_the_stored_one():
    sweep = NETWORKS["sweep_b200"]
    stored = [number(sweep[k]) for k in ("mib_1", "mib_16", "mib_256", "gib_1", "gib_4")]
    fence = re.search(r"reported = \{(.*?)\}", CHAPTER.read_text(), re.S)
    assert [float(v) for v in re.findall(r": ([\d.]+)", fence[1])] == stored


# --- figures and instruments ----------------------------------------------------------------------


def test_committed_figures_are_what_the_script_draws():
    drawn = load_script(CHAPTER.parent / "figures/src/network.py")
    for name, draw in drawn.FIGURES.items():
        assert (CHAPTER.parent / f"figures/{name}.svg").read_text(encoding="utf-8") == draw(), name


def check(*args: str) -> subprocess.CompletedProcess:
    script = FIXTURES / "network/link_check.py"
    command = [sys.executable, str(script), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_link_check_finds_the_slow_slot_and_the_bad_ports(tmp_path):
    load_script(FIXTURES / "network/sample_node.py").build(tmp_path)
    done = check("--root", str(tmp_path), "--port-gbit", "400")
    assert done.returncode == 1
    lines = {row.split()[0]: row for row in done.stdout.splitlines()}
    assert lines["0000:3c:00.0"].endswith("31.5 of  63.0 GB/s  SLOW")
    assert lines["0000:1a:00.0"].endswith("ok")
    assert lines["mlx5_0/1"].endswith("ok")
    assert lines["mlx5_1/1"].endswith("BAD")
    assert lines["mlx5_2/1"].endswith("BAD")
    # Without a wanted rate a slow port that is up passes; a dead one never does.
    lines = {r.split()[0]: r for r in check("--root", str(tmp_path)).stdout.splitlines()}
    assert lines["mlx5_1/1"].endswith("ok")
    assert lines["mlx5_2/1"].endswith("BAD")


def test_link_check_does_not_judge_a_link_that_the_host_hides(tmp_path):
    device = tmp_path / "bus/pci/devices/0000:00:04.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x030200\n")
    for name in ("current_link_speed", "max_link_speed"):
        (device / name).write_text("Unknown\n")
    done = check("--root", str(tmp_path))
    assert done.returncode == 0
    assert "hidden" in done.stdout
    assert check("--root", str(tmp_path / "none")).returncode == 2


def test_link_check_survives_an_unknown_speed_and_an_empty_rate(tmp_path):
    device = tmp_path / "bus/pci/devices/0000:00:04.0"
    device.mkdir(parents=True)
    for name, value in (("class", "0x030200"), ("current_link_speed", "128.0 GT/s PCIe"),
                        ("current_link_width", "16"), ("max_link_speed", "128.0 GT/s PCIe"),
                        ("max_link_width", "16")):  # fmt: skip
        (device / name).write_text(value + "\n")
    (tmp_path / "class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    done = check("--root", str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "236.0 of 236.0 GB/s  ok" in done.stdout
    assert "BAD" in done.stdout
