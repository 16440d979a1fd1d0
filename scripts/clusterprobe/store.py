"""The control plane: a TCPStore of our own, apart from the backend that is measured.

Through it the ranks report in, agree on one verdict, and find out who is silent when something hangs.
Every rank writes small records under its own keys and counts itself; one reader fetches them in shards,
so the traffic grows with the number of ranks and nobody reads everything but rank 0.

Ending together works like this. Whoever sees a failure writes `collapse`. Each rank's monitor thread sees
it, answers the roll call with its place, and waits for `verdict`. Rank 0 (or a deputy, when rank 0 is the
silent one) reads the answers and writes the verdict; all ranks end with its code.
"""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from clusterprobe.deadline import StagePlace, main_stack
from clusterprobe.device import load_torch
from clusterprobe.exits import CANNOT_RUN, MISSING_RANK, ProbeFailure
from clusterprobe.launch import RankEnv
from clusterprobe.listener import ask_listener, foreign_listener
from clusterprobe.preflight import raise_open_files
from clusterprobe.rendezvous import Endpoint, port_is_taken, port_swallows, wait_for_listener

SHARD = 256  # keys a request; keeps one answer below a megabyte
POLL = 0.05
FEW_MISSING = 64  # so many missing ranks are looked up by name while waiting
FOREIGN_LIMIT = (
    6.0  # a listener that is no store and says nothing for so long belongs to somebody else
)
GREETING_LIMIT = 30.0  # a store without our greeting after this belongs to another job
# torch 2.2 has no check(): a store that lacks the key answers compare_set with what was expected, and
# keeps nothing. No record is this text, since all are JSON.
ABSENT = "absent"
CONNECTIONS_PER_RANK = 3  # main thread, monitor, and the process group's
FILES_OF_RANK_0 = 40  # torch, the report, pipes


