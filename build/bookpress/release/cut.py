"""`make release VERSION=x.y.z`: the release commit and its tag, once everything passes.

In: a clean tree on a branch, and a version. Out: on success a commit and an annotated tag, dist/release and
the note that the commit is green. All work happens in a clone under the cache; the repository sees the commit
only when book, checks, tests and artefacts are through, so that a failed or killed release leaves no trace.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..config import read_config
from ..model import Config
from ..problems import Problem, WrongUse, errors
from . import changelog, green, versions
from .artefacts import FOLDER, with_repo
from .git import (
    GitFailed,
    branch,
    changes,
    committed_at,
    git,
    head,
    identity,
    require_repository,
    tag_commit,
)

# What set-up made here serves the clone too; git does not track it.
_SHARED = (".venv", ".venv-torch", "tests/web/node_modules")
_SHOWN = 5  # changed paths that a message names


def dirty(root: Path) -> list[Problem]:
    """One problem when the tree holds what no commit holds."""
    paths = changes(root)
    if not paths:
        return []
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    message = f"{len(paths)} files differ from the commit: {', '.join(paths[:_SHOWN])}{more}"
    return [Problem(paths[0], 0, 0, "REL001", message, "commit them, or put them away")]


def objections(config: Config, version: str) -> list[Problem]:
    """Everything that stands against this release before any work is done."""
    root, tag = config.root, f"v{version}"
    problems = dirty(root) + versions.disagreements(config)
    wanted, present = versions.number(version), versions.number(config.version)
    if tag_commit(root, tag):
        problems.append(Problem("book.toml", 0, 0, "REL003", f"the tag {tag} exists", "choose the next version"))
    elif wanted < present:
        problems.append(Problem("book.toml", 0, 0, "REL002", f"{version} is older than {config.version}"))
    if not branch(root):
        raise WrongUse("HEAD is not on a branch; a release commit needs one: git switch BRANCH")
    now, last = datetime.now(UTC), datetime.fromtimestamp(committed_at(root), UTC)
    if now < last - timedelta(days=1):
        raise WrongUse(f"the clock says {now:%Y-%m-%d}, the last commit is of {last:%Y-%m-%d}; set the clock: readers see the day")
    fragments, found = changelog.read(root)
    return problems + found + changelog.missing(root, fragments)


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Two releases of one repository never run at once."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "release.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise WrongUse("another release of this book is running") from None
        yield


def _fresh(folder: Path) -> Path:
    """An empty folder of its own: steps of a release that was killed may still write into theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("tree*"):
        shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix="tree-", dir=folder))


def _clone(root: Path, tree: Path) -> None:
    """A copy with tracked files alone, and what set-up has installed."""
    git(root, "clone", "--quiet", "--no-tags", "--single-branch", str(root), str(tree))
    shared = [name for name in _SHARED if (root / name).exists()]
    for name in shared:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(root / name)
    # .gitignore names these as folders; as links they need a line of their own.
    with (tree / ".git/info/exclude").open("a", encoding="utf-8") as exclude:
        exclude.writelines(f"/{name}\n" for name in shared)


def _write(tree: Path, version: str) -> None:
    """Version, changelog and fragments as the release has them."""
    date = datetime.now(UTC).date().isoformat()
    fragments, _ = changelog.read(tree)
    new = versions.bumped(tree, version, date)
    told = (tree / changelog.FILE).read_text(encoding="utf-8")
    new[changelog.FILE] = changelog.with_section(told, changelog.section(version, date, fragments))
    for path, text in new.items():
        (tree / path).write_text(text, encoding="utf-8")
    for fragment in fragments:
        (tree / fragment.path).unlink()
    git(tree, "add", "--all")


def _artefacts(tree: Path, repo: str, logs: Path, say: green.Say) -> list[Problem]:
    """dist/release in the clone, made by the clone's own press where the book carries one."""
    own = tree / "build"
    source = own if (own / "bookpress").is_dir() else Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "bookpress", "artefacts", "--book", str(tree), "--out", str(tree / "dist")]
    status = green.run([*command, *(["--repo", repo] if repo else [])], tree, logs / "artefacts.log", PYTHONPATH=str(source))
    if status == 0:
        return []
    say((logs / "artefacts.log").read_text(encoding="utf-8", errors="replace").rstrip())
    return [Problem("book.toml", 0, 0, "REL007", f"the artefacts ended with {status}", f"{logs / 'artefacts.log'}")]


def _adopt(root: Path, tree: Path, base: str, tag: str, message: str) -> list[Problem]:
    """Take commit and tag over, both or neither."""
    moved = "the branch or the tree changed while the release was built"
    if head(root) != base or changes(root):
        return [Problem("book.toml", 0, 0, "REL009", moved, "nothing was changed here; run the release again")]
    git(root, "fetch", "--quiet", "--no-tags", str(tree), "HEAD")
    commit = head(tree)
    git(root, *identity(root), "tag", "--annotate", "--message", message, tag, commit)
    try:
        git(root, "merge", "--quiet", "--ff-only", commit)
    except BaseException as error:
        git(root, "tag", "--delete", tag)
        if not isinstance(error, GitFailed):
            raise
        return [Problem("book.toml", 0, 0, "REL009", f"{moved}: {error}", "run the release again")]
    return []


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()


@contextlib.contextmanager
def _copied(made: Path, place: Path) -> Iterator[Path]:
    """The release's files beside the place they are meant for; gone at the end, if they are still there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".release-", dir=place.parent))
    try:
        for file in (p for p in sorted(made.rglob("*")) if p.is_file()):
            (new / file.relative_to(made)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, new / file.relative_to(made))
        new.chmod(0o755)
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def release(book_toml: Path, version: str, out: Path, cache: Path, repo: str, say: green.Say) -> list[Problem]:
    """Make the release, or say why not and leave everything as it was."""
    versions.number(version)
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return problems
    require_repository(config.root)
    with_repo(config, repo)
    problems = objections(config, version)
    if problems:
        return problems
    root, tag, base = config.root, f"v{version}", head(config.root)
    who = identity(root)
    logs = cache / "release" / "logs"
    with _alone(cache):
        tree = _fresh(cache / "release")
        _clone(root, tree)
        _write(tree, version)
        git(tree, *who, "commit", "--quiet", "--message", f"Release {version}")
        problems = green.prove(tree, logs, say) or _artefacts(tree, repo, logs, say)
        problems = problems or [
            Problem(p.path, 0, 0, "REL007", f"the steps changed the tree: {p.message}") for p in dirty(tree)
        ]
        if problems:
            return problems
        made = tree / "dist" / FOLDER
        message = f"{config.title} {version}\n\nSHA256SUMS has the SHA-256 {_digest(made)}"
        with _copied(made, out / FOLDER) as copy:  # a full disk must show before the tag is there
            problems = _adopt(root, tree, base, tag, message)
            if problems:
                return problems
            shutil.rmtree(out / FOLDER, ignore_errors=True)
            os.replace(copy, out / FOLDER)
        green.record(cache, head(root), green.steps(root))
        shutil.rmtree(tree)
    say(f"{tag} is commit {head(root)[:12]} on {branch(root)}; its files are in {os.path.relpath(out / FOLDER)}")
    say(f"next: git push --atomic REMOTE {branch(root)} {tag}; make publish; make publish YES=1")
    return []
