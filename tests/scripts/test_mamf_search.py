"""The search against a recorded H200 sweep, with the noise that an H200 showed; and the judgments it rests on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from mamf_recording import RecordedBench, load_sweep, smooth_hot

from clusterprobe.matmul_samples import (
    MatmulLook,
    clearly_better,
    cut_windows,
    judge_block,
    looks_interval,
    mean_interval,
    round_drift,
    split_samples,
    work_over_time,
)
from clusterprobe.matmul_search import SearchPlan, ShapeSearch, run_finals
from clusterprobe.matmul_shapes import MatmulShape, ShapeLimits, draw_candidates

GRID, COOL, RAW_HOT = load_sweep()
HOT = smooth_hot(COOL, RAW_HOT)
LIMITS = ShapeLimits(5e10, 1e18, 300, 1e18, 2, 2)
SHAPE = MatmulShape(1000, 1000, 500)  # 1 GFLOP
REPORTS = json.loads((Path(__file__).parent / "fixtures/mamf_h200_reports.json").read_text())


def find(seed: int, reverse: bool = False, hot: dict = HOT, budget: float = 40.0):
    """(winner, shapes looked at, seconds) of one offline search."""
    bench, chance, plan = RecordedBench(COOL, hot, seed), random.Random(seed), SearchPlan(budget)
    candidates = draw_candidates(GRID, LIMITS, 132, plan.candidates, chance)
    search = ShapeSearch(GRID, bench, plan, chance, LIMITS.admits)
    finalists = search.run(candidates[::-1] if reverse else candidates)
    table = run_finals(finalists, bench, plan.seconds("finals"))
    return table.scores[0], len(bench.asked), bench.clock - bench.began


def test_reaches_99_percent_of_the_sweep_with_600_shapes():
    best = max(HOT.values())
    for seed in range(20):
        winner, asked, seconds = find(seed)
        assert HOT[winner.shape] >= 0.99 * best, (seed, str(winner.shape))
        assert asked <= 600
        assert seconds < 45


def test_order_of_the_candidates_does_not_matter():
    for seed in range(8):
        one, other = find(seed)[0], find(seed, reverse=True)[0]
        assert HOT[other.shape] == pytest.approx(HOT[one.shape], rel=0.01)
        assert other.tflops == pytest.approx(one.tflops, rel=0.01)


def test_beats_one_look_at_as_many_random_shapes():
    """The rival: as many shapes as the search uses, each once, the fastest look wins."""
    best, ours, theirs = max(HOT.values()), [], []
    for seed in range(12):
        winner, asked, _ = find(seed)
        bench = RecordedBench(COOL, HOT, seed + 100)
        some = random.Random(seed).sample(sorted(HOT), asked)
        looks = list(bench.look([(shape, 0.03) for shape in some]))
        ours.append(HOT[winner.shape] / best)
        theirs.append(HOT[max(looks, key=lambda look: look.mean).shape] / best)
    assert sum(ours) > sum(theirs)


def test_a_small_budget_still_ends_in_time():
    winner, asked, seconds = find(3, budget=5.0)
    assert seconds < 9
    assert asked < 200
    assert HOT[winner.shape] > 0.95 * max(HOT.values())


def test_the_sweep_finds_what_the_raw_recording_holds():
    bench = RecordedBench(COOL, RAW_HOT, 1)
    search = ShapeSearch(GRID, bench, SearchPlan(20.0), random.Random(1))
    finalists = search.sweep(list(GRID), 0.03, 2)
    assert len(search.hot) == len(search.cool) == len(GRID)
    assert max(RAW_HOT[one] for one in finalists) >= 0.99 * max(RAW_HOT.values())


def test_finals_are_interleaved_and_share_drift():
    class Drifting(RecordedBench):
        """Everything gets slower by 10% within the finals; equal shapes must stay equal."""

        def look(self, jobs):
            for shape, seconds in jobs:
                self.order.append(shape)
                factor = 1 - 0.1 * len(self.order) / 12
                yield judge_block(shape, [shape.flop / (7e14 * factor)] * 50)
                self.clock += seconds

    bench = Drifting(COOL, HOT, 0)
    bench.order = []
    shapes = [MatmulShape(4096, 4096, k) for k in (4096, 6144, 8192)]
    table = run_finals(shapes, bench, 3.0, rounds=4, most_rounds=4)
    assert bench.order[:6] == [*shapes, shapes[1], shapes[2], shapes[0]]
    rates = [score.tflops for score in table.scores]
    assert max(rates) / min(rates) < 1.02
    assert table.drift == pytest.approx(-0.08, abs=0.03)
    assert table.steady is False


def test_failed_shapes_are_passed_over():
    class Failing(RecordedBench):
        def look(self, jobs):
            for job in jobs:
                if job[0].m == 1024:
                    self.asked.add(job[0])
                    yield MatmulLook(job[0], reason="out of device memory")
                else:
                    yield from super().look([job])

    bench, chance = Failing(COOL, HOT, 0), random.Random(0)
    search = ShapeSearch(GRID, bench, SearchPlan(20.0), chance, LIMITS.admits)
    finalists = search.run(draw_candidates(GRID, LIMITS, 132, 200, chance))
    assert finalists
    assert all(shape.m != 1024 for shape in finalists)
    nothing = ShapeSearch(GRID, bench, SearchPlan(5.0), chance)
    assert nothing.run([MatmulShape(1024, 1024, 1024)]) == [] or nothing.measured


def test_plan_shares_add_up():
    plan = SearchPlan(1.0)
    steps = ("cool", "heat", "first", "second", "descent", "semi", "finals", "hold", "burst")
    assert sum(plan.seconds(step) for step in steps) == pytest.approx(1.0)


# -- samples


def test_impossible_times_are_rejected_and_counted():
    """A stopped clock, a clock that runs backwards, and one faster than the card's peak."""
    usable, rejected = split_samples([1e-3, 0.0, -1.8e-3, 1e-3, 1e-5], 1e9, 1.0)
    assert (usable, rejected) == ([1e-3, 1e-3], 3)
    assert split_samples([1e-5], 1e9, None) == ([1e-5], 0)
    look = judge_block(SHAPE, [0.0, -1.0])
    assert look.tflops is None
    assert look.rejected == 2
    assert "no usable time" in look.reason


