"""The storage chapter: its arithmetic from the inputs, its small tools, its figures against their records."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bookfiles import load_script

ROOT = Path(__file__).parents[2]
HARDWARE = ROOT / "chapters/hardware"
TOOLS = HARDWARE / "fixtures/storage"
RECORDS = HARDWARE / "measurements"
TEXT = (HARDWARE / "storage.md").read_text(encoding="utf-8")


def tool(name: str):
    return load_script(TOOLS / f"{name}.py")


def record(name: str) -> dict:
    return json.loads((RECORDS / f"storage_{name}.json").read_text(encoding="utf-8"))


# --- the worked examples ---


def test_checkpoint_of_70b():
    size = 70e9 * 14
    assert (
        f"{size / 18 / 1e9:.0f} GB/s; saving in the background needs {size / 1800 / 1e9:.1f} GB/s"
        in TEXT
    )
    assert f"blocking, 1% lost     {size / 18 / 1e9:.1f} GB/s for 18 s" in TEXT
    assert f"stall of that copy    {size / 128 / 55.3e9:.2f} s" in TEXT
    assert f"here {size / 16 / 1e9:.0f} GB for a node of eight" in TEXT
    assert f"cost {1024 * 60 / 3600:.1f} GPU-hours" in TEXT


def test_the_interval_is_where_the_loss_is_least():
    for gpus, cost in [(128, 180), (16384, 18), (1024, 0.5)]:
        mean = 50_000 * 3600 / gpus
        best = math.sqrt(2 * cost * mean)

        def lost(every: float, cost: float = cost, mean: float = mean) -> float:
            return cost / every + every / (2 * mean)

        assert lost(best) < min(lost(best * 0.9), lost(best * 1.1))
        assert lost(2 * best) / lost(best) == pytest.approx(1.25)  # "a quarter more"
        assert lost(best / 2) / lost(best) == pytest.approx(1.25)
        line = f"{gpus:6} GPUs, save costs {cost:5} s: every {best / 60:5.1f} min, {100 * lost(best):5.2f}% lost"
        assert line in TEXT


def test_half_an_hour_between_failures_of_100000():
    assert 50_000 / 100_000 == 0.5


def test_data_rates_of_the_table_of_workloads():
    assert f"8 GPUs × 10,000 tokens/s × 4 B = {8 * 10_000 * 4 / 1e6:.1f} MB/s" in TEXT
    assert (
        f"8 × 2,500 images/s × 110 KB = {8 * 2500 * 110e3 / 1e9:.1f} GB/s and {8 * 2500:,} opens"
        in TEXT
    )


def test_kv_cache_of_one_prompt():
    token = 2 * 80 * 8 * 128 * 2
    assert f"{token:,} B per token: {token * 32_768 / 1e9:.1f} GB for 32,768 tokens" in TEXT


def test_3fs_per_node():
    assert pytest.approx(40, abs=0.5) == 6.6 * 2**40 / 180 / 1e9


def test_little_and_the_object_store():
    assert pytest.approx(4, abs=0.1) == 1 * 4096 / 1e-3 / 1e6  # the second statement of In short
    for part in (0.1, 1, 8, 64):
        rates = [n * part / (0.1 + part / 80) / 1e3 for n in (1, 16, 64, 256)]
        assert "  ".join(f"{rate:7.2f}" for rate in rates) in TEXT


def test_tiers():
    for per_tib, smallest in [(125, 72_000), (250, 36_000), (500, 18_000), (1000, 9_000)]:
        tib = max(54.4e9 / (per_tib * 1e6), smallest / 1024)
        assert f"{per_tib:5} MB/s per TiB: {tib:6.1f} TiB" in TEXT
    # "Asynchronous saving gets by with the smallest of any of them."
    assert (
        min(72_000 * 125, 36_000 * 250, 18_000 * 500, 9_000 * 1000) / 1024 * 1e6 > 70e9 * 14 / 1800
    )


def test_requests_cost():
    assert 8e6 / 100e3 == 80  # "1/80 of the data"
    assert 14 / 2 == 7  # "1/7 of a full state"


# --- the records say what the text says of them ---


def test_one_point_measured_twice():
    fio = record("fio")
    first, again = fio["matrix"][0], fio["jobs"][0]
    keys = ("rw", "size", "depth", "jobs", "direct")
    assert (
        [first[key] for key in keys]
        == [again[key] for key in keys]
        == ["randread", "4k", 1, 1, True]
    )
    assert first["iops"] > 2 * again["iops"]
    assert again["p50_ms"] < 2 * first["p50_ms"]  # "the median latency hardly moved"
    assert again["mean_ms"] > 3 * first["mean_ms"]


def test_import_requests_do_not_depend_on_the_delay():
    counts = {row["first_requests"]["requests"] for row in record("import")["slow"]}
    assert max(counts) - min(counts) < 10
    image = record("import")["image"][0]["first_requests"]["requests"]
    assert image < min(counts) / 4


def test_import_time_is_at_least_requests_times_delay():
    slow = record("import")["slow"]
    for row in slow:
        floor = row["first_requests"]["requests"] * row["delay_ms"] / 1000
        assert row["first_s"] - slow[0]["first_s"] >= 0.9 * floor


def test_reading_weights_in_128_kib_requests():
    load = record("checkpoint")["load_slow_1ms"]
    assert load["blocks"]["requests"]["read"] == pytest.approx(load["bytes"] / 2**17, rel=0.02)
    assert load["eight_readers"]["seconds"] < load["blocks"]["seconds"]


def test_asynchronous_save_waits_a_tenth():
    save = record("checkpoint")
    assert save["async"]["stall_s"] / save["disk"]["dcp_fsync"]["seconds"] == pytest.approx(
        0.1, abs=0.03
    )
    assert save["disk"]["torch_save_fsync"]["seconds"] > save["disk"]["torch_save"]["seconds"]
    assert save["ranks"]["4"]["gb_per_s"] > save["ranks"]["1"]["gb_per_s"]


def test_scattered_pages_fetch_far_more_than_they_deliver():
    row = record("checkpoint")["load_slow_1ms"]["scattered"]
    assert row["requests"]["read_bytes"] > 50 * 256 * 4096
    assert abs(256 * 4096 - 1e6) < 0.05e6  # "to deliver 1 MB"
    assert 256 * 2**20 / 4096 == 65_536


def test_ls_long_asks_for_every_file():
    many = record("files")["listing_100k"]
    assert many["ls_unsorted"]["calls"].get("statx", 0) < 100
    assert many["ls_long"]["calls"]["statx"] >= 100_000


@pytest.mark.parametrize("name", ["storage_inflight", "storage_import"])
def test_figures_are_what_their_script_draws(name):
    script = load_script(HARDWARE / f"figures/src/{name}.py")
    want = script.p.inputs_hash(name, [], script.FILES)
    svg = (HARDWARE / f"figures/{name.replace('_', '-')}.svg").read_text()
    assert f"<!-- inputs {want} -->" in svg, f"run figures/src/{name}.py again"


# --- the tools ---


STRACE = """\
41 openat(AT_FDCWD</work>, "/env/lib/a.py", O_RDONLY) = 3</env/lib/a.py>
41 newfstatat(3</env/lib/a.py>, "", {st_mode=S_IFREG|0644, st_size=5, ...}, AT_EMPTY_PATH) = 0
41 read(3</env/lib/a.py>, "x = 1", 6) = 5
41 newfstatat(AT_FDCWD</work>, "/env/lib", {st_mode=S_IFDIR|0755, ...}, 0) = 0
42 newfstatat(AT_FDCWD</work>, "/env/lib", {st_mode=S_IFDIR|0755, ...}, 0) = 0
42 openat(AT_FDCWD</work>, "/env/lib/b.py", O_RDONLY) = -1 ENOENT (No such file or directory)
42 newfstatat(AT_FDCWD</work>, "/usr/lib/c", 0x7f, 0) = -1 ENOENT (No such file or directory)
42 newfstatat(4</env>, "lib/d", {st_mode=S_IFREG|0644, ...}, 0) = 0
42 +++ exited with 0 +++
"""


def test_import_ops_counts_names_and_skips_open_handles():
    ops = tool("import_ops").count(STRACE.splitlines(), "/env")
    assert ops.calls == {"openat": 2, "newfstatat": 3, "read": 1}
    assert (ops.total, ops.failed, ops.repeats) == (6, 1, 1)
    assert ops.paths == 4  # a.py, lib, b.py, lib/d


def test_io_scan_reads_what_fio_prints():
    side = {"total_ios": 10, "bw_bytes": 4e6, "iops": 1000.0,
            "clat_ns": {"mean": 9e5, "percentile": {"50.000000": 5e5, "99.000000": 2e6}}}  # fmt: skip
    idle = {**side, "total_ios": 0}
    options = {"rw": "randread", "bs": "4k", "iodepth": "4", "numjobs": "2", "direct": "1"}
    report = {"global options": {}, "jobs": [{"job options": options, "read": side, "write": idle}]}
    row = tool("io_scan").of_json("fio: a warning\n" + json.dumps(report))
    assert (row.mb_per_s, row.iops, row.mean_ms, row.p50_ms, row.p99_ms) == (
        4.0,
        1000.0,
        0.9,
        0.5,
        2.0,
    )
    report["jobs"][0]["read"] = idle
    with pytest.raises(ValueError, match="no request"):
        tool("io_scan").of_json(json.dumps(report))


def run(script: str, *words: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(TOOLS / script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_disk_report_counts_blocks_once(tmp_path):
    (tmp_path / "model.pt").write_bytes(os.urandom(1_000_000))
    os.link(tmp_path / "model.pt", tmp_path / "again.pt")
    with (tmp_path / "sparse.bin").open("wb") as file:
        file.truncate(10**9)
    old = tmp_path / "old.log"
    old.write_bytes(os.urandom(500_000))
    os.utime(old, (0, 0))
    done = run("disk_report.py", tmp_path, "--days", 30)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert done.returncode == 0, done.stderr
    assert (rows[".pt"][0], rows[".pt"][1]) == ("1.0", "1")
    assert rows[".bin"][0] == "0.0"
    assert rows[".log"] == ["0.5", "1", "0.5"]


def checkpoints(folder: Path, *steps: int) -> None:
    for step in steps:
        (folder / f"step-{step}").mkdir()
        (folder / f"step-{step}" / ".complete").touch()


def test_old_checkpoints_goes_by_step_and_spares_the_incomplete(tmp_path):
    checkpoints(tmp_path, 500, 1000, 1500, 2000, 2500)
    (tmp_path / "step-3000").mkdir()
    os.utime(tmp_path / "step-2500", (0, 0))  # restored from a backup: the oldest by time
    words = ("old_checkpoints.py", tmp_path, "--keep", 2, "--every", 1000, "--marker", ".complete")
    said = dict(reversed(line.rsplit(maxsplit=1)) for line in run(*words).stdout.splitlines())
    assert {name for name, word in said.items() if word == "may go"} == {"step-500", "step-1500"}
    assert said["step-3000"] == "INCOMPLETE"
    assert (tmp_path / "step-500").is_dir()  # a proposal moves nothing
    assert run(*words, "--trash", tmp_path / ".trash").returncode == 0
    assert sorted(p.name for p in (tmp_path / ".trash").glob("step-*")) == ["step-1500", "step-500"]
    moves = [
        json.loads(line) for line in (tmp_path / ".trash/moves.jsonl").read_text().splitlines()
    ]
    Path(moves[0]["to"]).rename(moves[0]["from"])  # as the text says, mv undoes it
    assert (tmp_path / "step-500/.complete").exists()


def test_old_checkpoints_overwrites_nothing(tmp_path):
    checkpoints(tmp_path, 1, 2)
    (tmp_path / ".trash/step-1").mkdir(parents=True)
    done = run(
        "old_checkpoints.py",
        tmp_path,
        "--keep",
        1,
        "--marker",
        ".complete",
        "--trash",
        tmp_path / ".trash",
    )
    assert done.returncode == 1
    assert (tmp_path / "step-1/.complete").exists()


def test_what_is_said_of_the_gpu_block_is_in_its_record():
    record = json.loads((HARDWARE / "measurements/storage.gpu.json").read_text())
    shown = record["fences"]["gpu-save"]["output"]
    copy, from_gpu, from_pinned = (
        float(re.search(rf"^{row} +([\d.]+) GB/s", shown, re.M)[1])
        for row in ("GPU to pinned memory", "/dev/shm GPU tensor", "/dev/shm pinned tensor")
    )
    assert f"ran at {copy:.0f} GB/s and `torch.save`, one thread, at {from_pinned:.1f} GB/s" in TEXT
    assert f"Saved straight from the GPU it fell to {from_gpu:.1f}" in TEXT
