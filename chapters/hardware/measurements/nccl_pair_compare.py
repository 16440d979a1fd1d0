#!/usr/bin/env python3
"""Hold all_reduce_bench against nccl-tests on the GPUs of one host, the two in turn.

    python3 nccl_pair_compare.py --out DIR --theirs BUILD [--mpi BUILD] [--passes NAMES] [--limit SECONDS] [--dry]

BUILD is a folder of nccl-tests' binaries: `--mpi` built with MPI=1 (one process a GPU, as the bench runs),
`--theirs` without (one process, a thread a GPU). Every pass runs ours and theirs in the order written in
PASSES. Raw rows of both go to DIR/nccl_pair_compare.json after every command; `--dry` takes small sizes on a
CPU, where theirs can't run. `summary` of the record is made by nccl_pair_summary.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "scripts" / "all_reduce_bench.py"
# Ours -> (binary, our place -> theirs). What the two call by other names is the same NCCL call.
OPS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
       "broadcast": "broadcast", "reduce": "reduce", "all_to_all": "alltoall", "gather": "gather",
       "scatter": "scatter", "send_recv": "sendrecv"}
CORE = ("all_reduce", "all_gather", "reduce_scatter")
SOME = (*CORE, "all_to_all", "send_recv")
SIZES = "16,256,4K,64K,256K,1M,4M,16M,64M,256M,1G,4G"
LARGE = "1M,4M,16M,64M,256M,1G,4G"
MODES = {"stream": [], "block": ["-z", "3"], "graph": ["-G", "5"]}
# name: (mode, collectives, sizes of ours, smallest of theirs, dtype, order; o: ours, O: ours with one
# set of buffers, n: ours in NCCL's memory, t: theirs by MPI, T: theirs by threads)
PASSES = {
    "stream": ("stream", tuple(OPS), SIZES, "16", "float32", "ot"),
    "large": ("stream", CORE, LARGE, "1M", "float32", "otOTot"),
    "block": ("block", SOME, SIZES, "16", "float32", "ot"),
    "graph": ("graph", SOME, SIZES, "16", "float32", "otn"),
    "types": ("stream", ("all_reduce",), "64K,1M,16M,256M", "64K", "bfloat16,float16,float64,int8,int32", "ot"),
}
NCCL_TYPES = {"float32": "float", "bfloat16": "bfloat16", "float16": "half", "float64": "double", "int8": "int8",
              "int32": "int32"}


class Comparison:
    """Commands one after the other, and what they printed as rows."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.began = time.monotonic()
        self.record: dict = {
            "what": "busbw of all_reduce_bench and nccl-tests on the same GPUs, same NCCL, in turn",
            "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
            "command": "nccl_pair_compare.py " + " ".join(sys.argv[1:]), "dry": args.dry,
            "columns": ["round", "op", "dtype", "mode", "place", "bytes", "time_us", "busbw_gb_per_s", "wrong"],
            "ours": [], "theirs": [], "commands": []}

    def left(self) -> float:
        return self.args.limit - (time.monotonic() - self.began)

    def run(self, words: list[str], limit: float, env: dict[str, str]) -> tuple[int | None, str, str, float]:
        start = time.monotonic()
        limit = max(1.0, min(limit, self.left()))
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit, env={**os.environ, **env})
            rc, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            rc = None
            out, err = (part.decode() if isinstance(part, bytes) else part or "" for part in (late.stdout, late.stderr))
        except OSError as error:
            rc, out, err = None, "", str(error)
        return rc, out, err, time.monotonic() - start

    def note(self, name: str, words: list[str], rc: int | None, seconds: float, rows: int, err: str, out: str = "") -> None:
        self.record["commands"].append({
            "name": name, "command": " ".join(Path(word).name if "/" in word else word for word in words), "rc": rc,
            "seconds": round(seconds, 1), "rows": rows, "stderr": err[-400:], "out": out})
        print(f"[{time.monotonic() - self.began:5.0f} s] {name}: rc {rc}, {seconds:.1f} s, {rows} rows {err[-200:]}",
              flush=True)
        self.record["seconds"] = round(time.monotonic() - self.began, 1)
        (self.args.out / "nccl_pair_compare.json").write_text(json.dumps(self.record) + "\n")

    def ours(self, turn: str, one: tuple, who: str) -> None:
        mode, ops, sizes, _, dtype, _ = one
        path = self.args.out / "ours.json"
        more = ["--device", "cpu"] if self.args.dry else []
        if self.args.dry:
            sizes, mode, dtype = "1K,64K", "stream", "float32"
        words = [sys.executable, str(BENCH), "--nproc", "2", *more, "--collective", ",".join(ops), "--place", "both",
                 "--mode", mode, "--sizes", sizes, "--dtype", dtype, "--row-time", "0.15s", "--check-every", "0",
                 "--num-warmup-iterations", "1", "--json", str(path), "--force",
                 *{"O": ["--buffer-sets", "1"], "n": ["--allocator", "nccl"]}.get(who, [])]
        rc, out, err, seconds = self.run(words, 150, {"OMP_NUM_THREADS": "4"})
        report = json.loads(path.read_text()) if path.exists() else {"results": []}
        rows = [[turn, row["op"], row["dtype"], row["mode"], row["place"], row["bytes"], row["time_us"]["median"],
                 (row["busbw"] or 0) / 1e9, row["wrong"]] for row in report["results"] if row["time_us"]]
        self.record["ours"] += rows
        self.record.setdefault("env", report.get("env"))
        self.record.setdefault("device", [node["device"] for node in (report.get("world") or {}).get("nodes", [])])
        path.unlink(missing_ok=True)
        self.note(f"ours {turn}", words, rc, seconds, len(rows), err, "" if rc == 0 else out[-1500:])

    def theirs(self, turn: str, one: tuple, processes: bool) -> None:
        mode, ops, _, least, dtypes, _ = one
        processes = processes and self.args.mpi is not None
        folder = self.args.mpi if processes else self.args.theirs
        if folder is None:
            return
        for op in ops:
            for dtype in dtypes.split(","):
                most = "4G" if "," not in dtypes else "1G"
                words = [str(folder / f"{OPS[op]}_perf"), "-b", least, "-e", most, "-f", "4" if least != "64K" else "16",
                         "-d", NCCL_TYPES[dtype], "-n", "20", "-w", "5", "-c", "1", "-a", "3", *MODES[mode]]
                words = [*MPIRUN, *words] if processes else [*words, "-t", "2"]
                env = {"LD_LIBRARY_PATH": self.args.libraries} if self.args.libraries else {}
                rc, out, err, seconds = self.run(words, 60, env)
                rows = [[turn, op, dtype, mode, *row] for row in table_rows(out)]
                self.record["theirs"] += rows
                keep = out[-1500:] if rc or not rows else ""
                self.note(f"theirs {turn} {op} {dtype}", words, rc, seconds, len(rows), err, keep)


