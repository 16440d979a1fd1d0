#!/usr/bin/env python3
"""Measure what packet loss and an MTU mismatch do to an all-reduce of two hosts over TCP.

    python3 path_faults.py          (root, torch, nft, about 2 minutes; writes path_faults.json)

Hosts and switch are network namespaces, each host sends at most 400 Mbit/s (fixtures/network-debugging/
faulty_path.py). Small: 2,000 all-reduces of 4 KiB; large: 15 of 16 MiB. Percentiles are of the slowest rank.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "network-debugging"
MBIT = 400
CASES = {"healthy": [], "loss_0.1": ["--loss", "0.1"], "loss_1": ["--loss", "1"], "loss_5": ["--loss", "5"],
         "mtu": ["--mtu", "1500"], "mtu_agreed": ["--host-mtu", "1500", "--mtu", "1500"]}
RUNS = {"small": ("4K", "2000"), "large": ("16M", "15")}


def run(fault: list[str], size: str, calls: str, report: Path) -> dict:
    patience = "20s" if fault == CASES["mtu"] else "100s"  # that case ends by the limit
    done = subprocess.run(
        [sys.executable, "faulty_path.py", "--mbit", str(MBIT), *fault, "--", sys.executable, "all_reduce_bench.py",
         "--device", "cpu", "--sizes", size, "--num-iterations", calls, "--row-time", "60s", "--stage-timeout", patience,
         "--json", str(report)], cwd=FIXTURES, text=True, capture_output=True, timeout=300)
    found = json.loads(report.read_text())
    counts = {f"host{host}": {"sent": int(sent), "again": int(again)} for host, sent, again in re.findall(
        r"^host(\d): (\d+) TCP segments sent, (\d+) again", done.stdout, re.M)}
    rows = found.get("results") or [None]
    return {"status": found["status"], "rc": found["rc"], "reason": found["reason"], "tcp": counts, "env": found["env"],
            "row": rows[0] and {"bytes": rows[0]["bytes"], "time_us": rows[0]["time_us"],
                                "busbw_mb_per_s": round(rows[0]["busbw"] / 1e6, 2)}}


def main() -> None:
    cases, about = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for case, fault in CASES.items():
            cases[case] = {name: run(fault, *shape, Path(folder) / f"{case}-{name}.json") for name, shape in RUNS.items()}
            env = cases[case]["small"].pop("env")
            cases[case]["large"].pop("env")
            about = {key: env.get(key) for key in ("python", "torch", "os")}
    (HERE / "path_faults.json").write_text(json.dumps(
        {"schema": 1, "date": datetime.now(UTC).isoformat(timespec="seconds"), "env": about, "mbit": MBIT,
         "command": "python3 path_faults.py", "faults": CASES, "runs": RUNS, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
