"""Buffers in turn, samples long enough, memory of NCCL, hosts to drain: each without a device, then on real ranks."""

from __future__ import annotations

import json

import pytest
from conftest import SCRIPTS

from clusterprobe import bench_measure, bench_pair_text, bench_row_run, case_ring
from clusterprobe.bench_pairs import Suspect
from clusterprobe.collective_cases import CaseSpec
from clusterprobe.collective_table import Extent
from clusterprobe.deadline import StagePlace

BENCH = SCRIPTS / "all_reduce_bench.py"
L2 = 60 << 20


@pytest.mark.parametrize(("wanted", "size", "cache", "calls", "sets"), [
    (None, 8, L2, 64, 64), (None, 1 << 20, L2, 64, 64), (None, 16 << 20, L2, 64, 8), (None, 64 << 20, L2, 64, 2),
    (None, 120 << 20, L2, 64, 1), (None, 4 << 30, L2, 64, 1), (None, 1 << 20, L2, 20, 20), (None, 1 << 20, None, 64, 1),
    (3, 1 << 20, None, 64, 3), (1, 8, L2, 64, 1), (5, 4 << 30, L2, 64, 5), (1000, 8, L2, 64, 64)])
def test_sets_fill_twice_the_cache(wanted, size, cache, calls, sets):
    assert case_ring.buffer_sets(wanted, size, cache, calls) == sets
    if cache and wanted is None and 1 < sets < min(case_ring.MOST_RING_SETS, calls):
        assert sets * size >= 2 * cache > (sets - 1) * size


class FakeBuffers:
    def __init__(self, log: list, number: int) -> None:
        self._log, self._number = log, number

    def clear(self) -> None:
        self._log.append(("clear", self._number))


class FakeCase:
    """Writes down what was asked of it. Set 2 came out wrong."""

    torch, seat, spec, mutates, checkable = None, None, None, True, True

    def __init__(self, log: list) -> None:
        self.number = sum(1 for what, _ in log if what == "made")
        self.log, self.buffers = log, FakeBuffers(log, self.number)
        log.append(("made", self.number))

    def launch(self) -> list:
        self.log.append(("launch", self.number))
        return [self.number]

    def prepare(self) -> None:
        self.log.append(("prepare", self.number))

    restore = prepare

    def wrong(self) -> tuple[int, str]:
        return (7, "seven") if self.number == 2 else (0, "")


