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
from bookpress.orphans import end_with_parent
if __name__ == "__main__":
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
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15)])
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


def test_a_build_that_is_told_to_stop_stops(tmp_path):
    chapters = [f"c{n}.md" for n in range(12)]
    names = ", ".join(f'"{c}"' for c in chapters)
    (tmp_path / "book.toml").write_text(
        f'[book]\ntitle = "T"\nversion = "1"\n[[part]]\ntitle = "P"\nchapters = [{names}]\n'
    )
    for chapter in chapters:
        (tmp_path / chapter).write_text(f"# {chapter}\n\n" + "Some `code` and words.\n\n" * 300)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build")}
    command = [sys.executable, "-m", "bookpress", "build", "--book", tmp_path, "--out", tmp_path / "out"]
    for seconds in (0.5, 1.0, 2.0):
        build = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(seconds)
        build.terminate()
        # communicate() ends when the last process that holds the pipe does: no worker is left behind
        build.communicate(timeout=15)
        if build.returncode == 0:
            break  # a quick machine: finished before the signal
        assert build.returncode == -15
        assert not list(tmp_path.glob("out/*"))
