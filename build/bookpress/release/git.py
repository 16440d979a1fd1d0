"""Git as the release uses it: few questions, few changes, each of them one command.

In: the book's folder. Out: answers as strings. A refusal of git's is a GitFailed with git's own last line.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..problems import ToolMissing, WrongUse


class GitFailed(WrongUse):
    """Git refused; the message is its own."""


# A hook or an outer git command may have set these; they would point at another repository.
_OUTER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
# make exports what its command line sets: an inner make would take BOOK and OUT, and build another tree than its own.
_VERBS = ("BOOK", "OUT", "REPO", "VERSION", "YES", "CREATE", "RECORD", "REFRESH")
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # no test and no git command needs them


def clean_environment() -> dict[str, str]:
    """The environment without tokens and what belongs to an outer git or make."""
    gone = (*_OUTER, *_VERBS, *_TOKENS, "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "SOURCE_DATE_EPOCH")
    return {key: value for key, value in os.environ.items() if key not in gone}


def git(root: Path, *words: str) -> str:
    """Output of a git command, without the last line end."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], env=clean_environment(), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ToolMissing("git is not installed; a release is a commit and a tag") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        command = words[next(n for n in range(0, len(words), 2) if words[n] != "-c")]  # each -c has a value
        raise GitFailed(f"git {command}: {said[-1]}")
    return done.stdout.rstrip("\n")


def asked(root: Path, *words: str) -> str:
    """Like git, and "" where git says no."""
    try:
        return git(root, *words)
    except GitFailed:
        return ""


def require_repository(root: Path) -> None:
    """The book's folder is the top of a git repository."""
    try:
        top = git(root, "rev-parse", "--show-toplevel")
    except GitFailed as error:  # no repository, or one of another user's that git does not trust
        raise WrongUse(f"{root} is no git repository to release from: {error}") from None
    if Path(top).resolve() != root.resolve():
        raise WrongUse(f"{root} is not the top folder of a git repository; a release needs one")


def head(root: Path) -> str:
    return asked(root, "rev-parse", "--verify", "HEAD^{commit}")


def committed_at(root: Path) -> int:
    """When HEAD was committed, in seconds of the epoch; 0 without a commit."""
    return int(asked(root, "log", "-1", "--format=%ct") or 0)


def branch(root: Path) -> str:
    """The branch checked out, "" when HEAD is detached."""
    return asked(root, "symbolic-ref", "--quiet", "--short", "HEAD")


def changes(root: Path) -> list[str]:
    """Paths that differ from HEAD or are in no commit and not ignored."""
    rows = git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all").split("\0")
    return [row[3:] for row in rows if row[2:3] == " "]


def tag_commit(root: Path, tag: str) -> str:
    """The commit that a tag stands for, "" when there is no such tag."""
    return asked(root, "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}")


def tag_message(root: Path, tag: str) -> str:
    return asked(root, "for-each-ref", "--format=%(contents)", f"refs/tags/{tag}")


def identity(root: Path) -> Sequence[str]:
    """Options that make commits elsewhere in this repository's author's name."""
    name, email = asked(root, "config", "user.name"), asked(root, "config", "user.email")
    if not name or not email:
        raise WrongUse("git does not know who commits: git config user.name NAME; git config user.email ADDRESS")
    return ("-c", f"user.name={name}", "-c", f"user.email={email}")
