"""Benchmarking one accelerator: its worked numbers follow from the records, its figures from their data."""

from __future__ import annotations

import csv
import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from bookfiles import load_script

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "chapters/hardware/accelerator-benchmarks.md"
RECORDS = ROOT / "chapters/hardware/measurements"
FIXTURES = ROOT / "chapters/hardware/fixtures/accelerator-benchmarks"
TEXT = CHAPTER.read_text(encoding="utf-8")


@cache
def record(name: str) -> dict:
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def tool():
    sys.path.insert(0, str(ROOT / "scripts"))
    yield
    sys.path.pop(0)


@pytest.fixture(scope="module")
def shapes():
    return load_script(FIXTURES / "gemm_shapes.py")


def config(name: str) -> dict:
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def test_two_searches_agree_in_the_sustained_state() -> None:
    one, two = (record(f"mamf_h200_seed{n}.json")["per_rank"][0] for n in (0, 1))
    assert abs(two["sustained"] / one["sustained"] - 1) < 0.002
    assert one["sustained_shape"] != two["sustained_shape"]
    assert one["sustained"] < 0.86 * one["burst"]
    for run in (one, two):  # what the table of symptoms calls normal
        assert run["sustained_throttle"] == {"power cap": 1.0}
        assert 475 < 1000 * run["sustained"] / run["sustained_sm_mhz"] < 485


def test_a_default_run_takes_45_seconds() -> None:
    run = next(r for r in record("mamf_h200.json")["runs"] if r["name"] == "search_seed0")
    assert 40 < run["wall_s"] < 47
    assert "finds both in 45 s" in TEXT


def test_seconds_for_each_shape_of_the_exhaustive_scan() -> None:
    seconds = ((2 * 24 + 14) * 60 + 42) * 60
    assert f"{seconds:,} s for 493,039 shapes" in TEXT
    assert f"{seconds / 493_039:.2f} s each" in TEXT.replace("for each", "each")
    looked = re.search(
        r"search, (\d+) shapes", record("mamf_h200_seed0.json")["results"][1]["coverage"]
    )
    assert f"looked at {looked[1]} in 24 s" in TEXT


def strongest_rival(pairs: list[dict], winner: str) -> dict:
    """The pair in which a search's winner looks worst."""
    return min(
        (pair for pair in pairs if pair["winner"] == winner), key=lambda pair: pair["ratio"]
    )


def sustained(run: dict) -> dict:
    return next(figure for figure in run["figures"] if figure["state"] == "sustained")


def test_searches_against_the_exhaustive_sweep() -> None:
    """Eight default searches, four a run: at most 0.1% below the best of the sweep, in turn with it."""
    held, ratios = [], []
    for name in ("0_3", "4_7"):
        contest = record(f"mamf_interleaved_{name}.json")
        assert contest["sweep"]["shapes"] == 1152
        assert len(contest["searches"]) == 4
        for run in contest["searches"]:
            assert (run["rc"], 43 < run["wall_s"] < 49) == (0, True)  # "45 s"
            won = sustained(run)
            rival = strongest_rival(
                contest["contest"]["ratios"], f"{won['m']}x{won['n']}x{won['k']}"
            )
            assert (rival["turns"], rival["ci95"][0] > 0.9965) == (20, True)
            held.append(won)
            ratios.append(rival["ratio"])
    assert round(100 * (1 - min(ratios)), 1) == 0.1
    assert len({(won["m"], won["n"], won["k"]) for won in held}) == 8
    rates = [won["tflops"] for won in held]
    assert 0.8 < 100 * (max(rates) / min(rates) - 1) < 0.9
    assert "the worst of eight searches was 0.1% slower" in TEXT
    assert "eight different shapes within 0.9%" in TEXT
    assert "no interval reaches more than 0.3% below" in TEXT
    for four in (rates[:4], rates[4:]):
        assert 100 * (max(four) / min(four) - 1) < 0.9
    assert "four seeds on one card lay within 0.9%" in TEXT
    here = float(re.search(r"bf16 sustained ([\d.]+)", gpu_output("mamf"))[1])
    other = record("mamf_h200_seed0.json")["per_rank"][0]["sustained"]
    assert f"two cards of different hosts {100 * (other / here - 1):.0f}% apart" in TEXT


def test_the_sweep_is_told_as_it_was() -> None:
    """Its grid is coarse, and most winners lie outside of it: the text must not promise more."""
    deep = record("mamf_interleaved_4_7.json")
    sides = [[int(side) for side in shape.split("x")] for shape in deep["sweep"]["tflops"]]
    assert {side for m, n, _ in sides for side in (m, n)} == set(range(1024, 12289, 1024))
    assert (len({k for _, _, k in sides}), max(k for _, _, k in sides)) == (8, 12288)
    winners = [
        sustained(run)
        for name in ("0_3", "4_7")
        for run in record(f"mamf_interleaved_{name}.json")["searches"]
    ]
    outside = sum(max(won["m"], won["n"], won["k"]) > 12288 for won in winners)
    assert outside == 7
    assert "Seven of the eight winners have a side above 12,288" in TEXT


