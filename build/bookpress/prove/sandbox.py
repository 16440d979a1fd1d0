"""Part of prove: one session → one run, in a scratch folder, without network, nothing left behind.

On Linux the session gets its own network, process, IPC and mount namespaces: it reaches nothing but its own
loopback, it can write only to its own /tmp, and every process that it started ends with it. A session for
Slurm starts a whole two-node cluster in there, so that no fence sees another's jobs. Where namespaces are
refused the session still runs and its result says that it was not isolated.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..problems import ToolMissing
from .plan import MEMORY_MB, Session, command

_INSIDE = Path(__file__).with_name("inside.py")
TREE = Path(__file__).resolve().parents[3]
CLUSTER = TREE / "tests" / "slurm" / "cluster.py"
_SPARE_S = 30  # over the steps' own limits, for starting and ending
_CLUSTER_S = 90  # more of it for a cluster
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The first process of a process space has to collect orphans, or `ps` shows a reader's demo as defunct.
# A shell that waits for its child does; the `exit` keeps it from replacing itself by that child.
_INIT = ("sh", "-c", '"$@"; exit $?', "init")

_RUNNING: set[subprocess.Popen] = set()


@dataclass(frozen=True)
class Result:
    """What one step did."""

    status: int
    output: str
    seconds: float
    timed_out: bool = False
    isolated: bool = True


@dataclass(frozen=True)
class Prepared:
    """A session laid out on disk, ready to be started."""

    argv: tuple[str, ...]
    folder: Path  # as seen from outside
    answer: Path
    env: dict[str, str]
    limit_s: int


@functools.cache
def isolation() -> tuple[str, ...]:
    """The `unshare` command that works here, or () where none does."""
    kinds = ["--net", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for argv in (["unshare", *kinds], ["unshare", "--map-root-user", *kinds]):
        if shutil.which("unshare"):
            test = ["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
            done = subprocess.run([*argv, *test], capture_output=True, check=False)
            if done.returncode == 0:
                # Should this process be killed, its sessions end with it.
                guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
                return (*guard, *argv)
    return ()


@functools.cache
def need_cluster() -> None:
    """Stop with the packages' names where no cluster, or none with accounting, can be started."""
    argv = [sys.executable, str(CLUSTER), "check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr.strip():
        reasons = "; ".join((done.stderr or done.stdout).strip().splitlines())
        raise ToolMissing(f"slurm fences need a cluster on this machine: {reasons}")


def environment(tmp: Path, bin_dir: Path | None) -> dict[str, str]:
    """A small, fixed environment: nothing of the person's own shell shapes a proof."""
    return {
        "PATH": f"{bin_dir}:{_SYSTEM_PATH}" if bin_dir else _SYSTEM_PATH,
        "HOME": str(tmp / "work"),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Sessions run beside each other; a thread pool per core would slow all of them.
        "OMP_NUM_THREADS": "1",
    }


def prepare(session: Session, base: Path, bin_dir: Path | None) -> Prepared:
    """Write a session's scripts, fixtures and plan under `base`."""
    prefix = isolation()
    outside = base / "tmp"
    # Inside a sandbox the scratch folder always has the same name, so that outputs with paths repeat.
    tmp = Path("/tmp") if prefix else outside
    (outside / "work").mkdir(parents=True)
    outside.chmod(0o1777)
    for fixture in session.fixtures:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(fixture, outside / "work", dirs_exist_ok=True, ignore=ignore)
    steps = []
    for number, step in enumerate(session.steps):
        script = base / f"fence-{number}"
        script.write_text(step.fence.text + "\n", encoding="utf-8")
        steps.append({
            "id": number, "command": command(step.fence, str(script)), "exit": step.exit,
            "timeout": step.timeout_s, "memory_mb": MEMORY_MB,
        })  # fmt: skip
    via = [sys.executable, str(CLUSTER), "run", "--"] if session.mode == "slurm" else []
    keep = [str(TREE), *([str(bin_dir.parent)] if bin_dir else [])]
    plan, answer = base / "plan.json", base / "result.json"
    plan.write_text(json.dumps({
        "folder": str(tmp / "work"), "steps": steps, "tmp": str(outside) if prefix else None,
        "keep": keep, "via": via,
    }))  # fmt: skip
    system = Path("/usr/bin/python3")
    python = str(system) if system.exists() else sys.executable
    argv = (*prefix, *(_INIT if prefix else ()), python, str(_INSIDE), str(plan), str(answer))
    limit = sum(s.timeout_s for s in session.steps) + _SPARE_S + (_CLUSTER_S if via else 0)
    return Prepared(argv, outside / "work", answer, environment(tmp, bin_dir), limit)


def run(session: Session, bin_dir: Path | None = None) -> list[Result]:
    """Run all steps in order; steps after a failure have no Result."""
    with tempfile.TemporaryDirectory(prefix="prove-", ignore_cleanup_errors=True) as name:
        ready = prepare(session, Path(name), bin_dir)
        process = subprocess.Popen(
            ready.argv, env=ready.env, cwd=ready.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        _RUNNING.add(process)
        try:
            said, _ = process.communicate(timeout=ready.limit_s)
        except subprocess.TimeoutExpired:
            return [Result(124, f"the session did not end within {ready.limit_s} s", 0.0, True)]
        finally:
            process.kill()
            process.communicate()
            _RUNNING.discard(process)
        return _collect(ready, said, process.returncode)


def stop() -> None:
    """End every session that runs: its space, and all that is in it, ends with `unshare`."""
    for process in tuple(_RUNNING):
        process.kill()


def _collect(ready: Prepared, said: str, status: int) -> list[Result]:
    """The results a finished session left, or one that says why there are none."""
    if not ready.answer.is_file():
        tail = "\n".join(said.splitlines()[-15:])
        return [Result(status or 1, f"the session ended without results:\n{tail}", 0.0)]
    isolated = bool(isolation())
    return [
        Result(r["status"], r["output"], r["seconds"], r["timed_out"], isolated)
        for r in json.loads(ready.answer.read_text(encoding="utf-8"))
    ]
