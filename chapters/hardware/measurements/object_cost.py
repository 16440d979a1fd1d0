#!/usr/bin/env python3
"""Time of a small dictionary sent as an object against the same numbers sent as one tensor.

    torchrun --nproc-per-node 4 object_cost.py [OUT.json]      (gloo; nccl where CUDA is there)

Rank 0 prints medians over 300 calls, after 20 that are not timed, and the pickle's size.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import sys
import time
from datetime import UTC, datetime

import torch
import torch.distributed as dist

CALLS = 300
METRICS = {"loss": 2.31, "tokens": 8192.0, "grad_norm": 0.7, "lr": 3e-4}


def median_us(call) -> float:
    times = []
    for number in range(CALLS + 20):
        begin = time.perf_counter()
        call()
        if number >= 20:
            times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    n = dist.get_world_size()
    values = torch.tensor(list(METRICS.values()), device=device)

    def as_objects() -> None:
        got = [None] * n
        dist.all_gather_object(got, METRICS)

    def as_tensor() -> None:
        mean = values.clone()
        dist.all_reduce(mean)
        mean.tolist()  # waits for the result, as a logger does

    tensor, objects = median_us(as_tensor), median_us(as_objects)
    if dist.get_rank() == 0:
        pickled = len(pickle.dumps(METRICS))
        print(f"{n} ranks, {dist.get_backend()}: tensor {tensor:.0f} us, "
              f"object {objects:.0f} us ({pickled} B pickled), {objects / tensor:.1f} times")
        if len(sys.argv) > 1:
            with open(sys.argv[1], "w") as file:
                json.dump({"schema": 1, "date": datetime.now(UTC).isoformat(timespec="seconds"),
                           "torch": torch.__version__, "backend": dist.get_backend(), "ranks": n,
                           "tensor_us": round(tensor, 1), "object_us": round(objects, 1),
                           "pickled_bytes": pickled, "calls": CALLS}, file, indent=1)
                file.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
