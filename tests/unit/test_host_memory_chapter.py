"""Chapter "Host memory": the sizes it works out, the record of forked workers, and the kernel's own logs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bookfiles import load_script

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters/hardware"
FIXTURES = HARDWARE / "fixtures/host-memory"
LOGS = HARDWARE / "measurements/host-vm"
TEXT = (HARDWARE / "host-memory.md").read_text(encoding="utf-8")
RECORD = json.loads((HARDWARE / "measurements/host_memory.json").read_text())


def test_worked_sum_and_the_resume_that_breaks_it():
    sizing = load_script(FIXTURES / "sizing.py")
    offload, staged = sizing.offload(70e9, 4), sizing.staging(70e9, 4)
    workers = sizing.data(8, 4, 2, 64e6)
    assert (offload, staged, round(workers)) == (210, 245, 20)
    assert offload + staged + round(workers) + 40 == 515
    assert sizing.full_load(70e9, 8) == 1120
    assert sizing.full_load(70e9, 1) == 140
    assert 8 * 141 == 1128
    assert "515 GB" in TEXT
    assert "1,120 GB" in TEXT


def test_offload_estimates():
    assert round(6805e6 * 1.5 * 16 / 2**30, 1) == 152.1  # what the estimator printed for 6805M parameters
    assert round(6805e6 * 1.5 * 18 / 2**30, 1) == 171.1
    assert round(6.74e9 * 24 / 1e9) == 162
    assert "6.74 × 10⁹ × 24 = 162 GB" in TEXT


def test_text_quotes_the_filed_range_of_memory():
    hosts = yaml.safe_load((BOOK / "data/hosts.yaml").read_text())
    ratios = [n["host_per_accelerator_memory"]["value"] for k, n in hosts.items() if k.startswith("node_")]
    assert f"filed nodes have {min(ratios)} to {max(ratios)}." in TEXT
    assert f"from {min(ratios)} of the accelerators' memory (an MI325X node with 1.5 TB) to {max(ratios)}" in TEXT


def test_shared_memory_formula():
    assert round(8 * 4 * 3 * 64e6 / 1e9, 1) == 6.1
    assert "= 6.1 GB" in TEXT


def test_pinned_blocks_round_up_to_powers_of_two():
    def rounded(mib: int) -> int:
        return 1 << (mib - 1).bit_length()

    assert sum(rounded(600) for _ in range(4)) == 4096
    assert rounded(2400) == 4096
    assert rounded(round(4347592704 * 2 / 2**20)) == 16 * 1024  # the report of 8.1 GiB that took 16


def test_summary_is_made_of_the_record():
    module = load_script(HARDWARE / "measurements/host_memory.py")
    assert module.summary(RECORD["cases"]) == RECORD["summary"]
    assert all(len(runs) == RECORD["repeats"] for runs in RECORD["cases"].values())


def test_lists_multiply_and_arrays_do_not():
    found = RECORD["summary"]
    for case in ("list of str", "list of dict"):
        assert found[case]["pss_all"] > 4 * found[case]["parent_rss"]
        assert found[case]["worker_private_at_start"] < 2
    for case in ("array of str", "buffer and offsets"):
        assert found[case]["pss_all"] < 1.05 * found[case]["parent_rss"]
        assert found[case]["rss_sum"] > 4 * found[case]["parent_rss"]


@pytest.mark.parametrize(
    ("log", "limit"),
    [("oom-one", "a cgroup's limit /oom-one"), ("membind-oom", "a NUMA binding (membind)"), ("host-oom", "the whole host")],
)
def test_report_reads_the_kernels_logs(log, limit):
    argv = [sys.executable, FIXTURES / "kill_report.py", LOGS / f"{log}.txt"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert f"limit: {limit}" in done.stdout
    assert re.search(r"victim: python3\.11 pid \d+ in ", done.stdout)
    assert re.search(r"size: anon \d+ MiB", done.stdout)


def test_half_of_the_machine_was_free_when_the_binding_killed():
    log = (LOGS / "membind-oom.txt").read_text()
    total, _used, *_, available = (int(n) for n in re.search(r"^Mem:(.*)$", log, re.M)[1].split())
    killed = int(re.search(r"Killed process .*?anon-rss:(\d+)kB", log)[1]) / 1024
    assert available - killed > 0.35 * total


def test_group_kill_takes_all_and_single_kill_leaves_the_trainer():
    one, group = ((LOGS / f"oom-{n}.txt").read_text() for n in ("one", "group"))
    assert "trainer: exit status None" in one
    assert "oom_group_kill 0" in one
    assert group.count("exit status -9") == 3
    assert "oom_group_kill 1" in group


def test_cache_is_dropped_before_anyone_is_killed():
    log = (LOGS / "cache-reclaims.txt").read_text()
    assert "oom_kill 0" in log
    assert int(re.search(r"events: max (\d+)", log)[1]) > 0
    assert "read 512 MiB" in log


def test_figure_was_drawn_from_this_record():
    module = load_script(HARDWARE / "figures/src/host_memory_cow.py")
    want = module.p.inputs_hash("host_memory_cow", module.FACTS, module.FILES)
    assert f"<!-- inputs {want} -->" in (HARDWARE / "figures/host-memory-cow.svg").read_text()[:600]


def test_what_is_said_of_the_pinned_block_is_in_its_record():
    record = json.loads((HARDWARE / "measurements/host-memory.gpu.json").read_text())
    shown = record["fences"]["pinned"]["output"]
    (four, took_four), (one, took_one) = re.findall(r"(\d+) MiB less available, ([\d.]+) s", shown)
    assert f"this H200's host had {four} and {one} less" in TEXT
    assert f"Pinning took {took_four} and {took_one} s" in TEXT
    assert 0.4 < float(took_four) / 4 < 0.6  # "about half a second a GiB"
