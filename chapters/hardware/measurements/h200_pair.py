#!/usr/bin/env python3
"""Copies of 1 GiB between two GPUs of one host, each way and both ways at once, with plain torch."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch

SIZE = 2**30


def timed(call: Callable[[], None], moved: int) -> dict:
    """GB/s of 20 calls after 3 warm-ups, each between two synchronizations of both devices."""
    rates = []
    for number in range(23):
        for device in range(2):
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        call()
        for device in range(2):
            torch.cuda.synchronize(device)
        if number >= 3:
            rates.append(moved / (time.perf_counter() - begin) / 1e9)
    return {
        "median_gb_per_s": round(statistics.median(rates), 1),
        "min": round(min(rates), 1),
        "max": round(max(rates), 1),
        "repetitions": len(rates),
        "bytes": moved,
    }


def main() -> None:
    source = [torch.ones(SIZE, dtype=torch.uint8, device=f"cuda:{i}") for i in range(2)]
    target = [torch.empty(SIZE, dtype=torch.uint8, device=f"cuda:{i}") for i in range(2)]
    streams = [torch.cuda.Stream(device=i) for i in range(2)]

    def send(origin: int) -> None:
        target[1 - origin].copy_(source[origin], non_blocking=True)

    def both() -> None:
        for origin in range(2):
            with torch.cuda.stream(streams[origin]):
                send(origin)

    report = {
        "name": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "peer_access": torch.cuda.can_device_access_peer(0, 1),
        "gpu0_to_gpu1": timed(lambda: send(0), SIZE),
        "gpu1_to_gpu0": timed(lambda: send(1), SIZE),
        "both_ways_sum": timed(both, 2 * SIZE),
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
