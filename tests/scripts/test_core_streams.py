"""The verdict is printed and the report written whatever a scheduler did to stdin, stdout, stderr and the locale."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import GPU_TEST, SCRIPTS, clean_environment, load_report

from clusterprobe.exits import CANNOT_RUN, MISSING_RANK, OK, PARTIAL
from clusterprobe.report import Report
from clusterprobe.strictjson import replace_file

MAMF = SCRIPTS / "mamf-finder.py"
QUICK = ("--device", "cpu", "--json", "out.json")
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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_letters_that_the_terminal_lacks_end_nothing(torch_python, tmp_path, encoding):
    done = subprocess.run([torch_python, str(GPU_TEST), *QUICK], env=clean_environment(PYTHONIOENCODING=encoding), cwd=tmp_path,
                          capture_output=True, encoding=encoding, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "RESULT status=ok rc=0" in done.stdout
    assert ("1 \\xd7 " if encoding == "ascii" else "1 × ") in done.stdout


def test_report_on_stdout_is_json_in_ascii_too(run_tool):
    words = ("--device", "cpu", "--shape", "64x64x64", "--dtype", "fp32", "--budget", "200ms", "--json", "-", "--notes", "ü")
    ended = run_tool(MAMF, *words, PYTHONIOENCODING="ascii")
    assert ended.rc == 0
    assert json.loads(ended.out)["config"]["notes"] == "ü"


def test_bytes_that_are_no_text_are_kept_readable(run_tool, tmp_path):
    """A POSIX locale without UTF-8 mode hands `ü` over as two bytes that no file in UTF-8 takes."""
    plain = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ended = run_tool(GPU_TEST, *QUICK[:2], "--json", "ü.json", **plain)
    assert (ended.rc, ended.result.get("status"), ended.err) == (0, "ok", "")
    assert load_report(tmp_path / "ü.json")["argv"][-1] == "ü.json"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_status(torch_python, tmp_path, closed):
    line = f'exec "{torch_python}" "{GPU_TEST}" {" ".join(QUICK)} {closed}'
    done = subprocess.run(["bash", "-c", line], env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert load_report(tmp_path / "out.json")["status"] == "ok"
    if closed in ("<&-", "2>&-"):
        assert "RESULT status=ok rc=0" in done.stdout


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


SETTLED = """
import sys
sys.path.insert(0, sys.argv[1])
from clusterprobe.streams import settle_streams
settle_streams()
with open(sys.argv[2], "w") as file:
    file.write(str(file.fileno()))
"""


def test_a_file_does_not_take_the_number_of_a_closed_stream(tmp_path):
    """What a library writes to descriptor 1 would land in the report."""
    line = f'exec "{sys.executable}" -c "$0" "$@" <&- >&- 2>&-'
    subprocess.run(["bash", "-c", line, SETTLED, str(SCRIPTS), str(tmp_path / "number")], env=clean_environment(), check=True, timeout=30)
    assert int((tmp_path / "number").read_text()) > 2


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
    done = subprocess.run(
        ["bash", "-c", f'"$0" "$1" {option} > /dev/full', sys.executable, str(GPU_TEST)],
        env=clean_environment(),
        text=True,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == CANNOT_RUN
    assert "Traceback" not in done.stderr
    assert "torch-distributed-gpu-test" in done.stderr


@pytest.fixture
def unread():
    """A pipe that is full and that nobody reads: a terminal after Ctrl-S, a pager that waits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 512)
    os.set_blocking(writer, True)
    yield writer
    os.close(reader)  # frees whoever is stuck in it
    os.close(writer)


def end_of(words: list[str], limit: float, unread: int, folder: Path, **more: str) -> int:
    """The exit status of a process whose text nobody reads; it is killed when the limit passes."""
    process = subprocess.Popen(words, env=clean_environment(**more), cwd=folder, stdin=subprocess.DEVNULL, stdout=unread, stderr=unread)
    try:
        return process.wait(limit)
    finally:
        process.kill()
        process.wait()


def test_a_limit_holds_though_nobody_reads_the_text(unread, torch_python, tmp_path):
    words = ("--device", "cpu", "--nproc", "1", "--json", "r.json", "--timeout", "12s")
    assert end_of([torch_python, str(GPU_TEST), *words], 120, unread, tmp_path) == MISSING_RANK
    assert load_report(tmp_path / "r.json")["rc"] == MISSING_RANK


SIGNALLED = "from clusterprobe.probe import tell_early_end; tell_early_end('probe', 15)"
ORPHANED = """import os, time
from clusterprobe.spawn import SPAWNED, end_with_parent
ear, mouth = os.pipe()
os.close(ear)
end_with_parent({SPAWNED: str(mouth), "LOCAL_RANK": "0"})
time.sleep(100)
"""


@pytest.mark.parametrize(("code", "rc"), [(SIGNALLED, 143), (ORPHANED, -signal.SIGTERM)])
def test_an_end_from_outside_comes_though_nobody_reads_of_it(code, rc, unread, tmp_path):
    assert end_of([sys.executable, "-c", code], 45, unread, tmp_path, PYTHONPATH=str(SCRIPTS)) == rc


@pytest.mark.parametrize("target", ["r.json", "-"])
def test_the_report_is_written_while_a_line_is_stuck(target, unread, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clusterprobe.report.DOCUMENT_PATIENCE", 1.0, raising=False)
    monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(unread), "w"))
    monkeypatch.setattr("sys.stderr", sys.stdout)
    report = Report("probe", [], {}, target)
    report.before_verdict = lambda: report.warn("kept") or report.save() or ["what there is"]
    threading.Thread(target=report.line, args=("stuck",), daemon=True).start()
    time.sleep(0.5)
    ended: list[int] = []
    worker = threading.Thread(target=lambda: ended.append(report.finish(0, "all is well")), daemon=True)
    worker.start()
    worker.join(20)
    assert ended == [PARTIAL if target == "-" else OK]
    if target != "-":
        document = load_report(tmp_path / target)
        assert (document["status"], document["warnings"]) == ("ok", ["kept"])


def test_an_unfinished_report_does_not_replace_the_last_one(monkeypatch, tmp_path):
    """A disk that takes seconds for a write, and a signal meanwhile."""
    began = threading.Event()

    def slow(path: str, content: str) -> None:
        if '"status": "running"' in content:
            began.set()
            time.sleep(3)
        replace_file(path, content)

    report = Report("probe", [], {}, str(tmp_path / "r.json"))
    monkeypatch.setattr("clusterprobe.report.replace_file", slow)
    monkeypatch.setattr("clusterprobe.report.SAVE_INTERVAL", 0.0)
    worker = threading.Thread(target=report.add, args=("results", {}), daemon=True)
    worker.start()
    assert began.wait(20)
    assert report.finish(OK, "all is well") == OK
    worker.join(20)
    assert load_report(tmp_path / "r.json")["status"] == "ok"
