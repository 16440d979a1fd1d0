#!/usr/bin/env python3
"""What each rank would report of the same all-reduce, one host capped to half.

    python3 ../fixtures/bench/hosts.py --hosts 4 --mbit 400 --slow 2:200 -- \
        python3 rank_means.py [OUT.json]

Each rank times its own calls (2 MiB, 15 of them after 3, a barrier before each); rank 0 writes busbw by
rank from its own median, their mean, and busbw from the slowest rank of each call.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import UTC, datetime

import torch
import torch.distributed as dist

BYTES, CALLS = 2 << 20, 15


def main() -> None:
    dist.init_process_group("gloo")
    n = dist.get_world_size()
    data = torch.ones(BYTES // 4)
    times = []
    for _ in range(CALLS + 3):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(data)
        times.append(time.perf_counter() - begin)
        data.fill_(1)
    mine = torch.tensor(times[3:], dtype=torch.float64)
    everyone = [torch.empty_like(mine) for _ in range(n)]
    dist.all_gather(everyone, mine)
    if dist.get_rank() == 0:
        factor = 2 * (n - 1) / n * BYTES / 1e6
        own = [factor / statistics.median(each.tolist()) for each in everyone]
        slowest = torch.stack(everyone).max(dim=0).values.tolist()
        record = {"schema": 1, "date": datetime.now(UTC).isoformat(timespec="seconds"), "ranks": n,
                  "bytes": BYTES, "calls": CALLS, "busbw_by_rank": [round(rate, 2) for rate in own],
                  "mean": round(statistics.mean(own), 2),
                  "from_slowest": round(factor / statistics.median(slowest), 2)}
        print(record)
        if len(sys.argv) > 1:
            with open(sys.argv[1], "w") as file:
                json.dump(record, file, indent=1)
                file.write("\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
