"""Who is here: each rank's record, the facts of its process, and what differs between ranks.

A record is small and its own; facts (versions, variables, limits) are stored once under their hash, since
most ranks share them. Rank 0 reads all records and the few distinct facts; the others get a summary.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from clusterprobe.exits import MISSING_RANK, ProbeFailure
from clusterprobe.expected import expected_hosts
from clusterprobe.launch import RankEnv
from clusterprobe.store import StoreClient, encode_record, read_records
from clusterprobe.topology import node_groups
from clusterprobe.units import rank_ranges, shorten_list

RANGES_SHOWN = 12  # of one host in a sentence; the report has them all


def content_hash(value: Any) -> str:
    """A short name for a value, equal on every rank that holds an equal value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def put_facts(client: StoreClient, kind: str, facts: Mapping[str, Any]) -> str:
    """Store facts under their hash unless an equal rank did; returns the hash."""
    name = content_hash(facts)
    if not client.has([f"{kind}/{name}"]):
        client.put(f"{kind}/{name}", dict(facts))
    return name


def census_record(
    env: RankEnv, host: str, node: str, pid: int, device: Mapping[str, Any], facts: str, config: str
) -> Dict[str, Any]:
    return {
        "host": host,
        "node": node,
        "local": env.local_rank,
        "pid": pid,
        "uuid": device.get("uuid"),
        "pci": device.get("pci"),
        "device": device.get("name"),
        "facts": facts,
        "config": config,
    }


@dataclass
class Census:
    """Records of the ranks that reported, by rank."""

    env: RankEnv
    records: Dict[int, Dict[str, Any]] = field(default_factory=dict)

    @property
    def missing(self) -> List[int]:
        return [rank for rank in range(self.env.world_size) if rank not in self.records]

    def host_of(self, rank: int) -> Optional[str]:
        return self.records[rank]["host"] if rank in self.records else None

    def name(self, rank: int) -> str:
        """`rank 5@node2`, or `rank 5 (expected on node2)` for one that never reported."""
        host = self.host_of(rank)
        if host:
            return f"rank {rank}@{host}"
        expected = expected_hosts(self.env, [rank], self.records).get(rank)
        return (
            f"rank {rank} (expected on {expected})" if expected else f"rank {rank} (host unknown)"
        )

    def names(self, ranks: Sequence[int], most: int = 4) -> str:
        """Names for a sentence; more than a few become ranges by host."""
        if len(ranks) <= most:
            return ", ".join(self.name(rank) for rank in ranks)
        absent = [rank for rank in ranks if rank not in self.records]
        expected = expected_hosts(self.env, absent, self.records) if absent else {}
        by_host: Dict[str, List[int]] = {}
        for rank in ranks:
            host = self.host_of(rank) or expected.get(rank) or "host unknown"
            by_host.setdefault(host, []).append(rank)
        parts = [
            f"{host}: ranks {shorten_list(rank_ranges(group).split(','), RANGES_SHOWN)}"
            for host, group in by_host.items()
        ]
        return f"{len(ranks):,} ranks ({shorten_list(parts)})"

    def node_keys(self) -> List[str]:
        """The node of every rank; only of a complete census."""
        return [self.records[rank]["node"] for rank in range(self.env.world_size)]

    def placement(self) -> List[int]:
        """The node's number of every rank, nodes counted in order of their first rank."""
        places = [0] * self.env.world_size
        for number, ranks in enumerate(node_groups(self.node_keys())):
            for rank in ranks:
                places[rank] = number
        return places

    def as_json(self) -> Dict[str, Any]:
        """The report's `world`: one entry a node, ranks as ranges, because lists of ranks are not read."""
        nodes: Dict[str, Dict[str, Any]] = {}
        for rank in sorted(self.records):
            record = self.records[rank]
            node = nodes.setdefault(
                record["node"],
                {
                    "host": record["host"],
                    "boot_id": record["node"],
                    "ranks": [],
                    "device": record["device"],
                    "uuids": [],
                    "pcis": [],
                    "pids": [],
                },
            )
            node["ranks"].append(rank)
            for key, column in (("uuid", "uuids"), ("pci", "pcis"), ("pid", "pids")):
                node[column].append(record[key])
        listed = [
            {
                **node,
                "ranks": rank_ranges(node["ranks"]),
                **{key: node[key] if any(node[key]) else None for key in ("uuids", "pcis")},
            }
            for node in nodes.values()
        ]
        return {
            "size": self.env.world_size,
            "launcher": self.env.launcher,
            "node_count": len(listed),
            "missing": rank_ranges(self.missing) or None,
            "nodes": listed,
        }


def read_census(client: StoreClient, env: RankEnv) -> Census:
    """Whoever reported by now."""
    return Census(env, read_records(client, "census", range(env.world_size)))


def refuse_gaps(census: Census) -> None:
    if census.missing:
        count = len(census.missing)
        raise ProbeFailure(
            MISSING_RANK,
            f"{census.names(census.missing)} never reached the store; "
            f"{len(census.records):,} of {census.env.world_size:,} ranks are here",
            f"look at the launcher's log for {'that rank' if count == 1 else 'those ranks'}: was it started, "
            "and can its host reach the store's address and port?",
            named=True,
        )


@dataclass(frozen=True)
class Difference:
    """One fact that is not equal everywhere: value → ranks, the most common first."""

    name: str
    groups: Dict[str, List[int]]

    def sentence(self, census: Census) -> str:
        """Names the few: `torch: 2.13.0 on rank 5@b, 2.12.1 on the other 7`."""
        ordered = list(self.groups.items())
        few = [f"{value} on {census.names(ranks, 4)}" for value, ranks in ordered[1:4]]
        more = f" and {len(ordered) - 4} more values" if len(ordered) > 4 else ""
        return f"{self.name}: {'; '.join(few)}{more}; {ordered[0][0]} on the other {len(ordered[0][1]):,}"


def find_differences(client: StoreClient, census: Census, kind: str) -> List[Difference]:
    """What differs between ranks, from the distinct `kind` (facts or config) records."""
    holders: Dict[str, List[int]] = {}
    for rank, record in census.records.items():
        holders.setdefault(record[kind], []).append(rank)
    if len(holders) < 2:
        return []
    names = list(holders)
    values = dict(zip(names, client.take([f"{kind}/{name}" for name in names])))
    found = []
    for key in sorted({key for facts in values.values() for key in facts}):
        groups: Dict[str, List[int]] = {}
        for name in names:
            shown = values[name].get(key)
            groups.setdefault("unset" if shown is None else str(shown), []).extend(holders[name])
        if len(groups) > 1:
            ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0]))
            found.append(Difference(key, {value: sorted(ranks) for value, ranks in ordered}))
    return found


def pack_placement(places: Sequence[int]) -> str:
    """The node number of every rank in a few bytes; regular placements compress to almost nothing."""
    steps = [places[0], *(b - a for a, b in zip(places, places[1:]))] if places else []
    return base64.b64encode(zlib.compress(encode_record(steps).encode(), 9)).decode()


def unpack_placement(text: str) -> List[int]:
    places: List[int] = []
    for step in json.loads(zlib.decompress(base64.b64decode(text))):
        places.append(step + (places[-1] if places else 0))
    return places