def test_what_a_short_search_loses() -> None:
    """The pair that the text takes for each budget is the worst one of its three seeds."""
    quick = record("mamf_interleaved_short.json")
    pairs = quick["contest"]["ratios"]
    by_budget: dict[str, list[dict]] = {}
    for run in quick["searches"]:
        won = sustained(run)
        rival = strongest_rival(pairs, f"{won['m']}x{won['n']}x{won['k']}")
        by_budget.setdefault(run["budget"], []).append(rival)
    assert {budget: len(found) for budget, found in by_budget.items()} == {
        "2s": 3,
        "5s": 3,
        "10s": 3,
    }
    for budget, place in (("2s", 1), ("5s", 17), ("10s", 29)):
        worst = min(by_budget[budget], key=lambda pair: pair["ratio"])
        assert worst == pairs[place]
        assert worst["ratio"] < 0.99
    assert max(pair["ratio"] for pair in by_budget["5s"]) > 1.004
    assert all(14.5 < run["wall_s"] < 16.5 for run in quick["searches"] if run["budget"] == "10s")


def test_another_finder_depends_on_the_order_of_its_list() -> None:
    for name, percent in (("0_3", 6), ("12s", 4)):
        public = record(f"mamf_interleaved_{name}.json")["public"]
        means = [run["best"]["mean"] for run in public["runs"]]
        assert means[0][1] == means[1][1]
        assert round(100 * (means[0][0] / means[1][0] - 1)) == percent
    sizes = public["list"]
    assert len(sizes["m"]) * len(sizes["n"]) * len(sizes["k"]) == 18
    assert "The same 18 shapes" in TEXT


def test_what_the_good_shapes_share() -> None:
    good = [
        (m * n * k / (m * k + n * k + m * n), 2e-9 * m * n * k)
        for seed in (0, 1)
        for m, n, k, _, hot, _ in record(f"mamf_h200_seed{seed}.json")["results"][0]["rows"]
        if hot and hot >= 700
    ]
    assert len(good) == 66
    assert 1090 <= min(dense for dense, _ in good) < 1091
    assert round(min(work for _, work in good)) == 195


def test_work_of_the_model_is_twice_its_weights(shapes) -> None:
    found = shapes.products(config("llama-3.1-8b"), 8192, 1)
    weights = sum(one.n * one.k * one.times for one in found)
    assert round(weights / 1e9, 1) == 7.5
    assert sum(one.flop for one in found) == 2 * 8192 * weights
    assert round(sum(one.flop for one in found) / 1e12) == 123
    assert "= 123 TFLOP" in TEXT


def test_backward_is_the_same_work_twice(shapes) -> None:
    for one in shapes.products(config("qwen3-30b-a3b"), 8192, 1):
        assert sum(part.flop for part in shapes.backward(one)) == pytest.approx(2 * one.flop)


def test_tensor_parallelism_divides_the_work(shapes) -> None:
    whole, part = (
        sum(one.flop for one in shapes.products(config("llama-3.1-8b"), 8192, size))
        for size in (1, 8)
    )
    assert part == pytest.approx(whole / 8)


def test_decoding_has_62_flop_per_byte(shapes) -> None:
    layers = shapes.products(config("llama-3.1-8b"), 64, 1)[:-1]
    assert {round(one.intensity()) for one in layers} <= {62, 63}


def test_experts_get_their_share_of_tokens(shapes) -> None:
    expert = next(
        one for one in shapes.products(config("qwen3-30b-a3b"), 8192, 1) if "expert" in one.name
    )
    assert expert.m == 8192 * 8 // 128
    assert expert.times == 48 * 128


def test_wave_model_is_the_tools_own(shapes) -> None:
    from clusterprobe.matmul_shapes import tile_efficiency

    for n, share in ((1536, 1.0), (1664, 0.54), (3200, 0.69)):
        assert tile_efficiency(2816, n, 132, (128, 256)) == pytest.approx(share, abs=0.005)
    assert "predicts 54% of the rate" in TEXT


def test_named_data_types_are_the_tools() -> None:
    from clusterprobe.matmul_dtypes import MATMUL_DTYPES

    names = TEXT.split("Names: ")[1].split(", or `all`")[0]
    assert set(re.findall(r"`(\w+)`", names)) == {one.name for one in MATMUL_DTYPES}


