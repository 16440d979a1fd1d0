"""One AdamW step on the CPU against a plain copy: is the optimizer bound by memory?

    python3 host_adam.py --out host_adam.json        (about 1 minute; needs torch)

A step reads weight, gradient and two moments and writes weight and moments: 28 bytes a parameter in fp32.
Interleaved rounds, watched for foreign load as in host_cpu.py; the record keeps every value.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import host_cpu
import torch

PARAMS, BYTES = 64 << 20, 28


def median_s(work: Callable, seconds: float) -> float:
    """Median time of one call."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or not times:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def optimizer(kind: str) -> Callable:
    weight = torch.nn.Parameter(torch.zeros(PARAMS))
    weight.grad = torch.full_like(weight, 1e-3)
    step = torch.optim.AdamW([weight], fused=kind == "fused", foreach=kind == "foreach").step
    step()
    return step


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--out", type=Path, required=True)
    ask.add_argument("--repeats", type=int, default=5)
    given = ask.parse_args()
    source, target = torch.zeros(PARAMS), torch.zeros(PARAMS)
    work = {"fused": optimizer("fused"), "foreach": optimizer("foreach"), "copy": lambda: target.copy_(source)}
    moved = {"fused": BYTES * PARAMS, "foreach": BYTES * PARAMS, "copy": 8 * PARAMS}
    rates = host_cpu.rounds(
        work, given.repeats, lambda kind: round(moved[kind] / median_s(work[kind], 1.0) / 1e9, 2)
    )
    middle = {k: round(statistics.median(r["value"] for r in host_cpu.quiet(v)), 2) for k, v in rates.items()}
    record = {
        "schema": 1, "date": datetime.date.today().isoformat(), "command": "python3 host_adam.py --out host_adam.json",
        "torch": torch.__version__, "threads": torch.get_num_threads(), "cpus": len(os.sched_getaffinity(0)),
        "quiet_share": host_cpu.QUIET, "params": PARAMS, "bytes_per_param": BYTES,
        "gb_per_s": rates, "median_gb_per_s": middle,
        "fused_over_copy": round(middle["fused"] / middle["copy"], 2), "load": os.getloadavg(),
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(middle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
