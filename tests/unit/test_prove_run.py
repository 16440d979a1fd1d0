"""Whole runs over small chapters: sandbox, limits, sessions, cache, outputs, refresh. Nothing is faked."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bookpress.prove import refresh, sandbox
from bookpress.prove.run import prove
from bookpress.prove.scan import scan

isolated = pytest.mark.skipif(not sandbox.isolation(), reason="namespaces are refused here")


class Book:
    """A chapter on disk and what prove says of it."""

    def __init__(self, folder: Path):
        self.root, self.cache = folder / "book", folder / "cache"
        self.root.mkdir()

    def prove(self, text: str):
        (self.root / "a.md").write_text(text, encoding="utf-8")
        self.chapters = [("a.md", scan(self.root / "a.md"))]
        self.proofs, self.problems, self.outputs = prove(self.chapters, self.root, self.cache, 2)
        return self.problems

    def status(self):
        return [p.status for p in self.proofs]


@pytest.fixture
def book(tmp_path, monkeypatch):
    # Scratch folders of this test alone: other runs on this machine have theirs in /tmp.
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    return Book(tmp_path)


def fence(text, words="{.run}", lang="bash"):
    return f"```{lang} {words}\n{text}\n```\n\n"


def test_a_failing_command_names_its_line_status_and_last_lines(book):
    text = "# T\n\n" + fence("echo fine") + fence("echo before\nls /no-such-folder\necho after")
    (problem,) = book.prove(text)
    assert (problem.path, problem.line, problem.code) == ("a.md", 7, "PRV001")
    assert "exit status 2" in problem.message
    assert "before" in problem.message
    assert "/no-such-folder" in problem.message
    assert "after" not in problem.message
    assert book.status() == ["ok", "failed"]


def test_a_failure_inside_a_pipe_counts_and_an_expected_status_is_held_to(book):
    assert book.prove(fence("false | cat"))[0].code == "PRV001"
    assert book.prove(fence("exit 3", "{.run exit=3}")) == []
    assert "exit status 0, expected 3" in book.prove(fence("true", "{.run exit=3}"))[0].message
    assert book.prove(fence("kill -TERM $$", "{.run exit=143}")) == []
    assert "no way to run 'ruby'" in book.prove(fence("1", lang="ruby"))[0].message
    assert book.prove(fence("raise SystemExit(4)", "{.run exit=4}", "python")) == []


def test_a_time_limit_ends_the_command_and_what_it_started(book):
    start = time.monotonic()
    (problem,) = book.prove(fence("sleep 987 & echo started; sleep 988", "{.run timeout=1}"))
    assert time.monotonic() - start < 15
    assert problem.code == "PRV007"
    assert "1 s" in problem.message
    assert "started" in problem.message
    assert not running("sleep 98[78]")


@isolated
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_ended_run_takes_its_sessions_along(book, number):
    book.root.joinpath("book.toml").write_text(
        '[book]\ntitle = "T"\nslug = "t"\nversion = "1"\n[features]\nproofs = true\n[[part]]\nchapters = ["a.md"]\n'
    )
    book.root.joinpath("a.md").write_text("# T\n\n" + fence(f"sleep 97{number}", "{.run timeout=99}"))
    before, root = left(), Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root / "build")}
    process = subprocess.Popen([sys.executable, "-m", "bookpress", "prove", "--book", book.root], env=env)
    start = time.monotonic()
    while not running(f"sleep 97{number}") and time.monotonic() - start < 30:
        time.sleep(0.1)
    assert running(f"sleep 97{number}"), "it never began"
    process.send_signal(number)
    assert process.wait(15) != 0
    time.sleep(0.5)
    assert not running(f"sleep 97{number}")
    # A killed process cannot tidy up; its folder holds nothing that runs.
    assert number == signal.SIGKILL or left() == before


def running(pattern):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if re.match(pattern, words):
            found.append(words)
    return found


def left():
    """What this process's fences would have left in the folders that everyone may write."""
    places = ("/tmp", "/dev", "/dev/shm", "/var/tmp", tempfile.gettempdir())
    return {p for d in places for p in Path(d).glob("*") if f"mark-{os.getpid()}" in p.name or d == places[-1]}