@pytest.mark.parametrize("script", ["matmul_run", "matmul_screen", "matmul_waves"])
def test_figure_is_drawn_from_its_inputs(script: str) -> None:
    module = load_script(CHAPTER.parent / f"figures/src/{script}.py")
    want = module.p.inputs_hash(script, module.FACTS, module.FILES)
    name = f"figures/accelerator-benchmarks-{script.removeprefix('matmul_')}.svg"
    svg = (CHAPTER.parent / name).read_text(encoding="utf-8")
    assert f"<!-- inputs {want} -->" in svg, f"run figures/src/{script}.py again"
    assert "<text" not in svg  # outlines: the same in PDF, EPUB and web


def gpu_output(name: str) -> str:
    return record("accelerator-benchmarks.gpu.json")["fences"][name]["output"]


def test_layers_of_the_model_against_the_ceiling_of_the_same_card() -> None:
    ceiling = float(re.search(r"bf16 sustained ([\d.]+)", gpu_output("mamf"))[1])
    layers = [float(x) for x in re.findall(r"^final +\S+ +([\d.]+)", gpu_output("model"), re.M)]
    assert (round(ceiling), len(layers)) == (690, 5)
    assert [round(100 * f(layers) / ceiling) for f in (min, max)] == [94, 99]
    card = r"132 units, (\S+)"
    assert re.search(card, gpu_output("mamf"))[1] == re.search(card, gpu_output("model"))[1]
    assert "five layers reach 94 to 99% of it" in TEXT


def test_what_the_recorded_timing_says() -> None:
    rates = dict(re.findall(r"^\w+: (.+?) +\d+ us +(\d+) TFLOPS", gpu_output("timing"), re.M))
    assert int(rates["no wait"]) / 989 == pytest.approx(6.8, abs=0.1)
    assert f"{rates['no wait']} TFLOPS is almost seven times the printed peak" in TEXT
    gain = 100 * (int(rates["zeros"]) / int(rates["events"]) - 1)
    assert f"Zeros flatter by {gain:.0f}% in a burst" in TEXT
    right = [int(rates[way]) for way in ("one wait at the end", "events")]
    ways = record("h200_timing.json")["mistakes"]["shapes"]["4096"]
    right += [v["tflops"] for k, v in ways.items() if "no wait" not in k and "after" not in k]
    assert [round(edge, -1) for edge in (min(right), max(right))] == [770, 810]
    assert "770 to 810 TFLOPS (a burst)" in TEXT


def test_ways_of_timing_agree_where_the_text_says_so() -> None:
    large = record("h200_timing.json")["mistakes"]["shapes"]["4096"]
    right = [v["us"] for k, v in large.items() if "no wait" not in k and "wait after" not in k]
    assert max(right) / min(right) < 1.01


def test_normal_share_of_the_peak_by_data_type() -> None:
    shares = dict(re.findall(r"^(\w+) sustained .*?\(([\d.]+)% of", gpu_output("dtypes"), re.M))
    assert round(float(shares.pop("int8"))) == 45
    assert {round(float(share)) for share in shares.values()} == {66, 70}
    heat = re.findall(r"^\w+ sustained .* W, (\d+) C", gpu_output("dtypes"), re.M)
    assert f"at {min(heat)} to {max(heat)} °C, gave 66 to 70%" in TEXT
    others = [
        figure
        for name in ("seed0", "fp8_tf32")
        for figure in record(f"mamf_h200_{name}.json")["results"]
        if figure.get("state") == "sustained"
    ]
    assert {round(figure["percent_of_peak"]) for figure in others} == {69, 71, 72}
    heat = [figure["telemetry"]["temperature_c"] for figure in others]
    assert f"at {min(heat):.0f} to {max(heat):.0f} °C, 69 to 72%" in TEXT


def test_int8_has_half_the_rate_per_ghz_of_fp8() -> None:
    finals = re.findall(r"^final .* ([\d.]+) +\d+ +\d+ +\d+ +power", gpu_output("dtypes"), re.M)
    per_ghz = [float(value) for value in finals]  # the best of fp16, fp8, int8, tf32 leads its six
    assert (round(per_ghz[12]), round(per_ghz[6])) == (517, 948)
    assert "(517 against 948 in the column that is cut here)" in TEXT


def test_search_against_fixed_shapes() -> None:
    fixed = record("h200_ceilings.json")["by_dtype"]
    outputs = gpu_output("mamf") + gpu_output("dtypes")
    found = re.findall(r"^(\w+) (sustained|burst) ([\d.]+) TFLOPS", outputs, re.M)
    gains = [
        float(rate)
        / (fixed[name]["burst_tflops"] if state == "burst" else fixed[name]["sustained"]["tflops"])
        for name, state, rate in found
    ]
    assert len(gains) == 10
    assert [round(100 * gain) for gain in (min(gains), max(gains))] == [98, 104]
    assert "between 2% below and 4% above" in TEXT


