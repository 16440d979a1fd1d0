"""mamf-finder's bars, and the command lines of the public tool of that name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SCRIPTS

from clusterprobe import matmul_plot
from clusterprobe.mamf import read_mamf
from clusterprobe.matmul_options import mamf_parser
from clusterprobe.matmul_results import DtypeResult, StateFigure
from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.telemetry import summarize_samples

REPORTS = Path(__file__).parent / "fixtures/mamf_h200_reports.json"


def figure(m: int, tflops: float, state: str = "final", wrong: str = "") -> StateFigure:
    return StateFigure(state, MatmulShape(m, 4096, 8192), tflops, None, None, 10, 0, summarize_samples([]), None, wrong)


def test_bars_start_near_the_lowest():
    """700 and 690 differ by 1.4 %: on bars from zero nobody would see it."""
    lines = matmul_plot.bars("title", [("a", 700.0), ("b", 695.0), ("c", 690.0)])
    assert lines[1] == "title; TFLOPS, bars from 687.5 to 700"
    assert [line.count("#") for line in lines[2:]] == [44, 26, 9]
    assert [line.split("| ")[-1] for line in lines[2:]] == ["700", "695", "690"]


def test_nothing_to_compare_is_no_picture():
    assert matmul_plot.bars("title", [("a", 700.0)]) == []
    assert matmul_plot.matmul_plot(DtypeResult("bf16", "not supported"), []) == []


def test_equal_rates_and_slow_devices_stay_in_the_frame():
    assert [line.count("#") for line in matmul_plot.bars("t", [("a", 1.0), ("b", 1.0)])[2:]] == [44, 44]
    lines = matmul_plot.bars("t", [("a", 1.0), ("b", 0.001)])
    assert "bars from 0 to 1" in lines[1]
    assert [line.count("#") for line in lines[2:]] == [44, 1]


def test_a_wrong_product_has_no_bar():
    result = DtypeResult("bf16", finals=[figure(2048, 700.0), figure(4096, 2700.0, wrong="9 of 9 are wrong"), figure(8192, 690.0)])
    text = "\n".join(matmul_plot.matmul_plot(result, []))
    assert "2700" not in text
    assert "8192x4096x8192" in text


def test_the_best_of_each_size_of_work():
    rows = [[4096, 4096, 4096, 700.0, None, 0], [4096, 4096, 4096, 650.0, 640.0, 1.0], [8192, 8192, 8192, 800.0, 720.0, 1.0],
            [256, 256, 256, None, None, 0]]
    assert matmul_plot.by_work(rows, 1) == [("128 GFLOP", 700.0), ("1.02e+03 GFLOP", 720.0)]
    assert matmul_plot.by_work(rows[:1], 8) == [("1.02e+03 GFLOP", 700.0)]


def test_a_recorded_run_can_be_drawn():
    report = json.loads(REPORTS.read_text())["search_seed0"]
    rows = matmul_plot.screen_rows(report["results"], "bf16")
    points = matmul_plot.by_work(rows, 1)
    assert len(points) >= 4
    assert max(rate for _, rate in points) == max(row[4] if row[4] is not None else row[3] for row in rows)
    assert matmul_plot.screen_rows(report["results"], "fp8") == []


@pytest.mark.parametrize("line", [
    "--m 4096 --n 4096 --k 4096", "--m_range 0 5376 256 --n_range 0 5376 256 --k_range 0 5376 256 --output_file x.txt",
    "--m 1024 2048 --n_range 1024 4097 1024 --k 8192 --num_iterations 100 --num_warmup_iterations 50",
    "--m 4096 --n 4096 --k 4096 --dtype float8_e4m3fn", "--m 4096 --n 4096 --k 4096 --dtype torch.float8_e4m3fnuz",
    "--m 4096 --n 4096 --k 4096 --dtype bfloat16 --notes cooled --verbose", "--m 4096 --n 4096 --k 4096 --dtype float16 --no-verbose",
    "--m 4096 --n 4096 --k 4096 --dtype float32 --cuda_device 1"])
def test_every_option_of_the_public_finder(line):
    """All 13 of its options occur here; each must be taken, with the same sizes."""
    args = mamf_parser().parse_args(line.split())
    request, dtypes = read_mamf(args)
    assert request.shapes
    assert len(dtypes) == 1
    if "_range 0" in line:
        assert min(shape.m for shape in request.shapes) == 256
        assert max(shape.k for shape in request.shapes) == 5120


@pytest.mark.slow
def test_plot_option(run_tool):
    done = run_tool(SCRIPTS / "mamf-finder.py", "--nproc", "1", "--device", "cpu", "--dtype", "fp32", "--m", "64", "128", "--n", "64",
                    "--k", "64", "128", "--budget", "0.5s", "--plot", "--json", "none")
    assert (done.rc, done.err) == (0, ""), done.out
    assert "fp32 sustained, finalists; TFLOPS, bars from" in done.out
    assert "best of all looks by work per call" in done.out
