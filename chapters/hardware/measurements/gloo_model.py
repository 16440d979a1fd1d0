#!/usr/bin/env python3
"""Measure gloo's collectives between namespaces with a known link rate, and keep the raw times.

    python3 gloo_model.py [OUT.json]        (root, torch, about 8 minutes on two cores)

Comes in: fixtures/bench (hosts.py and the benchmark). Goes out: gloo_model.json, one row per run,
collective, number of hosts and size: the slowest rank's time in seconds as median, least and greatest of
seven. gloo_fit.py fits the model to these rows and states its errors.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent / "fixtures" / "bench"
MBIT = 400
SIZES = "64K,128K,256K,512K,1M,2M,4M,8M"
COLLECTIVES = "all_reduce,reduce_scatter,all_gather,all_to_all,broadcast,barrier,all_gather_object"
HOSTS = (2, 4, 8)
RUNS = 2


def measure(hosts: int, folder: Path) -> dict:
    """One run of the benchmark on so many hosts; its report."""
    folder.mkdir(exist_ok=True)
    report = folder / f"{hosts}.json"
    subprocess.run(
        [sys.executable, str(BENCH / "hosts.py"), "--hosts", str(hosts), "--mbit", str(MBIT), "--",
         sys.executable, str(BENCH / "all_reduce_bench.py"), "--device", "cpu",
         "--collective", COLLECTIVES, "--sizes", SIZES, "--num-iterations", "7",
         "--num-warmup-iterations", "2", "--check-every", "0", "--json", str(report)],
        check=True, timeout=900)
    return json.loads(report.read_text())


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "gloo_model.json"
    rows, about = [], {}
    with tempfile.TemporaryDirectory() as name:
        for run, hosts in itertools.product(range(RUNS), HOSTS):
            report = measure(hosts, Path(name) / str(run))
            about = {key: report["env"].get(key) for key in ("python", "torch", "os")}
            for row in report["results"]:
                time_us = row["time_us"]
                rows.append({"run": run, "op": row["op"], "hosts": hosts, "bytes": row["bytes"],
                             "seconds": round(time_us["median"] / 1e6, 7),
                             "least": round(time_us["min"] / 1e6, 7),
                             "greatest": round(time_us["max"] / 1e6, 7)})
    load = os.getloadavg()
    target.write_text(json.dumps({
        "schema": 1, "date": datetime.now(UTC).isoformat(timespec="seconds"), "env": about,
        "link_mbit": MBIT, "link": "one network namespace a host, tc tbf, burst 32kb, MTU 9000",
        "command": "python3 gloo_model.py", "cores": os.cpu_count(), "load_at_end": load,
        "rows": rows}, indent=None).replace('{"run"', '\n {"run"') + "\n")


if __name__ == "__main__":
    main()
