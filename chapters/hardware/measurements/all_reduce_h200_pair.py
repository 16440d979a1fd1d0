#!/usr/bin/env python3
"""The instruments on a real pair of GPUs: everything they measure once, and planted faults.

    python3 all_reduce_h200_pair.py --out DIR [--only PARTS] [--limit SECONDS] [--dry]

Cases of one batch run at the same time (they wait, they don't time), batches one after the other. For every
case the record keeps the command, the exit status wanted and found, the last lines, stderr, the seconds, and
what the case asks of the text; for good runs the report's rows. DIR/all_reduce_h200_pair.json is rewritten
after every batch, whole reports go to DIR/reports. `--dry` runs what a CPU can.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "scripts"
BENCH, TEST, MAMF = (str(SCRIPTS / name) for name in ("all_reduce_bench.py", "torch-distributed-gpu-test.py", "mamf-finder.py"))
LATE = '''import os, sys, time
sys.path.insert(0, {scripts!r})
import torch, torch.distributed as dist
from clusterprobe.bench import bench_main
real = dist.all_reduce
def all_reduce(tensor, *args, **kwargs):
    if tensor.is_floating_point() and os.environ["RANK"] == "1":
        time.sleep(0.01)
    return real(tensor, *args, **kwargs)
dist.all_reduce = all_reduce
sys.argv[0] = "all_reduce_bench"
sys.exit(bench_main())
'''
FEW = ("--num-warmup-iterations", "1", "--num-iterations", "3", "--check-every", "1")


@dataclass(frozen=True)
class Case:
    """One command. `ranks`: start these ranks of `world` by environment instead of the tool's own start."""

    name: str
    words: tuple[str, ...]
    rc: int
    says: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    limit: float = 60
    world: int = 0
    ranks: tuple[int, ...] = ()
    hit: str = ""  # SIGSTOP or SIGKILL for rank 1, once rank 0 measures
    keeps: bool = False  # the whole report
    cpu: bool = True  # means something without a GPU


