"""What a data set costs in memory once workers are forked, and what the tools say about it.

    python3 host_memory.py --out host_memory.json        (about 2 minutes; needs numpy and torch)

Copy-on-write: one parent holds a data set as a list of strings, a list of dicts, a numpy array of fixed-width
strings, one bytes buffer with offsets, or a memory-mapped file; four forked workers read all of it once. RSS, PSS and private
memory come from /proc/PID/smaps_rollup, before and after. Each case runs in a process of its own, interleaved.
"""

from __future__ import annotations

import argparse
import datetime
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ITEMS, WORKERS, WIDTH = 2_000_000, 4, 64
CASES = ("list of str", "list of dict", "array of str", "buffer and offsets", "mapped file")


def rollup(pid: int) -> dict[str, float]:
    """MiB by key of smaps_rollup; `Private` is what dies with the process (USS)."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split(":")
        found[key] = int(value.split()[0]) / 1024
    keep = {k: found[k] for k in ("Rss", "Pss", "Anonymous")}
    keep["Private"] = found["Private_Clean"] + found["Private_Dirty"]
    return {k: round(v, 1) for k, v in keep.items()}


class Texts:
    """Two million texts of 64 characters, held one way or another."""

    def __init__(self, case: str, folder: str):
        import numpy as np

        texts = (f"{n:0{WIDTH}d}" for n in range(ITEMS))
        self.case = case
        if case == "list of str":
            self.held = list(texts)
        elif case == "list of dict":
            self.held = [{"text": t, "label": n + 1000} for n, t in enumerate(texts)]
        elif case == "array of str":
            self.held = np.array([t.encode() for t in texts], dtype=f"S{WIDTH}")
        else:
            joined = "".join(texts).encode()
            self.offsets = np.arange(ITEMS + 1, dtype=np.int64) * WIDTH
            self.held = np.frombuffer(joined, dtype=np.uint8)
            if case == "mapped file":
                path = Path(folder) / "texts"
                path.write_bytes(joined)
                with path.open("rb") as file:
                    self.held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read(self, n: int) -> int:
        if self.case == "list of dict":
            return len(self.held[n]["text"])
        if self.case in ("list of str", "array of str"):
            return len(self.held[n])
        return len(bytes(self.held[self.offsets[n]:self.offsets[n + 1]]))


def one(case: str) -> dict:
    """Parent, fork, read, look. Runs in a fresh interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        data = Texts(case, folder)
        ready, go, done = os.pipe(), os.pipe(), os.pipe()
        before, children = rollup(os.getpid()), []
        for _ in range(WORKERS):
            pid = os.fork()
            if pid == 0:
                os.write(ready[1], b"r")
                os.read(go[0], 1)
                for n in range(ITEMS):
                    data.read(n)
                os.write(done[1], b"d")
                time.sleep(60)
                os._exit(0)
            children.append(pid)
        for _ in children:
            os.read(ready[0], 1)
        started = [rollup(pid) for pid in children]
        for _ in children:
            os.write(go[1], b"g")
        for _ in children:
            os.read(done[0], 1)
        ended = [rollup(pid) for pid in children]
        parent = rollup(os.getpid())
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        total = round(parent["Pss"] + sum(c["Pss"] for c in ended), 1)
        return {"parent_alone": before, "workers_at_start": started, "workers_after": ended,
                "parent_after": parent, "pss_all_mib": total,
                "rss_sum_mib": round(parent["Rss"] + sum(c["Rss"] for c in ended), 1)}


def summary(cases: dict[str, list]) -> dict:
    """Medians over the repetitions, MiB; `worker` is the mean of the four workers."""
    def of(runs: list) -> dict[str, float]:
        worker = lambda r, when, key: statistics.mean(w[key] for w in r[when])  # noqa: E731
        values = {
            "parent_rss": [r["parent_alone"]["Rss"] for r in runs],
            "worker_private_at_start": [worker(r, "workers_at_start", "Private") for r in runs],
            "worker_private_after": [worker(r, "workers_after", "Private") for r in runs],
            "worker_rss_after": [worker(r, "workers_after", "Rss") for r in runs],
            "pss_all": [r["pss_all_mib"] for r in runs],
            "rss_sum": [r["rss_sum_mib"] for r in runs],
        }
        return {k: round(statistics.median(v), 1) for k, v in values.items()}
    return {case: of(runs) for case, runs in cases.items()}


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--out", type=Path)
    ask.add_argument("--repeats", type=int, default=3)
    ask.add_argument("--case", choices=CASES)
    given = ask.parse_args()
    if given.case:
        print(json.dumps(one(given.case)))
        return 0
    found: dict[str, list] = {c: [] for c in CASES}
    begin = time.time()
    for _ in range(given.repeats):
        for case in CASES:
            said = subprocess.run([sys.executable, __file__, "--case", case], stdout=subprocess.PIPE, check=True)
            found[case].append(json.loads(said.stdout))
    record = {
        "schema": 1, "date": datetime.date.today().isoformat(),
        "command": "python3 host_memory.py --out host_memory.json",
        "machine": {"kernel": platform.release(), "python": platform.python_version(),
                    "page_bytes": os.sysconf("SC_PAGE_SIZE")},
        "items": ITEMS, "width": WIDTH, "workers": WORKERS, "repeats": given.repeats,
        "summary": summary(found), "cases": found, "seconds": round(time.time() - begin),
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{given.out}: {record['seconds']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
