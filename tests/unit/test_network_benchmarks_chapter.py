"""Chapter "Network benchmarks": numbers in the text from their records and formulas."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters/hardware"
MEASUREMENTS = HARDWARE / "measurements"
TEXT = (HARDWARE / "network-benchmarks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cases() -> dict:
    return json.loads((MEASUREMENTS / "curve_shapes.json").read_text())["cases"]


def busbw(cases: dict, case: str) -> dict[int, float]:
    return {row["bytes"]: row["busbw_mb_per_s"] for row in cases[case]["rows"]}


def test_shapes_are_what_the_text_says(cases):
    healthy, slow, late = (busbw(cases, name) for name in ("healthy", "slow_link", "late_rank"))
    top, small = max(healthy), min(healthy)
    assert healthy[top] == pytest.approx(50, rel=0.1)  # the cap
    assert slow[top] == pytest.approx(12.5, rel=0.05)  # the slow link's
    assert slow[small] > 0.7 * healthy[small]  # the same start
    assert late[small] < 0.1 * healthy[small]  # far below at small sizes
    assert late[top] > 0.85 * healthy[top]  # nearly healthy at the largest
    assert any("rank 2@host2 came late" in text for text in cases["late_rank"]["warnings"])
    assert cases["healthy"]["warnings"] == []


def test_percentiles_belong_to_the_samples():
    record = json.loads((MEASUREMENTS / "stability.json").read_text())
    samples = sorted(record["samples_us"])
    assert len(samples) == record["calls"]
    for name, value in record["percentile_us"].items():
        at = min(len(samples) - 1, int(len(samples) * float(name) / 100))
        assert samples[at] == pytest.approx(value, abs=1)


@pytest.mark.parametrize("nodes", [2, 16, 128, 512])
def test_latency_terms(nodes):
    steps, between = 2 * (nodes * 8 - 1), 2 * (nodes - 1)
    ring = 8.4 + (steps - between) * 3.4 + between * 14
    tree = 8.4 + 2 * (7 * 4 + (nodes.bit_length() - 1) * 14)
    assert f"{nodes:4} nodes: ring {ring:7,.0f} us, tree {tree:4.0f} us" in TEXT


def test_late_steps():
    assert f"that is {100 * (1 - 0.99**200):.0f}% of the steps" in TEXT


def test_each_variable_of_the_tables_is_named_once_and_no_other_is_recommended():
    data = yaml.safe_load((BOOK / "data/nccl_env.yaml").read_text())
    names = [name for key, row in data.items() if isinstance(row, dict) and "name" in row
             for name in row["name"].split(", ")]
    assert len(names) == len(set(names))
    diagnostic = {"NCCL_TOPO_DUMP_FILE", "NCCL_TESTS_SPLIT", "NCCL_CTA_POLICY", "NCCL_MIN_NCHANNELS",
                  "NCCL_HOME"}
    used = set(re.findall(r"\bNCCL_[A-Z][A-Z0-9_]+\b", TEXT))
    assert used <= set(names) | diagnostic, used - set(names) - diagnostic


def test_a_mean_over_ranks_flatters():
    record = json.loads((MEASUREMENTS / "rank_means.json").read_text())
    assert record["mean"] == pytest.approx(sum(record["busbw_by_rank"]) / record["ranks"], abs=0.01)
    assert record["mean"] > 1.1 * record["from_slowest"]
    assert record["from_slowest"] == pytest.approx(25, rel=0.05)  # the capped host's rate
    assert min(record["busbw_by_rank"]) != record["busbw_by_rank"][2]  # the capped host looks innocent


@pytest.fixture(scope="module")
def pair() -> dict:
    return json.loads((MEASUREMENTS / "nccl_pair_summary.json").read_text())


def test_what_the_text_says_of_two_gpus(pair):
    chunk = pair["chunks"]
    assert chunk[3]["ms"] == pytest.approx(1000 * pair["launch_us"]["dist.all_reduce"] / 1000, rel=0.1)
    assert pair["curves"]["transports: shm"]["points"][-1][2] == pytest.approx(27, abs=0.5)
    assert pair["curves"]["protocols: default"]["points"][-1][2] == pytest.approx(310, abs=1)
    assert pair["curves"]["protocols: LL"]["points"][-1][2] == pytest.approx(123, abs=1)
    hundred = pair["curves"]["protocols: default"]["points"][-1][2] / pair["curves"]["transports: socket"]["points"][-1][2]
    assert 90 < hundred < 115  # "up to a hundredfold"
    top = [row for row in pair["rows"] if (row["pass"], row["op"], row["place"], row["dtype"], row["bytes"]) ==
           ("large", "all_reduce", "in", "float32", 1 << 32)]
    assert round(top[0]["theirs_busbw"]) == 345
    assert round(top[0]["ours_busbw"]) == 344
    types = [entry for entry in pair["by_size"] if entry["pass"] == "types"]
    assert [(entry["bytes"], entry["rows"]) for entry in types] == [(1 << 16, 5), (1 << 20, 5), (1 << 24, 5), (1 << 28, 5)]
    floats = {entry["bytes"]: entry for entry in pair["by_size"] if entry["pass"] == "stream"}
    assert all(abs(entry["median"] - floats[entry["bytes"]]["median"]) < 0.1 for entry in types)  # "changes nothing"


def test_the_rows_that_the_text_counts(pair):
    """Of the rows from 64 MiB on, those of the two tools that lie more than 2% apart."""
    rows = [row for row in pair["rows"] if row["pass"] == "stream" and row["bytes"] >= 64 << 20]
    apart = [row for row in rows if abs(row["ratio"] - 1) > 0.02]
    counts = pair["agreement"]["stream, 64 MiB and more"]
    assert len(apart) == counts["rows"] - counts["within_2_percent"] == 8
    assert sorted(row["op"] for row in apart) == ["all_gather", "gather", *["scatter"] * 4, *["send_recv"] * 2]
    (one,) = [row for row in apart if row["op"] == "all_gather"]
    assert one["bytes"] == 64 << 20
    assert f"one all-gather of 64 MiB, {100 * (1 - one['ratio']):.1f}% slower" in TEXT
    assert "The other eight: five of scatter and gather" in TEXT


def test_the_run_on_two_gpus_is_told_as_it_was():
    fences = json.loads((MEASUREMENTS / "network-benchmarks.gpu.json").read_text())["fences"]
    parts = re.split(r"^(\w+) float32 .*; 2 ranks; ", fences["pair"]["output"], flags=re.M)
    first = {}
    for op, part in zip(parts[1::2], parts[2::2], strict=True):
        first[op] = float(re.search(r"^ +8 B .* ok +([\d.]+) +\d+$", part, re.M)[1])
    assert f"{first['all_reduce']} ms for the all-reduce above" in TEXT
    assert f"but {first['all_to_all']:.0f} for the first all-to-all of that run" in TEXT
    busbw = float(re.search(r"^ +1 GiB .* ([\d.]+) GB/s +\d+ ok", parts[2], re.M)[1])
    assert f"all-reduce reaches {100 * busbw / 450:.0f}% of the one-way 450 GB/s" in TEXT


def test_what_a_cap_on_thread_blocks_costs():
    worlds = json.loads((MEASUREMENTS / "nccl_pair_ctas.json").read_text())["worlds"]
    rate = {int(world["name"]): world["rows"][-1]["busbw_gb_per_s"] for world in worlds}
    assert rate[8] == pytest.approx(8 * rate[1], rel=0.06)  # "nearly in proportion up to 8"
    assert f"costs {100 * (1 - rate[24] / max(rate.values())):.0f}% at 24" in TEXT


def test_the_kernels_name_and_the_log_disagree(pair):
    assert "RING_LL" in pair["kernels"]["all_reduce"][0]["kernel"]
    log = (MEASUREMENTS / "nccl_logs_h200_pair/p2p_rank0.log").read_text()
    assert "AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE" in log
    assert "AllReduce: 1048576 Bytes -> Algo RING proto LL " in log