def cases(late: str) -> dict[str, list[list[Case]]]:
    """Part -> batches of cases."""
    one = {"CUDA_VISIBLE_DEVICES": "0"}
    bench = lambda *words: (BENCH, "--nproc", "2", *words)  # noqa: E731
    return {
        "measure": [
            [Case("pairs", bench("--group", "world,pairs", "--sizes", "1M,64M,1G", "--pair-bytes", "256M", "--pair-level", "rank",
                                 "--transports", "--require-transport", "p2p"), 0, ("rows send, columns receive", "transport of ranks"),
                  keeps=True, cpu=False)],
            [Case("every collective and mode", bench("--collective", "all", "--mode", "block,stream,graph", "--place", "both",
                                                     "--sizes", "64K,16M", "--row-time", "0.1s", "--num-warmup-iterations", "2"),
                  0, limit=120, keeps=True, cpu=False)],
        ],
        "types": [
            [Case("every type and reduce op", bench("--collective", "all_reduce,reduce,reduce_scatter", "--dtype", "all", "--redop",
                                                    "all", "--sizes", "60K", *FEW), 0, limit=120, keeps=True, cpu=False)],
            [Case("every type moved", bench("--collective", "all_gather,broadcast,all_to_all,send_recv,gather", "--dtype", "all",
                                            "--sizes", "60K", *FEW), 0, limit=60, keeps=True, cpu=False)],
            [Case("above 2^31 elements", bench("--collective", "all_reduce,all_gather", "--dtype", "int8", "--sizes", "3G", *FEW),
                  0, keeps=True, limit=60, cpu=False)],
        ],
        "late": [[Case("late rank", (late, "--sizes", "64,1M", "--num-iterations", "20"), 0, ("rank 1@", "came late"), world=2,
                       ranks=(0, 1), keeps=True)]],
        "faults": [
            [Case("stopped rank", (BENCH, "--sizes", "1M", "--num-iterations", "1000000", "--check-every", "0", "--stage-timeout", "12"),
                  5, ("rank 1@", "did not answer the roll call"), world=2, ranks=(0, 1), hit="SIGSTOP"),
             Case("killed rank", (BENCH, "--sizes", "1M", "--num-iterations", "1000000", "--check-every", "0", "--stage-timeout", "12"),
                  5, ("rank 1@", "did not answer the roll call"), world=2, ranks=(0, 1), hit="SIGKILL"),
             Case("gpu-test, 3 of 4 ranks", (TEST, "--stage-timeout", "12"), 5, ("rank 3", "3 of 4 ranks are here"), world=4,
                  ranks=(0, 1, 2)),
             Case("bench, 3 of 4 ranks", (BENCH, "--sizes", "1M", "--stage-timeout", "12"), 5, ("rank 3", "3 of 4 ranks are here"),
                  world=4, ranks=(0, 1, 2))],
            [Case("bench, two ranks on one GPU", bench("--sizes", "64K"), 6, ("share device",), one, cpu=False),
             Case("gpu-test, two ranks on one GPU", (TEST, "--nproc", "2"), 6, ("share",), one, cpu=False),
             Case("gloo with device tensors", bench("--backend", "gloo", "--collective", "all_reduce,send_recv,pair", "--sizes", "64K"),
                  7, ("gloo sends between CPUs only",), cpu=False),
             Case("larger than memory", bench("--sizes", "64K,200G"), 7, ("skipped: needs",), cpu=False)],
            [Case("world of one, every type", (BENCH, "--nproc", "1", "--collective", "all", "--dtype", "all", "--sizes", "60K",
                                               "--allow-one", *FEW), 0, env=one, keeps=True, limit=90, cpu=False),
             Case("world of one, every reduce op", (BENCH, "--nproc", "1", "--collective", "all_reduce", "--dtype", "all", "--redop",
                                                    "all", "--sizes", "60K", "--allow-one", *FEW), 0,
                  env={"CUDA_VISIBLE_DEVICES": "1"}, keeps=True, limit=90, cpu=False),
             Case("one rank is no measurement", (BENCH, "--nproc", "1", "--sizes", "64K"), 6, ("one rank",), env=one)],
            [Case("transport is not what is required", bench("--sizes", "64M", "--num-iterations", "5", "--require-transport", "p2p"), 3,
                  ("no rank uses p2p", "SHM"), {"NCCL_P2P_DISABLE": "1"}, cpu=False),
             Case("socket instead of InfiniBand", bench("--sizes", "1M", "--num-iterations", "5", "--require-transport", "ib"), 3,
                  ("no rank uses ib", "NET/Socket"), {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, cpu=False),
             Case("NCCL transport asked of gloo", bench("--backend", "gloo", "--sizes", "64K", "--require-transport", "p2p"), 6,
                  ("no rank wrote an NCCL log",)),
             Case("torch's DETAIL mode", bench("--sizes", "64K,1M", "--num-iterations", "5"), 0, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})],
        ],
        "gpu-test": [[Case("gpu-test, good", (TEST, "--nproc", "2"), 0, keeps=True, cpu=False)],
                     [Case("gpu-test without P2P", (TEST, "--nproc", "2"), 0, env={"NCCL_P2P_DISABLE": "1"}, cpu=False),
                      Case("bench by torchrun", ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29811", BENCH,
                                                 "--sizes", "1M", "--num-iterations", "5"), 0),
                      Case("UUIDs in CUDA_VISIBLE_DEVICES", bench("--sizes", "1M", "--num-iterations", "5"), 0,
                           {"CUDA_VISIBLE_DEVICES": "{uuids}"}, cpu=False)]],
        "mamf": [[Case("mamf-finder on both", (MAMF, "--budget", "16s", "--plot"), 0, ("slowest: rank",), limit=70, keeps=True, cpu=False)]],
    }


