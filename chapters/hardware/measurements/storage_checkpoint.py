#!/usr/bin/env python3
"""storage_checkpoint.json: writing and reading 1 GiB of state: torch.save, DCP, async, safetensors, fsync, ranks.

    unshare --mount TORCH_PYTHON storage_checkpoint.py --fuse-python PY --work FOLDER --out FILE

TORCH_PYTHON with torch and safetensors; FOLDER on a disk, 2 GiB free; root for the slow mount.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import safetensors
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from storage_slow_trials import evict, header, least, slow, timed

TENSORS, EACH = 64, 16 << 20
REPEATS = 7


def state(tensors: int = TENSORS) -> dict[str, torch.Tensor]:
    return {
        f"layer.{n}": torch.randn(EACH // 2, dtype=torch.float32).bfloat16() for n in range(tensors)
    }


def synced(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def writer(folder: Path, **options: object) -> dcp.FileSystemWriter:
    return dcp.FileSystemWriter(folder, overwrite=True, **options)


def repeat(place: Path, action: Callable[[], object]) -> dict:
    seconds = []
    for _ in range(REPEATS):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        os.sync()
        seconds.append(timed(action))
    total = TENSORS * EACH
    return {"seconds": least(seconds), "gb_per_s": round(total / least(seconds) / 1e9, 3)}


def writes(place: Path, values: dict[str, torch.Tensor]) -> dict:
    file = place / "state.pt"

    def save(sync: bool) -> None:
        torch.save(values, file)
        if sync:
            synced(file)

    def safe() -> None:
        safetensors.torch.save_file(values, file)
        synced(file)

    return {
        "torch_save": repeat(place, lambda: save(False)),
        "torch_save_fsync": repeat(place, lambda: save(True)),
        "safetensors_fsync": repeat(place, safe),
        "dcp": repeat(
            place, lambda: dcp.save(values, storage_writer=writer(place, sync_files=False))
        ),
        "dcp_fsync": repeat(place, lambda: dcp.save(values, storage_writer=writer(place))),
        "dcp_fsync_4_threads": repeat(
            place, lambda: dcp.save(values, storage_writer=writer(place, thread_count=4))
        ),
    }


def asynchronous(place: Path, values: dict[str, torch.Tensor]) -> dict:
    """How long the caller waits, and how long until the file is there."""
    stall, total = [], []
    for _ in range(REPEATS):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        os.sync()
        start = time.perf_counter()
        future = dcp.async_save(values, storage_writer=writer(place))
        stall.append(time.perf_counter() - start)
        future.result()
        total.append(time.perf_counter() - start)
    return {"stall_s": least(stall), "total_s": least(total)}


def ranks(place: Path, python: str, count: int) -> dict:
    """`count` processes, each with its share of the state, each its own file with fsync."""
    code = (
        "import os,sys,time,torch; n=int(sys.argv[1]); share=int(sys.argv[2]); f=sys.argv[3];"
        "v={str(i): torch.randn(8<<20).bfloat16() for i in range(share)};"
        "print('ready', flush=True); sys.stdin.readline(); torch.save(v, f);"
        "h=os.open(f, os.O_RDONLY); os.fsync(h); print('done', flush=True)"
    )
    seconds = []
    for _ in range(REPEATS):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        members = [
            subprocess.Popen(
                [python, "-c", code, str(n), str(TENSORS // count), str(place / f"{n}.pt")], **pipes
            )
            for n in range(count)
        ]
        for member in members:
            member.stdout.readline()
        os.sync()
        start = time.perf_counter()
        for member in members:
            member.stdin.write("go\n")
            member.stdin.flush()
        for member in members:
            member.stdout.readline()
        seconds.append(time.perf_counter() - start)
        for member in members:
            member.communicate()
    return {
        "seconds": least(seconds),
        "gb_per_s": round(TENSORS * EACH / least(seconds) / 1e9, 3),
    }


def loads(file: Path, python: str, work: Path) -> dict:
    """256 MiB through a mount with 1 ms a request: whole reads against page faults."""
    names = json.loads(file.with_suffix(".names").read_text())

    def mapped(path: Path) -> None:
        with safetensors.safe_open(path, "pt") as source:
            for name in names:
                source.get_tensor(name).clone()

    def scattered(path: Path) -> None:
        with safetensors.safe_open(path, "pt") as source:
            for (
                name
            ) in names:  # one row of 4 KiB in each MiB: what an index into a mapped file does
                source.get_tensor(name)[:: 1 << 19].clone()

    def whole(path: Path) -> None:
        safetensors.torch.load(path.read_bytes())

    def blocks(path: Path) -> None:
        with path.open("rb", buffering=0) as source:
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while source.read(16 << 20):
                pass

    def slices(path: Path) -> None:
        from concurrent.futures import ThreadPoolExecutor

        size = path.stat().st_size
        part = size // 8 + 1
        fd = os.open(path, os.O_RDONLY)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: os.pread(fd, part, n * part), range(8)))
        os.close(fd)

    out = {"bytes": file.stat().st_size}
    for name, action in (("mapped", mapped), ("whole", whole), ("blocks", blocks), ("eight_readers", slices),
                         ("scattered", scattered)):  # fmt: skip
        seconds, counts = [], {}
        for _ in range(REPEATS):
            evict(file)
            with slow(python, file.parent, work / "slow", 1.0) as mount:
                seconds.append(timed(lambda a=action, m=mount: a(m.folder / file.name)))
                counts = mount.counts()
        out[name] = {"seconds": least(seconds), "requests": counts}
        evict(file)
        out[name]["local_evicted_s"] = round(timed(lambda a=action: a(file)), 4)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--fuse-python", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(exist_ok=True)
    values = state()
    place = args.work / "checkpoint"
    report = header(
        "unshare --mount TORCH_PYTHON storage_checkpoint.py …", torch=torch.__version__,
        safetensors=safetensors.__version__, bytes=TENSORS * EACH, repeats=REPEATS,
    )  # fmt: skip
    report["disk"] = writes(place, values)
    report["async"] = asynchronous(place, values)
    shutil.rmtree(place)
    ram = Path("/dev/shm/storage-checkpoint")
    report["ram"] = {"torch_save": repeat(ram, lambda: torch.save(values, ram / "state.pt"))}
    shutil.rmtree(ram)
    values.clear()
    report["ranks"] = {str(n): ranks(place, args.torch_python, n) for n in (1, 2, 4)}
    shutil.rmtree(place)
    place.mkdir()
    small = state(16)
    safetensors.torch.save_file(small, place / "state.safetensors")
    (place / "state.names").write_text(json.dumps(sorted(small)))
    del small
    report["load_slow_1ms"] = loads(place / "state.safetensors", args.fuse_python, args.work)
    shutil.rmtree(place)
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
