"""A build that is killed or told to stop leaves no process behind, and nothing in the output folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from bookpress.orphans import end_with_parent, stop_on_term
if __name__ == "__main__":
    stop_on_term()
    pool = ProcessPoolExecutor(2, get_context(sys.argv[1]), end_with_parent)
    print(*{pool.submit(os.getpid).result()}, flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_workers_end_with_the_build(tmp_path, method, sent, status):
    script = tmp_path / "start.py"
    script.write_text(START)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build")}
    command = [sys.executable, str(script), method]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        workers = [int(word) for word in process.stdout.readline().split()]
        assert workers
        assert all(map(alive, workers))
        process.send_signal(sent)
        assert process.wait(timeout=20) == status
    end = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, workers))
