#!/usr/bin/env python3
"""storage_import.json: what `import torch` asks of its file system, and what it costs at a given latency.

    unshare --mount python3 storage_import.py --torch-python PY --fuse-python PY --work FOLDER --out FILE

PY with torch, PY with fusepy (storage_slowfs.py says which); strace, mksquashfs; root for the mounts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from storage_slow_trials import header, least, slow, timed

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures/storage"))
from import_ops import count, trace

DELAYS_MS = (0, 0.25, 0.5, 1.0, 2.0)
REPEATS = 5


def importing(python: str, packages: Path | None, module: str = "torch"):
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if packages:
        env["PYTHONPATH"] = str(packages)
    return lambda: subprocess.run([python, "-c", f"import {module}"], env=env, check=True)


def trial(args: argparse.Namespace, site: Path, ms: float) -> dict:
    """Import on a fresh mount (nothing cached above it), then again in a second process."""
    with slow(args.fuse_python, site, args.work / "slow", ms) as mount:
        run = importing(args.torch_python, mount.folder)
        first = timed(run)
        counts = mount.counts()
        second = timed(run)
        again = mount.counts()
    return {"first_s": first, "second_s": second, "first": counts, "second": again}


def summary(ms: float, runs: list[dict]) -> dict:
    """The least disturbed run of each kind, and all of them: neighbors only ever add time."""
    return {
        "delay_ms": ms,
        "first_s": round(min(run["first_s"] for run in runs), 2),
        "second_s": round(min(run["second_s"] for run in runs), 2),
        "all_first_s": [round(run["first_s"], 2) for run in runs],
        "all_second_s": [round(run["second_s"], 2) for run in runs],
        "first_requests": runs[0]["first"],
        "second_requests": runs[0]["second"],
    }


def image(args: argparse.Namespace, site: Path, ms: float) -> dict:
    """The same packages as one squashfs file on the slow mount."""
    store, place = args.work / "store", args.work / "image"
    store.mkdir(exist_ok=True)
    place.mkdir(exist_ok=True)
    file = store / "env.squashfs"
    if not file.exists():
        command = [
            "mksquashfs",
            str(site),
            str(file),
            "-comp",
            "lz4",
            "-noappend",
            "-quiet",
            "-no-progress",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    first, counts = [], {}
    for _ in range(REPEATS):
        with slow(args.fuse_python, store, args.work / "slow", ms) as mount:
            loop = ["mount", "-o", "loop,ro", str(mount.folder / file.name), str(place)]
            subprocess.run(loop, check=True)
            try:
                first.append(timed(importing(args.torch_python, place)))
                counts = mount.counts()
            finally:
                subprocess.run(["umount", str(place)], check=True)
    return {
        "delay_ms": ms, "first_s": least(first, 2), "first_requests": counts,
        "image_bytes": file.stat().st_size, "all_first_s": [round(v, 2) for v in first],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--fuse-python", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(exist_ok=True)
    show = "import torch, sys, os; print(torch.__version__, os.path.dirname(os.path.dirname(torch.__file__)))"
    words = subprocess.run(
        [args.torch_python, "-c", show], capture_output=True, text=True, check=True
    )
    version, site = words.stdout.split()
    run = importing(args.torch_python, None)
    report = header(
        "unshare --mount python3 storage_import.py …", torch=version,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        packages_files=sum(len(files) for _, _, files in os.walk(site)),
        packages_bytes=sum(os.lstat(os.path.join(d, f)).st_size for d, _, fs in os.walk(site) for f in fs),
    )  # fmt: skip
    run()
    for module in ("torch", "numpy"):
        lines = trace([args.torch_python, "-c", f"import {module}"])
        report[f"calls_{module}"] = {
            **asdict(count(lines, site)),
            "total": count(lines, site).total,
        }
    report["local_s"] = least([timed(run) for _ in range(5)], 2)
    # Round by round, so that a busy minute of the host does not fall on one delay alone.
    rounds = [[trial(args, Path(site), ms) for ms in DELAYS_MS] for _ in range(REPEATS)]
    report["slow"] = [
        summary(ms, list(runs)) for ms, runs in zip(DELAYS_MS, zip(*rounds, strict=False), strict=True)
    ]
    report["image"] = [image(args, Path(site), ms) for ms in (0, 1.0, 2.0)]
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
