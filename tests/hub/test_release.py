"""`make release`: what it makes, what it refuses, and that a failure leaves everything as it was."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from releasebook import NEXT, PRESS, VERSION, commit_all, git, make_book, press, snapshot

from bookpress.__main__ import main
from bookpress.release import changelog, cut, versions
from bookpress.release.changelog import Fragment
from bookpress.release.git import GitFailed
from bookpress.release.git import git as release_git

TAG = f"v{NEXT}"


@pytest.fixture
def fresh(tmp_path):
    """A repository before its release."""
    return make_book(tmp_path / "book")


def refused(root, version=NEXT, status=1, *words):
    """The release fails with this status and leaves no trace. Out: its stderr."""
    before = snapshot(root)
    done = press("release", version, "--book", root, *words, cwd=root)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(root) == before
    return done.stderr


def test_what_a_release_is(released):
    assert git(released, "status", "--porcelain") == ""
    assert git(released, "branch", "--show-current") == "main"
    assert git(released, "log", "--format=%s") == f"Release {NEXT}\nA small book"
    assert git(released, "cat-file", "-t", TAG) == "tag"
    assert git(released, "rev-parse", f"{TAG}^{{commit}}") == git(released, "rev-parse", "HEAD")
    for path, line in {
        "book.toml": f'version = "{NEXT}"', "scripts/clusterprobe/version.py": f'PROBE_VERSION = "{NEXT}"',
        "CITATION.cff": f"version: {NEXT}\n",
    }.items():  # fmt: skip
        assert line in (released / path).read_text()
    date = re.search(r"date-released: (\d{4}-\d\d-\d\d)\n", (released / "CITATION.cff").read_text())[1]
    told = (released / "CHANGELOG.md").read_text()
    assert told.endswith(
        f"## {NEXT} ({date})\n\n### Added\n\n- A page about the start.\n  It has two lines.\n\n### Fixed\n\n- The end.\n"
    )
    assert not list((released / "changelog.d").glob("*"))


def test_tag_vouches_for_the_files(released):
    sums = (released / "dist/release/SHA256SUMS").read_bytes()
    assert f"SHA256SUMS has the SHA-256 {hashlib.sha256(sums).hexdigest()}" in git(released, "tag", "-l", "--format=%(contents)", TAG)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=released / "dist/release", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_files_repeat_in_other_places(book, made, tmp_path):
    """Built in the repository itself, and in a clone of the tag elsewhere: the bytes of the release."""
    git(tmp_path, "clone", "--quiet", "--branch", TAG, str(book), "elsewhere")
    first = {f.name: f.data for f in made.files}
    shutil.rmtree(book / "dist")
    for root in (book, tmp_path / "elsewhere"):
        done = press("artefacts", "--book", root, cwd=tmp_path, TZ="Pacific/Kiritimati", LC_ALL="C")
        assert done.returncode == 0, done.stderr
        folder = root / "dist/release"
        assert {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == first


def test_red_tests_leave_no_trace(fresh):
    (fresh / "tests-are-red").touch()
    commit_all(fresh, "Break a test")
    err = refused(fresh)
    assert "REL007 make test ended with 2" in err
    assert "logs/test.log" in err
    git(fresh, "rm", "--quiet", "tests-are-red")
    git(fresh, "commit", "--quiet", "--message", "Mend the test")
    assert main(["release", NEXT, "--book", str(fresh), "--quiet"]) == 0


def test_broken_book_leaves_no_trace(fresh):
    (fresh / "chapters/start.md").write_text("# Start\n\n[Nowhere](nowhere.md)\n")
    commit_all(fresh, "Break a link")
    assert "REL007 make book ended with" in refused(fresh)


def test_card_that_the_hub_refuses_leaves_no_trace(fresh):
    text = (fresh / "book.toml").read_text()
    (fresh / "book.toml").write_text(text.replace("CC-BY-SA-4.0", "Proprietary-1.0"))
    commit_all(fresh, "Another licence")
    assert "REL007 the artefacts ended with 1" in refused(fresh)


def test_refused_before_any_work(fresh):
    """Each reason alone; and all at once in one report."""
    assert "'1.2' is no version" in refused(fresh, "1.2", 2)
    assert "'v1.2.3' is no version" in refused(fresh, "v1.2.3", 2)
    assert "which version" in refused(fresh, "", 2)
    assert "REL002 0.0.1 is older than" in refused(fresh, "0.0.1")
    git(fresh, "tag", TAG)
    assert f"REL003 the tag {TAG} exists" in refused(fresh)
    git(fresh, "tag", "--delete", TAG)
    (fresh / "new.txt").write_text("x")
    (fresh / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 9.9.9\n")
    (fresh / "changelog.d/odd.md").write_text("x")
    (fresh / "changelog.d/head.added.md").write_text("## x")
    (fresh / "changelog.d/typo.addded.md").write_text("x")
    err = refused(fresh)
    assert "CITATION.cff:2:1 REL004 the version here is '9.9.9'" in err
    assert "changelog.d/odd.md:1:1 REL006" in err
    assert "changelog.d/head.added.md:1:1 REL006" in err
    assert "changelog.d/typo.addded.md:1:1 REL006 the name is not NAME.KIND.md (did you mean 'added'?)" in err
    assert "REL001 5 files differ from the commit" in err


def test_nothing_to_tell_is_refused(fresh):
    git(fresh, "rm", "--quiet", "-r", "changelog.d")
    with (fresh / "CHANGELOG.md").open("a") as file:
        file.write("\n## Unreleased\n\n- x\n")
    commit_all(fresh, "Write it into the file")
    err = refused(fresh)
    assert "REL005 no fragments" in err
    assert "CHANGELOG.md:5:1 REL006 changes stand in the file" in err


def test_places_where_no_release_can_be(fresh, tmp_path):
    git(fresh, "checkout", "--quiet", "--detach")
    assert "HEAD is not on a branch" in refused(fresh, NEXT, 2)
    git(fresh, "checkout", "--quiet", "main")
    text = (fresh / "book.toml").read_text()
    (fresh / "book.toml").write_text(text.replace('repo = "alice/book"\n', ""))
    commit_all(fresh, "No repository")
    assert "no repository named" in refused(fresh, NEXT, 2)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "book.toml").write_text(text)
    done = press("release", NEXT, "--book", bare, cwd=bare, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert done.returncode == 2
    assert "is no git repository to release from: git rev-parse: fatal: not a git repository" in done.stderr


# In the clone's folder: its grandparent is the cache, which git ignores.
WAIT = "touch ../../reached; n=0; while test ! -e ../../go && test $$n -lt 900; do sleep 0.1; n=$$((n+1)); done"


def waiting_release(root):
    """A release that waits in its test step for `.cache/go`. Out: the process, once it is there."""
    text = (root / "Makefile").read_text()
    (root / "Makefile").write_text(text.replace("test: ; @", f"test: ; @{WAIT}; "))
    commit_all(root, "Tests take a while")
    process = subprocess.Popen(
        [sys.executable, "-m", "bookpress", "release", NEXT, "--book", root], cwd=root, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PRESS)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    mark, limit = root / ".cache/reached", time.monotonic() + 90
    while not mark.exists() and time.monotonic() < limit:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    assert mark.exists()
    return process


def test_killed_in_the_middle_leaves_no_trace(fresh):
    process = waiting_release(fresh)
    before = snapshot(fresh)
    other = press("release", NEXT, "--book", fresh, cwd=fresh)
    assert other.returncode == 2
    assert "another release of this book is running" in other.stderr
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)
    process.stderr.close()
    assert snapshot(fresh) == before
    assert git(fresh, "tag", "--list") == ""


def test_branch_that_moves_meanwhile(fresh):
    """Somebody commits while the tests run: their commit stays, no tag is made."""
    process = waiting_release(fresh)
    (fresh / "chapters/start.md").write_text("# Start\n\nOther words.\n")
    theirs = commit_all(fresh, "Other words")
    (fresh / ".cache/go").touch()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "REL009 the branch or the tree changed while the release was built" in err
    assert git(fresh, "rev-parse", "HEAD") == theirs
    assert git(fresh, "tag", "--list") == ""
    assert git(fresh, "status", "--porcelain") == ""


def test_same_version_again_when_it_was_never_tagged(fresh):
    """The first release has the version that book.toml has had all along."""
    assert main(["release", VERSION, "--book", str(fresh), "--quiet"]) == 0
    assert git(fresh, "tag", "--list") == f"v{VERSION}"


def test_sections():
    fragments = [Fragment("a", "fixed", "One.\n\nAnd two."), Fragment("b", "added", "Three.")]
    new = changelog.section("1.0.0", "2026-01-01", fragments)
    assert new == "## 1.0.0 (2026-01-01)\n\n### Added\n\n- Three.\n\n### Fixed\n\n- One.\n\n  And two.\n"
    whole = changelog.with_section("# C\n\nWords.\n\n## 0.9.0 (2025-01-01)\n\n- Old.\n", new)
    assert whole == f"# C\n\nWords.\n\n{new}\n## 0.9.0 (2025-01-01)\n\n- Old.\n"
    assert changelog.of_version(whole, "0.9.0") == "- Old."
    assert changelog.of_version(whole, "1.0.0").startswith("### Added")
    assert changelog.of_version(whole, "2.0.0") == ""


def test_numbers_compare_as_numbers():
    assert versions.number("10.0.0") > versions.number("9.10.1") > versions.number("9.9.9")


def test_this_repository_can_be_released():
    """What stands in the way here is only what is not committed yet."""
    from releasebook import ROOT

    from bookpress.config import read_config

    config, problems = read_config(ROOT / "book.toml")
    assert problems == []
    assert versions.disagreements(config) == []
    fragments, problems = changelog.read(ROOT)
    assert problems == []
    assert changelog.missing(ROOT, fragments) == [] or changelog.of_version((ROOT / changelog.FILE).read_text(), config.version)


def test_a_clock_that_runs_behind_dates_no_release(fresh):
    when = {"GIT_COMMITTER_DATE": "2099-01-01T00:00:00Z"}
    subprocess.run(
        ["git", "-C", str(fresh), "commit", "--quiet", "--allow-empty", "--message", "From later"],
        env={**os.environ, **when}, check=True,
    )  # fmt: skip
    assert "the last commit is of 2099-01-01; set the clock" in refused(fresh, NEXT, 2)


def test_git_failures_name_the_command(fresh):
    with pytest.raises(GitFailed, match="git tag: fatal"):
        release_git(fresh, "-c", "user.name=A", "tag", "--annotate", "--message", "x", "a..b")


def test_no_room_for_the_files_leaves_no_trace(fresh, tmp_path):
    """The files are copied out before the tag is there, not after."""
    (tmp_path / "full").write_text("a file, in which no folder can be made")
    before = snapshot(fresh)
    done = press("release", NEXT, "--book", fresh, "--out", tmp_path / "full/dist", "--cache", tmp_path / "c", cwd=fresh)
    assert done.returncode != 0
    assert "make test passed" in done.stdout
    assert snapshot(fresh) == before


def test_what_a_killed_release_still_writes_stays_out_of_the_next(tmp_path):
    first = cut._fresh(tmp_path / "release")
    second = cut._fresh(tmp_path / "release")
    first.mkdir()  # its steps go on
    assert first != second
    assert not list(second.iterdir())


def test_typed_values_are_never_shell_text(tmp_path):
    """The real Makefile, with a press that prints its words one a line."""
    shutil.copy(PRESS.parent / "Makefile", tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/bootstrap.py").write_text("")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    for goal, value in {
        "contribute-record": "BY=Conor O'Neil; touch hit", "release": "VERSION=1.0.0; touch hit",
        "publish": "REPO=a/b $(touch hit)", "verify": "FROM=my folder & touch hit",
    }.items():  # fmt: skip
        words = [goal, value.replace("$", "$$"), *(["FILE=my result.json"] if goal == "contribute-record" else [])]
        done = subprocess.run(["make", "-s", *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        said = value.split("=", 1)[1]
        assert any(line.removeprefix("--by=").removeprefix("--repo=") == said for line in done.stdout.splitlines())
        assert not (tmp_path / "hit").exists()
