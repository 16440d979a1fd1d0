"""Telemetry judged on recorded samples; without a device everything is null."""

from __future__ import annotations

import time

import pytest

from clusterprobe.device import pick_index, shared_devices
from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.telemetry import (
    Sample,
    Telemetry,
    open_nvml,
    open_telemetry,
    summarize_samples,
    throttle_text,
)

CAPPED = [
    Sample(
        float(i),
        sm_mhz=1500 + 10 * i,
        memory_mhz=2619,
        power_w=690 + i,
        temperature_c=60 + i,
        throttle=0x4 if i >= 2 else 0,
    )
    for i in range(10)
]


def test_means_and_reasons():
    found = summarize_samples(CAPPED)
    assert (found.samples, found.sm_mhz, found.sm_mhz_min, found.sm_mhz_max) == (
        10,
        1545,
        1500,
        1590,
    )
    assert (found.power_w, found.power_w_max, found.temperature_c) == (694.5, 699, 64.5)
    assert found.throttle == {"power cap": 0.8}
    assert throttle_text(found) == "power cap 80%"


def test_absent_counters_are_null():
    found = summarize_samples([Sample(0.0, sm_mhz=1000), Sample(1.0)])
    assert (found.sm_mhz, found.power_w, found.throttle) == (1000, None, None)
    assert throttle_text(found) == "-"
    empty = summarize_samples([])
    assert (empty.samples, empty.sm_mhz, empty.throttle) == (0, None, None)


def test_no_throttle_is_not_unknown():
    found = summarize_samples([Sample(0.0, throttle=0), Sample(1.0, throttle=1)])
    assert found.throttle == {"idle": 0.5}
    assert throttle_text(found) == "none"


def test_window():
    telemetry = Telemetry(None)
    telemetry.samples = CAPPED
    assert telemetry.between(0, 1).throttle == {}
    assert telemetry.between(2, 9).throttle == {"power cap": 1.0}
    assert not telemetry.available


def test_recording_is_replayed():
    start = time.monotonic()
    telemetry = open_telemetry(
        None, [{"when": 1.0, "sm_mhz": 1980.0}, {"sm_mhz": 1755.0}], interval=0.001
    ).start()
    time.sleep(0.1)
    telemetry.stop()
    found = telemetry.between(start, time.monotonic())
    assert (found.samples, found.sm_mhz) == (2, 1867.5)


def test_no_uuid_no_source():
    assert open_nvml(None) is None
    assert not open_telemetry("GPU-none-such").available


@pytest.mark.parametrize(
    ("local", "visible", "index"), [(0, 8, 0), (7, 8, 7), (3, 1, 0), (0, 1, 0)]
)
def test_device_of_a_local_rank(local, visible, index):
    assert pick_index(local, visible)[0] == index
    assert bool(pick_index(local, visible)[1]) == (local >= visible)


@pytest.mark.parametrize(("local", "visible"), [(2, 2), (8, 4), (0, 0)])
def test_no_device_for_a_local_rank(local, visible):
    with pytest.raises(
        ProbeFailure, match=f"local rank {local} has no device: {visible} visible"
    ) as caught:
        pick_index(local, visible)
    assert caught.value.rc == CANNOT_RUN


def test_shared_devices_are_named_once():
    records = [
        {"rank": rank, "node": "n", "uuid": "GPU-a" if rank < 2 else f"GPU-{rank}", "pci": None}
        for rank in range(4)
    ]
    assert shared_devices(records) == ["ranks 0-1 share device GPU-a"]
    other_node = [
        {"rank": 0, "node": "a", "uuid": "GPU-a"},
        {"rank": 1, "node": "b", "uuid": "GPU-a"},
    ]
    assert shared_devices(other_node) == []
    assert (
        shared_devices([{"rank": r, "node": "n", "uuid": None, "pci": None} for r in range(3)])
        == []
    )
