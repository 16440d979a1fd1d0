"""Shapes, peaks, dtypes and the request: the pure parts that decide what is measured."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pytest
import yaml

from clusterprobe.exits import ProbeFailure
from clusterprobe.matmul_dtypes import MATMUL_DTYPES, find_dtype, parse_dtypes
from clusterprobe.matmul_options import mamf_parser
from clusterprobe.matmul_peaks import CARD_PEAKS, dense_peak, find_card
from clusterprobe.matmul_plan import cache_rule, read_request, shape_limits
from clusterprobe.matmul_shapes import (
    MatmulShape,
    ShapeGrid,
    ShapeLimits,
    axis_range,
    default_grid,
    draw_candidates,
    parse_shape,
    tile_efficiency,
    wave_score,
)

ACCELERATORS = Path(__file__).parents[2] / "data/accelerators.yaml"


def asked(*words: str) -> argparse.Namespace:
    return mamf_parser().parse_args(list(words))


@pytest.mark.parametrize(("shape", "flop"), [
    (MatmulShape(2, 3, 5), 60), (MatmulShape(4096, 4096, 4096), 137438953472),
    (MatmulShape(4096, 4096, 4096, 8), 8 * 137438953472),
])
def test_flop_counts_every_batch(shape, flop):
    assert shape.flop == flop


def test_bytes_and_intensity():
    shape = MatmulShape(128, 256, 512, 2)
    assert shape.elements() == (131072, 262144, 65536)
    assert shape.touched_bytes(2, 4) == 2 * (131072 + 262144) + 4 * 65536
    assert MatmulShape(8192, 8192, 8192).intensity(2, 2) == pytest.approx(8192 / 3)


@pytest.mark.parametrize(("m", "n", "units", "tile", "share"), [
    (128 * 132, 256, 132, (128, 256), 1.0),  # one full wave
    (128 * 133, 256, 132, (128, 256), 133 / 264),  # one tile into the second wave
    (64, 256, 1, (128, 256), 0.5),  # half of the tile is padding
    (2048, 4096, 132, (128, 256), 256 / 264),
])
def test_tile_efficiency(m, n, units, tile, share):
    assert tile_efficiency(m, n, units, tile) == pytest.approx(share)


def test_batches_fill_waves():
    assert tile_efficiency(128, 256, 132, (128, 256), 132) == pytest.approx(1.0)
    assert wave_score(MatmulShape(128, 256, 64, 132), 132) == pytest.approx(1.0)


def test_range_leaves_the_stop_out():
    assert axis_range(1024, 4096, 1024) == (1024, 2048, 3072)
    assert axis_range(0, 600, 256) == (256, 512)
    for words in ((4, 4, 1), (1, 5, 0)):
        with pytest.raises(ValueError, match="holds no size"):
            axis_range(*words)


def test_shape_text():
    assert parse_shape("4096x512X64") == parse_shape("4096,512,64") == MatmulShape(4096, 512, 64)
    for text in ("4096", "1x2x0", "axbxc", "1x2x3x4"):
        with pytest.raises(ValueError, match="MxNxK"):
            parse_shape(text)


def test_neighbours_stay_on_the_grid():
    grid = ShapeGrid((1, 2, 3), (10, 20), (100,))
    near = grid.neighbours(MatmulShape(2, 20, 100), 1)
    assert near == [MatmulShape(1, 20, 100), MatmulShape(3, 20, 100), MatmulShape(2, 10, 100)]
    assert [grid.at(place) for place in range(len(grid))] == list(grid)


def test_candidates_keep_the_limits_and_are_half_free():
    grid, limits = default_grid(1.75e12), ShapeLimits(5e10, 1.75e12, 300, 1e11, 2, 2)
    chosen = draw_candidates(grid, limits, 132, 360, random.Random(1))
    assert len(set(chosen)) == len(chosen) == 360
    assert all(limits.admits(shape) for shape in chosen)
    liked = sum(wave_score(shape, 132) >= 0.97 for shape in chosen)
    assert 180 <= liked < 360
    work = [shape.flop for shape in chosen]
    assert max(work) / min(work) > 8, "small and large products both stay in"
    assert chosen != draw_candidates(grid, limits, 132, 360, random.Random(2))


def test_a_small_grid_is_taken_whole():
    grid = ShapeGrid((256, 512), (256, 512), (256,))
    limits = shape_limits("cuda", parse_dtypes("bf16")[0], 1e14, None, True)
    assert sorted(draw_candidates(grid, limits, 132, 50, random.Random(0))) == list(grid)


def test_slow_devices_get_short_axes():
    assert max(default_grid(2e9).m) <= 2048
    assert max(default_grid(1.75e12).m) > 16384


def plain(value):
    return value["value"] if isinstance(value, dict) else value


def test_peaks_equal_the_accelerator_table():
    table = yaml.safe_load(ACCELERATORS.read_text())
    for card in CARD_PEAKS:
        rates = table[card.record]["dense_tflops"]
        for dtype, value in card.dense.items():
            key = "bf16_per_device" if card.record == "amd_mi250x" and dtype == "bf16" else dtype
            assert plain(rates[key]) == value, (card.record, dtype)
            assert not (isinstance(rates[key], dict) and rates[key].get("confidence") == "contradicted")


@pytest.mark.parametrize(("name", "dtype", "peak"), [
    ("NVIDIA H200", "bf16", 989), ("NVIDIA H200", "fp16", 989), ("NVIDIA H200", "fp8_e5m2", 1978),
    ("NVIDIA H200 NVL", "bf16", None), ("NVIDIA H200 MIG 1g.18gb", "bf16", None),
    ("NVIDIA H100 80GB HBM3", "bf16", 989), ("NVIDIA H100 PCIe", "bf16", 756.5), ("NVIDIA H100 NVL", "bf16", None),
    ("NVIDIA B300 SXM6 AC", "bf16", 2250), ("NVIDIA GB300", "bf16", 2500), ("NVIDIA GB200", "bf16", 2500),
    ("NVIDIA B200", "bf16", 2250), ("AMD Instinct MI250X", "bf16", 191.5), ("AMD Instinct MI300X", "fp8", 2614.9),
    ("AMD Instinct MI300X VF", "bf16", None), ("NVIDIA A100-SXM4-80GB", "fp8", None), ("NVIDIA B999", "bf16", None),
    ("NVIDIA H2000", "bf16", None), ("AMD EPYC", "bf16", None), ("", "bf16", None),
])
def test_peak_by_name(name, dtype, peak):
    assert dense_peak(name, dtype) == peak


def test_every_name_finds_its_own_card():
    for card in CARD_PEAKS:
        for name in card.names:
            assert find_card(name) is card


def test_dtype_names():
    assert find_dtype("torch.bfloat16").name == "bf16"
    assert find_dtype("float8_e4m3fn").name == "fp8"
    assert [one.name for one in parse_dtypes("bf16,fp8,bfloat16")] == ["bf16", "fp8"]
    assert len(parse_dtypes("all")) == len(MATMUL_DTYPES)
    for text in ("bf17", "", "bf16,x"):
        with pytest.raises(ValueError, match=r"dtype|not one of"):
            parse_dtypes(text)


def test_fp8_needs_multiples_of_16_before_a_launch():
    fp8 = find_dtype("fp8")
    assert "multiples of 16" in fp8.refusal(MatmulShape(4096, 4100, 4096), "cuda")
    assert not fp8.refusal(MatmulShape(4097, 4096, 4096), "cuda")
    assert not fp8.refusal(MatmulShape(16, 16, 24), "cpu")
    assert "batched" in fp8.refusal(MatmulShape(16, 16, 16, 2), "cuda")
    assert not find_dtype("bf16").refusal(MatmulShape(7, 7, 7, 2), "cuda")


def test_fast_accumulation_is_allowed_more_with_depth():
    fp8 = find_dtype("fp8")
    assert fp8.allowance(19712, True) > 2 * 0.0485, "the error seen on an H200 is no fault"
    assert fp8.allowance(19712, False) == fp8.atol
    assert fp8.allowance(65536, True) < 0.5, "a missing slab of products must not pass"
    assert find_dtype("bf16").allowance(19712, True) == find_dtype("bf16").atol


def test_request_of_the_public_names():
    request = read_request(asked("--m", "4096", "1024", "--n", "512", "--k_range", "1024", "4096", "1024",
                                 "--num_iterations", "7", "--num_warmup_iterations", "2", "--dtype", "float16"))
    assert len(request.shapes) == 6
    assert not request.search
    args = asked("--output_file", "x", "--notes", "n", "--cuda_device", "3", "--verbose")
    assert (args.output_file, args.cuda_device, args.nproc, args.verbose) == ("x", 3, 1, True)
    assert asked("--no-verbose").verbose is False


def test_request_searches_without_shapes():
    request = read_request(asked())
    assert request.search
    assert len(request.grid(1.75e12)) > 100_000
    assert read_request(asked("--search", "--m", "512")).grid(1e12).m == (512,)


@pytest.mark.parametrize("words", [
    ("--m", "512"), ("--m", "512", "--m-range", "1", "9", "1", "--n", "1", "--k", "1"), ("--m-range", "1", "9"),
    ("--m", "0", "--n", "1", "--k", "1"), ("--shape", "1x2x3", "--m", "4"), ("--m-range", "9", "1", "1", "--search"),
])
def test_wrong_requests_are_usage_errors(words):
    with pytest.raises(ProbeFailure) as caught:
        read_request(asked(*words))
    assert caught.value.rc == 2


def test_cache_rule_says_what_is_assumed():
    assert "60 MiB)" in cache_rule("rotate", 60 << 20, True)
    assert "assumed" in cache_rule("flush", 32 << 20, False)
    assert "same operands" in cache_rule("none", 32 << 20, False)


def test_help_formats_and_doubles_percent():
    assert "%" not in mamf_parser().format_help().replace("%%", "")
