"""Signals before a session watches: while modules and ranks are born, and while torch is imported to count devices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import SCRIPTS, clean_environment

BENCH = SCRIPTS / "all_reduce_bench.py"
ENDS = [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 143)]
SLOW = """
import os, pathlib, time
if {where}:
    (pathlib.Path(os.environ["ARRIVED"]) / str(os.getpid())).touch()
    time.sleep({seconds})
"""
# What the tool imports under this name is Python's own, only late.
REAL = """
real = os.path.join(os.path.dirname(os.__file__), "{module}.py")
exec(compile(open(real).read(), real, "exec"))
"""
IGNORED = ("sh", "-c", 'trap "" {name}; exec "$@"', "sh")


@pytest.fixture
def slow_start(tmp_path):
    """Starts the tool where a module of this name takes its time, as on a cold network file system."""
    arrived = tmp_path / "arrived"
    arrived.mkdir()
    started = []

    def start(
        module: str,
        where: str,
        seconds: float,
        count: int,
        *options: str,
        under: tuple[str, ...] = (),
        rest: str = "",
    ) -> subprocess.Popen:
        (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
        slow = SLOW.format(where=where, seconds=seconds)
        (tmp_path / f"{module}.py").write_text(slow + rest.format(module=module))
        process = subprocess.Popen(
            [*under, sys.executable, str(BENCH), "--json", "none", *options],
            env=clean_environment(PYTHONPATH=str(tmp_path), ARRIVED=str(arrived)),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        end = time.monotonic() + 30
        while len(list(arrived.iterdir())) < count:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        process.ranks = [
            int(path.name) for path in arrived.iterdir() if int(path.name) != process.pid
        ]
        return process

    yield start
    for process in started:
        for pid in (process.pid, *process.ranks):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def assert_told(process: subprocess.Popen, rc: int) -> None:
    out, err = process.communicate(timeout=45)
    assert process.returncode == rc, (out, err)
    assert out.count("RESULT ") == 1, out
    assert f"RESULT status=interrupted rc={rc} " in out
    assert "why: ended by " in out
    assert err == ""


@pytest.mark.parametrize(("name", "rc"), ENDS)
def test_while_devices_are_counted(name, rc, slow_start):
    process = slow_start("torch", "True", 60, 1)
    process.send_signal(signal.Signals[name])
    assert_told(process, rc)


@pytest.mark.parametrize(("name", "rc"), ENDS)
def test_while_ranks_are_born(name, rc, slow_start):
    """A terminal sends it to all: none may end with a traceback in the start of Python, before its watch is there."""
    process = slow_start(
        "sitecustomize", '"RANK" in os.environ', 1.5, 2, "--nproc", "2", "--device", "cpu"
    )
    os.killpg(process.pid, signal.Signals[name])
    assert_told(process, rc)


@pytest.mark.parametrize(("name", "rc"), ENDS)
def test_a_signal_to_the_parent_alone_leaves_no_rank(name, rc, slow_start):
    process = slow_start("torch", "True", 60, 2, "--nproc", "2", "--device", "cpu")
    process.send_signal(signal.Signals[name])
    assert_told(process, rc)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in process.ranks)


def test_local_ranks_end_with_a_parent_that_was_killed(slow_start):
    """Each holds a device, and nobody waits for it any more."""
    process = slow_start("torch", "True", 60, 2, "--nproc", "2", "--device", "cpu")
    process.kill()
    out, err = process.communicate(timeout=45)  # until no rank holds the pipes any more
    assert out.count("RESULT status=interrupted rc=143 ") == 1
    assert err == "the process that started the local ranks is gone: they end\n"


def test_ranks_that_do_not_end_after_a_signal_are_killed(slow_start):
    """One that is born so slowly that it never sees the signal must not keep Ctrl-C from ending the run."""
    process = slow_start(
        "sitecustomize", '"RANK" in os.environ', 60, 2, "--nproc", "2", "--device", "cpu"
    )
    process.send_signal(signal.SIGINT)
    assert_told(process, 130)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in process.ranks)


@pytest.mark.parametrize(("name", "rc"), ENDS)
def test_while_modules_are_imported(name, rc, slow_start):
    """Local ranks are not even started then; they would be left alone."""
    process = slow_start(
        "ipaddress", '"RANK" not in os.environ', 1, 1, "--nproc", "2", "--device", "cpu", rest=REAL
    )
    process.send_signal(signal.Signals[name])
    assert_told(process, rc)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_an_ignored_signal_stays_ignored(name, slow_start):
    """By nohup, and by the shell of a script for what it puts in the background."""
    process = slow_start("torch", "True", 60, 1, under=(*IGNORED[:2], IGNORED[2].format(name=name[3:]), "sh"))
    process.send_signal(signal.Signals[name])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGTERM)
    assert_told(process, 143)


def test_a_launcher_in_the_background_passes_ctrl_c_on(slow_start):
    launched = ("env", "RANK=0", "WORLD_SIZE=1", "TORCHELASTIC_RUN_ID=1")
    under = (*launched, *IGNORED[:2], IGNORED[2].format(name="INT"), "sh")
    process = slow_start("torch", "True", 60, 1, under=under)
    process.send_signal(signal.SIGINT)
    assert_told(process, 130)
