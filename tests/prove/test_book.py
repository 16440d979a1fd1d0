"""The book itself: every fence proven, most of them executed, and a broken command found at its line.

Uses the book's own cache, so that after `make prove` this takes seconds; cold it takes minutes.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bookpress.build import prepare
from bookpress.config import read_config
from bookpress.problems import ToolMissing
from bookpress.prove import sandbox
from bookpress.prove.marks import rows
from bookpress.prove.scan import scan
from missing import absent
from slurm import cluster

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 840


def prove(book: Path, out: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build")}
    argv = [sys.executable, "-m", "bookpress", "prove", "--book", book, "--out", out, "--cache", cache]
    return subprocess.run(
        [*argv, *words], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def left(before: set[Path]) -> set[Path]:
    """Folders of clusters that have ended; those of other tests come and go meanwhile."""
    end = time.monotonic() + 5
    while (found := cluster.abandoned() - before) and time.monotonic() < end:
        time.sleep(0.2)  # one may be on its way out
    return found


def test_every_fence_is_proven(tmp_path):
    if os.geteuid() or not sandbox.isolation():
        absent("a cluster of one's own needs root and namespaces")
    for tool in ("shellcheck", "gdb"):
        if not shutil.which(tool):
            absent(f"{tool} is not installed: make setup-test")
    try:
        sandbox.need_cluster()
    except ToolMissing as reason:
        absent(str(reason))
    before = cluster.abandoned()
    done = prove(ROOT / "book.toml", tmp_path / "dist", ROOT / ".cache")
    assert done.returncode == 0, done.stdout + done.stderr
    proofs = json.loads((tmp_path / "dist" / "proofs.json").read_text())["proofs"]
    bad = [f"{p['chapter']}:{p['line']} {p['status']}" for p in proofs if p["status"] not in ("ok", "shown")]
    assert bad == []
    executed = [p for p in proofs if p["mode"] in ("run", "slurm", "gpu")]
    print(done.stdout)
    assert len(executed) >= 0.7 * len(proofs)
    assert {p["mode"] for p in executed} == {"run", "slurm", "gpu"}
    assert left(before) == set(), "a cluster left its folder"


def test_every_proof_is_shown_to_readers(tmp_path):
    config, _ = read_config(ROOT / "book.toml")
    book, _ = prepare(config, tmp_path)
    lacking = [
        f"{c.path}:{f.line}"
        for c in book.chapters
        for f in c.fences
        if f.mode in ("run", "slurm", "gpu", "parse") and f.index not in book.proofs.get(c.path, {})
    ]
    assert lacking == [], "make prove RECORD=1 writes data/proofs.json"
    assert rows(book)[-1].title == "In all"


def test_a_broken_command_is_found_at_its_line(tmp_path):
    copy = tmp_path / "book"
    names = ("book.toml", "requirements-prove.txt", "chapters", "data")
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name)
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(source, copy / name)
    chapter = "chapters/front/how-to-use.md"
    fence = next(f for f in scan(copy / chapter) if f.mode == "run" and f.lang == "bash" and not f.hidden)
    lines = (copy / chapter).read_text().split("\n")
    lines[fence.line] = f"no-such-program --at-all; {lines[fence.line]}"
    (copy / chapter).write_text("\n".join(lines))
    done = prove(copy, tmp_path / "dist", tmp_path / "cache", "--only", chapter)
    assert done.returncode == 1
    assert f"{chapter}:{fence.line}:" in done.stderr + done.stdout
    assert "exit status 127, expected 0" in done.stderr + done.stdout
    assert "no-such-program: command not found" in done.stderr + done.stdout


def test_a_name_that_fits_no_chapter_is_wrong_use(tmp_path):
    done = prove(ROOT / "book.toml", tmp_path / "dist", tmp_path / "cache", "--only", "acelerators")
    assert done.returncode == 2
    assert "chapters/hardware/accelerators.md" in done.stderr
    assert not (tmp_path / "dist").exists()
