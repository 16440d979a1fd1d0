"""Part of prove: records of `gpu` fences, stored beside the chapter, made on a CUDA machine.

`measurements/SLUG.gpu.json` holds, by fence id, the hash of the fence that ran, the device, versions, date,
exit status, seconds and output. A changed fence has another hash: its record is stale.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..model import Config, Fence
from ..problems import ToolMissing
from .plan import command, fence_hash, sessions
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
    """Run every gpu fence whose record is missing or stale (all with `again`). Out: failures."""
    device, count, versions = _device()
    failures = 0
    for chapter in chapter_files(config):
        if only and only not in chapter:
            continue
        fences = scan(config.root / chapter)
        old = dict(read_records(config.root, chapter))
        for session in sessions(chapter, fences, config.root):
            if session.mode != "gpu":
                continue
            fence = session.steps[-1].fence
            key, need = key_of(fence), int(fence.attrs.get("gpus", 1))
            fresh = old.get(key, {}).get("hash") == fence_hash(fence)
            if need > count or (fresh and not again):
                why = f"needs {need} GPUs" if need > count else "record is fresh"
                print(f"{chapter}:{fence.line} {key}: left, {why}", flush=True)
                continue
            result = _run(session, config.root)
            entry = {
                "hash": fence_hash(fence), "device": device, "gpus": count, "versions": versions, **result
            }
            ok = entry["exit"] == session.steps[-1].exit
            failures += not ok
            print(f"{chapter}:{fence.line} {key}: exit {entry['exit']} in {entry['seconds']} s", flush=True)
            if ok:  # a failed run never replaces a record
                old[key] = entry
                _write(record_file(config.root, chapter), chapter, old)
            else:
                print(entry["output"][-2000:], flush=True)
    return failures


def _run(session, root: Path) -> dict[str, Any]:
    """Run the session's steps from the tree's root, as a reader does who has a copy of it."""
    with tempfile.TemporaryDirectory(prefix="prove-gpu-") as name:
        for number, step in enumerate(session.steps):
            script = Path(name) / f"fence-{number}"
            script.write_text(step.fence.text + "\n", encoding="utf-8")
            started, begin = datetime.now(UTC), time.monotonic()
            argv = command(step.fence, str(script)) or ["false"]
            try:
                done = subprocess.run(
                    argv, cwd=root, env={**os.environ, "PYTHONUNBUFFERED": "1"},
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    timeout=step.timeout_s, check=False,
                )
                status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as error:
                status, output = 124, error.stdout or b""
            if status != step.exit:
                break
        return {
            "date": started.isoformat(timespec="seconds"), "exit": status,
            "seconds": round(time.monotonic() - begin, 1), "output": output.decode("utf-8", "replace"),
        }


def _write(file: Path, chapter: str, fences: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {"schema": SCHEMA, "chapter": chapter, "mode": "gpu", "fences": fences}
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, file)
