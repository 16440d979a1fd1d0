#!/usr/bin/env python3
"""One size for as long as you like: every all-reduce's time on four hosts, and their percentiles.

    python3 stability.py [CALLS]         (root, torch, about 3 minutes; writes stability.json)

The hosts are network namespaces of 400 Mbit/s on one shared machine, so the tail is that machine's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent / "fixtures" / "bench"


def main() -> None:
    calls = sys.argv[1] if len(sys.argv) > 1 else "1000"
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "r.json"
        subprocess.run(
            [sys.executable, str(BENCH / "hosts.py"), "--hosts", "4", "--mbit", "400", "--",
             sys.executable, str(BENCH / "all_reduce_bench.py"), "--device", "cpu", "--sizes", "1M",
             "--profile-stability", "--num-iterations", calls, "--row-time", "900s", "--timeout", "20m",
             "--stage-timeout", "15m", "--json", str(report)], check=True, stdout=subprocess.DEVNULL)
        row = json.loads(report.read_text())["results"][0]
    times = sorted(row["samples_us"])
    at = {str(p): times[min(len(times) - 1, int(len(times) * p / 100))] for p in (1, 50, 90, 99, 99.9)}
    (HERE / "stability.json").write_text(json.dumps(
        {"schema": 1, "date": datetime.now(UTC).isoformat(timespec="seconds"), "bytes": row["bytes"],
         "calls": len(times), "percentile_us": at, "samples_us": [round(t) for t in row["samples_us"]],
         "command": f"python3 stability.py {calls}"}) + "\n")


if __name__ == "__main__":
    main()