@isolated
def test_nothing_is_left_behind(book):
    before, key = left(), f"mark-{os.getpid()}"
    text = fence(f"touch /tmp/{key} /dev/shm/{key} $HOME/{key} ~/x\nmkfifo q\n(setsid nohup sleep 983 &)\nls /tmp")
    text += fence(f"ipcmk -M 4096 >/dev/null\ntouch /var/tmp/{key} 2>&1", "{.run exit=1}")
    text += fence(f"touch /dev/{key} 2>&1; mknod /dev/{key}-2 c 1 3; touch /sys/{key}", "{.run exit=1}")
    text += fence(f"touch /root/{key} || touch {Path.home()}/{key} || touch /opt/{key}", "{.run exit=1}")
    memory = subprocess.run(["ipcs", "-m"], capture_output=True, text=True).stdout
    assert book.prove(text) == []
    assert left() == before
    assert not running("sleep 983")
    assert subprocess.run(["ipcs", "-m"], capture_output=True, text=True).stdout == memory


@isolated
def test_a_session_reaches_its_own_loopback_and_no_network(book):
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), timeout=5)
print(sorted(i for _, i in socket.if_nameindex() if i == "eth0"))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print("unreachable:", error.errno)
"""
    text = fence(code, "{.run id=n}", "python") + "```output {of=n}\n[]\nunreachable: 101\n```\n"
    assert book.prove(text) == []


@isolated
def test_a_session_sees_a_fixed_place_and_environment(book, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_PERSON", "x")
    text = fence("pwd; echo $HOME; env | grep -c SECRET || true; ls -A", "{.run id=e}")
    assert book.prove(text + "```output {of=e}\n/tmp/work\n/tmp/work\n0\n```\n") == []


@isolated
def test_orphans_are_collected_as_an_init_does(book):
    text = fence("bash -c 'sleep 0.2 &'\nsleep 0.6\nps -e -o stat= | grep -c Z || true", "{.run id=z}")
    assert book.prove(text + "```output {of=z}\n0\n```\n") == []


def test_memory_is_limited(book):
    (problem,) = book.prove(fence("x = bytearray(20 << 30)", lang="python"))
    assert "MemoryError" in problem.message


def test_sessions_setups_and_fixtures(book):
    folder = book.root / "fixtures" / "tools"
    folder.mkdir(parents=True)
    (folder / "t.sh").write_text("echo tool $1\n")
    text = (
        fence("echo 1 > n; sleep 300 & echo $! > pid", "{.run id=a session=s}")
        + fence('kill -0 "$(cat pid)"; cat n', "{.run id=b session=s}")
        + fence("echo base > base", "{.run id=c}")
        + fence("echo more >> base", "{.run id=d setup=c}")
        + fence("cat base; bash t.sh x", '{.run id=e setup="d tools"}')
        + "```output {of=b}\n1\n```\n\n```output {of=e}\nbase\nmore\ntool x\n```\n"
    )
    assert book.prove(text) == []
    assert book.status() == ["ok"] * 5
    # A changed fixture is run again, everything else comes from the cache.
    (folder / "t.sh").write_text("echo other $1\n")
    (problem,) = book.prove(text)
    assert (problem.code, problem.line) == ("PRV002", 28)
    assert [p.cached for p in book.proofs] == [True, True, True, True, False]


def test_a_change_behind_a_linked_folder_is_run_again(book):
    """The instruments' package is linked into the fixtures of the chapters that run it."""
    package = book.root / "scripts" / "package"
    package.mkdir(parents=True)
    (package / "t.sh").write_text("echo one\n")
    (book.root / "fixtures" / "tools").mkdir(parents=True)
    (book.root / "fixtures" / "tools" / "package").symlink_to("../../scripts/package")
    text = fence("bash package/t.sh", "{.run id=a setup=tools}") + "```output {of=a}\none\n```\n"
    assert book.prove(text) == []
    (package / "t.sh").write_text("echo two\n")
    (problem,) = book.prove(text)
    assert problem.code == "PRV002"


