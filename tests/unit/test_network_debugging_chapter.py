"""Chapter "Network debugging": scripts on what they read, records behind the numbers, figures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bookfiles import load_script

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters/hardware"
MEASUREMENTS = HARDWARE / "measurements"
FIXTURES = HARDWARE / "fixtures/network-debugging"
TEXT = (HARDWARE / "network-debugging.md").read_text(encoding="utf-8")


# --- counters.py ---


def snapshot(host: str, **counters: int) -> dict[str, dict]:
    return {host: {"host": host, "time": 0, "ports": {"mlx5_0/1": counters}}}


@pytest.fixture(scope="module")
def counters():
    return load_script(FIXTURES / "counters.py", BOOK / "scripts")


def test_counters_are_read_from_both_folders_and_unreadable_ones_left_out(counters, tmp_path):
    port = tmp_path / "class/infiniband/mlx5_3/ports/1"
    for folder, name, value in (("counters", "symbol_error", "7"), ("hw_counters", "out_of_sequence", "9"),
                                ("counters", "odd", "N/A")):
        (port / folder).mkdir(parents=True, exist_ok=True)
        (port / folder / name).write_text(value + "\n")
    net = tmp_path / "class/net/eth0"
    (net / "statistics").mkdir(parents=True)
    (net / "statistics/rx_crc_errors").write_text("2\n")
    (net / "carrier_down_count").write_text("1\n")
    assert counters.take(tmp_path, "a")["ports"] == {
        "mlx5_3/1": {"symbol_error": 7, "out_of_sequence": 9}, "eth0": {"rx_crc_errors": 2, "carrier_down_count": 1}}


def test_only_a_rise_counts_and_a_reset_is_not_negative(counters):
    found = counters.rises(snapshot("a", symbol_error=50, link_downed=3), snapshot("a", symbol_error=4, link_downed=3))
    assert found == {("a", "mlx5_0/1", "symbol_error"): 4, ("a", "mlx5_0/1", "link_downed"): 0}


def test_congestion_is_named_only_where_it_stands_out(counters, capsys):
    after = {f"n{i}": snapshot(f"n{i}", np_cnp_sent=40_000 if i else 900_000)[f"n{i}"] for i in range(8)}
    before = {host: snapshot(host, np_cnp_sent=0)[host] for host in after}
    assert counters.judge(counters.rises(before, after), after) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert " n0 " in lines[0]
    assert "median port 40000" in lines[0]


def test_a_counter_at_its_highest_value_is_named_although_it_stands_still(counters, capsys):
    full = snapshot("a", link_downed=255, symbol_error=65_534)
    assert counters.judge(counters.rises(full, full), full) == 0
    assert re.findall(r"stuck +a +mlx5_0/1 +(\w+)", capsys.readouterr().out) == ["link_downed"]


def test_a_host_without_second_snapshot_is_named(tmp_path):
    for when, hosts in (("before", "ab"), ("after", "a")):
        (tmp_path / when).mkdir()
        for host in hosts:
            (tmp_path / when / f"{host}.json").write_text(json.dumps(snapshot(host, link_downed=0)[host]))
    done = subprocess.run([sys.executable, FIXTURES / "counters.py", "diff", tmp_path / "before", tmp_path / "after"],
                          capture_output=True, text=True)
    assert done.returncode == 0
    assert "missing    b has only one snapshot" in done.stdout
    assert "1 hosts compared, 0 counters rose" in done.stdout


# --- coll_log.py ---

LINE = ("vm:7:7 [0] NCCL INFO {}: opCount 0 sendbuff 0x7f recvbuff 0x7f count {} datatype {} op 0 root 0 "
        "comm 0x55 [nranks={}] stream 0x55")


def test_one_step_is_cut_out_between_markers_and_bytes_follow_the_type():
    coll = load_script(FIXTURES / "coll_log.py", BOOK / "scripts")
    marker = LINE.format("AllReduce", 12345, 7, 2)
    log = [LINE.format("Broadcast", 10, 7, 2), marker, "noise", LINE.format("AllGather", 100, 9, 8),
           LINE.format("ReduceScatter", 100, 7, 2), marker]
    step = coll.last_step(coll.calls(log), 12345)
    assert [tuple(call) for call in step] == [("AllGather", 100, 200, 8), ("ReduceScatter", 100, 400, 2)]
    with pytest.raises(SystemExit, match="1 markers"):
        coll.last_step(coll.calls(log[:2]), 12345)


def test_the_counted_step_sends_every_parameter_once():
    buckets = [int(size) * int(n) for n, size in re.findall(r"^(\d) x gloo:all_reduce \[(\d+)\]", TEXT, re.M)]
    assert sum(buckets) == 8 * (1024 * 1024 + 1024) == 8_396_800
    assert "8,396,800 parameters" in TEXT


# --- logs and records ---


def test_real_logs_give_the_three_ways():
    log = load_script(BOOK / "scripts/clusterprobe/transport_log.py", BOOK / "scripts")
    ways = {"p2p": "p2p", "shm": "shm", "socket": "socket"}
    for name, kind in ways.items():
        files = sorted((MEASUREMENTS / "nccl_logs_h200_pair").glob(f"{name}_rank*.log"))
        assert len(files) == 2
        for file in files:
            view = log.read_transport_log(file.read_text().splitlines())
            assert view.kinds.get(kind)
            assert view.network == "Socket"


def test_each_way_down_costs_a_factor_of_ten():
    worlds = {w["name"]: {r["bytes"]: r["busbw_gb_per_s"] for r in w["rows"]}
              for file in ("nccl_pair_transports", "nccl_pair_protocols")
              for w in json.loads((MEASUREMENTS / f"{file}.json").read_text())["worlds"] if w.get("rows")}
    top = 2**27
    assert worlds["default"][top] / worlds["shm"][top] == pytest.approx(10, rel=0.15)
    assert worlds["shm"][top] / worlds["socket"][top] == pytest.approx(10, rel=0.15)
    assert worlds["default"][8192] == pytest.approx(worlds["shm"][8192], rel=0.2)  # no smoke test shows it


def test_loss_shows_in_the_tail_and_not_in_the_median():
    cases = json.loads((MEASUREMENTS / "path_faults.json").read_text())["cases"]
    healthy, one = cases["healthy"], cases["loss_1"]
    assert one["small"]["row"]["time_us"]["median"] < 1.5 * healthy["small"]["row"]["time_us"]["median"]
    longest = {name: cases[name]["small"]["row"]["time_us"]["max"] / 1000 for name in ("healthy", "loss_0.1", "loss_1", "loss_5")}
    assert max(longest["healthy"], longest["loss_0.1"]) < 200 < min(longest["loss_1"], longest["loss_5"])
    assert one["large"]["row"]["busbw_mb_per_s"] > 0.9 * healthy["large"]["row"]["busbw_mb_per_s"]
    again = one["large"]["tcp"]["host0"]
    assert again["again"] / again["sent"] == pytest.approx(0.01, rel=0.3)
    assert cases["mtu"]["large"]["rc"] == 5
    assert "all 2 ranks wait" in cases["mtu"]["large"]["reason"]
    assert cases["mtu_agreed"]["large"]["rc"] == 0


def test_go_back_and_timeouts():
    in_flight = 400e9 / 8 * 20e-6 / 4096
    assert f"that is {in_flight:.0f} packets of 4 KiB" in TEXT
    assert f"leaves {1 / (1 + 0.001 * in_flight):.0%} of the rate and 1% leaves {1 / (1 + 0.01 * in_flight):.0%}" in TEXT
    seconds = 7 * 4.096e-6 * 2**20
    assert seconds == pytest.approx(30, rel=0.02)


def test_figures_are_what_their_script_draws():
    drawing = load_script(HARDWARE / "figures/src/network_debugging.py", BOOK / "scripts")
    for name, draw in (("triage", drawing.triage), ("transports", drawing.transports)):
        assert (HARDWARE / f"figures/network-debugging-{name}.svg").read_text() == draw()
