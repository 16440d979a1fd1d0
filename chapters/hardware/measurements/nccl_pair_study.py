#!/usr/bin/env python3
"""What sets the speed of two GPUs' collectives: protocol, transport, CTAs, first calls, chunks, objects, overlap.

    python3 nccl_pair_study.py --out DIR [--only NAMES] [--limit SECONDS] [--dry]

NCCL reads its variables once, so every setting gets a world of its own, forked from this process, which has
imported torch but never touches a device. One JSON file a subject (DIR/nccl_pair_SUBJECT.json), rewritten
after every world; NCCL's logs in DIR/logs. `--dry` runs the same steps on gloo with small sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

QUIET = {"NCCL_NVLS_ENABLE": "0"}
SHM = {"NCCL_P2P_DISABLE": "1"}
SOCKET = {**SHM, "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
SWEEP = [8 * 4**power for power in range(14)]  # 8 B to 512 MiB
CTA_SIZES = [1 << 20, 16 << 20, 64 << 20, 512 << 20]
LOG_SIZES = [8, 1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28]


class Rank:
    """This process's end of a world: its device, and timing that takes the slowest rank."""

    def __init__(self, rank: int, dry: bool) -> None:
        self.rank, self.dry = rank, dry
        self.device = torch.device("cpu") if dry else torch.device("cuda", rank)
        if not dry:
            torch.cuda.set_device(self.device)

    def open(self, port: int, eager: bool = True) -> float:
        start = time.perf_counter()
        options = {"device_id": self.device} if eager and not self.dry else {}
        dist.init_process_group("gloo" if self.dry else "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=self.rank,
                                world_size=2, **options)
        return time.perf_counter() - start

    def sync(self) -> None:
        if not self.dry:
            torch.cuda.synchronize()

    def meet(self) -> None:
        self.sync()
        dist.barrier(**({} if self.dry else {"device_ids": [self.rank]}))
        self.sync()

    def slowest(self, values: list[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor.tolist()

    def timed(self, call: Callable[[int], object], calls: int, samples: int, warm: int = 3) -> list[float]:
        """Microseconds a call of every sample: `calls` queued one after the other, then one wait."""
        for number in range(warm):
            call(number)
        found = []
        for _ in range(samples):
            self.meet()
            start = time.perf_counter()
            for number in range(calls):
                call(number)
            self.sync()
            found.append((time.perf_counter() - start) / calls * 1e6)
        return self.slowest(found)

    def once(self, call: Callable[[], object]) -> float:
        """Milliseconds of one call until its end, the slowest rank's."""
        self.sync()
        start = time.perf_counter()
        call()
        self.sync()
        return (time.perf_counter() - start) * 1e3

    def pool(self, size: int) -> Callable[[int], torch.Tensor]:
        """Slices of `size` bytes, in turn over 256 MiB, so that data does not lie in the cache."""
        count = max(1, size // 4)
        sets = max(1, min(64, (1 << 20 if self.dry else 256 << 20) // (4 * count)))
        whole = torch.zeros(sets * count, device=self.device)
        return lambda number: whole[(number % sets) * count:(number % sets + 1) * count]


def row(size: int, samples: list[float]) -> dict:
    middle = statistics.median(samples)
    return {"bytes": size, "us": round(middle, 3), "samples_us": [round(one, 3) for one in samples],
            "busbw_gb_per_s": round(size / middle / 1e3, 4)}  # two ranks: 2 (n - 1) / n is 1


def sweep(me: Rank, sizes: list[int]) -> list[dict]:
    """all_reduce float32 by size, 20 calls queued."""
    rows = []
    for size in [min(one, 1 << 16) for one in sizes[:4]] if me.dry else sizes:
        part = me.pool(size)
        calls = 20 if size < 64 << 20 else 5
        rows.append(row(size, me.timed(lambda number, part=part: dist.all_reduce(part(number)), calls, 9, 5)))
    return rows


def task_sweep(me: Rank, port: int, sizes: list[int]) -> dict:
    me.open(port)
    return {"rows": sweep(me, sizes)}


def task_graph(me: Rank, port: int) -> dict:
    """The same from a CUDA graph of 20 calls: what the launch from Python costs is left out."""
    me.open(port)
    rows = []
    for size in [] if me.dry else SWEEP[:11]:
        part, graph = me.pool(size), torch.cuda.CUDAGraph()
        dist.all_reduce(part(0))
        me.sync()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for number in range(20):
                dist.all_reduce(part(number))
        rows.append(row(size, [one / 20 for one in me.timed(lambda _, graph=graph: graph.replay(), 5, 9)]))
        del graph
    return {"rows": rows}


def task_log(me: Rank, port: int) -> dict:
    """One call a size, for NCCL's log alone."""
    me.open(port)
    for size in LOG_SIZES[:2] if me.dry else LOG_SIZES:
        dist.all_reduce(torch.zeros(size // 4, device=me.device))
        me.sync()
    part = torch.zeros(1024, device=me.device)
    peer = [dist.P2POp(dist.isend, part, 1 - me.rank), dist.P2POp(dist.irecv, torch.zeros_like(part), 1 - me.rank)]
    for work in dist.batch_isend_irecv(peer):
        work.wait()
    me.sync()
    return {}


def task_first(me: Rank, port: int, eager: bool) -> dict:
    """Opening, the first calls one by one, after a pause, and of a second group. Milliseconds of this rank."""
    before = time.perf_counter()
    seconds = me.open(port, eager)
    one_mib = torch.zeros(1 << 18, device=me.device)
    small = torch.zeros(2, device=me.device)
    out = {"eager": eager, "open_ms": seconds * 1e3,
           "first_calls_ms": [me.once(lambda: dist.all_reduce(one_mib)) for _ in range(12)]}
    me.meet()
    out["second_size_ms"] = [me.once(lambda: dist.all_reduce(small)) for _ in range(5)]
    me.meet()
    out["other_collective_ms"] = [me.once(lambda: dist.broadcast(one_mib, 0)) for _ in range(4)]
    me.meet()

    def exchange() -> None:
        peer = 1 - me.rank
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, one_mib, peer),
                                            dist.P2POp(dist.irecv, torch.empty_like(one_mib), peer)]):
            work.wait()
    out["send_recv_ms"] = [me.once(exchange) for _ in range(4)]
    me.meet()
    start = time.perf_counter()
    group = dist.new_group([0, 1])
    out["new_group_ms"] = (time.perf_counter() - start) * 1e3
    out["new_group_calls_ms"] = [me.once(lambda: dist.all_reduce(one_mib, group=group)) for _ in range(4)]
    me.meet()
    time.sleep(0.2 if me.dry else 3)
    me.meet()
    out["after_a_pause_ms"] = [me.once(lambda: dist.all_reduce(one_mib)) for _ in range(6)]
    out["all_ms"] = (time.perf_counter() - before) * 1e3
    return out


def task_chunks(me: Rank, port: int) -> dict:
    """The same 4 GB as 1, 10, 100, 1000 all-reduces, queued; and the small ones in one coalesced call."""
    me.open(port)
    total = 4_000_000 if me.dry else 4_000_000_000
    whole, rows = torch.zeros(total // 4, device=me.device), []
    for number in (1, 10, 100) if me.dry else (1, 10, 100, 1000, 10_000):
        parts = whole.chunk(number)

        def calls(_: int, parts=parts) -> None:
            for part in parts:
                dist.all_reduce(part)
        samples = me.timed(calls, 1, 5, 1)
        rows.append({"calls": number, "bytes_each": parts[0].numel() * 4, "ms": statistics.median(samples) / 1e3,
                     "samples_ms": [one / 1e3 for one in samples],
                     "busbw_gb_per_s": total / statistics.median(samples) / 1e3})
    if not me.dry:
        parts = whole.chunk(1000)

        def coalesced(_: int) -> None:
            with dist._coalescing_manager(device=me.device):
                for part in parts:
                    dist.all_reduce(part)
        samples = me.timed(coalesced, 1, 5, 1)
        rows.append({"calls": 1000, "coalesced": True, "bytes_each": parts[0].numel() * 4,
                     "ms": statistics.median(samples) / 1e3, "samples_ms": [one / 1e3 for one in samples],
                     "busbw_gb_per_s": total / statistics.median(samples) / 1e3})
    return {"total_bytes": total, "rows": rows}


def task_objects(me: Rank, port: int) -> dict:
    """all_gather_object of bytes against all_gather of a tensor of as many; and broadcast's pair."""
    me.open(port)
    rows = []
    for size in (100, 10_000, 1_000_000, 16_000_000):
        thing, got = os.urandom(size), [None, None]
        tensor = torch.empty(size, dtype=torch.uint8, device=me.device)
        whole = torch.empty(2 * size, dtype=torch.uint8, device=me.device)
        host = torch.frombuffer(bytearray(thing), dtype=torch.uint8)

        def with_copies(_: int, host=host, whole=whole) -> None:
            dist.all_gather_into_tensor(whole, host.to(me.device))
            whole.cpu()
        pairs = {"all_gather_object": lambda _, got=got, thing=thing: dist.all_gather_object(got, thing),
                 "all_gather": lambda _, whole=whole, tensor=tensor: dist.all_gather_into_tensor(whole, tensor),
                 "all_gather_with_host_copies": with_copies,
                 "broadcast_object_list": lambda _, thing=thing: dist.broadcast_object_list([thing], 0),
                 "broadcast": lambda _, tensor=tensor: dist.broadcast(tensor, 0)}
        for name, call in pairs.items():
            samples = me.timed(call, 1, 15, 2)
            rows.append({"call": name, "bytes": size, "us": statistics.median(samples), "samples_us": samples})
    return {"rows": rows}


def task_overlap(me: Rank, port: int) -> dict:
    """Products alone, all-reduces alone, and both on two streams at the same time."""
    me.open(port)
    if me.dry:
        return {"rows": []}
    side, count = torch.cuda.Stream(), 12
    n = 8192
    a, b = (torch.randn(n, n, device=me.device, dtype=torch.bfloat16) for _ in range(2))
    c, data = torch.empty_like(a), torch.zeros(64 << 20, device=me.device)  # 256 MiB

    def products() -> None:
        for _ in range(count):
            torch.matmul(a, b, out=c)

    def reduces() -> None:
        with torch.cuda.stream(side):
            for _ in range(count * 2):
                dist.all_reduce(data)

    def both() -> None:
        reduces()
        products()

    def marked(call: Callable[[], None], samples: int = 7) -> dict:
        """Milliseconds of each stream's own work, and of all."""
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(4)] for _ in range(samples)]
        whole = []
        for one in marks:
            me.meet()
            start = time.perf_counter()
            one[0].record()
            with torch.cuda.stream(side):
                one[2].record()
            call()
            one[1].record()
            with torch.cuda.stream(side):
                one[3].record()
            me.sync()
            whole.append((time.perf_counter() - start) * 1e3)
        return {"all_ms": me.slowest(whole), "main_ms": me.slowest([one[0].elapsed_time(one[1]) for one in marks]),
                "side_ms": me.slowest([one[2].elapsed_time(one[3]) for one in marks])}
    marked(both, 2)
    return {"matmul": f"{count} x {n}x{n}x{n} bf16", "all_reduce": f"{2 * count} x 256 MiB float32",
            "matmul_alone": marked(products), "all_reduce_alone": marked(reduces), "both": marked(both)}


def every_call(me: Rank, size: int) -> dict[str, Callable[[], object]]:
    """torch's collectives on `size` bytes in all."""
    count, peer = size // 4, 1 - me.rank
    whole, other = (torch.zeros(count, device=me.device) for _ in range(2))
    half = torch.zeros(count // 2, device=me.device)
    parts = list(whole.chunk(2))

    def exchange() -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, peer), dist.P2POp(dist.irecv, other, peer)]):
            work.wait()
    return {"all_reduce": lambda: dist.all_reduce(whole), "all_gather": lambda: dist.all_gather_into_tensor(whole, half),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(half, whole), "broadcast": lambda: dist.broadcast(whole, 0),
            "reduce": lambda: dist.reduce(whole, 0), "all_to_all": lambda: dist.all_to_all_single(other, whole),
            "gather": lambda: dist.gather(half, parts if me.rank == 0 else None, dst=0),
            "scatter": lambda: dist.scatter(half, parts if me.rank == 0 else None, src=0), "send_recv": exchange}


def task_kernels(me: Rank, port: int) -> dict:
    """What each call runs on rank 0's device, and its time there, by torch's profiler."""
    me.open(port)
    if me.dry:
        return {"calls": {}}
    found = {}
    for name, call in every_call(me, 256 << 20).items():
        for _ in range(3):
            call()
        me.meet()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            me.sync()
        found[name] = [{"kernel": one.name[:90], "us": one.device_time_total} for one in profile.events()
                       if one.device_time_total]
        me.meet()
    return {"bytes": 256 << 20, "calls": found}


def task_launch(me: Rank, port: int) -> dict:
    """Microseconds of the host for one call of 8 bytes, queued: by torch.distributed and by the group below it."""
    me.open(port)
    small, rows = torch.zeros(2, device=me.device), {}
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(me.device)
    options = dist.AllreduceOptions()
    calls = {"dist.all_reduce": lambda _: dist.all_reduce(small),
             "dist.all_reduce, async_op": lambda _: dist.all_reduce(small, async_op=True),
             "group.allreduce": lambda _: group.allreduce([small], options),
             "backend.allreduce": lambda _: backend.allreduce([small], options)}
    if not me.dry:
        calls["add_ (a kernel, for comparison)"] = lambda _: small.add_(0)
    for name, call in calls.items():
        rows[name] = me.timed(call, 20 if me.dry else 500, 7, 5)
    for name, call in every_call(me, 4096).items():
        if not (me.dry and name in ("reduce_scatter", "send_recv")):
            rows[f"{name} of 4 KiB"] = me.timed(lambda _, call=call: call(), 10 if me.dry else 200, 5, 5)
    return {"samples_us": rows, "median_us": {name: statistics.median(one) for name, one in rows.items()}}


def copy_rows(size: int) -> list[dict]:
    """One size: one way, the other, both at once, and on one device."""
    tensors = [torch.ones(size, dtype=torch.uint8, device=f"cuda:{one}") for one in (0, 1)]
    targets = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{one}") for one in (1, 0)]
    here = torch.empty_like(tensors[0])
    streams = [torch.cuda.Stream(device=one) for one in (0, 1)]

    def send(origin: int) -> None:
        with torch.cuda.stream(streams[origin]):
            targets[origin].copy_(tensors[origin], non_blocking=True)

    def both() -> None:
        send(0)
        send(1)

    def settle() -> None:
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
    rows = []
    for name, call in {"0 to 1": lambda: send(0), "1 to 0": lambda: send(1), "both ways": both,
                       "inside 0": lambda: here.copy_(tensors[0], non_blocking=True)}.items():
        repeat, samples = (100 if size < 1 << 24 else 10 if size < 1 << 30 else 3), []
        for turn in range(8):
            settle()
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            settle()
            if turn:
                samples.append((time.perf_counter() - start) / repeat * 1e6)
        middle = statistics.median(samples)
        rows.append({"way": name, "bytes": size, "us": middle, "samples_us": samples,
                     "gb_per_s": size * (2 if name == "both ways" else 1) / middle / 1e3})
    return rows


def task_copies(me: Rank, port: int) -> dict:
    """Copies between the devices by torch, from one process."""
    if me.rank or me.dry:
        return {}
    rows = []
    for size in (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 30, 4 << 30):
        rows += copy_rows(size)
        torch.cuda.empty_cache()
    return {"peer_access": torch.cuda.can_device_access_peer(0, 1), "rows": rows}


def subjects() -> dict[str, list[tuple[str, dict[str, str], Callable[[Rank, int], dict], float]]]:
    """Subject -> worlds: (name, variables, task, limit)."""
    full = lambda me, port: task_sweep(me, port, SWEEP)  # noqa: E731
    ctas = lambda me, port: task_sweep(me, port, CTA_SIZES)  # noqa: E731
    slow = lambda me, port: task_sweep(me, port, SWEEP[:13])  # noqa: E731
    return {
        "logs": [(name, {**env, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING"}, task_log, 25)
                 for name, env in (("p2p", {}), ("shm", SHM), ("socket", SOCKET))],
        "protocols": [("default", {}, full, 30), *((name, {"NCCL_PROTO": name}, full, 30) for name in ("LL", "LL128", "Simple")),
                      ("graph", {}, task_graph, 30)],
        "transports": [("shm", SHM, slow, 40), ("socket", SOCKET, slow, 45)],
        "ctas": [(str(number), {"NCCL_MAX_CTAS": str(number)}, ctas, 25) for number in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)],
        "first": [("eager", {}, lambda me, port: task_first(me, port, True), 30),
                  ("lazy", {}, lambda me, port: task_first(me, port, False), 30)],
        "chunks": [("default", {}, task_chunks, 40)],
        "objects": [("default", {}, task_objects, 40)],
        "overlap": [("default", {}, task_overlap, 30), ("4 CTAs", {"NCCL_MAX_CTAS": "4"}, task_overlap, 30)],
        "kernels": [("default", {}, task_kernels, 40)],
        "launch": [("default", {}, task_launch, 40)],
        "copies": [("torch", {}, task_copies, 40)],
    }


def child(rank: int, port: int, env: dict[str, str], task: Callable[[Rank, int], dict], dry: bool, target: Path) -> None:
    """The forked rank: never returns."""
    code = 1
    try:
        os.environ.update(env)
        found = task(Rank(rank, dry), port)
        target.write_text(json.dumps({"ok": True, **found}))
        code = 0
    except BaseException:  # the process ends here; what went wrong belongs into the record
        target.write_text(json.dumps({"ok": False, "trace": traceback.format_exc()[-1500:]}))
    finally:
        sys.stdout.flush()
        os._exit(code)


def run_world(number: int, env: dict[str, str], task: Callable[[Rank, int], dict], limit: float, out: Path, dry: bool) -> dict:
    """Both ranks to their end or to the limit; rank 0's findings, with how long it took."""
    start, pids, port = time.monotonic(), {}, 29600 + number
    targets = [out / f"rank{rank}.json" for rank in (0, 1)]
    for rank, target in enumerate(targets):
        target.unlink(missing_ok=True)
        pid = os.fork()
        if not pid:
            child(rank, port, env, task, dry, target)
        pids[pid] = rank
    while pids and time.monotonic() - start < limit:
        for pid in list(pids):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del pids[pid]
        time.sleep(0.02)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    texts = [json.loads(target.read_text()) if target.exists() else {"ok": False, "trace": "ended by its limit"} for target in targets]
    for target in targets:
        target.unlink(missing_ok=True)
    failed = next((text for text in texts if not text["ok"]), None)
    return {"seconds": round(time.monotonic() - start, 1), **(failed or texts[0])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", help="comma list of " + ", ".join(subjects()))
    parser.add_argument("--limit", type=float, default=200)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    (args.out / "logs").mkdir(parents=True, exist_ok=True)
    start, number = time.monotonic(), 0
    for subject, worlds in subjects().items():
        if args.only and subject not in args.only.split(","):
            continue
        record = {"subject": subject, "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), "dry": args.dry,
                  "command": "nccl_pair_study.py " + " ".join(sys.argv[1:]), "torch": torch.__version__,
                  "cuda": torch.version.cuda, "ranks": 2, "worlds": []}
        for name, env, task, limit in worlds:
            left = args.limit - (time.monotonic() - start)
            if left < 5:
                record["worlds"].append({"name": name, "ok": False, "trace": "not run: time was up"})
                continue
            number += 1
            full = {**QUIET, **env}
            if "NCCL_DEBUG" in env:
                full["NCCL_DEBUG_FILE"] = str(args.out / "logs" / f"{name}-%p.log")
            found = run_world(number, full, task, min(limit, left), args.out, args.dry)
            record["worlds"].append({"name": name, "variables": env, **found})
            print(f"[{time.monotonic() - start:5.0f} s] {subject} {name}: {'ok' if found['ok'] else found['trace'][-300:]}, "
                  f"{found['seconds']} s", flush=True)
            (args.out / f"nccl_pair_{subject}.json").write_text(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