MPIRUN = ["mpirun", "--allow-run-as-root", "-np", "2", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl",
          "self,vader", "--mca", "plm", "isolated"]


def table_rows(text: str) -> list[list]:
    """[place, bytes, us, busbw, wrong] from nccl-tests' table, two a line."""
    rows: list[list] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 13 or not words[0].isdigit() or not words[1].isdigit():
            continue
        for place, first in (("out", 5), ("in", 9)):
            micros, _, bus, wrong = words[first:first + 4]
            rows.append([place, int(words[0]), float(micros), float(bus), None if wrong == "N/A" else int(float(wrong))])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--theirs", type=Path, help="nccl-tests' binaries without MPI")
    parser.add_argument("--mpi", type=Path, help="nccl-tests' binaries with MPI")
    parser.add_argument("--libraries", default="", help="LD_LIBRARY_PATH for theirs: the NCCL that torch uses")
    parser.add_argument("--passes", default=",".join(PASSES))
    parser.add_argument("--limit", type=float, default=420)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    comparison = Comparison(args)
    for name in args.passes.split(","):
        for number, who in enumerate(PASSES[name][-1], 1):
            if comparison.left() < 12:
                print(f"time is up before {name} {number}{who}", flush=True)
                break
            turn = f"{name}/{number}{who}"
            if who in "oOn":
                comparison.ours(turn, PASSES[name], who)
            else:
                comparison.theirs(turn, PASSES[name], who == "t")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
