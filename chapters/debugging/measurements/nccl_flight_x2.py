#!/usr/bin/env python3
"""Plant hangs on two GPUs and keep what the flight recorder writes; all cases at the same time.

    python3 nccl_flight_x2.py --out DIR [--limit SECONDS] [--dry]

Cases (rank 1 is always the culprit):
  skip    rank 1 leaves out one all_reduce of a step and goes on with the next call
  order   the two calls of a step in the other order
  sizes   both call all_reduce, rank 1 with half the elements
  types   both call all_reduce, rank 1 in bfloat16
  late    rank 1 writes a checkpoint that takes long, and never comes
  groups  each rank waits in another process group
DIR/CASE holds the two dumps (pickle), each rank's log, the analysis by torch's own reader, and nvidia-smi's
view during the hang; DIR/nccl_flight_x2.json sums up. `--dry` uses gloo: no dumps, the same steps.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CASES = ("skip", "order", "sizes", "types", "late", "groups")
WAIT = 6  # the process group's timeout, seconds
PLANT = Path(__file__).with_name("nccl-flight-x2") / "plant.py"  # the dumps name its lines


def start(case: str, folder: Path, plant: Path, port: int, dry: bool) -> list[subprocess.Popen]:
    folder.mkdir(parents=True, exist_ok=True)
    children = []
    for rank in (0, 1):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(port), "HANG_LIMIT": str(WAIT), "STAY": "2" if dry else "30", "TORCH_FR_BUFFER_SIZE": "200",
               "TORCH_FR_DUMP_TEMP_FILE": str(folder / "rank_"), "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "3000",
               "OMP_NUM_THREADS": "1", "NCCL_DEBUG": "WARN"}
        log = open(folder / f"log_{rank}.txt", "w")  # noqa: SIM115 - the child's
        children.append(subprocess.Popen([sys.executable, str(plant), case, "dry" if dry else "cuda"], env=env, stdout=log,
                                         stderr=log, start_new_session=True))
    return children


def dump_summary(path: Path) -> dict:
    """The recorder's state without the stacks."""
    dump = pickle.loads(path.read_bytes())
    entries = [{key: one.get(key) for key in ("record_id", "process_group", "collective_seq_id", "op_id", "profiling_name", "input_sizes",
                                              "input_dtypes", "state", "retired")}
               | {"line": next((f"{frame['filename'].rsplit('/', 1)[-1]}:{frame['line']} {frame['name']}" for frame in one.get("frames", [])
                                if "plant" in str(frame.get("filename"))), None)}
               for one in dump.get("entries", [])]
    return {"version": dump.get("version"), "pg_status": dump.get("pg_status"), "entries": len(entries), "last": entries[-6:]}


def strip_paths(out: Path) -> None:
    """The folder of the run is nobody's business: dumps and logs name files from `plant.py` on."""
    for path in out.glob("*/rank_*"):
        dump = pickle.loads(path.read_bytes())
        for entry in dump.get("entries", []):
            for frame in entry.get("frames", []):
                name = str(frame.get("filename"))
                frame["filename"] = name.replace(f"{out}/", "").split("/site-packages/")[-1]
        path.write_bytes(pickle.dumps(dump))
    for path in [*out.glob("*/*.txt")]:
        path.write_text(path.read_text(errors="replace").replace(f"{out}/", "").replace(str(Path(sys.prefix)), "VENV"))


def observe(command: list[str], target: Path, limit: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        target.write_text(done.stdout + done.stderr[-2000:])
    except (OSError, subprocess.TimeoutExpired) as error:
        target.write_text(f"{error!r}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out.resolve()
    plant = out / "plant.py"
    shutil.copyfile(PLANT, plant)
    began = time.monotonic()
    jobs = {case: start(case, out / case, plant, 29750 + number, args.dry) for number, case in enumerate(CASES)}
    ended: dict[str, list[int | None]] = {case: [None, None] for case in CASES}
    seconds: dict[str, list[float | None]] = {case: [None, None] for case in CASES}
    seen = False
    while time.monotonic() - began < args.limit and any(None in codes for codes in ended.values()):
        for case, children in jobs.items():
            for rank, child in enumerate(children):
                if ended[case][rank] is None and child.poll() is not None:
                    ended[case][rank], seconds[case][rank] = child.returncode, round(time.monotonic() - began, 1)
        if not seen and time.monotonic() - began > 15:
            seen = True
            observe(["nvidia-smi"], out / "late" / "nvidia-smi.txt", 8)
        time.sleep(0.3)
    for children in jobs.values():
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    record: dict = {"what": "planted hangs and the flight recorder's dumps, two GPUs", "group_timeout_s": WAIT, "dry": args.dry,
                    "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
                    "command": "nccl_flight_x2.py " + " ".join(sys.argv[1:]), "cases": {}}
    for case in CASES:
        dumps = {path.name: dump_summary(path) for path in sorted((out / case).glob("rank_*"))}
        logs = "".join((out / case / f"log_{rank}.txt").read_text(errors="replace") for rank in (0, 1))
        record["cases"][case] = {"rc": ended[case], "ended_after_s": seconds[case], "dumps": dumps,
                                 "timeouts": [line[-260:] for line in logs.splitlines() if "Watchdog caught" in line],
                                 "got_through": [rank for rank in (0, 1) if f"rank {rank} got through" in logs]}
        print(case, "rc", ended[case], "dumps", list(dumps), record["cases"][case]["timeouts"][:1], flush=True)
    with concurrent.futures.ThreadPoolExecutor(len(CASES)) as pool:  # each imports torch: seconds, all at once
        list(pool.map(lambda case: observe(
            [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "--prefix", "rank_", str(out / case)],
            out / case / "fr_trace.txt", 30), CASES))
    strip_paths(out)
    record["seconds"] = round(time.monotonic() - began, 1)
    (out / "nccl_flight_x2.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
