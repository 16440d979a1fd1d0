"""What a host CPU gives a training process: bandwidth, switches, threads, quotas, a starved launch thread.

    python3 chapters/hardware/measurements/host_cpu.py --append

This goes on from the record beside this script, writes it, and draws the figure again; the next build of the book
prints the new numbers. It takes about 5 minutes on an idle machine of 2 cores and never longer than 18. Needs torch,
numpy, root for the quota part, and matplotlib 3.10.7 (in another Python: --draw-with PYTHON).

Every comparison is interleaved: one round runs each case once, rounds repeat, and the record keeps every value.
A run begins when the machine is idle and notes what share of it other processes used meanwhile; runs above QUIET
are kept but not summarized.
The quota part uses a CPU cgroup of its own (v2 cpu.max, or v1 cfs_quota_us) and removes it afterwards.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing as mp
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

MIB = 1 << 20
BURSTS = 60
PASSES = 20
ARRAY_MIB = 256  # far above the last-level cache
LAUNCH_EVERY_S = 0.001
QUIET = 0.10  # of the machine: runs beside more foreign work are recorded and not used
LIMIT_S = 200  # for each group of cases
RECORD = Path(__file__).resolve().with_suffix(".json")
DRAW = RECORD.parents[1] / "figures/src/host_cpu_crowd.py"


def busy_s() -> float:
    """CPU seconds that all processes of the machine used so far, idle and I/O wait left out."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(x) for x in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """CPU seconds of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def watched(run: Callable, case: object) -> dict:
    """One run with the share of the machine that other processes used meanwhile."""
    begin, busy, own = time.perf_counter(), busy_s(), own_s()
    value = run(case)
    took = time.perf_counter() - begin
    foreign = max(0.0, (busy_s() - busy) - (own_s() - own)) / took / len(os.sched_getaffinity(0))
    if isinstance(value, dict):  # a run that knows its window better says so
        foreign = value.pop("foreign_share", foreign)
    return {"value": value, "foreign_share": round(foreign, 3)}


def rounds(cases: Iterable, repeats: int, run: Callable, before: dict[str, list] | None = None) -> dict[str, list]:
    """Interleave: every case once a round, begun in quiet moments only, until each has enough quiet runs.

    `before` holds runs of an earlier call to go on from; LIMIT_S ends the search on a busy machine.
    """
    cases = list(cases)
    found: dict[str, list] = {str(c): list((before or {}).get(str(c), [])) for c in cases}
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and any(len(quiet(v)) < repeats for v in found.values()):
        for case in cases:
            if len(quiet(found[str(case)])) < repeats and wait_for_quiet(end):
                found[str(case)].append(watched(run, case))
    return found


def quiet(runs: list[dict]) -> list[dict]:
    return [r for r in runs if r["foreign_share"] <= QUIET]


def wait_for_quiet(end: float) -> bool:
    """Sleep until others leave the machine alone for a moment; False when the time is over."""
    while time.monotonic() < end:
        begin, busy = time.perf_counter(), busy_s()
        time.sleep(0.25)
        if (busy_s() - busy) / (time.perf_counter() - begin) < 2 * QUIET:
            return True
    return False


# --- memory bandwidth ---


def bandwidth(kernel: str) -> float:
    """GB/s of one thread; as with STREAM, the best of a window's passes counts, reads and writes added."""
    import numpy as np

    n = ARRAY_MIB * MIB // 8
    a, b = np.ones(n), np.ones(n)
    moved, work = {"copy": (2, lambda: np.copyto(b, a)), "read": (1, a.sum)}[kernel]
    found = []
    for _ in range(PASSES):
        begin = time.perf_counter()
        work()
        found.append(round(moved * n * 8 / (time.perf_counter() - begin) / 1e9, 2))
    return max(found)


# --- context switches ---


def switch_us(same_core: bool) -> float:
    """One hand-over between two processes through pipes, microseconds."""
    there, back = os.pipe(), os.pipe()
    turns = 500
    cores = sorted(os.sched_getaffinity(0))
    child = os.fork()
    os.sched_setaffinity(0, {cores[0] if child or same_core else cores[-1]})
    begin = time.perf_counter()
    for _ in range(turns):
        if child:
            os.write(there[1], b"x")
            os.read(back[0], 1)
        else:
            os.read(there[0], 1)
            os.write(back[1], b"x")
    if not child:
        os._exit(0)
    took = time.perf_counter() - begin
    os.waitpid(child, 0)
    os.sched_setaffinity(0, set(cores))
    for end in (*there, *back):
        os.close(end)
    return round(took / turns / 2 * 1e6, 2)


