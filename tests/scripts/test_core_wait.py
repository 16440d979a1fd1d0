"""Waiting for a core, as the kernel counts it: a real process on one core with others, and kernels that do not tell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import SCRIPTS

from clusterprobe.core_wait import core_wait_ns

CROWDED = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from clusterprobe.core_wait import CoreWait
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            pass
        os._exit(0)
wait = CoreWait()
if sys.argv[3] == "busy":
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
else:
    time.sleep(0.3)
print(wait.share())
"""


def share(rivals: int, how: str) -> float:
    run = subprocess.run([sys.executable, "-c", CROWDED, str(SCRIPTS), str(rivals), how], capture_output=True, text=True, check=True)
    return float(run.stdout)


@pytest.mark.skipif(core_wait_ns() is None, reason="this kernel does not count waits for a core")
def test_a_crowded_core_shows_and_sleep_does_not():
    assert share(3, "busy") > 0.4
    assert any(share(0, "sleep") < 0.2 for _ in range(3))  # other tests may hold the core for a moment


def test_a_kernel_that_does_not_tell(tmp_path):
    assert core_wait_ns(str(tmp_path / "none")) is None
    os.mkdir(tmp_path / "7")
    assert core_wait_ns(str(tmp_path)) is None
    (tmp_path / "7" / "schedstat").write_text("100 2000 3\n")
    os.mkdir(tmp_path / "8")
    (tmp_path / "8" / "schedstat").write_text("1 30 3\n")
    assert core_wait_ns(str(tmp_path)) == 2030
