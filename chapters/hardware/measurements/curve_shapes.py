#!/usr/bin/env python3
"""Measure all-reduce by size on four hosts: healthy, with one slow link, with one late rank.

    python3 curve_shapes.py          (root, torch, about 3 minutes; writes curve_shapes.json)

Hosts are network namespaces with 400 Mbit/s each (fixtures/bench/hosts.py). The slow link sends at
100 Mbit/s, the late rank sleeps 100 ms before each call (fixtures/bench/late.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent / "fixtures" / "bench"
CASES = {
    "healthy": ([], "all_reduce_bench.py", {}),
    "slow_link": (["--slow", "2:100"], "all_reduce_bench.py", {}),
    "late_rank": ([], "late.py", {"LATE_RANK": "2", "LATE_MS": "100"}),
}


def measure(name: str, folder: Path) -> dict:
    hosts, tool, more = CASES[name]
    report = folder / f"{name}.json"
    subprocess.run(
        [sys.executable, str(BENCH / "hosts.py"), "--hosts", "4", "--mbit", "400", *hosts, "--",
         sys.executable, str(BENCH / tool), "--device", "cpu", "--num-iterations", "7",
         "--sizes", "4K,16K,64K,256K,1M,4M,16M", "--json", str(report)],
        check=True, timeout=600, env={**os.environ, **more})
    return json.loads(report.read_text())


def main() -> None:
    cases, about = {}, {}
    with tempfile.TemporaryDirectory() as name:
        for case in CASES:
            report = measure(case, Path(name))
            about = {key: report["env"].get(key) for key in ("python", "torch", "os")}
            cases[case] = {
                "rows": [{"bytes": row["bytes"], "median_us": round(row["time_us"]["median"], 1),
                          "busbw_mb_per_s": round(row["busbw"] / 1e6, 3)} for row in report["results"]],
                "warnings": report["warnings"]}
    (HERE / "curve_shapes.json").write_text(json.dumps(
        {"schema": 1, "date": datetime.now(UTC).isoformat(timespec="seconds"), "env": about,
         "link_mbit": 400, "slow_mbit": 100, "late_ms": 100, "hosts": 4,
         "command": "python3 curve_shapes.py", "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
