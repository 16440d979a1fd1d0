"""Part of prove: records of `gpu` fences, stored beside the chapter, made on a CUDA machine.

`measurements/SLUG.gpu.json` holds, by fence id, the hash of the fence that ran, the device, versions, date,
exit status, seconds and output. A changed fence has another hash: its record is stale.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..model import Config, Fence
from ..problems import ToolMissing
from .plan import Session, Step, command, fence_hash, sessions
from .scan import chapter_files, scan

SCHEMA = 1


def record_file(root: Path, chapter: str) -> Path:
    path = root / chapter
    return path.parent / "measurements" / f"{path.stem}.gpu.json"


def read_records(root: Path, chapter: str) -> Mapping[str, Any]:
    """Records by fence id; empty when the chapter has none."""
    file = record_file(root, chapter)
    if not file.is_file():
        return {}
    return json.loads(file.read_text(encoding="utf-8")).get("fences", {})


def key_of(fence: Fence) -> str:
    """The name of a fence's record: its id, or its place when it has none."""
    return fence.id or f"fence-{fence.index}"


def _device() -> tuple[str, int, dict[str, str]]:
    try:
        import torch
    except ImportError:
        raise ToolMissing("prove --gpu needs torch; install it for this machine's CUDA") from None
    if not torch.cuda.is_available():
        raise ToolMissing("prove --gpu needs a CUDA device; torch sees none here")
    count, name = torch.cuda.device_count(), torch.cuda.get_device_name(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")[0]
    versions = {
        "driver": driver.strip(), "cuda": torch.version.cuda or "", "torch": torch.__version__,
        "python": platform.python_version(),
    }
    return (name if count == 1 else f"{count} x {name}"), count, versions


def record(config: Config, only: str = "", again: bool = False) -> int:
    """Run every gpu session with a record that is missing or stale (all with `again`). Out: failures."""
    device, count, versions = _device()
    about = {"device": device, "gpus": count, "versions": versions}
    failures = 0
    for chapter in chapter_files(config):
        fences = scan(config.root / chapter)
        kept = dict(read_records(config.root, chapter))
        for session in sessions(chapter, fences, config.root):
            if session.mode != "gpu" or not _meant(session, only):
                continue
            why = _left(session, kept, count, again)
            if why:
                _say(session, session.steps[-1], f"left, {why}")
                continue
            results = _run(session, config.root)
            for step, result in zip(session.steps, results, strict=False):
                _say(session, step, f"exit {result['exit']} in {result['seconds']} s")
                if step.proves:
                    kept[key_of(step.fence)] = {"hash": fence_hash(step.fence), **about, **result}
            if len(results) == len(session.steps) and results[-1]["exit"] == session.steps[-1].exit:
                _write(record_file(config.root, chapter), chapter, kept)
            else:  # a failed run never replaces a record
                kept = dict(read_records(config.root, chapter))
                failures += 1
                print(results[-1]["output"][-2000:], flush=True)
    return failures


def _meant(session: Session, only: str) -> bool:
    """True when `only` is part of "chapter#fence" for one of the session's fences."""
    return any(only in f"{session.chapter}#{key_of(step.fence)}" for step in session.steps if step.proves)


def _left(session: Session, kept: Mapping[str, Any], count: int, again: bool) -> str:
    """Why a session is not run, or ""."""
    need = max(int(step.fence.attrs.get("gpus", 1)) for step in session.steps)
    if need > count:
        return f"needs {need} GPUs"
    proven = [step.fence for step in session.steps if step.proves]
    fresh = all(kept.get(key_of(f), {}).get("hash") == fence_hash(f) for f in proven)
    return "record is fresh" if fresh and not again else ""


def _say(session: Session, step: Step, what: str) -> None:
    print(f"{session.chapter}:{step.fence.line} {key_of(step.fence)}: {what}", flush=True)


def _run(session: Session, root: Path) -> list[dict[str, Any]]:
    """Run the steps, one result each, until one fails.

    They run from the tree's root, as a reader does who has a copy of it; with fixtures, beside a copy of them.
    """
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="prove-gpu-") as name:
        work = root
        if session.fixtures:
            work = Path(name) / "work"
            for folder in session.fixtures:
                shutil.copytree(folder, work, dirs_exist_ok=True)
        for number, step in enumerate(session.steps):
            script = Path(name) / f"fence-{number}"
            script.write_text(step.fence.text + "\n", encoding="utf-8")
            argv = command(step.fence, str(script)) or ["false"]
            results.append(_step(argv, work, step))
            if results[-1]["exit"] != step.exit:
                break
    return results


def _step(argv: Sequence[str], work: Path, step: Step) -> dict[str, Any]:
    started, begin = datetime.now(UTC), time.monotonic()
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(step.timeout_s)
        except subprocess.TimeoutExpired:
            status = 124
        with contextlib.suppress(ProcessLookupError):  # what it left running holds the GPU
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    return {
        "date": started.isoformat(timespec="seconds"), "exit": status if status >= 0 else 128 - status,
        "seconds": round(time.monotonic() - begin, 1), "output": said,
    }  # fmt: skip


def _write(file: Path, chapter: str, fences: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {"schema": SCHEMA, "chapter": chapter, "mode": "gpu", "fences": fences}
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, file)
