"""Chapter "Collectives": worked examples from their inputs, the fit from its rows, figures from their scripts."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from bookfiles import load_script

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters/hardware"
MEASUREMENTS = HARDWARE / "measurements"
TEXT = (HARDWARE / "collectives.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fit():
    return load_script(MEASUREMENTS / "gloo_fit.py")


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return json.loads((MEASUREMENTS / "gloo_model.json").read_text())["rows"]


def test_the_stored_fit_is_the_fit_of_the_stored_rows(fit, rows):
    alpha, rate = fit.fit(rows)
    stored = json.loads((MEASUREMENTS / "gloo_fit.json").read_text())
    assert stored["alpha_us"] == pytest.approx(1e6 * alpha, rel=1e-9)
    assert stored["rate_mb_per_s"] == pytest.approx(rate / 1e6, rel=1e-9)
    eight = [r for r in fit.judged(rows, alpha, rate)
             if (r["op"], r["hosts"]) == ("all_reduce", 8) and r["bytes"] >= fit.LARGE]
    assert stored["by_op"]["all_reduce"]["8"]["large"] == pytest.approx(fit.summary(eight))


def test_the_fit_recovers_the_numbers_that_made_the_rows(fit):
    made = [{"op": "all_reduce", "hosts": 4, "bytes": size, "seconds": 6 * 2e-4 + 1.5 * size / 5e7}
            for size in fit.FIT_SIZES]
    assert fit.fit(made) == pytest.approx((2e-4, 5e7), rel=1e-6)


def test_no_row_of_the_fit_is_among_the_predictions(fit, rows):
    judged = fit.judged(rows, *fit.fit(rows))
    assert not [r for r in judged if r["op"] == "all_reduce" and r["hosts"] == 4 and r["bytes"] in fit.FIT_SIZES]
    assert len({r["hosts"] for r in judged}) == 3


def test_what_the_text_says_of_the_residuals(fit, rows):
    stored = json.loads((MEASUREMENTS / "gloo_fit.json").read_text())["by_op"]
    assert all(stored["all_reduce"][n]["large"]["median"] < 0.04 for n in ("2", "4", "8"))
    assert stored["all_reduce"]["8"]["large"]["greatest"] < 0.05
    assert stored["all_reduce"]["8"]["small"]["greatest"] > 0.5  # "Small sizes are not"
    broadcast = stored["broadcast"]["8"]["measured_ms_8m"] / (1e3 * 2**23 / 50e6)
    assert broadcast == pytest.approx(6, rel=0.05)
    assert stored["reduce_scatter"]["4"]["measured_ms_8m"] == pytest.approx(
        stored["all_reduce"]["4"]["measured_ms_8m"], rel=0.05)


def test_rows_that_miss_widely_are_of_one_run_and_their_repeats_are_on_the_line(fit, rows):
    judged = [r for r in fit.judged(rows, *fit.fit(rows))
              if r["op"] in ("all_reduce", "broadcast") and r["bytes"] >= fit.LARGE]
    wide = [r for r in judged if abs(r["error"]) > 0.3]
    assert len(wide) == 4
    assert len({r["run"] for r in wide}) == 1
    for row in wide:
        (other,) = [r for r in judged if r["run"] != row["run"]
                    and all(r[key] == row[key] for key in ("op", "hosts", "bytes"))]
        assert abs(other["error"]) < 0.035


def test_slices():
    alpha, rate, n, size = 10e-6, 50e9, 8, 100e6
    times = {m: 1e3 * (n - 2 + m) * (alpha + size / (m * rate)) for m in (1, 8, 35, 1000)}
    for m, ms in times.items():
        assert f"{m:5} slices: {ms:6.2f} ms" in TEXT
    best = math.sqrt((n - 2) * size / (alpha * rate))
    assert f"best m = {best:.1f}" in TEXT
    assert min(range(1, 2000), key=lambda m: (n - 2 + m) * (alpha + size / (m * rate))) in (34, 35)


@pytest.mark.parametrize("n", [8, 64, 512])
def test_crossover(n):
    figures = load_script(HARDWARE / "figures/src/collectives.py")
    alpha, rate = 14e-6, 50e9
    equal = figures.crossing(n, alpha, rate)
    assert figures.ring_time(n, equal, alpha, rate) == pytest.approx(figures.tree_time(n, equal, alpha, rate))
    assert f"{n:4} ranks: equal at {equal / 2**20:8,.0f} MiB" in TEXT
    assert f"{1e3 * figures.ring_time(n, 2**20, alpha, rate):5.2f} ms (ring)" in TEXT


def test_busbw_example():
    algbw = 2**30 / 4.0e-3 / 1e9
    assert f"{algbw:.1f} GB/s" in TEXT
    assert f"busbw = {algbw * 2 * 7 / 8:.1f} GB/s" in TEXT


def test_bytes_of_a_step():
    params, layers, act = 8.03e9, 32, 2 * 8192 * 4096
    sent = {
        "DP 64, bf16 gradients": 2 * params * 2 * 63 / 64,
        "FSDP 64, weights twice": 2 * 2 * params * 63 / 64,
        "FSDP 64, gradients": 2 * params * 63 / 64,
        "TP 8 ": 4 * layers * act * 2 * 7 / 8,
        "CP 8": 7 * layers * 16384 * 2 * 1024 * 2,
        "EP 64": 4 * 4096 * 8 * 7168 * 2 * 63 / 64,
    }
    for name, value in sent.items():
        line = next(row for row in TEXT.splitlines() if row.startswith(name) and "sends" in row)
        assert line.endswith(f"sends {value / 1e9:5.2f} GB"), line
    dp, fsdp = sent["DP 64, bf16 gradients"], sent["FSDP 64, weights twice"] + sent["FSDP 64, gradients"]
    assert fsdp / dp == pytest.approx(1.5)
    assert f"= {dp / 50e9:.2f} s, FSDP's" in TEXT
    assert f"/ 50 = {fsdp / 50e9:.2f} s" in TEXT
    assert f"that is {1e3 * sent['TP 8 '] / 370e9:.0f} ms" in TEXT


def test_bucket_size():
    """k alpha under a tenth of v S / B."""
    size = 10 * 2 * 63 * 14e-6 * 50e9 / (2 * 63 / 64)
    assert f"S ≥ {size / 1e6:.0f} MB" in TEXT


def test_message_sizes_of_all_to_all():
    assert f"messages of {4096 * 8 * 7168 * 2 / 64 / 1e6:.1f} MB" in TEXT
    assert f"of {128 * 8 * 7168 * 2 / 512 / 1e3:.0f} KB" in TEXT


@pytest.mark.parametrize("script", ["collectives", "network_benchmarks"])
def test_figures_are_what_their_scripts_draw(script):
    module = load_script(HARDWARE / f"figures/src/{script}.py")
    drawn = {"collectives": ("moves", "algorithms", "crossover", "gloo"),
             "network_benchmarks": ("shapes", "latency", "pair")}[script]
    for name in drawn:
        file = HARDWARE / f"figures/{script.replace('_', '-')}-{name}.svg"
        assert file.read_text() == getattr(module, name)(), file


@pytest.mark.parametrize("name", ["nccl_env", "collective_rates"])
def test_data_under_its_schema(name):
    folder = BOOK / "data/schema"
    registry = Registry().with_resource(
        "accelerators.json", Resource.from_contents(json.loads((folder / "accelerators.json").read_text())))
    data = json.loads(json.dumps(yaml.safe_load((BOOK / f"data/{name}.yaml").read_text()), default=str))
    schema = json.loads((folder / f"{name}.json").read_text())
    jsonschema.Draft202012Validator(schema, registry=registry).validate(data)


def test_objects_and_the_fit_on_two_gpus():
    rows = json.loads((MEASUREMENTS / "nccl_pair_objects.json").read_text())["worlds"][0]["rows"]
    us = {(row["call"], row["bytes"]): row["us"] for row in rows}
    assert us["all_gather_object", 100] / us["all_gather", 100] == pytest.approx(12, abs=0.5)
    assert us["all_gather_object", 16_000_000] / us["all_gather", 16_000_000] == pytest.approx(150, rel=0.05)
    share = us["all_gather_with_host_copies", 16_000_000] / us["all_gather_object", 16_000_000]
    assert share == pytest.approx(0.25, abs=0.03)
    summary = json.loads((MEASUREMENTS / "nccl_pair_summary.json").read_text())
    rate = summary["curves"]["protocols: default"]["fit"]["beta_gb_per_s"]
    assert 45e-6 * rate * 1e3 == pytest.approx(15, abs=1)  # MB whose bytes take as long as the call
