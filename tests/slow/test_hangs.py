"""Plant each hang of chapter "Hangs" with real processes and look for the messages that it quotes.

Needs torch and py-spy; the environment is the one that `make prove` uses. What the chapter shows from runs
that prove cannot make (root, a loop device) is checked here where this machine can.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookpress.prove import environments

BOOK = Path(__file__).resolve().parents[2]
HANGS = BOOK / "chapters" / "debugging" / "fixtures" / "hangs"
NEEDS = ("torch", "numpy", "py-spy", "tabulate", "aiohttp")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tools() -> Path:
    folder = environments.bin_dir(BOOK, BOOK / ".cache", NEEDS)
    assert folder is not None
    return folder


@pytest.fixture
def run(tools, tmp_path) -> Iterator:
    """Starts programs in a copy of the fixtures; everything it started ends with the test."""
    shutil.copytree(HANGS, tmp_path, dirs_exist_ok=True)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    started: list[subprocess.Popen] = []

    def start(*command: str, **extra: str) -> subprocess.Popen:
        job = subprocess.Popen(
            command, cwd=tmp_path, env={**env, **extra}, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        started.append(job)
        return job

    yield start
    for job in started:
        for pid in _below(job.pid):
            os.kill(pid, signal.SIGKILL)
        job.kill()
        job.wait()
        job.stdout.close()


def _below(root: int) -> list[int]:
    """All processes under `root`, through /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found, queue = [], [root]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return found


def ended(job: subprocess.Popen, limit: float = 150) -> str:
    return job.communicate(timeout=limit)[0]


def torchrun(run, *arguments: str, ranks: int = 2, **extra: str) -> subprocess.Popen:
    return run(
        "torchrun", "--standalone", "--nproc-per-node", str(ranks), *arguments, **extra
    )


def test_missing_rank_stands_alone_in_the_groups(run, tmp_path):
    torchrun(run, "stuck.py", ranks=3)
    want = re.compile(r"^1 × rank 1\n    <module> \(stuck.py:12\)\n2 × rank 0,2\n    all_reduce ", re.M)
    end, out = time.monotonic() + 120, ""
    while time.monotonic() < end and not want.search(out):
        shutil.rmtree(tmp_path / "evidence", ignore_errors=True)
        ended(run("bash", "collect.sh", "evidence"))
        out = ended(run("python3", "group_stacks.py", "evidence"))
        time.sleep(1)
    assert want.search(out), out


@pytest.mark.parametrize(
    ("arguments", "extra", "message"),
    [
        (("plant.py", "branch"), {}, "Timed out waiting 4000ms for recv operation to complete"),
        (("plant.py", "mismatch"), {}, "Timed out waiting 4000ms for recv operation to complete"),
        (("plant.py", "p2p", "8"), {}, "Timed out waiting 4000ms for send operation to complete"),
        (("plant.py", "sizes"), {}, "Received data size doesn't match expected size."),
        (
            ("plant.py", "mismatch"), {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
            "differ in the following aspects:   Op type: ALLREDUCEvs BROADCAST",
        ),
        (("barrier.py",), {}, "[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 4000 ms"),
        (("alone.py",), {"GLOO_SOCKET_IFNAME": "eth7"}, "Unable to find address for: eth7"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_message(run, arguments, extra, message):
    job = torchrun(run, *arguments, HANG_LIMIT="4", **extra)
    assert message in ended(job)
    assert job.returncode == 1


@pytest.mark.parametrize(
    ("mode", "status", "counts"), [("plain", 1, "3"), ("join", 0, "34"), ("agree", 0, "33")]
)
def test_uneven_batches(run, mode, status, counts):
    job = torchrun(run, "uneven.py", mode)
    out = ended(job)
    assert job.returncode == status
    assert "".join(sorted(re.findall(r"(\d) batches", out))) == counts
    assert ("Timed out waiting 6000ms" in out) == (mode == "plain")


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ("0", r"DistStoreError: Timed out after \d+ seconds waiting for clients. 1/2 clients joined."),
        ("1", r"DistNetworkError: .* timed out .* trying to connect to \(127.0.0.1, 29513\)"),
    ],
)
def test_incomplete_start(run, rank, message):
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513", "WORLD_SIZE": "2"}
    job = run("python3", "alone.py", RANK=rank, **where)
    assert re.search(message, ended(job))
    assert job.returncode == 1


def test_forked_worker_keeps_a_lock_and_forkserver_does_not(run):
    assert "RuntimeError: DataLoader timed out after 4.0 seconds" in ended(
        run("python3", "loader.py", "fork", "4")
    )
    assert ended(run("python3", "loader.py", "forkserver", "30")).endswith("batch 7\n")


def test_alarm_shows_the_stuck_line(run):
    job = run("python3", "alarm.py")
    out = ended(job)
    assert job.returncode == 1
    assert out.startswith("step 0\nstep 1\nstep 2\nTimeout (0:00:03)!\n")
    assert re.search(r'alarm.py", line 23 in read_batch\n.*alarm.py", line 29 in <module>', out)


def test_recorder_names_the_missing_rank(run):
    record = BOOK / "chapters" / "debugging" / "measurements" / "nccl-hangs"
    whole = run("torchfrtrace", str(record / "branch" / "dumps"), "--prefix", "rank_")
    out = ended(whole)
    assert "missing ranks: {1}" in out
    assert "plant.py:43" in out
    partial = run("torchfrtrace", str(record / "stopped" / "dumps"), "--prefix", "rank_")
    assert "AssertionError: Missing dump files from ranks {1}" in ended(partial)


def test_stopped_process_needs_nonblocking(run):
    sleeper = run("python3", "-c", "import time; time.sleep(600)")
    time.sleep(2)
    os.kill(sleeper.pid, signal.SIGSTOP)
    plain = ended(run("py-spy", "dump", "--pid", str(sleeper.pid)))
    gentle = ended(run("py-spy", "dump", "--nonblocking", "--pid", str(sleeper.pid)))
    os.kill(sleeper.pid, signal.SIGCONT)
    assert "unexpected waitpid result" in plain
    assert "<module> (<string>:1)" in gentle


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="root, loop")
def test_state_d(run, tmp_path):
    pid = ended(run("./frozen.sh", "start", str(tmp_path / "frozen"))).strip()
    try:
        time.sleep(2)
        assert Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "D"
        assert "mnt_want_write" in Path(f"/proc/{pid}/stack").read_text()
        plain = run("timeout", "-s", "KILL", "5", "py-spy", "dump", "--pid", pid)
        ended(plain)
        assert plain.returncode in (137, -signal.SIGKILL)
        assert "<module> (<string>:1)" in ended(run("py-spy", "dump", "--nonblocking", "--pid", pid))
    finally:
        ended(run("./frozen.sh", "stop", str(tmp_path / "frozen")))