# --- too many workers ---


def burn(stop, counter, index: int) -> None:
    """A data worker that decodes: pure CPU in slices of about 5 ms."""
    value = 0
    while not stop.is_set():
        for _ in range(60_000):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF
        counter[index] += 1


def switches() -> int:
    with open("/proc/stat", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("ctxt"))


def crowd(workers: int) -> dict[str, float]:
    """`workers` busy processes beside one launch thread that wants to run every millisecond."""
    stop, counter = mp.Event(), mp.Array("L", max(1, workers), lock=False)
    jobs = [mp.Process(target=burn, args=(stop, counter, n)) for n in range(workers)]
    for job in jobs:
        job.start()
    time.sleep(0.3)
    late, before, done_before, begin = [], switches(), sum(counter), time.perf_counter()
    due = begin
    while due - begin < 1.0:
        due += LAUNCH_EVERY_S
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        late.append(max(0.0, time.perf_counter() - due))
        if late[-1] > LAUNCH_EVERY_S:
            due = time.perf_counter()  # a late launch delays the ones behind it
    took = time.perf_counter() - begin
    result = {
        "slices_per_s": round((sum(counter) - done_before) / took, 1),
        "launches_per_s": round(len(late) / took, 1),
        "late_p50_us": round(1e6 * statistics.median(late), 1),
        "late_p99_us": round(1e6 * sorted(late)[int(0.99 * len(late))], 1),
        "late_max_us": round(1e6 * max(late), 1),
        "switches_per_s": round((switches() - before) / took),
    }
    stop.set()
    for job in jobs:
        job.join()
    return result


# --- threads ---

MATMUL = """
import os, sys, time, torch
a = torch.randn(512, 512)
a @ a
print("ready", flush=True)
sys.stdin.readline()
times, end, used = [], time.perf_counter() + float(sys.argv[1]), time.process_time()
while time.perf_counter() < end:
    t = time.perf_counter(); a @ a; times.append(time.perf_counter() - t)
used = time.process_time() - used
times.sort()
print(len(times) / float(sys.argv[1]), 1e3 * times[len(times) // 2], 1e3 * times[int(.99 * len(times))], used)
"""


def matmuls(processes: int, threads: int, folder: Path | None = None, seconds: float = 1.0) -> dict[str, float]:
    """512 × 512 fp32 products per second of all processes together; their windows start together."""
    def enter() -> None:
        if folder:
            (folder / "cgroup.procs").write_text(str(os.getpid()))
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    jobs = [
        subprocess.Popen([sys.executable, "-c", MATMUL, str(seconds)], env=env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, preexec_fn=enter)
        for _ in range(processes)
    ]
    for job in jobs:
        job.stdout.readline()
    before = throttled(folder) if folder else {}
    begin, busy = time.perf_counter(), busy_s()
    for job in jobs:
        job.stdin.write("go\n")
        job.stdin.flush()
    said = [[float(x) for x in job.stdout.readline().split()] for job in jobs]
    took, busy = time.perf_counter() - begin, busy_s() - busy
    after = throttled(folder) if folder else {}
    for job in jobs:
        job.communicate()
    return {
        "per_s": round(sum(s[0] for s in said), 1),
        "median_ms": round(statistics.median(s[1] for s in said), 3),
        "p99_ms": round(max(s[2] for s in said), 3),
        "foreign_share": max(0.0, busy - sum(s[3] for s in said)) / took / len(os.sched_getaffinity(0)),
        **{k: after[k] - before[k] for k in after},
    }


# --- a quota ---


def quota_group(cpus: float) -> tuple[Path, str]:
    """A CPU cgroup of our own with a quota: (folder, version)."""
    period = 100_000
    v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    if (v1 / "cpu.cfs_quota_us").exists() or (v1 / "cgroup.procs").exists():
        folder = v1 / f"host-cpu-{os.getpid()}"
        folder.mkdir()
        (folder / "cpu.cfs_period_us").write_text(str(period))
        (folder / "cpu.cfs_quota_us").write_text(str(int(cpus * period)))
        return folder, "v1"
    folder = v2 / f"host-cpu-{os.getpid()}"
    folder.mkdir()
    (folder / "cpu.max").write_text(f"{int(cpus * period)} {period}")
    return folder, "v2"


