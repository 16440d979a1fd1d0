"""The records of two H200: what the chapters read from them is what they hold, and what they show still holds."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

HERE = ROOT / "chapters/hardware/measurements"
DEBUGGING = ROOT / "chapters/debugging/measurements"
sys.path.insert(0, str(HERE))
import nccl_pair_compare  # noqa: E402
import nccl_pair_summary  # noqa: E402

# One line of nccl-tests 2.19.6 as it prints it, and one with what was not checked.
TABLE = """\
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1    15.27   68.68   68.68       0    15.83   66.23   66.23       0
  4294967296     536870912      half    none       0  11743.1  365.74  365.74     N/A  11740.2  365.83  365.83     N/A
# Out of bounds values : 0 OK
"""


def load(name: str) -> dict:
    return json.loads((HERE / f"{name}.json").read_text())


def test_their_table_is_read():
    assert nccl_pair_compare.table_rows(TABLE) == [
        ["out", 1048576, 15.27, 68.68, 0], ["in", 1048576, 15.83, 66.23, 0],
        ["out", 4294967296, 11743.1, 365.74, None], ["in", 4294967296, 11740.2, 365.83, None]]
    assert nccl_pair_compare.table_rows("") == []


def test_summary_is_what_the_records_say():
    done = subprocess.run([sys.executable, str(HERE / "nccl_pair_summary.py"), "--check"])
    assert done.returncode == 0, "run nccl_pair_summary.py again"


def test_fit_finds_known_parameters():
    rows = [{"bytes": size, "us": 12.0 + size / 300e3} for size in (8, 4096, 1 << 20, 1 << 26, 1 << 30)]
    assert nccl_pair_summary.fit(rows) == {"alpha_us": 12.0, "beta_gb_per_s": 300.0, "worst_error": 0.0}


def test_both_sides_measured_the_same_traffic():
    """Same S and factor: both sides' rate times time is the same number of bytes."""
    record, traffic = load("nccl_pair_compare"), {}
    for side in ("ours", "theirs"):
        for _, op, _, _, _, size, micros, rate, _ in record[side]:
            if size >= 1 << 20:
                traffic.setdefault((op, size), []).append(rate * micros * 1e3 / size)
    assert len(traffic) > 50
    for key, factors in traffic.items():
        assert max(factors) / min(factors) < 1.01, key


def test_agreement_with_nccl_tests():
    """Streams of calls, from 64 MiB on: within 2 %, but for what torch itself does more."""
    rows = [row for row in load("nccl_pair_summary")["rows"] if row["pass"] in ("large", "stream") and row["bytes"] >= 64 << 20]
    assert len(rows) == 64
    core = [row for row in rows if row["op"] not in ("scatter", "gather", "send_recv")]
    assert sum(abs(row["ratio"] - 1) <= 0.02 for row in core) >= len(core) - 1
    assert all(abs(row["ratio"] - 1) <= 0.04 for row in core)
    scatter = [row for row in rows if row["op"] == "scatter" and row["bytes"] == 256 << 20]
    kernels = {one["kernel"]: one["us"] for one in load("nccl_pair_summary")["kernels"]["scatter"]}
    copy = next(micros for name, micros in kernels.items() if name.startswith("Memcpy DtoD"))
    assert abs((scatter[0]["ours_us"] - scatter[0]["theirs_us"]) - copy) < 5, "the difference is the copy of the root's own share"


def test_graphs_agree_in_nccls_own_memory():
    rows = [row for row in load("nccl_pair_summary")["rows"] if row["pass"] == "graph" and row["bytes"] >= 256 << 20]
    assert len(rows) == 21
    assert min(row["ratio"] for row in rows) < 0.80
    assert all(row["ratio_nccl_memory"] > 0.975 for row in rows)


def test_wrong_data_is_what_the_note_says():
    record = load("nccl_pair_compare")
    wrong = [row for side in ("ours", "theirs") for row in record[side] if row[-1]]
    assert [(row[0], row[1], row[5]) for row in wrong] == [("graph/3n", "send_recv", 16 << 20)]
    assert "send_recv 16 MiB" in record["note"]


@pytest.mark.parametrize("name", ["all_reduce_h200_nccl_memory", "all_reduce_h200_nccl_memory_again"])
def test_nccls_memory_holds_right_data_since(name):
    rows = load(name)["results"]
    assert ("send_recv", 16 << 20) in {(row["op"], row["bytes"]) for row in rows}
    assert len(rows) == 12
    assert all(row["status"] == "ok" and row["wrong"] == 0 and row["checked"] >= 16 for row in rows)


def test_types_were_measured_by_both_sides():
    rows = [row for row in load("nccl_pair_summary")["rows"] if row["pass"] == "types"]
    assert len({(row["dtype"], row["bytes"]) for row in rows}) == len(rows) == 5 * 4
    assert load("nccl_pair_compare")["later"]["passes"] == ["block", "types"]


def test_every_prediction_has_an_outcome():
    predictions = load("nccl_pair_predictions")["predictions"]
    assert len(predictions) == 20
    assert {one["verdict"] for one in predictions} == {"held", "partly", "wrong"}
    assert all(len(one["outcome"]) > 15 for one in predictions)


