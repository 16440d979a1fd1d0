"""mamf-finder as a process on the CPU: the same code path as on a device, with small shapes and budgets."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from conftest import SCRIPTS, load_report

TOOL = SCRIPTS / "mamf-finder.py"
SMALL = ("--device", "cpu", "--json", "out.json", "--budget", "500ms")
ONE = ("--shape", "128x128x256")
# A faulty device: `multiply` is what stands between the operands and torch; the clock may be another one.
FAULTY = """import itertools, os, sys
sys.path.insert(0, {scripts!r})
from clusterprobe.matmul_data import MatmulOperands
from clusterprobe.matmul_run import DeviceBench
right = MatmulOperands.multiply
calls = 0
def multiply(self, a, b, c):
    global calls
    calls += 1
{fault}
MatmulOperands.multiply = multiply
start, ticks, clock = DeviceBench.__init__, itertools.count(0.0, 0.002), {clock}
if clock:
    DeviceBench.__init__ = lambda self, *a, **k: start(self, *a, **{{**k, "clock": clock}})
from clusterprobe.mamf import mamf_main
sys.exit(mamf_main())
"""


@pytest.fixture
def faulty(tmp_path):
    def write(*lines: str, clock: str = "None"):
        path = tmp_path / "faulty.py"
        path.write_text(FAULTY.format(scripts=str(SCRIPTS), fault="\n".join(f"    {line}" for line in lines), clock=clock))
        return path

    return write


def figures(report: dict, state: str) -> list[dict]:
    return [one for one in report["results"] if one.get("state") == state]


def screen(report: dict) -> dict:
    return next(one for one in report["results"] if one["kind"] == "screen")


def test_search(run_tool, tmp_path, valid_report):
    """CUDA_VISIBLE_DEVICES may hold a UUID; nothing reads it as a number."""
    ended = run_tool(TOOL, *SMALL, "--candidates", "20", "--dtype", "fp32", "--notes", "a note",
                     CUDA_VISIBLE_DEVICES="GPU-1a2b3c4d")
    assert (ended.rc, ended.err, ended.result["status"]) == (0, "", "ok")
    report = valid_report(tmp_path / "out.json")
    sustained, burst = figures(report, "sustained")[0], figures(report, "burst")[0]
    assert sustained["tflops"] > 0
    assert burst["tflops"] > 0
    assert sustained["status"] == "ok"
    assert sustained["checked"] > 0
    assert sustained["percent_of_peak"] is None
    assert sustained["telemetry"]["power_w"] is None, "absent counters are null"
    assert report["config"]["notes"] == "a note"
    assert sustained["float32_matmul_precision"] == "highest"
    assert sustained["timer"].startswith("host clock")
    assert "no NVML" in ended.out
    assert screen(report)["measured"] >= len(figures(report, "final"))
    assert report["per_rank"][0]["sustained"] == sustained["tflops"]


def test_old_command_line_writes_its_file_once(run_tool, tmp_path, valid_report):
    words = ("--m", "64", "128", "--n", "128", "--k_range", "64", "257", "64", "--num_iterations", "4",
             "--num_warmup_iterations", "1", "--dtype", "float32", "--output_file", "old.txt", "--verbose")
    ended = run_tool(TOOL, *SMALL, *words)
    assert (ended.rc, ended.err) == (0, "")
    assert screen(valid_report(tmp_path / "out.json"))["measured"] == 8
    lines = (tmp_path / "old.txt").read_text().splitlines()
    assert sum(line.startswith("fp32 64 128 64 1 ") for line in lines) == 2  # cool and hot
    again = run_tool(TOOL, *SMALL[:3], "other.json", *words)
    assert again.rc == 2
    assert "old.txt exists" in again.why


def test_what_does_not_fit_or_fails_is_a_row(run_tool, tmp_path, valid_report, faulty):
    path = faulty("if b.shape[0] == 384: raise RuntimeError('CUDA out of memory. Tried to allocate 9 GiB')",
                  "right(self, a, b, c)")
    ended = run_tool(path, *SMALL, "--m", "64", "--n", "64", "9000000000", "--k", "128", "384", "--dtype", "fp32")
    assert (ended.rc, ended.err) == (7, "")
    assert "could not be measured" in ended.why
    failures = {(one["n"], one["k"]): one["reason"] for one in screen(valid_report(tmp_path / "out.json"))["failures"]}
    assert failures[64, 384] == "out of device memory"
    assert failures[9000000000, 128].startswith("does not fit: needs ")
    assert (64, 128) not in failures


def test_formats(run_tool, tmp_path, valid_report):
    """fp8 runs, TF32 is refused where it has no effect, data and layout are named; asked for by name: partial."""
    ended = run_tool(TOOL, *SMALL, *ONE, "--dtype", "fp8,tf32,int8,fp64", "--cache", "flush", "--layout", "nn")
    assert ended.err == ""
    report = valid_report(tmp_path / "out.json")
    by_dtype = {one["dtype"]: one for one in report["results"] if one["kind"] == "figure" and one.get("state") != "final"}
    assert "TF32 is not in effect" in by_dtype["tf32"]["reason"]
    assert by_dtype["fp64"]["tflops"] > 0
    assert (ended.rc, report["status"]) == (7, "partial")
    assert "layout nn" in ended.out
    assert "overwritten before each repetition" in ended.out


def test_a_format_that_torch_refuses_by_its_value(run_tool, tmp_path, valid_report, faulty):
    """torch 2.11 on an H200 raised this for e5m2 by e5m2, which an old torch does not even try; so it is fp64's here.
    The other formats still have their figures."""
    tool = faulty("if self.dtype.name == 'fp64': raise ValueError('Multiplication of two Float8_e5m2 matrices')",
                  "right(self, a, b, c)")
    ended = run_tool(tool, *SMALL, *ONE, "--dtype", "all")
    assert (ended.rc, ended.err) == (0, "")
    report = valid_report(tmp_path / "out.json")
    refused = [one for one in report["results"] if "Multiplication of two Float8_e5m2" in str(one.get("reason"))]
    assert {one["dtype"] for one in refused} == {"fp64"}
    assert {one["dtype"] for one in figures(report, "sustained") if one["tflops"]} >= {"bf16", "fp16", "fp32"}


def test_batches_and_data(run_tool, tmp_path, valid_report):
    ended = run_tool(TOOL, *SMALL, *ONE, "--batch", "3", "--data", "ones", "--cache", "none", "--dtype", "bf16")
    assert (ended.rc, ended.err) == (0, "")
    assert figures(valid_report(tmp_path / "out.json"), "sustained")[0]["batch"] == 3
    assert "data ones" in ended.out


@pytest.mark.parametrize("fault", [
    ("pass",),  # the library has no kernel and returns at once
    ("right(self, a, b, c)", "if calls > 5: c[-1, :] *= 1.5"),  # goes bad under load
], ids=["no work", "late"])
def test_wrong_products_are_no_figures(run_tool, tmp_path, valid_report, faulty, fault):
    ended = run_tool(faulty(*fault), *SMALL, *ONE, "--dtype", "fp32")
    assert (ended.rc, ended.err) == (4, "")
    assert "the product is wrong on rank 0@" in ended.why
    report = valid_report(tmp_path / "out.json")
    assert all(one["tflops"] is None for one in report["results"] if one["kind"] == "figure")
    assert "written" in ended.why or "elements are wrong" in ended.why


def test_a_clock_that_stands_still_gives_no_figure(run_tool, tmp_path, faulty, valid_report):
    path = faulty("right(self, a, b, c)", clock="lambda: 5.0")
    ended = run_tool(path, *SMALL, *ONE, "--dtype", "fp32")
    assert (ended.rc, ended.err) == (6, "")
    assert "no usable time" in ended.why
    assert "inf" not in (tmp_path / "out.json").read_text()


def test_two_ranks_name_the_slowest(new_world, tmp_path, valid_report):
    world = new_world(2).start(TOOL, *SMALL, *ONE, "--dtype", "fp32", "--fail-below", "1000")
    ended = world.finish()
    assert [ended[rank].rc for rank in (0, 1)] == [3, 3]
    assert [ended[rank].err for rank in (0, 1)] == ["", ""]
    assert "slowest: rank " in ended[0].out
    assert "below 1000, and 1 more" in ended[0].why
    report = valid_report(tmp_path / "out.json")
    assert [one["rank"] for one in report["per_rank"]] == [0, 1]
    assert all(one["sustained"] for one in report["per_rank"])
    assert ended[1].out == ""


@pytest.mark.parametrize(("signum", "rc"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_runs_keep_what_they_have(new_world, tmp_path, valid_report, signum, rc):
    world = new_world(1).start(TOOL, *SMALL, "--m-range", "64", "1025", "64", "--n-range", "64", "1025", "64",
                               "--k", "256", "--dtype", "fp32", "--verbose")
    world.wait_for(0, "fp32 ")
    time.sleep(2.5)
    world.signal(0, signum)
    start = time.monotonic()
    ended = world.finish(20)[0]
    assert time.monotonic() - start < 6
    assert ended.rc == rc
    report = valid_report(tmp_path / "out.json")
    assert report["status"] == "interrupted"
    assert screen(report)["rows"], "the rows measured until then"


def test_a_killed_run_leaves_a_report_that_says_running(new_world, tmp_path):
    world = new_world(1).start(TOOL, *SMALL, "--m-range", "64", "1025", "64", "--n-range", "64", "1025", "64",
                               "--k", "256", "--dtype", "fp32", "--verbose")
    world.wait_for(0, "fp32 ")
    world.signal(0, signal.SIGKILL)
    world.finish(20)
    assert load_report(tmp_path / "out.json")["status"] == "running"


@pytest.mark.parametrize(("words", "rc", "sentence"), [
    (("--cuda_device", "0"), 6, "no accelerator here"),
    (("--device", "cuda"), 6, "no cuda device"),
    (("--m", "64"), 2, "missing: --n --k"),
    (("--dtype", "bf16,fp8", "--fail-below", "3"), 2, "--fail-below compares one dtype"),
])
def test_refusals(run_tool, words, rc, sentence):
    ended = run_tool(TOOL, *words, "--json", "none")
    assert (ended.rc, ended.err) == (rc, "")
    assert sentence in ended.why


def test_help_version_plan_and_usage_need_no_torch():
    wrapper = f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); from clusterprobe.mamf import mamf_main; sys.exit(mamf_main())"

    def wrapped(*words: str):
        return subprocess.run([sys.executable, "-c", wrapper, *words], capture_output=True, text=True)

    assert "mamf-finder" in wrapped("--version").stdout
    assert "exit status:" in wrapped("--help").stdout
    plan = wrapped("--dry-run", "--m", "64", "128", "--n", "64", "--k", "64")
    assert "sweep: 2 shapes" in plan.stdout
    assert "torch" not in wrapped("--version").stderr
    wrong = wrapped("--dtype", "bf17")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    assert "RESULT status=error rc=2" in wrong.stderr


def test_option_names_of_the_newer_public_finder(run_tool, tmp_path, valid_report):
    """--search auto and grid, --shapes_file, --telemetry off."""
    lines = ("\ufeff64,64,128", "# M,N,K", "64x64x192  # remark", "", "64 64 128")  # a byte-order mark, as from a spreadsheet
    (tmp_path / "shapes.txt").write_bytes("\r\n".join(lines).encode())
    ended = run_tool(TOOL, *SMALL, "--search", "auto", "--shapes_file", "shapes.txt", "--telemetry", "off", "--dtype", "float32")
    assert (ended.rc, ended.err) == (0, "")
    assert screen(valid_report(tmp_path / "out.json"))["measured"] == 2
    assert "--telemetry off: clocks" in ended.out
    grid = run_tool(TOOL, "--search", "grid", "--m", "64", "--n", "64", "--k_range", "0", "256", "64", "--dry-run")
    assert "sweep: 3 shapes" in grid.out


@pytest.mark.parametrize(("words", "told"), [
    (("--m-range", "1", "9000", "1", "--n-range", "1", "9000", "1", "--k", "64"), "more than a sweep can hold"),
    (("--m-range", "1", "99999999999", "1", "--n", "64", "--k", "64"), "take a larger step"),
    (("--m-range", "64", "12865", "64", "--n-range", "64", "12865", "64", "--k", "64", "128"), "at the very least"),
    (("--shape", "64x64x64", "--search"), "stand alone"),
    (("--search", "grid"), "none are given"),
    (("--num-iterations", "5"), "a search divides its --budget"),
    (("--num-warmup-iterations", "5"), "a search divides its --budget"),
    (("--shapes-file", "absent.txt"), "cannot read absent.txt"),
    (("--shapes-file", "bad.txt"), "bad.txt:2: "),
    (("--shapes-file", "empty.txt"), "holds no shape"),
    (("--shapes-file", "latin.txt"), "--shapes-file: "),
])
def test_impossible_requests_end_at_once(tmp_path, words, told):
    """Before torch is imported, in little memory, with the remedy; never a traceback."""
    (tmp_path / "bad.txt").write_text("64x64x64\n64x64\n")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "latin.txt").write_bytes(b"64x64x64 # \xfc\n")
    line = 'ulimit -v 1500000; exec "$@"'
    done = subprocess.run(["bash", "-c", line, "sh", sys.executable, str(TOOL), *words, "--dry-run"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (2, "")
    assert told in done.stdout
    assert "RESULT status=error rc=2" in done.stdout


def test_wrong_use_leaves_a_good_report_alone(run_tool, tmp_path):
    good = run_tool(TOOL, *SMALL, *ONE, "--dtype", "fp32")
    assert good.rc == 0
    before = (tmp_path / "out.json").read_bytes()
    ended = run_tool(TOOL, *SMALL, *ONE, "--m", "128", "--force")
    assert (ended.rc, ended.result["json"]) == (2, "none")
    assert (tmp_path / "out.json").read_bytes() == before


@pytest.mark.parametrize("words", [
    ("--fail-below", "nan"), ("--fail-below", "-5"), ("--fail-below", "inf"), ("--seed", "99999999999999999999"),
    ("--output-file", ""), ("--m", "²"), ("--batch", "٣"), ("--tune", "max_size=4096"),
])
def test_values_that_could_not_act_are_wrong_use(words):
    done = subprocess.run([sys.executable, str(TOOL), *words, "--dry-run"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert f"argument {words[0]}: " in done.stderr
    assert "invalid" not in done.stderr, "argparse's own words name a function of ours"


@pytest.mark.parametrize(("stop", "rc"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_early_end_tells_the_best_so_far(new_world, tmp_path, stop, rc):
    world = new_world(1).start(TOOL, *SMALL, "--m", "64", "128", "--n", "64", "128", "--k-range", "64", "1025", "64",
                               "--passes", "200", "--dtype", "fp32", "--verbose")
    world.wait_for(0, " TFLOPS ")
    time.sleep(3)
    world.signal(0, stop)
    ended = world.finish()[0]
    assert (ended.rc, ended.err) == (rc, "")
    lines = ended.out.splitlines()
    assert lines[-3].startswith("fp32 so far: best ")
    assert "the finals are missing" in lines[-3]
    best = float(lines[-3].split(" look ")[1].split()[0])
    found = screen(load_report(tmp_path / "out.json"))
    assert found["status"] == "partial"
    rows = found["rows"]
    column = 4 if "best hot" in lines[-3] else 3
    assert best == max(row[column] or 0 for row in rows)


def test_one_look_has_no_range(run_tool, tmp_path):
    ended = run_tool(TOOL, *SMALL[:4], "--budget", "1ms", "--shape", "64x64x64", "--dtype", "fp32")
    assert ended.rc == 0
    burst = figures(load_report(tmp_path / "out.json"), "burst")[0]
    assert burst["tflops"] > 0
    assert (burst["ci"], burst["ci_coverage"]) == (None, None)
    assert "the range of its looks" not in ended.out


def test_dropped_repetitions_can_be_asked_for_alone(run_tool, faulty):
    """The counted ones stay as many as take 30 ms, so only dropped ones reach this call."""
    path = faulty("if calls == 100000: print('reached', flush=True)", "right(self, a, b, c)")
    ended = run_tool(path, *SMALL[:2], "--json", "none", "--budget", "1ms", "--shape", "8x8x8", "--dtype", "fp32",
                     "--num-warmup-iterations", "100000")
    assert ended.rc == 0
    assert "reached" in ended.out


def test_a_short_limit_accuses_neither_a_rank_nor_the_transport(new_world):
    """Each rank sweeps at its own pace; nobody waits for anybody."""
    world = new_world(2).start(TOOL, *SMALL[:2], "--json", "none", "--shape", "64x64x64", "--passes", "200000", "--dtype", "fp32",
                               "--num-iterations", "200", "--timeout", "15s")
    ended = world.finish(60)
    assert [one.rc for one in ended.values()] == [5, 5]
    assert "all 2 ranks were still moving" in ended[0].why


def test_a_search_passes_over_what_does_not_fit(run_tool, faulty):
    """Nobody named these shapes: the run is complete without them."""
    path = faulty("if b.shape[0] == 256: raise RuntimeError('CUDA out of memory. Tried to allocate 9 GiB')",
                  "right(self, a, b, c)")
    ended = run_tool(path, *SMALL, "--candidates", "20", "--m", "64", "--n", "64", "--k", "128", "256", "--search",
                     "--dtype", "fp32")
    assert (ended.rc, ended.err) == (0, "")
    assert "64x64x128" in ended.out


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_is_named(new_world, signum):
    """No launcher ends the others here; the deadline of the next common step does."""
    world = new_world(2).start(TOOL, *SMALL[:2], "--json", "none", "--budget", "1s", "--dtype", "fp32", "--verbose",
                               "--m", "64", "128", "--k", "64", "128", "--n", "64", "--passes", "10", "--stage-timeout", "8")
    world.wait_for(0, " TFLOPS ")
    world.signal(1, signum)
    ended = world.finish(limit=90, but=(1,))[0]
    assert (ended.rc, ended.result["status"]) == (5, "fail")
    assert "rank 1@" in ended.why
    assert "fp32 so far: best" in ended.out, "what rank 0 found is not lost"


def test_every_figure_is_flop_over_the_clock(run_tool, tmp_path, valid_report, faulty):
    """A clock that gives each product exactly 2 ms: all rates follow by hand, 2 B M N K / 2 ms."""
    path = faulty("right(self, a, b, c)", clock="lambda: next(ticks)")
    words = ("--shape", "64x128x256", "--shape", "128x64x64", "--batch", "3", "--dtype", "fp32", "--output-file", "looks.txt")
    ended = run_tool(path, *SMALL, *words)
    assert (ended.rc, ended.err) == (0, "")
    report = valid_report(tmp_path / "out.json")
    rates = {(64, 128, 256): 2 * 3 * 64 * 128 * 256 / 0.002 / 1e12, (128, 64, 64): 2 * 3 * 128 * 64 * 64 / 0.002 / 1e12}
    measured = [one for one in report["results"] if one["kind"] == "figure"]
    assert {one["state"] for one in measured} == {"sustained", "burst", "final"}
    for one in measured:
        want = rates[one["m"], one["n"], one["k"]]
        assert one["tflops"] == pytest.approx(want, rel=1e-6)
        assert one["ci"] == pytest.approx([want, want], rel=1e-6)
    for m, n, k, cool, hot, _ in screen(report)["rows"]:
        assert cool == hot == pytest.approx(rates[m, n, k], rel=1e-3)
    for line in (tmp_path / "looks.txt").read_text().splitlines():
        if not line.startswith("#"):
            _, m, n, k, batch, rate, *_ = line.split()
            assert (int(batch), float(rate)) == (3, pytest.approx(rates[int(m), int(n), int(k)], rel=1e-3))
    assert figures(report, "sustained")[0]["k"] == 256, "the faster one wins"
    assert f"{rates[64, 128, 256]:.4g} TFLOPS sustained" in ended.why


def test_a_device_without_a_figure_is_no_success(new_world, tmp_path, valid_report, faulty):
    """Rank 1 passes the probe and then fails in every product; a gate must not wave it through."""
    path = faulty("if os.environ['RANK'] == '1' and calls > 1: raise RuntimeError('CUDA out of memory')", "right(self, a, b, c)")
    ended = new_world(2).start(path, *SMALL, *ONE, "--dtype", "fp32", "--fail-below", "1e-9").finish()
    assert (ended[0].rc, ended[1].rc) == (7, 7)
    assert "no figure for rank 1@" in ended[0].why
    assert "out of device memory" in ended[0].why
    assert valid_report(tmp_path / "out.json")["per_rank"][1]["sustained"] is None


def test_the_rank_that_cannot_measure_is_named(new_world, faulty):
    path = faulty("if os.environ['RANK'] == '1': raise RuntimeError('no kernel for this card')", "right(self, a, b, c)")
    ended = new_world(2).start(path, *SMALL, *ONE, "--dtype", "fp32").finish()
    assert (ended[0].rc, ended[1].rc) == (6, 6)
    assert "rank 1@" in ended[0].why
    assert "no kernel for this card" in ended[0].why


def test_a_figure_that_could_not_be_checked_is_none(run_tool, tmp_path, valid_report, faulty):
    """The check needs memory of its own: without it the run ends in order, and without that figure."""
    path = faulty("if calls > 1 and c.isnan().all(): raise RuntimeError('CUDA out of memory')", "right(self, a, b, c)")
    ended = run_tool(path, *SMALL, *ONE, "--dtype", "fp32")
    assert (ended.rc, ended.err) == (7, "")
    assert "could not be checked: CUDA out of memory" in ended.why
    assert all(one["tflops"] is None for one in valid_report(tmp_path / "out.json")["results"] if one["kind"] == "figure")
