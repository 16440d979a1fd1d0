"""Chapter "Host CPU": worked numbers from their inputs, filed hosts, the record's medians, its programs."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from bookfiles import load_script, plain
from bookpress.facts import Facts

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters/hardware"
TEXT = (HARDWARE / "host-cpu.md").read_text(encoding="utf-8")
RECORD = json.loads((HARDWARE / "measurements/host_cpu.json").read_text())


@pytest.fixture(scope="module")
def hosts() -> dict[str, Any]:
    return plain(yaml.safe_load((BOOK / "data/hosts.yaml").read_text()))


def value(node: Any) -> float:
    return float(node["value"] if isinstance(node, dict) else node)


def test_hosts_keep_to_their_schema(hosts):
    schemas = {n: json.loads((BOOK / f"data/schema/{n}").read_text()) for n in ("hosts.json", "accelerators.json")}
    registry = Registry().with_resources([(n, Resource.from_contents(s)) for n, s in schemas.items()])
    jsonschema.Draft202012Validator(schemas["hosts.json"], registry=registry).validate(hosts)


def test_ratios_of_filed_nodes_follow_from_their_figures(hosts):
    nodes = {k: n for k, n in hosts.items() if k.startswith("node_")}
    assert len(nodes) >= 10
    for name, node in nodes.items():
        total = node["accelerators"] * node["accelerator_gb"]
        assert value(node["accelerators_total_gb"]) == total, name
        assert value(node["host_per_accelerator_memory"]) == round(node["host_gb"] / total, 1), name
        cores = node["sockets"] * node["cores_per_socket"] / node["accelerators"]
        assert value(node["cores_per_accelerator"]) == cores, name


def test_accelerator_memory_agrees_with_the_accelerators_file(hosts):
    facts = Facts(BOOK / "data")
    known = {"h200": "nvidia_h200_sxm", "b200": "nvidia_b200_sxm", "b300": "nvidia_b300_sxm",
             "gb200": "nvidia_gb200", "gb300": "nvidia_gb300", "mi325x": "amd_mi325x", "mi355x": "amd_mi355x"}
    for name, node in hosts.items():
        if name.startswith("node_"):
            part = known[name.split("_")[1]]
            assert facts.fact(f"accelerators.{part}.memory_gb").value == node["accelerator_gb"], name


def test_bandwidth_is_channels_times_rate(hosts):
    for name, cpu in hosts.items():
        if name.startswith("cpu_") and "channels" in cpu:
            peak = value(cpu["channels"]) * value(cpu["mt_per_s"]) * value(cpu["channel_bytes"]) / 1000
            assert value(cpu["gb_per_s"]) == pytest.approx(peak), name


def test_text_quotes_the_filed_range(hosts):
    ratios = [value(n["cores_per_accelerator"]) for k, n in hosts.items() if k.startswith("node_")]
    assert f"{min(ratios):.0f} to {max(ratios):.0f} cores beside each accelerator" in TEXT
    eight = [n["sockets"] * n["cores_per_socket"] for k, n in hosts.items()
             if k.startswith("node_") and n["accelerators"] == 8]
    assert f"filed eight-GPU nodes have {min(eight)} to {max(eight)}" in TEXT


def test_core_counts():
    cores = load_script(HARDWARE / "fixtures/host-cpu/cores.py").cores
    assert cores(8, 2) == 28
    assert cores(8, 4) == 44
    assert math.ceil(1800 / 220) == 9
    assert cores(8, 9) == 84


def test_worked_times(hosts):
    peak = value(hosts["cpu_xeon_6700p"]["gb_per_s"]) * 1e9
    assert round(30 * 8e9 / (0.8 * 2 * peak), 2) == 0.37
    assert round(peak / 8e9) == 51
    rows = json.loads((HARDWARE / "measurements/host-cpu.gpu.json").read_text())
    shown = rows["fences"]["launch"]["output"]
    alone, crowded = (float(x) for x in re.findall(r"eager +([\d.]+) us to enqueue", shown))
    assert f"{alone:.1f} µs of this host" in TEXT
    assert f"{crowded / alone:.1f} times as dear" in TEXT
    launch = 32 * 40 * round(alone, 1) * 1e-6
    assert f"{1e3 * launch:.1f} ms of launching" in TEXT
    assert f"reads as {100 * 3e-3 / launch:.0f}% busy" in TEXT
    for number in ("0.37 s", "51 tokens/s"):
        assert number in TEXT


def test_budget_reads_both_versions_of_cgroups_and_parents(tmp_path):
    quota = load_script(HARDWARE / "fixtures/host-cpu/budget.py").quota
    own = tmp_path / "cgroup"
    own.write_text("0::/pod/inner\n")
    inner = tmp_path / "v2/pod/inner"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    assert quota(str(tmp_path / "v2"), str(own)) == math.inf
    (inner.parent / "cpu.max").write_text("765000 100000\n")
    assert quota(str(tmp_path / "v2"), str(own)) == 7.65
    own.write_text("4:cpu,cpuacct:/job\n0::/\n")
    job = tmp_path / "v1/cpu/job"
    job.mkdir(parents=True)
    (job / "cpu.cfs_quota_us").write_text("50000\n")
    (job / "cpu.cfs_period_us").write_text("100000\n")
    assert quota(str(tmp_path / "v1"), str(own)) == 0.5


def test_budget_rounds_down_and_never_to_nothing(monkeypatch):
    module = load_script(HARDWARE / "fixtures/host-cpu/budget.py")
    monkeypatch.setattr(module.os, "cpu_count", lambda: 96)
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: set(range(96)))
    for limit, want in ((7.65, 7), (0.5, 1), (math.inf, 96)):
        monkeypatch.setattr(module, "quota", lambda limit=limit: limit)
        assert module.budget() == want


def test_medians_of_the_record_are_those_of_its_quiet_runs():
    module = load_script(HARDWARE / "measurements/host_cpu.py")
    assert module.summary(RECORD) == RECORD["summary"]
    quiet = [r["value"]["late_p99_us"] for r in RECORD["crowd"]["16"] if r["foreign_share"] <= RECORD["quiet_share"]]
    assert RECORD["summary"]["crowd"]["16"]["late_p99_us"] == round(statistics.median(quiet), 3)


def test_text_says_of_crowds_what_the_record_holds():
    crowd = RECORD["summary"]["crowd"]
    assert 0.75 < crowd["16"]["slices_per_s"] / crowd["2"]["slices_per_s"] < 1.25  # "add nothing", "stays flat"
    assert crowd["16"]["late_p99_us"] > 5 * crowd["0"]["late_p99_us"]  # "grows many times over"
    assert crowd["16"]["late_p50_us"] < 1000  # "the switches themselves are cheap"
    assert "nice -15" in " ".join(RECORD["notes"])


def test_record_goes_on_and_leaves_busy_runs_out_of_medians():
    module = load_script(HARDWARE / "measurements/host_cpu.py")
    runs = [{"value": v, "foreign_share": s} for v, s in ((10.0, 0.0), (12.0, 0.1), (90.0, 0.5))]
    empty = {k: {} for k in ("crowd", "threads_one_process", "threads_two_processes", "switch_us")}
    record = {**empty, "quota": None, "bandwidth_gb_per_s": {"read": runs, "copy": runs[2:]}}
    assert module.summary(record)["bandwidth_gb_per_s"] == {"read": 12.0, "copy": None}
    assert module.rounds([1], 2, lambda case: pytest.fail("enough runs were there"), {"1": runs})["1"] == runs


def test_virtual_machine_shows_what_the_text_says():
    views = (HARDWARE / "measurements/host-vm/cpu-views.txt").read_text()
    blocks = re.split(r"^# limit: ", views, flags=re.M)[1:]
    seen = {b.split()[0]: [int(n) for n in re.findall(r"^(?:os\.|len|torch\.get)\S+\s+(\d+)", b, re.M)] for b in blocks}
    assert seen == {"none": [16, 16, 16], "quota": [16, 16, 16], "cpuset": [16, 4, 4]}


def test_figure_was_drawn_from_this_record():
    module = load_script(HARDWARE / "figures/src/host_cpu_crowd.py")
    want = module.p.inputs_hash("host_cpu_crowd", module.FACTS, module.FILES)
    assert f"<!-- inputs {want} -->" in (HARDWARE / "figures/host-cpu-crowd.svg").read_text()[:600]