def throttled(folder: Path) -> dict[str, int]:
    rows = (line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return {k: int(v) for k, v in rows if k in ("nr_periods", "nr_throttled")}


def quota(repeats: int, before: dict | None) -> dict:
    folder, version = quota_group(1.0)
    try:
        runs = rounds([1, 2, 4, 8], repeats, lambda t: matmuls(1, t, folder), (before or {}).get("by_threads"))
        return {"cgroup": version, "cpus": 1.0, "period_us": 100_000, "by_threads": runs}
    finally:
        folder.rmdir()


def machine() -> dict:
    import numpy
    import torch

    fields = dict(
        line.split(":", 1) for line in subprocess.run(
            ["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines() if ":" in line
    )
    keys = ("Model name", "CPU family", "Model", "Thread(s) per core", "L3 cache", "Hypervisor vendor", "NUMA node(s)")
    return {
        "lscpu": {k: fields.get(k, "").strip() for k in keys}, "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(), "python": platform.python_version(), "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def summary(record: dict) -> dict:
    """Medians over the quiet rounds, by case; best of many for passes and hand-overs, which last milliseconds."""
    def middle(runs: list[dict]) -> object:
        values = [r["value"] for r in quiet(runs)]
        if not values:
            return None
        if isinstance(values[0], dict):
            return {k: round(statistics.median(v[k] for v in values), 3) for k in values[0]} | {"runs": len(values)}
        return round(statistics.median(values), 3)
    parts = {k: record[k] for k in ("crowd", "threads_one_process", "threads_two_processes")}
    if record["quota"]:
        parts["quota"] = record["quota"]["by_threads"]
    medians = {part: {case: middle(v) for case, v in cases.items()} for part, cases in parts.items()}
    return medians | {
        "switch_us": {case: min(v) for case, v in record["switch_us"].items()},
        "bandwidth_gb_per_s": {
            kernel: max((r["value"] for r in quiet(runs)), default=None)
            for kernel, runs in record["bandwidth_gb_per_s"].items()
        },
    }


def can_draw(python: str) -> bool:
    said = subprocess.run([python, "-c", "import matplotlib, yaml"], capture_output=True, check=False)
    return said.returncode == 0


def measure(old: dict, n: int) -> dict:
    """All groups, going on from the runs of `old`."""
    groups = {
        "bandwidth_gb_per_s": lambda b: rounds(["read", "copy"], n, bandwidth, b),
        "crowd": lambda b: rounds([0, 1, 2, 4, 8, 16, 32], n, crowd, b),
        "quota": lambda b: quota(n, b) if os.geteuid() == 0 else b,
        "threads_two_processes": lambda b: rounds([1, 2, 4, 8], n, lambda t: matmuls(2, t), b),
        "threads_one_process": lambda b: rounds([1, 2, 4, 8], n, lambda t: matmuls(1, t), b),
    }
    begin, load = time.time(), os.getloadavg()
    before = old.get("switch_us", {})
    record = {
        "schema": 2, "date": datetime.date.today().isoformat(),
        "command": "python3 chapters/hardware/measurements/host_cpu.py --append",
        "machine": machine(), "repeats": n, "array_mib": ARRAY_MIB, "quiet_share": QUIET,
        "switch_us": {
            c: before.get(c, []) + [switch_us(c == "same core") for _ in range(BURSTS)]
            for c in ("same core", "two cores")
        },
        **{name: run(old.get(name)) for name, run in groups.items()},
    }
    this = {
        "date": record["date"], "nice": os.nice(0), "load_before": round(load[0], 2),
        "load_after": round(os.getloadavg()[0], 2), "seconds": round(time.time() - begin),
    }
    record["passes"], record["notes"] = [*old.get("passes", []), this], old.get("notes", [])
    return record | {"summary": summary(record)}


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--out", type=Path, default=RECORD, help="default: the record beside this script")
    ask.add_argument("--repeats", type=int, default=5)
    ask.add_argument("--append", action="store_true", help="go on from the runs that the record holds")
    ask.add_argument("--draw-with", default=sys.executable, metavar="PYTHON", help="a Python that has matplotlib")
    given = ask.parse_args()
    if given.append and not given.out.is_file():
        ask.error(f"{given.out}: no such record to go on from")
    draws = given.out.resolve() == RECORD
    if draws and not can_draw(given.draw_with):  # said before the minutes are spent
        ask.error(f"{given.draw_with} has no matplotlib or no yaml, and the figure must follow the record: --draw-with")
    record = measure(json.loads(given.out.read_text()) if given.append else {}, given.repeats)
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{given.out}: {record['passes'][-1]['seconds']} s")
    for part, cases in record["summary"].items():
        missing = [case for case, value in cases.items() if value is None]
        if missing:
            print(f"no quiet run: {part}, {', '.join(missing)}")
    if draws:
        subprocess.run([given.draw_with, DRAW], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
