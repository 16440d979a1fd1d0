#!/usr/bin/env python3
"""storage_files.json: small files, long listings, dataset formats, copies; on disk, in RAM, and at 1 ms a request.

    unshare --mount python3 storage_files.py --fuse-python PY --work FOLDER --out FILE

FOLDER on a disk, about 1 GiB free; root for the mounts; strace, rsync, tar.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tarfile
from pathlib import Path

from storage_slow_trials import evict, header, least, slow, timed

LISTED, SMALL = 100_000, 5_000
SAMPLES, SAMPLE = 20_000, 16 * 1024


def shell(command: str) -> float:
    return timed(
        lambda: subprocess.run(["bash", "-c", command], check=True, stdout=subprocess.DEVNULL)
    )


def small_files(folder: Path) -> dict:
    """Operations a second by one thread: 4 KiB files, one folder."""
    names = [folder / f"{n:06}" for n in range(SMALL)]
    folder.mkdir()
    block = os.urandom(4096)
    out = {
        "create": timed(lambda: [name.write_bytes(block) for name in names]),
        "stat": timed(lambda: [name.stat() for name in names]),
        "open_read": timed(lambda: [name.read_bytes() for name in names]),
        "rename": timed(lambda: [name.rename(name.with_suffix(".x")) for name in names]),
        "unlink": timed(lambda: [name.with_suffix(".x").unlink() for name in names]),
    }

    def synced() -> None:
        for name in names[:200]:
            with name.open("wb") as out:
                out.write(block)
                out.flush()
                os.fsync(out.fileno())

    rates = {name: round(SMALL / seconds) for name, seconds in out.items()}
    rates["create_fsync"] = round(200 / timed(synced))
    subprocess.run(["rm", "-r", str(folder)], check=True)
    return rates


def listing(folder: Path, count: int, strace: bool = True) -> dict:
    out = {}
    for name, command in {
        "ls": "ls", "ls_unsorted": "ls -f", "ls_long": "ls -l", "find": "find", "du": "du -s",
        "du_inodes": "du -s --inodes",
    }.items():  # fmt: skip
        calls = ""
        if strace:
            text = subprocess.run(
                ["bash", "-c", f"strace -f -c -e trace=getdents64,statx,newfstatat,lgetxattr,getxattr "
                 f"{command} {folder} 2>&1 >/dev/null"], capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            rows = [row.split() for row in text.splitlines()]
            # % time, seconds, usecs/call, calls, errors (often blank), syscall
            calls = {row[-1]: int(row[3]) for row in rows if len(row) in (5, 6) and row[3].isdigit()}
            calls.pop("total", None)
        seconds = least([shell(f"{command} {folder}") for _ in range(3)], 3)
        out[name] = {"seconds": seconds, "calls": calls, "files": count}
    return out


def samples(folder: Path) -> None:
    """The same samples as files in folders of a thousand, as one tar, and as one array."""
    rng = random.Random(0)
    with (
        (folder / "array.bin").open("wb") as array,
        tarfile.open(folder / "shard.tar", "w") as shard,
    ):
        for n in range(SAMPLES):
            data = rng.randbytes(SAMPLE)
            file = folder / "files" / f"{n // 1000:03}" / f"{n:06}.bin"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            array.write(data)
            info = tarfile.TarInfo(file.name)
            info.size = SAMPLE
            with file.open("rb") as source:
                shard.addfile(info, source)


def read_files(folder: Path, order: list[int]) -> int:
    return sum(
        len((folder / "files" / f"{n // 1000:03}" / f"{n:06}.bin").read_bytes()) for n in order
    )


def read_array(folder: Path, order: list[int]) -> int:
    fd = os.open(folder / "array.bin", os.O_RDONLY)
    try:
        return sum(len(os.pread(fd, SAMPLE, n * SAMPLE)) for n in order)
    finally:
        os.close(fd)


def read_tar(folder: Path, order: list[int]) -> int:
    with (folder / "shard.tar").open("rb") as raw, tarfile.open(fileobj=raw, mode="r|") as shard:
        total = 0
        for number, info in enumerate(shard):
            if number >= len(order):
                break
            total += len(shard.extractfile(info).read())
        return total


def formats(folder: Path, count: int, cold: bool, repeats: int = 3) -> dict:
    shuffled = random.Random(1).sample(range(count), count)
    cases = {
        "files_in_order": (read_files, list(range(count))), "files_shuffled": (read_files, shuffled),
        "tar_in_order": (read_tar, list(range(count))),
        "array_in_order": (read_array, list(range(count))), "array_shuffled": (read_array, shuffled),
    }  # fmt: skip
    out = {}
    for name, (reader, order) in cases.items():
        seconds = []
        for _ in range(repeats):
            if cold:
                small = (folder / "files").rglob("*.bin") if reader is read_files else ()
                evict(folder / "array.bin", folder / "shard.tar", *small)
            seconds.append(timed(lambda reader=reader, order=order: reader(folder, order)))
        out[name] = {
            "samples_per_s": round(count / least(seconds)),
            "mb_per_s": round(count * SAMPLE / least(seconds) / 1e6, 1),
        }
    return out


def slow_formats(args: argparse.Namespace, source: Path, ms: float, count: int) -> dict:
    """First `count` samples through a fresh slow mount for each format, so that nothing is cached."""
    out = {}
    shuffled = random.Random(1).sample(range(count), count)
    for name, reader, order in (
        ("files_shuffled", read_files, shuffled), ("tar_in_order", read_tar, list(range(count))),
        ("array_in_order", read_array, list(range(count))), ("array_shuffled", read_array, shuffled),
    ):  # fmt: skip
        with slow(args.fuse_python, source, args.work / "slow", ms) as mount:
            seconds = timed(lambda r=reader, o=order, m=mount: r(m.folder, o))
            out[name] = {
                "delay_ms": ms, "samples": count, "samples_per_s": round(count / seconds),
                "mb_per_s": round(count * SAMPLE / seconds / 1e6, 1), "requests": mount.counts(),
            }  # fmt: skip
    return out


def copies(args: argparse.Namespace, source: Path, ms: float | None) -> dict:
    """One tree of a thousand small files, copied in five ways."""
    # Folders first: two copies that make the same one at once fail with "File exists".
    folders = "cd {src} && find . -type d -print0 | (cd {dst} && xargs -0 mkdir -p)"
    ways = {
        "cp": "cp -r {src}/. {dst}",
        "rsync": "rsync -a {src}/ {dst}/",
        "tar": "tar -C {src} -cf - . | tar -C {dst} -xf -",
        "xargs_8": f"{folders} && find . -type f | xargs -P 8 -n 32 cp --parents -t {{dst}}",
        "xargs_32": f"{folders} && find . -type f | xargs -P 32 -n 32 cp --parents -t {{dst}}",
        "one_tar_file": "tar -C {dst} -xf {tar}",
    }
    out = {}
    for name, text in ways.items():
        target = args.work / "target"
        seconds = []
        for _ in range(3):
            target.mkdir()
            if ms is None:
                words = {"src": source / "tree", "dst": target, "tar": source / "tree.tar"}
                seconds.append(shell(text.format(**words)))
            else:
                with slow(args.fuse_python, source, args.work / "slow", ms) as mount:
                    words = {
                        "src": mount.folder / "tree",
                        "dst": target,
                        "tar": mount.folder / "tree.tar",
                    }
                    seconds.append(shell(text.format(**words)))
            subprocess.run(["rm", "-r", str(target)], check=True)
        out[name] = least(seconds, 3)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fuse-python", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(exist_ok=True)
    report = header("unshare --mount python3 storage_files.py …")
    ram = args.work / "ram"
    ram.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(ram)], check=True)
    report["small_files_per_s"] = {
        "disk": small_files(args.work / "small"), "tmpfs": small_files(ram / "small"),
    }  # fmt: skip
    many = args.work / "many"
    many.mkdir()
    report["create_100k_s"] = round(
        timed(lambda: [(many / f"sample-{n:06}").touch() for n in range(LISTED)]), 2
    )
    report["listing_100k"] = listing(many, LISTED)
    report["folder_bytes_100k"] = many.stat().st_size
    report["delete_100k_s"] = round(shell(f"find {many} -type f -delete"), 2)
    report["folder_bytes_after_delete"] = many.stat().st_size
    many.rmdir()
    few = args.work / "few"
    few.mkdir()
    for n in range(2000):
        (few / f"sample-{n:06}").touch()
    with slow(args.fuse_python, few, args.work / "slow", 1.0) as mount:
        report["listing_2k_slow"] = {
            name: {
                "seconds": round(shell(f"{command} {mount.folder}"), 3),
                "requests": mount.counts(),
            }
            for name, command in (("ls", "ls"), ("ls_long", "ls -l"))
        }
    subprocess.run(["rm", "-r", str(few)], check=True)
    data = args.work / "data"
    data.mkdir()
    samples(data)
    os.sync()
    report["sample_bytes"] = SAMPLE
    report["formats_evicted"] = formats(data, SAMPLES, cold=True)
    report["formats_cached"] = formats(data, SAMPLES, cold=False)
    report["formats_slow"] = slow_formats(args, data, 1.0, 2000)
    subprocess.run(["rm", "-r", str(data)], check=True)
    tree = args.work / "trees"
    for n in range(1000):
        file = tree / "tree" / f"{n % 20:02}" / f"{n:04}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(8192))
    shell(f"tar -C {tree}/tree -cf {tree}/tree.tar .")
    report["copy_1000_files_s"] = {
        "disk": copies(args, tree, None),
        "slow_1ms": copies(args, tree, 1.0),
    }
    subprocess.run(["rm", "-r", str(tree)], check=True)
    subprocess.run(["umount", str(ram)], check=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
