"""Every formula behind mamf-finder's figures, derived here by hand, and proof that each wrong one is noticed."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from clusterprobe import matmul_plan, matmul_results, matmul_samples, matmul_shapes

MODULES = {one.__name__.partition(".")[2]: one for one in (matmul_shapes, matmul_samples, matmul_results, matmul_plan)}
# module → its formula as it stands, and as a slip of the pen would have it.
MUTATIONS = {
    "one operation a term": ("matmul_shapes", "return 2 * self.batch * self.m", "return self.batch * self.m"),
    "batch forgotten": ("matmul_shapes", "return 2 * self.batch * self.m", "return 2 * self.m"),
    "B as large as A": ("matmul_shapes", "self.batch * self.k * self.n, self", "self.batch * self.k * self.m, self"),
    "C in the operands' format": ("matmul_shapes", "(a + b) * in_bytes + c * out_bytes", "(a + b + c) * in_bytes"),
    "edges are free": ("matmul_shapes", "padded = rows * tile[0] * columns * tile[1]", "padded = m * n"),
    "waves are not whole": ("matmul_shapes", "waves = -(-tiles // units)", "waves = tiles / units"),
    "time of the slowest": ("matmul_samples", "rate / median(usable)", "rate / max(usable)"),
    "mean of rates": ("matmul_samples", "rate * len(usable) / total", "rate * sum(1 / one for one in usable) / len(usable)"),
    "rate of one look": ("matmul_samples", "look.shape.flop * look.reps for look", "look.shape.flop for look"),
    "ends exchanged": ("matmul_samples", "Interval(rate / times.high, rate / times.low", "Interval(rate / times.low, rate / times.high"),
    "windows all alike": ("matmul_samples", "value * weight for value, weight in", "value for value, weight in"),
    "interval of one window": ("matmul_samples", "* math.sqrt(squares * n / (n - 1)) / total", "* math.sqrt(squares / (n - 1))"),
    "peak as it stands": ("matmul_samples", "(peak_tflops * ABOVE_PEAK * 1e12)", "(peak_tflops * 1e12)"),
    "negative times": ("matmul_samples", "if value > 0 and value >= fastest", "if value >= fastest"),
    "per MHz": ("matmul_results", "tflops / mhz * 1000", "tflops / mhz"),
    "share for percent": ("matmul_results", '"percent_of_peak": 100 * figure', '"percent_of_peak": figure'),
    "slowest against the fastest": ("matmul_results", "middle = median(list(known.values()))", "middle = max(known.values())"),
    "passes are free": ("matmul_plan", "SWEEP_SECONDS * args.passes * tried", "SWEEP_SECONDS * tried"),
}


def broken(module: str, old: str, new: str) -> dict[str, types.ModuleType]:
    source = Path(MODULES[module].__file__).read_text()
    assert source.count(old) == 1, f"the mutation {old!r} has no place any more"
    made = types.ModuleType(f"broken_{module}")
    sys.modules[made.__name__] = made  # dataclasses look their module up
    exec(compile(source.replace(old, new), f"{made.__name__}.py", "exec"), made.__dict__)
    return {**MODULES, module: made}


def check_shapes(shapes) -> None:
    shape = shapes.MatmulShape(3, 5, 7, 2)  # 2 x (3 x 5) elements of C, 7 products and 7 sums each
    assert shape.flop == 2 * 3 * 5 * (7 + 7)
    assert shape.elements() == (2 * 3 * 7, 2 * 7 * 5, 2 * 3 * 5)
    assert shape.touched_bytes(1, 4) == (42 + 70) + 30 * 4
    assert shape.intensity(2, 2) == pytest.approx(420 / (2 * (42 + 70 + 30)))
    # 22 x 7 tiles of 128 x 256 on 132 units: two waves, and the last column of tiles half empty.
    assert shapes.tile_efficiency(2816, 1664, 132, (128, 256)) == pytest.approx(154 / 264 * 1664 / 1792)


def check_samples(samples) -> None:
    shape = matmul_shapes.MatmulShape(1000, 1000, 500)  # 1 GFLOP
    look = samples.judge_block(shape, [1e-3, 1e-3, 4e-3, 1e-3, -1.0, 0.0, 2e-3])
    assert (look.tflops, look.mean) == (pytest.approx(1.0), pytest.approx(5 / 9))
    assert (look.reps, look.rejected) == (5, 2)
    assert look.interval.low <= look.tflops <= look.interval.high
    other = samples.judge_block(shape, [1e-3] * 15)
    assert samples.work_over_time([look, other]) == pytest.approx(20 / 24)
    assert samples.split_samples([0.98e-3, 0.9e-3], shape.flop, 1.0) == ([0.98e-3], 1)  # 2% above the peak is jitter
    interval = samples.mean_interval([1.0, 3.0], [3.0, 1.0])  # 3 s at 1 and 1 s at 3
    assert interval.high - 1.5 == pytest.approx(1.2 * 12.71 * (2 * (1.5**2 + 1.5**2)) ** 0.5 / 4)


def check_results(results) -> None:
    assert results.per_ghz(700.0, 1400.0) == pytest.approx(500.0)
    nothing = types.SimpleNamespace(sm_mhz=1400.0, as_json=dict)
    figure = results.StateFigure("sustained", matmul_shapes.MatmulShape(1, 1, 1), 700.0, None, None, 1, 0, nothing, 1000.0)
    assert figure.as_json()["percent_of_peak"] == pytest.approx(70.0)
    ranks = {0: {"sustained": 90.0}, 1: {"sustained": 100.0}, 2: {"sustained": 120.0}}
    assert "rank 0 with 90 TFLOPS, 10.0% below the median 100 of 3" in results.slowest_sentence(ranks, "rank {}".format)


def check_plan(plan) -> None:
    shapes = tuple(matmul_shapes.MatmulShape(side, 64, 64) for side in range(1, 1001))
    request = plan.MatmulRequest(shapes, (None, None, None), False, 1)
    bf16 = types.SimpleNamespace(refusal=lambda shape, kind: "")
    for passes, limit, fits in ((1, 31, True), (1, 29, False), (2, 59, False), (2, 61, True)):
        args = types.SimpleNamespace(passes=passes, timeout=float(limit), num_iterations=None)
        if fits:
            plan.check_sweep_time(args, request, [bf16])
        else:
            with pytest.raises(plan.ProbeFailure, match="at the very least"):
                plan.check_sweep_time(args, request, [bf16])


def check_all(modules: dict[str, types.ModuleType]) -> None:
    check_shapes(modules["matmul_shapes"])
    check_samples(modules["matmul_samples"])
    check_results(modules["matmul_results"])
    check_plan(modules["matmul_plan"])


def test_formulas():
    check_all(MODULES)


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_broken_formula_is_noticed(name):
    with pytest.raises((AssertionError, pytest.fail.Exception, ZeroDivisionError)):
        check_all(broken(*MUTATIONS[name]))
