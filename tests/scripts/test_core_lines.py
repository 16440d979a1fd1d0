"""Text on bad streams, and local ranks that do not end by themselves: the verdict must still be told."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import SCRIPTS, clean_environment

from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.spawn import await_ranks, start_ranks

TELL = """
import sys
sys.path.insert(0, {scripts!r})
from clusterprobe.streams import settle_streams
from clusterprobe.report import Report
settle_streams()
report = Report("probe", sys.argv, {{}}, {target!r})
report.line("rank 1 → rank 2 … 3 µs × 4 é")
report.finish(0, "all is well")
"""


def tell(redirect: str, target: str = "none", **environ: str) -> subprocess.CompletedProcess:
    script = TELL.format(scripts=str(SCRIPTS), target=target)
    return subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" $\'\\xff\' {redirect}', sys.executable, script],
        env={**clean_environment(), **environ},
        text=True,
        capture_output=True,
        timeout=30,
    )


def test_a_full_stdout_continues_on_stderr():
    done = tell("> /dev/full")
    assert done.returncode == 0
    told, first, *_, last = done.stderr.splitlines()
    assert "stdout can't be written (No space left on device)" in told
    assert first.startswith("rank 1")
    assert last.startswith("RESULT status=ok")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("redirect", ["> /dev/full 2>&1", "2> /dev/full"])
def test_a_full_disk_for_both_is_no_error(redirect, unbuffered):
    done = tell(redirect, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("redirect", ["2> /dev/full", "2>&-"])
def test_the_document_survives_a_bad_stderr(redirect):
    """With --json - the text goes to stderr; when that fails, stdout is not touched."""
    document = json.loads(tell(redirect, "-").stdout)
    assert document["rc"] == 0


@pytest.mark.parametrize("option", ["--help", "--version", "--dry-run"])
def test_help_on_a_full_disk_is_no_success(option):
    tool = SCRIPTS / "torch-distributed-gpu-test.py"
    done = subprocess.run(
        ["bash", "-c", f'"$0" "$1" {option} > /dev/full', sys.executable, str(tool)],
        env=clean_environment(),
        text=True,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == CANNOT_RUN
    assert "Traceback" not in done.stderr
    assert "torch-distributed-gpu-test" in done.stderr


def child(code: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code])


def test_the_rank_that_tells_the_verdict_is_not_killed_first(monkeypatch):
    """A rank died at once; rank 0 needs the time of a stage to find out who, longer than the others' rest."""
    monkeypatch.setattr("clusterprobe.spawn.SETTLE", 0.5)
    ranks = [child("import time; time.sleep(2); raise SystemExit(5)"), child("raise SystemExit(6)")]
    assert await_ranks(ranks, 60, 60) == []
    assert [rank.returncode for rank in ranks] == [5, 6]


def test_ranks_that_stay_after_the_verdict_are_killed(monkeypatch):
    monkeypatch.setattr("clusterprobe.spawn.SETTLE", 0.5)
    ranks = [child("raise SystemExit(5)"), child("import time; time.sleep(60)")]
    assert await_ranks(ranks, 60, 60) == [1]
    assert [rank.returncode for rank in ranks] == [5, -9]


def test_a_host_that_can_not_start_all_local_ranks():
    with pytest.raises(ProbeFailure, match="can't start local rank 0 of 2"):
        start_ranks(["/no/such/python"], [{}, {}])
