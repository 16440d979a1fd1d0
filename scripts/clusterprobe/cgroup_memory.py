"""What the control group of this process still allows: a container or a Slurm job has less memory than its host.

Read from the group's own folder up to the root of the mount, because any parent may hold the limit.
"""

from __future__ import annotations

import os
from typing import Iterator, Optional, Tuple

UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 where version 2 writes `max`


def read_word(path: str) -> Optional[int]:
    """A file's one number; None when it is absent or `max`."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() and int(text) < UNLIMITED else None


def own_groups(root: str) -> Iterator[Tuple[str, str, str, str]]:
    """(folder, limit file, usage file, name of the reclaimable part) of this process's group and its parents."""
    try:
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = os.path.join(root, "sys/fs/cgroup", "memory" if controllers else "")
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            if controllers
            else ("memory.max", "memory.current", "inactive_file")
        )
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield (os.path.join(mount, *parts[:depth]), *names)


def cgroup_room(root: str = "/") -> Optional[int]:
    """Bytes until the tightest limit, page cache that can be dropped counted as free; None without a limit."""
    room = None
    for folder, limit_name, usage_name, cache_name in own_groups(root):
        limit = read_word(os.path.join(folder, limit_name))
        usage = read_word(os.path.join(folder, usage_name))
        if limit is None or usage is None:
            continue
        left = max(0, limit - usage + reclaimable(folder, cache_name))
        room = left if room is None else min(room, left)
    return room


def reclaimable(folder: str, name: str) -> int:
    try:
        with open(os.path.join(folder, "memory.stat"), encoding="ascii") as file:
            words = dict(line.split(None, 1) for line in file if " " in line)
    except OSError:
        return 0
    return int(words.get(name, "0"))
