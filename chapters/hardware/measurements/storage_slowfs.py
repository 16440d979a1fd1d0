#!/usr/bin/env python3
"""A read-only FUSE view of a folder in which every request to the server takes a given time longer.

    python3 storage_slowfs.py FOLDER MOUNTPOINT --ms 1 --counts counts.json [--attr-seconds 1]

Needs fusepy 3.0.1 and libfuse 2. It stands in for a network file system: the kernel above it caches names,
attributes and pages as it does for NFS, and what reaches this program is what would reach a server. A stat of
MOUNTPOINT/.counts makes it write the counts file.
"""

from __future__ import annotations

import argparse
import collections
import errno
import json
import os
import time
from pathlib import Path

import fuse


class Slow(fuse.Operations):
    """Pass everything to FOLDER after a sleep."""

    def __init__(self, folder: str, ms: float, counts: Path):
        self.folder, self.pause, self.file = folder, ms / 1000, counts
        self.counts: collections.Counter[str] = collections.Counter()

    def __call__(self, op: str, path: str, *args):
        if not path.endswith("/.counts") and op in (
            "getattr",
            "open",
            "readdir",
            "read",
            "readlink",
            "access",
            "opendir",
        ):
            self.counts[op] += 1
            self.counts["requests"] += 1
            if self.pause:
                time.sleep(self.pause)
        return (
            getattr(self, op)(self.folder + path, *args) if op != "read" else self.read(path, *args)
        )

    def getattr(self, path, fh=None):
        if path.endswith("/.counts"):  # a question to this program, not to the folder
            self.file.write_text(json.dumps(self.counts))
            raise fuse.FuseOSError(errno.ENOENT)
        try:
            st = os.lstat(path)
        except OSError as error:
            self.counts["getattr_failed"] += error.errno == errno.ENOENT
            raise fuse.FuseOSError(error.errno) from None
        keys = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_atime", "st_mtime",
                "st_ctime")  # fmt: skip
        return {key: getattr(st, key) for key in keys}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(path)]

    def readlink(self, path):
        return os.readlink(path)

    def open(self, path, flags):
        return os.open(path, flags)

    def read(self, path, size, offset, fh):
        self.counts["read_bytes"] += size
        return os.pread(fh, size, offset)

    def release(self, path, fh):
        os.close(fh)
        return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("mountpoint", type=Path)
    parser.add_argument("--ms", type=float, default=1.0)
    parser.add_argument("--attr-seconds", type=float, default=60.0)
    parser.add_argument("--counts", type=Path, required=True)
    args = parser.parse_args()
    fuse.FUSE(
        Slow(str(args.folder.resolve()), args.ms, args.counts), str(args.mountpoint), foreground=True,
        ro=True, fsname="slow", entry_timeout=args.attr_seconds, attr_timeout=args.attr_seconds,
        negative_timeout=0, kernel_cache=True, max_readahead=131072,
    )  # fmt: skip


if __name__ == "__main__":
    main()