def test_block_statistics():
    look = judge_block(SHAPE, [1e-3] * 5 + [2e-3] * 4)
    assert look.tflops == pytest.approx(1.0)
    assert look.mean == pytest.approx(9 / 13)
    assert (look.low, look.high) == (pytest.approx(0.5), pytest.approx(1.0))
    assert look.interval.low <= look.tflops <= look.interval.high
    assert work_over_time([look, judge_block(SHAPE, [1e-3] * 9)]) == pytest.approx(18 / 22)
    assert work_over_time([]) is None


def test_windows_are_means_over_time():
    rates, spans = cut_windows(SHAPE, [1e-3, 3e-3, 1e-3, 3e-3, 1e-3], 4e-3)
    assert rates == pytest.approx([0.5, 0.6])
    assert spans == pytest.approx([4e-3, 5e-3]), "the rest belongs to the last window"
    assert cut_windows(SHAPE, [1e-3], 4e-3) == ([], [])


def test_a_figure_lies_in_its_interval():
    """Windows of unequal length: repetitions that a scheduler held up are few but take most of the time."""
    looks = [judge_block(SHAPE, [1e-3] * 100), judge_block(SHAPE, [1e-3] * 30 + [0.4] + [1e-3] * 30 + [0.9])]
    interval = looks_interval(looks)
    assert (interval.low + interval.high) / 2 == pytest.approx(work_over_time(looks)) or interval.low == 0.0
    assert interval.low <= work_over_time(looks) <= interval.high
    assert interval.low >= 0.0, "no rate is below zero"


def test_interval_of_a_mean():
    interval = mean_interval([99.0, 101.0, 99.0, 101.0])
    assert interval.low + interval.high == pytest.approx(200)
    assert interval.high - 100 == pytest.approx(1.2 * 3.18 * (4 / 3) ** 0.5 / 2, rel=1e-6)
    assert mean_interval([1.0]) is None
    fast, slow = judge_block(SHAPE, [1.0e-3] * 60), judge_block(SHAPE, [1.1e-3] * 60)
    assert clearly_better(fast, slow)
    assert not clearly_better(slow, fast)
    assert not clearly_better(fast, fast)
    swinging = judge_block(SHAPE, [0.9e-3] * 10 + [1.1e-3] * 10 + [0.9e-3] * 10 + [1.1e-3] * 10)
    assert not clearly_better(judge_block(SHAPE, [0.98e-3] * 40), swinging), "faster, but within what swings"


def test_drift_is_relative_to_each_shape():
    assert round_drift([[100, 50], [100, 50]]) is None
    assert round_drift([[100, 50], [101, 50.5], [102, 51]]) == pytest.approx(0.0198, abs=1e-4)
    assert round_drift([[100, 200], [100, 200], [100, 200]]) == pytest.approx(0.0)
    assert round_drift([[100, 1.0], [100, 1.1], [100, 1.2]]) == pytest.approx(0.1 / 1.1, abs=0.001)


# -- what the H200 gave


def figure(report: dict, state: str, dtype: str = "bf16") -> dict:
    return next(one for one in report["results"] if one.get("state") == state and one["dtype"] == dtype)


def test_recorded_runs_agree_within_one_percent():
    one, other = (figure(REPORTS[name], "sustained") for name in ("search_seed0", "search_seed1"))
    assert one["m"] != other["m"], "other candidates led to another shape"
    assert other["tflops"] == pytest.approx(one["tflops"], rel=0.01)


def test_recorded_search_is_not_below_the_sweep():
    sweep = figure(REPORTS["exhaustive"], "sustained")["tflops"]
    for name in ("search_seed0", "search_seed1"):
        assert figure(REPORTS[name], "sustained")["tflops"] >= 0.995 * sweep


def test_recorded_telemetry_tells_the_states_apart():
    report = REPORTS["search_seed0"]
    hot, cool = figure(report, "sustained"), figure(report, "burst")
    assert hot["telemetry"]["throttle"]["power cap"] > 0.9
    assert 650 < hot["telemetry"]["power_w"] < 720
    assert hot["telemetry"]["sm_mhz"] < 1600 < 1800 < cool["telemetry"]["sm_mhz"] <= 1980
    assert cool["tflops"] > 1.1 * hot["tflops"]
    assert hot["percent_of_peak"] == pytest.approx(100 * hot["tflops"] / 989)