def encode_record(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def shards(ranks: Sequence[int], size: int = SHARD) -> List[List[int]]:
    return [list(ranks[at : at + size]) for at in range(0, len(ranks), size)]


class StoreClient:
    """One connection with a lock: a torch client serves one request at a time."""

    def __init__(self, store: Any, prefix: str) -> None:
        self.store = store
        self._prefix = prefix
        self._lock = threading.Lock()

    def put(self, key: str, value: Any) -> None:
        with self._lock:
            self.store.set(self._prefix + key, encode_record(value))

    def count(self, key: str, more: int = 0) -> int:
        with self._lock:
            return int(self.store.add(self._prefix + key, more))

    def has(self, keys: Sequence[str]) -> bool:
        """True when all of them exist."""
        names = [self._prefix + key for key in keys]
        with self._lock:
            if hasattr(self.store, "check"):
                return bool(self.store.check(names))
            return all(self.store.compare_set(name, ABSENT, ABSENT) != ABSENT.encode() for name in names)

    def take(self, keys: Sequence[str]) -> List[Any]:
        """Values of keys that exist."""
        with self._lock:
            return [
                json.loads(raw)
                for raw in self.store.multi_get([self._prefix + key for key in keys])
            ]

    def look(self, key: str) -> Any:
        """The value, or None when nobody wrote it yet. Never waits."""
        return self.take([key])[0] if self.has([key]) else None

    def first_to_put(self, key: str, value: Any) -> bool:
        """Write unless somebody did; True for the one writer."""
        text = encode_record(value)
        with self._lock:
            won = self.store.compare_set(self._prefix + key, "", text) == text.encode()
            if won:
                self.store.set(self._prefix + key, text)  # an old torch wakes those who wait for the key only here
            return won

    def fetch(self, key: str, limit: float) -> Any:
        """Wait for a value on the server's side, without polling."""
        with self._lock:
            self.store.wait([self._prefix + key], timedelta(seconds=limit))
        return self.take([key])[0]

    def comes(self, key: str, limit: float) -> bool:
        """Whether somebody writes the key within the limit; asks the server once, not in a loop."""
        try:
            with self._lock:
                self.store.wait([self._prefix + key], timedelta(seconds=max(0.1, limit)))
            return True
        except RuntimeError:  # the time is up; a store that is gone raises in here again
            return self.has([key])


def present_ranks(client: StoreClient, name: str, ranks: Sequence[int]) -> List[int]:
    """Ranks that wrote `name/<rank>`, by halving: a full shard costs one request."""
    if not ranks:
        return []
    if client.has([f"{name}/{rank}" for rank in ranks]):
        return list(ranks)
    if len(ranks) == 1:
        return []
    middle = len(ranks) // 2
    return present_ranks(client, name, ranks[:middle]) + present_ranks(client, name, ranks[middle:])


def read_records(client: StoreClient, name: str, ranks: Sequence[int]) -> Dict[int, Any]:
    """Records of those of the ranks that wrote one."""
    found: Dict[int, Any] = {}
    for shard in shards(ranks):
        there = present_ranks(client, name, shard)
        found.update(zip(there, client.take([f"{name}/{rank}" for rank in there]) if there else []))
    return found


def report_in(client: StoreClient, name: str, rank: int, record: Any) -> None:
    """Write this rank's record, then count it; the counter never runs ahead of the records."""
    client.put(f"{name}/{rank}", record)
    client.count(f"{name}/n", 1)


def collect_records(
    client: StoreClient,
    name: str,
    world: int,
    limit: float,
    watch: Optional[Callable[[float, int, List[int]], None]] = None,
) -> Dict[int, Any]:
    """Wait until all ranks reported in or the time is up; returns what is there then.

    `watch(seconds, count, missing)` hears about once a second; `missing` is empty while it would be long.
    """
    start = told = time.monotonic()
    while True:
        count, now = client.count(f"{name}/n"), time.monotonic()
        if count >= world or now - start >= limit:
            return read_records(client, name, range(world))
        if watch and now - told > 1.0:
            told = now
            few = world - count <= FEW_MISSING
            watch(now - start, count, missing_ranks(client, name, world) if few else [])
        time.sleep(POLL)


def missing_ranks(client: StoreClient, name: str, world: int) -> List[int]:
    absent: List[int] = []
    for shard in shards(range(world)):
        there = set(present_ranks(client, name, shard))
        absent.extend(rank for rank in shard if rank not in there)
    return absent


def _tcp_store(dist: Any, endpoint: Endpoint, limit: float, serves: bool) -> Any:
    """torch's store, which waits for nobody: who is missing is found out by its keys."""
    return dist.TCPStore(
        endpoint.address,
        endpoint.port,
        None,
        serves,
        wait_for_workers=False,
        timeout=timedelta(seconds=limit),
    )


def _open_server(dist: Any, endpoint: Endpoint, limit: float, prefix: str, world: int) -> Any:
    """The store of rank 0, or why this host can't have one there."""
    taken = port_is_taken(endpoint)
    if taken:
        raise ProbeFailure(
            CANNOT_RUN,
            f"port {endpoint.port} can't be opened on rank 0's host ({taken})",
            "set MASTER_PORT to a free port; `ss -ltnp` shows who holds this one",
        )
    refuse_few_files(world)
    if port_swallows(endpoint):
        raise ProbeFailure(
            CANNOT_RUN,
            f"rank 0's own host drops what is sent to {endpoint}, no store can open there",
            f"let port {endpoint.port} in: look at `nft list ruleset` or `iptables -S INPUT`",
        )
    server = _tcp_store(dist, endpoint, limit, serves=True)
    # The server is a client as well; it greets before the others' patience runs.
    StoreClient(server, prefix).put("hello", {"world": world})
    return server


def open_stores(
    env: RankEnv, endpoint: Endpoint, limit: float, prefix: str
) -> Tuple[Any, List[StoreClient]]:
    """(server or None, two clients: for the main thread and for the monitor)."""
    load_torch()
    import torch.distributed as dist

    server, end = None, time.monotonic() + limit
    if env.rank == 0 and not env.agent_store:
        server = _open_server(dist, endpoint, limit, prefix, env.world_size)
    else:
        wait_for_listener(endpoint, limit, "the launcher's agent" if env.agent_store else "rank 0")
    stores = [
        server or _connect(dist, endpoint, limit, end),
        _connect(dist, endpoint, limit, end),
    ]
    clients = [StoreClient(store, prefix) for store in stores]
    if env.rank == 0 and env.agent_store:
        clients[0].put("hello", {"world": env.world_size})
    return server, clients


def refuse_few_files(world: int) -> None:
    """The store that can't accept everybody would leave the last ones out, and they would be blamed."""
    limit = raise_open_files()
    need = FILES_OF_RANK_0 + CONNECTIONS_PER_RANK * world
    if limit is not None and limit[1] < need:
        raise ProbeFailure(
            CANNOT_RUN,
            f"rank 0 may hold {limit[1]:,} open files, the control store of {world:,} ranks needs {need:,}",
            "raise the hard limit on rank 0's host (ulimit -Hn, LimitNOFILE of the launcher's service)",
        )


def _connect(dist: Any, endpoint: Endpoint, limit: float, end: float) -> Any:
    """A client with torch's `limit`; the far end may accept and never speak, so it is given up at `end`."""
    answer: List[Any] = []

    def attempt() -> None:
        try:
            answer.append(_tcp_store(dist, endpoint, limit, serves=False))
        except (RuntimeError, ValueError) as error:
            answer.append(error)

    start = time.monotonic()
    worker = threading.Thread(target=attempt, name="store-connect", daemon=True)
    worker.start()
    worker.join(max(0.5, min(end - start, FOREIGN_LIMIT)))
    listener = ""
    if not answer:
        listener = ask_listener(endpoint, end - time.monotonic())
        if listener != "stranger":
            worker.join(max(0.0, end - time.monotonic()))
    if answer and not isinstance(answer[0], Exception):
        return answer[0]
    listener = listener or ask_listener(endpoint, FOREIGN_LIMIT)
    if listener != "store":
        raise foreign_listener(endpoint, listener == "silent")
    waited = f"nothing within {time.monotonic() - start:.0f} s"
    told = str(answer[0]).strip().splitlines()[0] if answer else waited
    raise ProbeFailure(
        CANNOT_RUN,
        f"the store at {endpoint} answers, but torch does not get through to it: {told}",
        f"torch looks up the name of each peer: is `getent hosts {endpoint.address}` slow here or on "
        "rank 0's host? A line in /etc/hosts helps",
    )


def expect_greeting(client: StoreClient, env: RankEnv, endpoint: Endpoint, limit: float) -> None:
    """Rank 0 greets as soon as its store is open; a silent store is another program's."""
    if not client.comes("hello", limit if env.agent_store else min(limit, GREETING_LIMIT)):
        if env.agent_store:
            raise ProbeFailure(
                MISSING_RANK,
                f"rank 0 did not join the store at {endpoint} in time",
                "look at the log of rank 0's host",
            )
        raise foreign_listener(endpoint)
    told = client.look("hello")["world"]
    if told != env.world_size:
        raise ProbeFailure(
            CANNOT_RUN,
            f"rank 0 counts {told} ranks, rank {env.rank} counts {env.world_size}",
            "start all ranks with the same WORLD_SIZE",
        )


def answer_roll_call(client: StoreClient, rank: int, place: StagePlace) -> None:
    """Say that this process lives, where its main thread is and how long since its last step."""
    now = time.monotonic()
    report_in(
        client,
        "roll",
        rank,
        {
            "stage": place.stage,
            "step": place.step,
            "count": place.count,
            "seconds": round(now - place.since, 1),
            "steps": place.steps,
            "idle": round(now - place.moved, 2),
            "stack": main_stack(),
        },
    )