def test_after_a_failure_the_rest_of_its_session_is_not_proven(book):
    text = fence("true", "{.run session=s}") + fence("false", "{.run session=s}") + fence("true", "{.run session=s}")
    assert [p.line for p in book.prove(text)] == [5]
    assert book.status() == ["ok", "failed", "failed"]


def test_the_cache_answers_until_the_fence_changes(book):
    text = fence("sleep 2; date +%N", "{.run id=x}")
    book.prove(text)
    first, date = book.outputs["a.md", "x"], book.proofs[0].date
    start = time.monotonic()
    book.prove("Moved down.\n\n" + text)
    assert time.monotonic() - start < 1.5
    assert (book.outputs["a.md", "x"], book.proofs[0].date, book.proofs[0].line) == (first, date, 3)
    book.prove(text.replace("2;", "1;"))
    assert book.outputs["a.md", "x"] != first
    for _ in range(2):
        assert book.prove(fence("exit 1")), "a failure is never cached"


def test_a_run_whose_output_differs_is_made_again(book):
    text = fence("date +%N", "{.run id=x}") + "```output {of=x}\nanother\n```\n"
    assert [p.code for p in book.prove(text)] == ["PRV002"]
    first = book.outputs["a.md", "x"]
    assert [p.code for p in book.prove(text)] == ["PRV002"]
    assert book.outputs["a.md", "x"] != first


def test_outputs_are_compared_and_refreshed(book):
    text = (
        "> A quote.\n>\n> ```bash {.run id=a}\n> printf '1\\n\\n3 4\\n'\n> ```\n>\n> ```output {of=a}\n> 1\n> 2\n> ```\n\n"
        + fence("echo rate 103", "{.run id=b}") + "```output {of=b}\nrate [[~ 100 ±5% ]]\n```\n\n"
        + "- item\n\n  ```output {of=b}\n  rate 9\n  ```\n\nend\n"
    )  # fmt: skip
    problems = book.prove(text)
    assert [(p.code, p.line) for p in problems] == [("PRV002", 9), ("PRV002", 23)]
    assert "shows '2', the run printed ''" in problems[0].message
    assert refresh.refresh(book.chapters, book.outputs, problems, book.root) == []
    fresh = (book.root / "a.md").read_text()
    assert "> ```output {of=a}\n> 1\n>\n> 3 4\n> ```\n" in fresh
    assert "rate [[~ 100 ±5% ]]" in fresh, "a tolerance that holds stays"
    assert "  ```output {of=b}\n  rate 103\n  ```\n\nend\n" in fresh
    assert book.prove(fresh) == []


def test_refresh_fills_an_empty_output(book):
    text = fence("echo one", "{.run id=a}") + "```output {of=a}\n```\n\nend\n"
    problems = book.prove(text)
    refresh.refresh(book.chapters, book.outputs, problems, book.root)
    assert (book.root / "a.md").read_text().endswith("```output {of=a}\none\n```\n\nend\n")


def test_refresh_keeps_an_output_that_cannot_be_written_as_a_problem(book):
    problems = book.prove(fence("echo '```'", "{.run id=a}") + "```output {of=a}\nx\n```\n")
    left = refresh.refresh(book.chapters, book.outputs, problems, book.root)
    assert [p.code for p in left] == ["PRV002"]


def test_every_other_mode_is_accounted_for(book):
    text = (
        fence("echo $((", "{.parse}") + fence("x", '{.shown reason="why"}') + fence("x", "{}")
        + fence("nvidia-smi", "{.gpu id=g}") + "```output\nx\n```\n"
    )  # fmt: skip
    problems = book.prove(text)
    assert {p.code for p in problems} == {"PRV005", "PRV004", "PRV008"}
    assert book.status() == ["failed", "shown", "unproven", "missing"]
    assert book.proofs[1].reason == "why"


def test_a_need_that_nobody_pinned(book):
    assert book.prove(fence("true", "{.run needs=leftpad}"))[0].code == "PRV009"


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shell_that_runs_is_linted_too(book):
    (problem,) = book.prove(fence("echo one\ncd /tmp\nls"))
    assert (problem.code, problem.line) == ("PRV005", 3)