def test_measured_steps_behind_full_waves() -> None:
    rates = {int(n): row["tflops"] for n, row in record("h200_timing.json")["waves"]["n"].items()}
    lost = [1 - rates[n + 128] / rates[n] for n in (1536, 3072, 4608, 6144, 7680)]
    assert lost[3] < 0
    assert max(lost) == pytest.approx(0.07, abs=0.002)
    assert min(rates, key=rates.get) == 2432
    dips = sorted(
        range(896, 9216, 128), key=lambda n: 2 * rates[n] - rates[n - 128] - rates[n + 128]
    )
    assert dips[:2] == [2432, 5120]  # the deepest between their neighbors


def test_only_mx_and_nvfp4_were_refused_by_the_card() -> None:
    scales = record("h200_scales.json")
    refused = {
        name: way["refused"] for name, way in scales["scaled"]["ways"].items() if "refused" in way
    }
    assert len(refused) == 2
    assert all("CUBLAS_STATUS_NOT_SUPPORTED" in reason for reason in refused.values())
    ways = scales["alone"]
    assert ways["mxfp8, no swizzle"] == {"exit": -11, "last_words": ""}
    assert "CUBLAS_STATUS_NOT_SUPPORTED" in ways["mxfp8, swizzle"]["last_words"]


def test_the_slow_kernel_of_fine_blocks_runs_at_a_higher_clock() -> None:
    ways = record("h200_scales.json")["scaled"]["ways"]
    both = ways["fp8, blocks 1 x 128 on both"]
    others = [
        way
        for name, way in ways.items()
        if name.startswith("fp8,") and not name.endswith("on both")
    ]
    assert len(others) == 4
    assert all(both["sm_mhz"] > 1.05 * way["sm_mhz"] for way in others)
    assert all(both["sustained_tflops"] < 0.85 * way["sustained_tflops"] for way in others)


def test_an_earlier_run_of_the_scales_agrees() -> None:
    earlier = record("h200_timing.json")["scaled"]["ways"]
    ways = record("h200_scales.json")["scaled"]["ways"]
    both = "fp8, blocks 1 x 128 on both"
    assert "must have shape 4096 x 64" in earlier[both]["refused"]
    apart = [
        abs(way["sustained_tflops"] / earlier[name]["sustained_tflops"] - 1)
        for name, way in ways.items()
        if name != both and "refused" not in way
    ]
    assert len(apart) == 5
    assert f"rates of the other rows within {100 * max(apart):.0f}%" in TEXT


def test_what_the_text_says_of_the_search() -> None:
    from clusterprobe.matmul_search import KEEP_COOL, STEADY_DRIFT, SearchPlan

    plan = SearchPlan(40)
    assert f"draws {plan.candidates} candidates" in TEXT
    assert (KEEP_COOL, plan.finalists, STEADY_DRIFT) == (4, 6, 0.005)
    assert "repeats the best quarter hot" in TEXT
    assert "measures six finalists in turns" in TEXT
    assert "A drift above 0.5% over the finals brings a warning" in TEXT
    steps = ("cool", "heat", "first", "second", "descent", "semi")
    assert sum(plan.seconds(step) for step in steps) == pytest.approx(0.6 * 40, rel=0.05)
    assert "about 60% of it is the search" in TEXT


def test_two_cards_of_a_host() -> None:
    rates = [float(x) for x in re.findall(r"^rank \d@vm +([\d.]+)", gpu_output("all"), re.M)]
    assert f"the two above differ by {100 * (max(rates) / min(rates) - 1):.1f}%" in TEXT


def test_two_states_behind_the_estimate_of_power_caps() -> None:
    """Accelerators: the first instant reading under load, and the mean of the last ten seconds."""
    with (RECORDS / "h200_ceilings.sensors.csv").open() as file:
        rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
    first = next(row for row in rows if row["seconds"] > 0 and row["power_w"] > 500)
    state = record("h200_ceilings.json")["long_run"]["state_last_10_s"]
    assert (round(first["power_w"]), first["sm_mhz"]) == (952, 1980)
    assert (round(state["power_w"]["mean"]), round(state["sm_mhz"]["mean"])) == (692, 1436)
    idle = [row["power_w"] for row in rows if row["seconds"] < 0]
    assert round(sum(idle) / len(idle)) == pytest.approx(125, abs=1)
    text = (CHAPTER.parent / "accelerators.md").read_text(encoding="utf-8")
    assert "(w1, f1), (w2, f2) = (952, 1980), (692, 1436)" in text
