"""Part of prove: one session → one run, in a scratch folder, without network, nothing left behind.

On Linux the session gets its own network, process and mount namespaces, so that it reaches nothing but its
own loopback and every process it started ends with it. Where namespaces are refused the session still runs
and its result says that it was not isolated.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .plan import MEMORY_MB, Session, command

_INSIDE = Path(__file__).with_name("inside.py")
_SPARE_S = 30  # over the steps' own limits, for starting and ending
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
    """A session laid out on disk, ready to be started by any launcher."""

    argv: tuple[str, ...]
    folder: Path
    answer: Path
    env: dict[str, str]
    limit_s: int


@functools.cache
def isolation() -> tuple[str, ...]:
    """The `unshare` command that works here, or () where none does."""
    kinds = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for argv in (["unshare", *kinds], ["unshare", "--map-root-user", *kinds]):
        if shutil.which("unshare"):
            done = subprocess.run([*argv, "true"], capture_output=True, check=False)
            if done.returncode == 0:
                return tuple(argv)
    return ()


def environment(scratch: Path, bin_dir: Path | None) -> dict[str, str]:
    """A small, fixed environment: nothing of the person's own shell shapes a proof."""
    return {
        "PATH": f"{bin_dir}:{_SYSTEM_PATH}" if bin_dir else _SYSTEM_PATH,
        "HOME": str(scratch),
        "TMPDIR": str(scratch / "tmp"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Sessions run beside each other; a thread pool per core would slow all of them.
        "OMP_NUM_THREADS": "1",
    }


def prepare(session: Session, base: Path, bin_dir: Path | None, loopback: bool) -> Prepared:
    """Write a session's scripts, fixtures and plan under `base`."""
    folder = base / "work"
    (folder / "tmp").mkdir(parents=True)
    for fixture in session.fixtures:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(fixture, folder, dirs_exist_ok=True, ignore=ignore)
    steps = []
    for number, step in enumerate(session.steps):
        script = base / f"fence-{number}"
        script.write_text(step.fence.text + "\n", encoding="utf-8")
        steps.append({
            "id": number, "command": command(step.fence, str(script)), "exit": step.exit,
            "timeout": step.timeout_s, "memory_mb": MEMORY_MB,
        })  # fmt: skip
    plan, answer = base / "plan.json", base / "result.json"
    plan.write_text(json.dumps({"folder": str(folder), "steps": steps, "lo": loopback}))
    system = Path("/usr/bin/python3")
    python = str(system) if system.exists() else sys.executable
    argv = (python, str(_INSIDE), str(plan), str(answer))
    limit = sum(s.timeout_s for s in session.steps) + _SPARE_S
    return Prepared(argv, folder, answer, environment(folder, bin_dir), limit)


def collect(prepared: Prepared, said: str, status: int, isolated: bool) -> list[Result]:
    """The results a finished session left, or one that says why there are none."""
    if not prepared.answer.is_file():
        tail = "\n".join(said.splitlines()[-15:])
        return [Result(status or 1, f"the session ended without results:\n{tail}", 0.0)]
    return [
        Result(r["status"], r["output"], r["seconds"], r["timed_out"], isolated)
        for r in json.loads(prepared.answer.read_text(encoding="utf-8"))
    ]


def run(session: Session, bin_dir: Path | None = None) -> list[Result]:
    """Run all steps in order; steps after a failure have no Result."""
    with tempfile.TemporaryDirectory(prefix="prove-", ignore_cleanup_errors=True) as name:
        prefix = isolation()
        ready = prepare(session, Path(name), bin_dir, loopback=bool(prefix))
        try:
            done = subprocess.run(
                [*prefix, *ready.argv], env=ready.env, cwd=ready.folder, capture_output=True,
                text=True, errors="replace", timeout=ready.limit_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [Result(124, f"the session did not end within {ready.limit_s} s", 0.0, True)]
        return collect(ready, done.stdout + done.stderr, done.returncode, bool(prefix))


def run_slurm(sessions: Sequence[Session], cluster: Path) -> list[list[Result]]:
    """Run sessions one after the other on the login host of one cluster, started for them."""
    with ExitStack() as stack:
        bases = [
            Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix="prove-", ignore_cleanup_errors=True)
            ))
            for _ in sessions
        ]  # fmt: skip
        ready = [prepare(s, b, None, loopback=False) for s, b in zip(sessions, bases, strict=True)]
        lines = ["set -u"]
        for item in ready:
            # The cluster's own settings (SLURM_CONF, its PATH) stay; the rest is as for other fences.
            sets = " ".join(f"{k}='{v}'" for k, v in item.env.items() if k not in ("PATH", "HOME"))
            argv = " ".join(f"'{a}'" for a in item.argv)
            lines.append(f"cd '{item.folder}' && env HOME='{item.folder}' {sets} {argv}")
        script = bases[0] / "sessions.sh"
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        limit = sum(r.limit_s for r in ready) + 120
        argv = [sys.executable, str(cluster), "run", "--", "bash", str(script)]
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            late = Result(124, f"the cluster did not end within {limit} s", 0.0, True)
            return [[late] for _ in sessions]
        said = done.stdout + done.stderr
        return [collect(r, said, done.returncode, True) for r in ready]
