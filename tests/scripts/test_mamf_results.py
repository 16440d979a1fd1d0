"""What is said about many devices, and what ranks agree on; up to 16,384 of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jsonschema
import pytest
from conftest import SCRIPTS

from clusterprobe.mamf import verdict
from clusterprobe.matmul_results import (
    DtypeResult,
    StateFigure,
    WatchedBench,
    figure_sentence,
    keep_so_far,
    odd_devices,
    print_devices,
    slowest_sentence,
)
from clusterprobe.matmul_samples import MatmulLook, ShapeScore
from clusterprobe.matmul_search import MatmulBench
from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.matmul_team import merge_lists
from clusterprobe.report import Report
from clusterprobe.telemetry import summarize_samples

FIXTURES = Path(__file__).parent / "fixtures"
NOTHING = summarize_samples([])


def named(rank: int) -> str:
    return f"rank {rank}@node{rank // 8}"


def records(rates: list) -> dict:
    return {rank: {"dtype": "bf16", "sustained": rate, "wrong": None, "reason": None} for rank, rate in enumerate(rates)}


def test_the_slow_one_is_named():
    found = records([700.0] * 11 + [616.0] + [700.0] * 4)
    assert odd_devices(found) == [11]
    assert slowest_sentence(found, named) == (
        "slowest: rank 11@node1 with 616 TFLOPS, 12.0% below the median 700 of 16 devices")


def test_no_alarm_among_equals_and_small_spreads():
    assert odd_devices(records([700.0] * 16)) == []
    assert odd_devices(records([700.0 + place for place in range(16)])) == []
    assert odd_devices(records([700.0, 600.0])) == [], "two have no majority"
    assert slowest_sentence(records([700.0]), named) == ""
    assert odd_devices(records([None, 700.0, 701.0, 699.0, 500.0])) == [4]


def test_ranks_agree_by_points():
    a, b, c = [1, 1, 1, 1], [2, 2, 2, 1], [3, 3, 3, 1]
    assert merge_lists([[a, b, c]], 2) == [a, b]
    assert merge_lists([[a, b], [b, c], [b, a]], 3) == [b, a, c]
    assert merge_lists([[c, b, a], [c, a, b]], 3) == [c, a, b]
    assert merge_lists([[], [c]], 5) == [c]
    assert merge_lists([[], []], 5) == []


def test_thousands_of_devices(capsys):
    rates = [700.0 + (rank * 7919 % 100) / 50 for rank in range(16384)]
    rates[12345] = 610.0
    found = records(rates)
    start = time.monotonic()
    lists = [[[4096 + 256 * ((rank + place) % 9), 4096, 8192, 1] for place in range(6)] for rank in range(16384)]
    assert len(merge_lists(lists, 6)) == 6
    print_devices(Report("mamf-finder", [], {}, "none"), found, named)
    assert odd_devices(found) == [12345]
    assert "rank 12345@node1543" in slowest_sentence(found, named)
    assert time.monotonic() - start < 2
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 25
    assert text.splitlines()[1].startswith("rank 12345@node1543")


SHAPE = MatmulShape(1, 2, 3)


class FakeControl:
    name = staticmethod(named)


class FakeSession:
    control = FakeControl()

    def __init__(self, gate: float | None = None) -> None:
        self.args = type("Args", (), {"fail_below": gate})()


def figure(tflops: float, **more) -> StateFigure:
    return StateFigure("sustained", MatmulShape(1, 2, 3), tflops, [tflops, tflops], 0.95, 9, 0, NOTHING, **more)


def ended(rate: float | None = 700.0, **more):
    result = DtypeResult("bf16", sustained=figure(rate or 1), burst=figure(800.0), **more)
    return result, {0: {**result.as_json(), "sustained": rate}}


@pytest.mark.parametrize(("gate", "ends", "rc", "words"), [
    (None, [ended()], 0, "700 TFLOPS sustained, 800 burst"),
    (720.0, [ended()], 3, "rank 0@node0 sustains 700 TFLOPS in bf16, below 720"),
    (650.0, [ended()], 0, "sustained"),
    (None, [ended(wrong="bf16 1x2x3: 3 elements")], 4, "rank 0@node0: bf16 1x2x3: 3 elements"),
    (None, [ended(failed_shapes=2)], 7, "2 shapes could not be measured"),
    (None, [(DtypeResult("fp8", "no"), {0: {"wrong": None, "sustained": None}})], 6, "fp8: no"),
    (None, [ended(), (DtypeResult("fp8", "no"), {0: {"wrong": None, "sustained": None}})], 7, "skipped: fp8: no"),
])
def test_exit_code_and_sentence(gate, ends, rc, words):
    code, sentence = verdict(FakeSession(gate), True, ends)
    assert code == rc
    assert words in sentence


def test_unsupported_formats_of_all_do_not_count():
    code, _ = verdict(FakeSession(), False, [ended(), (DtypeResult("fp8", "no"), {0: {"wrong": None, "sustained": None}})])
    assert code == 0


def test_a_wrong_product_has_no_figure():
    wrong = figure(2700.0, peak=989.0, wrong="9 of 9 checked elements are wrong")
    entry = wrong.as_json()
    assert entry["tflops"] is None
    assert entry["percent_of_peak"] is None
    assert entry["status"] == "wrong"
    assert "2700" not in figure_sentence(wrong)


def test_percent_only_with_a_peak():
    assert figure(494.5, peak=989.0).as_json()["percent_of_peak"] == pytest.approx(50.0)
    assert figure(494.5).as_json()["percent_of_peak"] is None
    assert "%" not in figure_sentence(figure(494.5))
    assert "(50.0% of 989)" in figure_sentence(figure(494.5, peak=989.0))


def test_recorded_reports_keep_the_schema():
    schema = json.loads((SCRIPTS / "clusterprobe/schema/report.schema.json").read_text())
    for name, report in json.loads((FIXTURES / "mamf_h200_reports.json").read_text()).items():
        jsonschema.validate(report, schema)
        assert report["rc"] == (4 if name == "fp8_tf32" else 0)


def watched(status: str = "running") -> WatchedBench:
    found = WatchedBench(MatmulBench(), Report("mamf-finder", [], {}, "none"), "bf16", lambda look: None)
    found.cool[SHAPE] = ShapeScore(SHAPE, False, [MatmulLook(SHAPE, 650.0)])
    found.entry["status"] = status
    return found


def test_an_early_end_in_the_search_keeps_the_last_looks():
    """The report's entry is up to a second old, and nothing in it is a result."""
    found, report = watched(), Report("mamf-finder", [], {}, "none")
    assert keep_so_far(report, DtypeResult("bf16"), found) == [
        "bf16 so far: best cool look 650 TFLOPS at 1x2x3, of 1 shapes; the finals are missing"]
    assert (found.entry["status"], found.entry["measured"]) == ("partial", 1)
    assert keep_so_far(report, DtypeResult("bf16"), None) == []


def test_an_early_end_in_the_finals_tells_the_best_of_them():
    report = Report("mamf-finder", [], {}, "none")
    lines = keep_so_far(report, DtypeResult("bf16", finals=[figure(690.0), figure(700.0)]), watched("ok"))
    assert len(lines) == 1
    assert "best final 700 TFLOPS at 1x2x3, its product not checked" in lines[0]
    assert report.document["results"] == []


def test_an_early_end_while_others_are_waited_for_keeps_the_own_figures():
    report = Report("mamf-finder", [], {}, "none")
    result, _ = ended(complete=True)
    assert keep_so_far(report, result, watched("ok")) == ["on this rank's device: bf16 700 TFLOPS sustained, 800 burst"]
    assert [one["tflops"] for one in report.document["results"]] == [700.0, 800.0]


def test_a_lost_burst_does_not_silence_the_sustained_figure():
    result, found = ended()
    result.burst.tflops = None
    assert verdict(FakeSession(), True, [(result, found)]) == (0, "bf16 700 TFLOPS sustained, no burst figure")
