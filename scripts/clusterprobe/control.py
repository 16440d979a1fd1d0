"""What a tool's ranks do together while all is well: gather, share, agree. Works for a world of one too."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from clusterprobe.census import (
    Census,
    census_record,
    pack_placement,
    put_facts,
    refuse_gaps,
    unpack_placement,
)
from clusterprobe.device import load_torch
from clusterprobe.exits import CANNOT_RUN, MISSING_RANK, ProbeFailure
from clusterprobe.interfaces import list_interfaces
from clusterprobe.launch import RankEnv
from clusterprobe.rendezvous import Endpoint, choose_endpoint, is_loopback, owns_address
from clusterprobe.store import (
    POLL,
    StoreClient,
    collect_records,
    expect_greeting,
    open_stores,
    report_in,
)

LAST_WORDS = 4.0  # seconds that ranks wait for each other at the very end


def store_prefix(env: RankEnv, environ: Mapping[str, str]) -> str:
    """Keys of one attempt of one job; a restarted attempt must not read the last one's."""
    return f"clusterprobe/{env.job}/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/"


class Control:
    """The connection of this rank to the others. `names` start with the stage they belong to."""

    def __init__(self, env: RankEnv, endpoint: Optional[Endpoint], limit: float) -> None:
        self.env = env
        self.endpoint = endpoint
        self.server: Any = None
        self.census: Optional[Census] = None
        self.places: List[int] = [0] * env.world_size
        prefix = store_prefix(env, os.environ)
        if endpoint is None:
            load_torch()
            import torch.distributed as dist

            shared = StoreClient(dist.HashStore(), prefix)
            shared.put("hello", {"world": 1})
            self.client, self.monitor_client = shared, shared
        else:
            end = time.monotonic() + limit
            self.server, (self.client, self.monitor_client) = open_stores(
                env, endpoint, limit, prefix
            )
            limit = max(0.5, end - time.monotonic())
        expect_greeting(
            self.client, env, endpoint or Endpoint("local", 0, "local", "one rank"), limit
        )

    def new_store(self, name: str, limit: float) -> Any:
        """A torch store for init_process_group, on a connection of its own, under its own prefix."""
        from datetime import timedelta

        import torch.distributed as dist

        if self.endpoint is None:
            return dist.HashStore()
        base = dist.TCPStore(
            self.endpoint.address,
            self.endpoint.port,
            None,
            False,
            wait_for_workers=False,
            timeout=timedelta(seconds=limit),
        )
        return dist.PrefixStore(f"{store_prefix(self.env, os.environ)}group/{name}", base)

    def take_census(
        self,
        host: str,
        node: str,
        device: Mapping[str, Any],
        facts: Mapping[str, Any],
        config: Mapping[str, Any],
        limit: float,
        watch: Optional[Callable[[float, int, List[int]], None]] = None,
    ) -> Optional[Census]:
        """Report this rank. Rank 0 waits for all (or names who is missing) and returns the census."""
        record = census_record(
            self.env,
            host,
            node,
            os.getpid(),
            device,
            put_facts(self.client, "facts", facts),
            put_facts(self.client, "config", config),
        )
        records = self.gather("census", record, limit, watch)
        if records is not None:
            self.census = Census(self.env, records)
            refuse_gaps(self.census)
            self.share("placement", pack_placement(self.census.placement()))
            self.places = self.census.placement()
        else:
            self.places = unpack_placement(self.receive("placement", limit))
        return self.census

    def gather(
        self,
        name: str,
        record: Any,
        limit: float,
        watch: Optional[Callable[[float, int, List[int]], None]] = None,
    ) -> Optional[Dict[int, Any]]:
        """Every rank's record on rank 0, None elsewhere. Missing ranks are simply not in the answer."""
        report_in(self.client, name, self.env.rank, record)
        if self.env.rank != 0:
            return None
        return collect_records(self.client, name, self.env.world_size, limit, watch)

    def gather_all(self, name: str, record: Any, limit: float) -> Optional[Dict[int, Any]]:
        """Like gather, but ranks that did not report in time are a failure that names them."""
        records = self.gather(name, record, limit)
        if records is not None and len(records) < self.env.world_size:
            absent = [rank for rank in range(self.env.world_size) if rank not in records]
            raise ProbeFailure(
                MISSING_RANK,
                f"{name}: {self.name_all(absent)} did not report within {limit:.0f} s",
                "look there for the process (state T is stopped), the kernel log and OOM kills",
                named=True,
            )
        return records

    def share(self, name: str, value: Any) -> None:
        """Rank 0 says something to all; keep it small, every rank reads it."""
        self.client.put(f"share/{name}", value)

    def receive(self, name: str, limit: float) -> Any:
        return self.client.fetch(f"share/{name}", limit)

    def from_rank0(self, name: str, value: Any, limit: float) -> Any:
        """The same value on every rank: rank 0's."""
        if self.env.rank == 0:
            self.share(name, value)
            return value
        return self.receive(name, limit)

    def all_together(self, name: str, limit: float) -> None:
        """A barrier through the store, independent of the measured backend."""
        self.client.count(f"barrier/{name}/n", 1)
        if self.env.rank == 0:
            end = time.monotonic() + limit
            while (
                self.client.count(f"barrier/{name}/n") < self.env.world_size
                and time.monotonic() < end
            ):
                time.sleep(POLL / 5)
            self.share(f"barrier/{name}", True)
        else:
            self.receive(f"barrier/{name}", limit)

    def name(self, rank: int) -> str:
        """`rank 5@node2` from any rank: others' records are looked up when needed."""
        if self.census is not None:
            return self.census.name(rank)
        record = self.client.look(f"census/{rank}")
        return Census(self.env, {rank: record} if record else {}).name(rank)

    def name_all(self, ranks: List[int]) -> str:
        return (
            self.census.names(ranks)
            if self.census
            else ", ".join(self.name(rank) for rank in ranks[:8])
        )


def open_control(env: RankEnv, init: Optional[str], limit: float) -> Control:
    """Resolve, check and open the store. A world of one needs neither address nor port."""
    if env.world_size == 1:
        return Control(env, None, limit)
    endpoint = choose_endpoint(env, init)
    if env.rank == 0 and not env.agent_store and not owns_address(endpoint.address):
        listed = (one for owned in list_interfaces().values() for one in owned)
        own = ", ".join(sorted({one for one in listed if not is_loopback(one)}))
        given = "" if endpoint.host == endpoint.address else f" ({endpoint.address})"
        raise ProbeFailure(
            CANNOT_RUN,
            f"rank 0 runs on a host that does not own {endpoint.host}{given}; "
            f"it owns {own or 'loopback alone'}",
            "set MASTER_ADDR to the host of rank 0",
        )
    return Control(env, endpoint, limit)
