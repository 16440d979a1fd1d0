"""What the storage measurements share: the slow mount as a context, page-cache eviction, best of several."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent


def header(command: str, **more: object) -> dict:
    return {
        "schema": 1,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": "two-core virtual machine, virtual disk with ext4; shared host, neighbors active",
        "kernel": os.uname().release,
        "command": command,
        **more,
    }


class Mount:
    """A mounted slow view: its folder, and what has reached the server since the last question."""

    def __init__(self, folder: Path, file: Path):
        self.folder, self._file = folder, file
        self._before: dict[str, int] = {}

    def counts(self) -> dict[str, int]:
        with contextlib.suppress(FileNotFoundError):
            (self.folder / ".counts").stat()
        now = json.loads(self._file.read_text())
        since = {k: v - self._before.get(k, 0) for k, v in now.items()}
        self._before = now
        return {k: v for k, v in since.items() if v}


@contextlib.contextmanager
def slow(python: str, source: Path, place: Path, ms: float) -> Iterator[Mount]:
    """`source` at `place`, each request `ms` later. Call inside a mount namespace of your own."""
    place.mkdir(exist_ok=True)
    counts = place.parent / f"{place.name}.counts.json"
    command = [python, str(HERE / "storage_slowfs.py"), str(source), str(place)]
    server = subprocess.Popen([*command, "--ms", str(ms), "--counts", str(counts)])
    try:
        for _ in range(100):
            if os.path.ismount(place):
                break
            time.sleep(0.1)
        else:
            raise RuntimeError("the slow mount did not come up")
        mount = Mount(place, counts)
        mount.counts()
        yield mount
    finally:
        subprocess.run(["umount", str(place)], check=True)
        server.wait(timeout=20)
        counts.unlink(missing_ok=True)


def evict(*files: Path) -> None:
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def least(values: list[float], digits: int = 4) -> float:
    """The least disturbed run: on a shared host neighbors only ever add time."""
    return round(min(values), digits)
