#!/usr/bin/env python3
"""storage_fio.json: fio on one local disk by request size, depth, jobs; buffered; fsync; where a cache lies.

    nice python3 storage_fio.py --folder FOLDER --out storage_fio.json

Needs fio 3 and 1 GiB in FOLDER for about six minutes; the file is removed at the end.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures/storage"))
from io_scan import fill, of_json, run

SIZE = "1g"


def scan(file: Path, ways: list[str], sizes: list[str], depths: list[int], jobs: list[int], **more):
    args = argparse.Namespace(
        **{"buffered": False, "file_size": SIZE, "seconds": 2, "ramp": 1, **more}
    )
    return [
        asdict(run(file, way, size, depth, n, args))
        for way in ways for size in sizes for depth in depths for n in jobs
    ]  # fmt: skip


def fsyncs(file: Path) -> list[dict]:
    """4 KiB and 1 MiB writes with a sync after every Nth one."""
    rows = []
    for size in ("4k", "1m"):
        for every in (0, 1, 16, 64):
            command = [
                "fio", "--output-format=json", "--ioengine=psync", "--direct=0", f"--size={SIZE}",
                "--rw=write", f"--bs={size}", f"--fsync={every}", "--time_based", "--runtime=3",
                "--iodepth=1", "--numjobs=1", "--refill_buffers", "--name=s", f"--filename={file}",
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            text = done.stdout[done.stdout.index("{") :]
            sync = json.loads(text)["jobs"][0]["sync"]["lat_ns"]
            row = asdict(of_json(text))
            keep = {k: row[k] for k in ("size", "mb_per_s", "iops")}
            rows.append({**keep, "fsync_every": every, "sync_ms": round(sync["mean"] / 1e6, 3)})
            os.sync()
    return rows


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def caches(file: Path) -> dict:
    """dd-like reads of one file: evicted, again, and with O_DIRECT; writes without and with fsync."""
    size = file.stat().st_size
    out: dict = {"bytes": size}

    def read() -> None:
        with file.open("rb", buffering=0) as source:
            while source.read(1 << 20):
                pass

    def evict() -> None:
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)

    def write(sync: bool) -> None:
        with file.open("wb", buffering=0) as sink:
            block = os.urandom(1 << 20)
            for _ in range(size >> 20):
                sink.write(block)
            if sync:
                os.fsync(sink.fileno())

    for name in ("read_evicted_s", "read_evicted_again_s"):
        evict()
        out[name] = round(timed(read), 4)
    out["read_cached_s"] = round(timed(read), 4)
    os.sync()
    out["write_buffered_s"] = round(timed(lambda: write(False)), 4)
    os.sync()
    out["write_fsync_s"] = round(timed(lambda: write(True)), 4)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    file = args.folder / "storage_fio.tmp"
    start = time.time()
    try:
        fill(file, SIZE)
        report = {
            "schema": 1,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "device": "virtual disk of a two-core virtual machine, ext4; shared host, neighbors active",
            "kernel": os.uname().release,
            "fio": subprocess.run(["fio", "--version"], capture_output=True, text=True).stdout.strip(),
            "file_bytes": 1 << 30,
            "command": "nice python3 storage_fio.py --folder FOLDER --out storage_fio.json",
            "seconds_a_point": "1 s ramp, 2 s measured",
            "matrix": scan(
                file, ["randread", "randwrite"], ["4k", "16k", "64k", "256k", "1m", "4m"],
                [1, 4, 16, 64], [1],
            ),
            "jobs": scan(file, ["randread"], ["4k", "1m"], [1], [1, 4, 16]),
            "sequential": scan(file, ["read", "write"], ["4k", "1m"], [1, 16], [1]),
            "buffered": scan(
                file, ["read", "randread"], ["4k", "1m"], [1], [1], buffered=True, ramp=0
            ),
            "cache": caches(file),
            "fsync": fsyncs(file),
        }  # fmt: skip
    finally:
        file.unlink(missing_ok=True)
    report["seconds"] = round(time.time() - start)
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
