"""A small book in a git repository of its own, ready to be released: what the tests of the release work on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRESS = ROOT / "build"
VERSION = re.search(r'PROBE_VERSION = "(.*?)"', (ROOT / "scripts/clusterprobe/version.py").read_text())[1]
NEXT = "7.0.0"

BOOK = f"""[book]
title = "Small Field Book"
subtitle = "One page about clusters"
slug = "small-field-book"
version = "{VERSION}"
language = "en-US"
authors = ["Someone"]
license = "CC-BY-SA-4.0"
license_code = "Apache-2.0"

[hub]
repo = "alice/book"
file_budget_mb = 5

[[part]]
title = ""
chapters = ["chapters/start.md"]
"""
MAKEFILE = f"""PRESS := PYTHONPATH={PRESS} {sys.executable} -m bookpress
book: ; @$(PRESS) build --book book.toml --out dist --jobs 1 --only web
scripts: ; @$(PRESS) bundle --book book.toml --out dist
check: ; @cd dist && sha256sum --quiet --check SHA256SUMS
test: ; @test ! -e tests-are-red || (echo "one test failed"; exit 1)
artefacts: ; @$(PRESS) artefacts --book book.toml --out dist
"""


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit_all(root: Path, message: str) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


def make_book(root: Path) -> Path:
    """A repository whose next release is NEXT."""
    (root / "chapters").mkdir(parents=True)
    (root / "chapters/start.md").write_text("# Start\n\nLook at `nvidia-smi` first.\n\n## Then\n\nAt the rest.\n")
    (root / "book.toml").write_text(BOOK)
    (root / "Makefile").write_text(MAKEFILE)
    (root / ".gitignore").write_text("/dist/\n/.cache/\n")
    (root / "CITATION.cff").write_text(f"cff-version: 1.2.0\ntitle: Small\nversion: {VERSION}\nlicense: CC-BY-SA-4.0\n")
    (root / "CHANGELOG.md").write_text("# Changelog\n\nBy release.\n")
    (root / "changelog.d").mkdir()
    (root / "changelog.d/start.added.md").write_text("A page about the start.\nIt has two lines.\n")
    (root / "changelog.d/end.fixed.md").write_text("The end.\n")
    shutil.copy(ROOT / "LICENSE", root)
    shutil.copytree(ROOT / "LICENSES", root / "LICENSES")
    ignore = shutil.ignore_patterns("__pycache__", ".ruff_cache")
    shutil.copytree(ROOT / "scripts", root / "scripts", ignore=ignore)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "Someone")
    git(root, "config", "user.email", "someone@example.org")
    commit_all(root, "A small book")
    return root


def snapshot(root: Path) -> dict[str, object]:
    """All that a release may change: the tree, the branch, the tags, the index."""
    files = {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and not {".git", ".cache", "dist"} & set(p.relative_to(root).parts)
    }
    return {
        "files": files, "refs": git(root, "for-each-ref"), "head": git(root, "rev-parse", "HEAD"),
        "status": git(root, "status", "--porcelain"), "branch": git(root, "branch", "--show-current"),
    }  # fmt: skip


def press(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bookpress", *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(PRESS), **env},
    )  # fmt: skip