def test_a_ring_takes_its_sets_in_turn():
    log: list = []
    ring = case_ring.CaseRing(lambda: FakeCase(log), 3)
    assert [ring.launch()[0] for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    ring.rewind()
    log.clear()
    ring.prepare()
    ring.launch()
    assert log == [("prepare", 0), ("launch", 0)], "what is prepared is what is launched"
    assert ring.wrong() == (0, "")
    ring.launch()
    ring.launch()
    assert ring.wrong() == (7, "seven"), "the set that was launched last is the one that is checked"
    log.clear()
    ring.prepare_all()
    ring.clear()
    assert [number for _, number in log] == [0, 1, 2, 0, 1, 2]
    assert ring.wrong_anywhere() == (7, "seven")


class FakeExchange:
    """One rank's exchange; on_cpu as asked for."""

    def __init__(self, on_cpu: bool) -> None:
        self.on_cpu = on_cpu

    def highest(self, numbers: list[int], group: object = None) -> list[int]:
        return list(numbers)

    def decide(self, number: int) -> int:
        return number


@pytest.mark.parametrize(("mode", "batch", "on_cpu", "sample_ns", "calls"), [
    ("stream", None, False, 900_000, 220), ("graph", None, False, 120_000, 1000), ("stream", None, False, 11_000_000, 20),
    ("stream", None, False, 0, 20), ("stream", None, True, 900_000, 20), ("stream", 5, False, 900_000, 5), ("block", None, False, 900, 1)])
def test_a_sample_lasts_10_ms_on_a_device(mode, batch, on_cpu, sample_ns, calls):
    """Start and end of a sample cost 0.1 ms: 2 % of 20 calls of 0.25 ms, 0.2 % of 0.05 s."""
    row = bench_measure.RowMeasurement(None, FakeExchange(on_cpu), bench_measure.Effort(batch=batch), None, lambda label: None,
                                       StagePlace(), mode)
    row._last_ns = sample_ns
    row._choose_repeats()
    assert row.result.batch == calls
    assert row._last_ns == sample_ns * row._repeats
    if calls > 20:
        assert row._last_ns <= bench_measure.SAMPLE_NS


class FakeSession:
    def __init__(self, vendor: str, kind: str, allocator: str = "torch", backend: str = "nccl") -> None:
        from types import SimpleNamespace

        self.args = SimpleNamespace(backend=backend, allocator=allocator)
        self.device = SimpleNamespace(vendor=vendor, kind=kind, l2_bytes=L2, backend=backend, label=f"{kind}:0")


class FakeTorch:
    __version__ = "1.0"
    float8_e4m3fnuz = float8_e4m3fn = float32 = int16 = "a type"


@pytest.mark.parametrize(("vendor", "dtype", "op", "refused"), [
    ("nvidia", "float8_e4m3fnuz", "reduce", True), ("nvidia", "float8_e4m3fn", "reduce", False), ("amd", "float8_e4m3fnuz", "reduce", False),
    ("nvidia", "float8_e4m3fnuz", "broadcast", False)])
def test_fnuz_reductions_on_nvidia_are_refused_not_wrong(vendor, dtype, op, refused):
    """On two H200 torch's reduce gave sums of other numbers for them."""
    runner = bench_row_run.RowRunner(FakeTorch, FakeSession(vendor, "cuda"), None, bench_measure.Effort(), None, 1 << 40)
    found = runner._impossible(CaseSpec(op, dtype, "sum"), [Extent(8, 8, 8)])
    assert (found is not None and found.status == "unsupported") == refused


def test_sets_count_as_memory():
    runner = bench_row_run.RowRunner(FakeTorch, FakeSession("nvidia", "cuda"), None, bench_measure.Effort(), None, 300 << 20)
    fits = runner._impossible(CaseSpec("all_reduce", "float32", "sum", "in"), [Extent(1, 16 << 20, 16 << 20)])
    assert fits is None  # 8 sets of 16 MiB
    found = runner._impossible(CaseSpec("all_reduce", "float32", "sum", "in"), [Extent(1, 16 << 20, 48 << 20)])
    assert found is not None
    assert found.status == "skipped"


def test_only_a_host_whose_own_link_is_slow_is_drained():
    names = ["rank 0@a", "rank 1@b", "rank 2@b", "rank 3@c"]
    slow, shared = Suspect(1, "out", 1e9, 1e10, -9.0), Suspect(3, "into", 2e9, 1e10, -8.0)
    alone = [(slow, 1.1e9), (Suspect(2, "out", 1e9, 1e10, -9.0), 1.2e9), (shared, 9.9e9), (Suspect(0, "out", 1e9, 1e10, -9.0), None)]
    assert bench_pair_text.hosts_to_drain(names, alone) == ["b"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["block", "stream"])
def test_real_ranks_with_buffers_in_turn(mode, run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "3", "--device", "cpu", "--collective", "all_reduce,all_gather,send_recv", "--place", "both",
                    "--mode", mode, "--sizes", "8,4K,100003", "--buffer-sets", "3", "--num-iterations", "7", "--check-every", "1",
                    "--json", "r.json")
    assert (done.rc, done.err) == (0, ""), done.out
    rows = valid_report(tmp_path / "r.json")["results"]
    assert len(rows) == 12
    assert {(row["status"], row["wrong"], row["buffer_sets"]) for row in rows} == {("ok", 0, 3)}
    assert all(row["checked"] >= 3 * 9 for row in rows)


@pytest.mark.slow
def test_memory_that_the_backend_does_not_have(run_tool):
    done = run_tool(BENCH, "--nproc", "2", "--device", "cpu", "--sizes", "8", "--allocator", "nccl", "--json", "none")
    assert (done.rc, done.err) == (6, "")
    assert "--allocator nccl: gloo in torch" in done.why


@pytest.mark.slow
def test_the_row_says_how_many_sets(run_tool, tmp_path):
    run_tool(BENCH, "--nproc", "2", "--device", "cpu", "--sizes", "8", "--num-iterations", "2", "--json", "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["results"][0]["buffer_sets"] == 1  # a CPU's cache is not asked for
