"""16,384 ranks against a real store: a few processes write what every rank would write, rank 0 reads it.

Only the ranks' connections are fewer than in a real world (one a process). Prints one JSON object with
times, bytes through the store, memory and the size of the report. Run by test_core_scale.py.

    python simulated_world.py RANKS PROCESSES
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from clusterprobe.census import (
    Census,
    census_record,
    find_differences,
    pack_placement,
    put_facts,
    refuse_gaps,
    unpack_placement,
)
from clusterprobe.deadline import StagePlace
from clusterprobe.device import load_torch
from clusterprobe.exits import ProbeFailure
from clusterprobe.gpu_test_judges import (
    judge_collectives,
    judge_links,
    judge_matmul,
    judge_preflight,
)
from clusterprobe.launch import RankEnv
from clusterprobe.report import Report
from clusterprobe.store import (
    StoreClient,
    answer_roll_call,
    collect_records,
    read_records,
    report_in,
)
from clusterprobe.strictjson import strict_json
from clusterprobe.verdict import judge_roll_call

PER_NODE = 8
ODD, SLOW, MISSING = 9001, 4242, (77, 5000, 5001, 16000)
STOPPED = range(8192, 8200)
ROWS = [(op, size) for size in (8, 1 << 20, 64 << 20) for op in "abcdefghi"]


class Counting:
    """A store that counts the bytes of keys and values that pass."""

    def __init__(self, store):
        self.store, self.bytes, self.requests = store, 0, 0

    def set(self, key, value):
        self.bytes += len(key) + len(value)
        self.store.set(key, value)

    def add(self, key, more):
        self.bytes += len(key) + 8
        return self.store.add(key, more)

    def check(self, keys):
        self.bytes += sum(map(len, keys))
        self.requests += 1
        return self.store.check(keys)

    def wait(self, keys, limit):
        self.requests += 1
        self.store.wait(keys, limit)

    def multi_get(self, keys):
        values = self.store.multi_get(keys)
        self.bytes += sum(map(len, keys)) + sum(map(len, values))
        return values


def connect(port: int) -> StoreClient:
    load_torch()
    import torch.distributed as dist

    return StoreClient(
        Counting(dist.TCPStore("127.0.0.1", port, None, False, wait_for_workers=False)),
        "clusterprobe/job/0/",
    )


def facts_of(rank: int) -> dict:
    facts = {f"NCCL_{name}": "1" * 20 for name in "ABCDEFGHIJ"}
    return {
        **facts,
        "torch": "2.13.0",
        "nccl": "2.28.3",
        "NCCL_IB_HCA": "mlx5_3" if rank == ODD else "mlx5",
    }


def write_ranks(port: int, ranks: list[int], size: int, what: str, done) -> None:
    client = connect(port)
    for rank in ranks:
        env = RankEnv("slurm", rank, size, rank % PER_NODE, PER_NODE)
        if what == "census" and rank not in MISSING:
            device = {
                "uuid": f"{rank:08x}-1111-2222-3333-444444444444",
                "pci": "0000:1b:00",
                "name": "NVIDIA H200",
            }
            record = census_record(
                env,
                f"node{rank // PER_NODE:05d}",
                f"boot/{rank // PER_NODE:05d}",
                1000 + rank,
                device,
                put_facts(client, "facts", facts_of(rank)),
                put_facts(client, "config", {"size": 1}),
            )
            report_in(client, "census", rank, record)
        if what == "stage":
            micros = [round(100 + rank % 7 + place, 1) for place in range(len(ROWS))]
            link = [(rank - 1) % size, 16 << 20, 0.01 if rank == SLOW else 0.0004]
            report_in(
                client,
                "stage",
                rank,
                {
                    "rc": 0,
                    "why": "",
                    "hint": "",
                    "v": {
                        "collectives": {"us": micros, "wrong": {}, "no": {}},
                        "links": {"across": link},
                        "matmul": 0.02 if rank == SLOW else 0.002 + rank % 5 * 1e-5,
                    },
                },
            )
        if what == "roll" and rank not in STOPPED:
            answer_roll_call(
                client, rank, StagePlace("collectives", "all_reduce 8 B", 40, time.monotonic())
            )
    done.put(client.store.bytes)


def in_parallel(port: int, size: int, processes: int, what: str) -> tuple[float, int]:
    done = multiprocessing.Queue()
    start = time.monotonic()
    workers = [
        multiprocessing.Process(
            target=write_ranks, args=(port, list(range(part, size, processes)), size, what, done)
        )
        for part in range(processes)
    ]
    for worker in workers:
        worker.start()
    sent = sum(done.get() for _ in workers)
    for worker in workers:
        worker.join()
    return time.monotonic() - start, sent


class Setting:
    """As much of a session as the judges use."""

    def __init__(self, census: Census, report: Report) -> None:
        self.control, self.report, self.rank0 = self, report, True
        self.census, self.places = (
            census,
            [rank // PER_NODE for rank in range(census.env.world_size)],
        )

    def name(self, rank: int) -> str:
        return self.census.name(rank)


WAITERS = 24
WAIT_SECONDS = 2.0


def requests_of_a_waiting_rank(port: int) -> float:
    """What one rank asks of the store while rank 0 reads the roll call: all ranks at once ask that."""
    clients = [connect(port) for _ in range(WAITERS)]
    waiters = [
        threading.Thread(target=client.comes, args=("verdict", 60.0), daemon=True)
        for client in clients
    ]
    for waiter in waiters:
        waiter.start()
    time.sleep(WAIT_SECONDS)
    connect(port).put("verdict", {"rc": 5})
    for waiter in waiters:
        waiter.join(10)
    return sum(client.store.requests for client in clients) / WAITERS


def main(size: int, processes: int) -> None:
    load_torch()
    import torch.distributed as dist

    server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    client, env = connect(server.port), RankEnv("slurm", 0, size, 0, PER_NODE)
    out: dict = {"ranks": size}

    def timed(name: str, work):
        start = time.monotonic()
        found = work()
        out[name + "_s"] = round(time.monotonic() - start, 3)
        return found

    out["census_write_s"], out["census_written_bytes"] = in_parallel(
        server.port, size, processes, "census"
    )
    before = client.store.bytes
    census = Census(env, timed("census_read", lambda: collect_records(client, "census", size, 0.0)))
    out["census_read_bytes"] = client.store.bytes - before
    try:
        refuse_gaps(census)
    except ProbeFailure as failure:
        out["missing_reason"] = failure.reason
    for rank in MISSING:  # they came after all
        first = rank // PER_NODE * PER_NODE
        neighbour = next(
            other for other in range(first, first + PER_NODE) if other in census.records
        )
        census.records[rank] = {**census.records[neighbour], "local": rank % PER_NODE}
    differences = timed("consistency", lambda: find_differences(client, census, "facts"))
    out["difference"] = [difference.sentence(census) for difference in differences]
    packed = pack_placement(census.placement())
    out["placement_bytes"], out["placement_right"] = (
        len(packed),
        unpack_placement(packed) == census.placement(),
    )

    out["stage_write_s"], out["stage_written_bytes"] = in_parallel(
        server.port, size, processes, "stage"
    )
    before = client.store.bytes
    stage = timed("stage_read", lambda: collect_records(client, "stage", size, 0.0))
    out["stage_read_bytes"] = client.store.bytes - before
    report = Report("probe", [], {}, "none")
    report.prints = False
    setting = Setting(census, report)
    report.put("world", census.as_json())
    values = {
        kind: {rank: record["v"][kind] for rank, record in stage.items()}
        for kind in ("collectives", "links", "matmul")
    }
    out["lines"] = [
        timed("judge_collectives", lambda: judge_collectives(setting, values["collectives"], ROWS)),
        timed("judge_links", lambda: judge_links(setting, values["links"])),
        timed("judge_matmul", lambda: judge_matmul(setting, values["matmul"])),
    ]
    findings = {
        rank: [f"/dev/shm has only {rank} MiB free"] if rank % PER_NODE == 0 and rank < 800 else []
        for rank in range(size)
    }
    out["node_findings"] = timed("judge_preflight", lambda: judge_preflight(setting, findings))[1]
    slow = {
        r: {"across": [(r - 1) % size, 16 << 20, 0.01 if r % 200 == 0 else 0.0004]}
        for r in range(size)
    }
    out["slow_links"] = judge_links(setting, slow)[1]
    out["roll_write_s"], out["roll_written_bytes"] = in_parallel(
        server.port, size, processes, "roll"
    )
    answers = timed("roll_read", lambda: read_records(client, "roll", range(size)))
    out["requests_while_waiting"] = requests_of_a_waiting_rank(server.port)
    cause = {
        "kind": "timeout",
        "rc": 5,
        "rank": 3,
        "stage": "collectives",
        "reason": "the time limit passed",
    }
    verdict = timed("judge_roll", lambda: judge_roll_call(census, answers, cause))
    out["verdict"], out["verdict_bytes"] = verdict["reason"], len(json.dumps(verdict))
    report.finish(verdict["rc"], verdict["reason"])
    document = timed("report_json", lambda: strict_json(report.document))
    out["report_bytes"], out["report_nodes"] = len(document), len(report.document["world"]["nodes"])
    out["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps(out), flush=True)
    os._exit(0)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main(int(sys.argv[1]), int(sys.argv[2]))