class Recorder:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.began, self.port = args, time.monotonic(), 29900
        self.lock = threading.Lock()
        (args.out / "reports").mkdir(parents=True, exist_ok=True)
        self.record: dict = {
            "what": "all_reduce_bench, torch-distributed-gpu-test and mamf-finder on two GPUs: measurements and planted faults",
            "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), "dry": args.dry,
            "command": "all_reduce_h200_pair.py " + " ".join(sys.argv[1:]), "cases": []}

    def left(self) -> float:
        return self.args.limit - (time.monotonic() - self.began)

    def next_port(self) -> str:
        with self.lock:
            self.port += 1
            return str(self.port)

    def run(self, case: Case, uuids: str) -> dict:
        start, name = time.monotonic(), case.name.replace(" ", "_").replace(",", "").replace("'", "")
        report = self.args.out / "reports" / f"{name}.json"
        extra = ["--device", "cpu"] if (self.args.dry and case.words[0] in (BENCH, TEST, MAMF)) or (case.world and self.args.dry) else []
        words = [sys.executable, *case.words, *extra, "--json", str(report), "--force"]
        env = {**os.environ, "OMP_NUM_THREADS": "4", **{key: value.replace("{uuids}", uuids) for key, value in case.env.items()}}
        if case.world:
            rc, out, err = self.ranks(case, words, env)
        else:
            rc, out, err = self.alone(case, words, env)
        found = {"case": case.name, "command": " ".join(Path(word).name if "/" in word else word for word in case.words),
                 "variables": case.env, "rc_wanted": case.rc, "rc": rc, "seconds": round(time.monotonic() - start, 1),
                 "missing_words": [text for text in case.says if text not in out], "stderr": err[-1200:],
                 "last_lines": out.splitlines()[-12:]}
        found["ok"] = rc == case.rc and not found["missing_words"]
        if case.keeps and report.exists():
            found["summary"] = summary_of_report(json.loads(report.read_text()))
        if not case.keeps:
            report.unlink(missing_ok=True)
        print(f"[{time.monotonic() - self.began:5.0f} s] {case.name}: {'ok' if found['ok'] else 'NOT OK'}, rc {rc} (wanted {case.rc}), "
              f"{found['seconds']} s {found['missing_words'] or ''} {err[-300:]}", flush=True)
        if not found["ok"]:
            print(*out.splitlines()[-10:], sep="\n", flush=True)
        return found

    def alone(self, case: Case, words: list[str], env: dict[str, str]) -> tuple[int | None, str, str]:
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=max(1, min(case.limit, self.left())), env=env)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            out, err = (part.decode() if isinstance(part, bytes) else part or "" for part in (late.stdout, late.stderr))
            return None, out, err

    def ranks(self, case: Case, words: list[str], env: dict[str, str]) -> tuple[int | None, str, str]:
        """Ranks by environment; all must end with the same code. A rank that is hit does not count."""
        port, children, folder = self.next_port(), {}, self.args.out / "ranks" / case.name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        for rank in case.ranks:
            mine = {**env, "RANK": str(rank), "WORLD_SIZE": str(case.world), "LOCAL_RANK": str(rank % 2),
                    "LOCAL_WORLD_SIZE": str(case.world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            with open(folder / f"o{rank}", "w") as out, open(folder / f"e{rank}", "w") as err:
                children[rank] = subprocess.Popen(words, env=mine, stdout=out, stderr=err)
        if case.hit:
            end = time.monotonic() + 60
            while "median" not in (folder / "o0").read_text() and time.monotonic() < end:
                time.sleep(0.2)
            time.sleep(2)
            children[1].send_signal(getattr(signal, case.hit))
        end, codes = time.monotonic() + min(case.limit, self.left()), {}
        for rank, child in children.items():
            if case.hit and rank == 1:
                continue
            try:
                codes[rank] = child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                codes[rank] = None
        for child in children.values():
            if child.poll() is None:
                child.kill()
                child.wait()
        texts = ["".join((folder / f"{kind}{rank}").read_text() for rank in case.ranks) for kind in "oe"]
        return (codes[0] if len(set(codes.values())) == 1 else None), *texts


def summary_of_report(report: dict) -> dict:
    """How many rows came to what, with the reasons, and the figures of a small report."""
    rows = report["results"]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    reasons = sorted({f"{row['op']} {row.get('dtype')} {row.get('redop') or ''}: {row['reason']}" for row in rows
                      if row.get("reason") and row["status"] != "wrong"})
    wrong = [f"{row['op']} {row.get('dtype')} {row.get('redop') or ''}: {row['reason']}" for row in rows if row["status"] == "wrong"]
    return {"rows": len(rows), "status": counts, "wrong": sum(row.get("wrong") or 0 for row in rows if isinstance(row.get("wrong"), int)),
            "wrong_rows": wrong, "reasons": reasons[:150], "warnings": report["warnings"][:20], "reason": report["reason"], "env": report["env"]}


def device_uuids() -> str:
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, timeout=10)
        return ",".join(out.stdout.split())
    except OSError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="measure,types,late,faults,gpu-test,mamf")
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    recorder, uuids = Recorder(args), device_uuids()
    late = args.out / "late_bench.py"
    late.write_text(LATE.format(scripts=str(SCRIPTS)))
    for part, batches in cases(str(late)).items():
        if part not in args.only.split(","):
            continue
        for batch in batches:
            batch = [case for case in batch if case.cpu or not args.dry]
            if recorder.left() < 15 or not batch:
                recorder.record["cases"] += [{"case": case.name, "ok": None, "why": "not run: time was up"} for case in batch]
                continue
            with concurrent.futures.ThreadPoolExecutor(len(batch)) as pool:
                recorder.record["cases"] += pool.map(lambda case: recorder.run(case, uuids), batch)
            recorder.record["seconds"] = round(time.monotonic() - recorder.began, 1)
            (args.out / "all_reduce_h200_pair.json").write_text(json.dumps(recorder.record, indent=1) + "\n")
    bad = [case["case"] for case in recorder.record["cases"] if not case["ok"]]
    print(f"{len(recorder.record['cases'])} cases, not ok: {bad}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