def test_every_case_on_two_gpus_ended_as_wanted():
    record = load("all_reduce_h200_pair")
    cases = {case["case"]: case for case in record["cases"]}
    assert len(cases) == 26
    assert all(case["ok"] for case in cases.values())
    assert record["later"]["cases"] == [case["case"] for case in record["before"]]
    before = {case["case"]: case for case in record["before"]}
    assert {name for name, case in before.items() if not case["ok"]} == {"every type and reduce op", "every type moved"}
    fnuz = before["every type and reduce op"]["summary"]["wrong_rows"]
    assert len(fnuz) == 4
    assert all("fnuz" in text for text in fnuz), "these rows are refused since, see test_bench_buffers.py"
    refused = cases["every type and reduce op"]["summary"]["reasons"]
    assert {text.split()[1] for text in refused if "NCCL has no fnuz types" in text} == {"float8_e4m3fnuz", "float8_e5m2fnuz"}
    assert "start of coalescing" in before["every type moved"]["summary"]["reason"]
    assert all("Traceback" not in case["stderr"] for case in cases.values())
    for name in ("stopped rank", "killed rank"):
        assert cases[name]["seconds"] < 2 * 12


@pytest.mark.parametrize("name", ["all_reduce_h200_pairs", "all_reduce_h200_late", "all_reduce_h200_collectives", "gpu_test_h200_pair",
                                  "mamf_h200_pair", "all_reduce_h200_nccl_memory", "all_reduce_h200_nccl_memory_again"])
def test_reports_of_the_pair_keep_the_schema(name, valid_report):
    report = valid_report(HERE / f"{name}.json")
    assert report["rc"] == 0
    assert report["world"]["size"] == 2
    assert {node["device"] for node in report["world"]["nodes"]} == {"NVIDIA H200"}


def test_every_collective_was_right_in_every_mode():
    rows = load("all_reduce_h200_collectives")["results"]
    assert sum(row["wrong"] for row in rows) == 0
    assert len({(row["op"], row["mode"]) for row in rows if row["status"] == "ok"}) == 3 * 15 - 2  # two can't be recorded


@pytest.mark.parametrize(("name", "worst", "best", "turns", "width"), [
    ("0_3", 0.998, 1.004, 20, 0.01), ("4_7", 0.998, 1.002, 20, 0.01), ("12s", 0.993, 1.005, 20, 0.01), ("short", 0.979, 1.004, 16, 0.015)])
def test_search_against_the_sweep(name, worst, best, turns, width):
    """Of each search the pair with its strongest rival: the default budget within 0.2%, short ones within 0.7 and 2.1%."""
    record = load(f"mamf_interleaved_{name}")
    ratios = record["contest"]["ratios"]
    assert len(ratios) == 4 * len(record["searches"])
    assert all(pair["turns"] == turns for pair in ratios)
    by_winner: dict[str, float] = {}
    for pair in ratios:
        by_winner[pair["winner"]] = min(by_winner.get(pair["winner"], 9.0), pair["ratio"])
        low, high = pair["ci95"]
        assert low < pair["ratio"] < high
        assert high - low < width
    assert min(by_winner.values()) > worst
    assert max(by_winner.values()) > best
    assert record["contest"]["state"]["throttle"] == {"power cap": 1.0}
    assert record["contest"]["state"]["power_w"] > 680


CULPRIT = {"skip": ([[1 << 20]], [[1]]), "order": ("nccl:all_reduce", "nccl:broadcast"), "types": (["Float"], ["BFloat16"])}


@pytest.mark.parametrize("case", ["skip", "order", "types", "late", "groups"])
def test_dumps_show_who_did_what(case):
    """At the first call that differs, rank 1 did something else, or was not there."""
    first = []
    for rank in (0, 1):
        dump = pickle.loads((DEBUGGING / "nccl-flight-x2" / case / f"rank_{rank}").read_bytes())
        first.append({(one["process_group"][0], one["collective_seq_id"]): one for one in dump["entries"]})
    seventh = [entries.get(("0", 7)) for entries in first]
    if case == "late":
        assert seventh[0]["state"] == "scheduled"
        assert seventh[1] is None
    elif case == "groups":
        assert first[0][("1", 2)]["state"] == first[1][("2", 2)]["state"] == "scheduled"
        assert ("2", 2) not in first[0]
        assert ("1", 2) not in first[1]
    else:
        name = {"skip": "input_sizes", "order": "profiling_name", "types": "input_dtypes"}[case]
        assert (seventh[0][name], seventh[1][name]) == CULPRIT[case]


def test_no_paths_of_the_machine():
    for path in [*(DEBUGGING / "nccl-flight-x2").rglob("*"), *HERE.glob("nccl_pair*.json"), *HERE.glob("nccl_logs_h200_pair/*"),
                 *HERE.glob("all_reduce_h200_*.json"), HERE / "gpu_test_h200_pair.json", HERE / "mamf_h200_pair.json",
                 *HERE.glob("mamf_interleaved_*.json"), DEBUGGING / "nccl-flight-x2.json"]:
        if path.is_file():
            assert not any(word in path.read_bytes() for word in (b"/work/", b"/tmp/w", b"/root/")), path


def test_records_are_small():
    files = [path for pattern in ("nccl_pair*", "nccl_logs_h200_pair/*", "all_reduce_h200_pair*", "mamf_interleaved*")
             for path in HERE.glob(pattern)] + list(Path(DEBUGGING / "nccl-flight-x2").rglob("*"))
    assert sum(path.stat().st_size for path in files if path.is_file()) < 2_000_000
