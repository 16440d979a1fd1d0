"""Where a rank that never reported should be: from the scheduler's list, else from the ranks that did.

A wrong host sends somebody to the wrong machine, so where two layouts fit what was seen and disagree, the
answer is that nobody knows.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from clusterprobe.launch import RankEnv

RankRecords = Mapping[int, Mapping[str, Any]]  # rank → census record with `host` and `local`
RankLayout = Callable[[int], Tuple[int, int]]  # rank → (number of its node, its place there)
BLOCK_LAUNCHERS = ("torchrun", "spawn", "kubernetes")  # they number ranks node by node


def listed_host(env: RankEnv, rank: int) -> Optional[str]:
    """From Slurm's node list; None for distributions whose rule is not known here."""
    counts = env.tasks_per_node
    if env.placement == "block":
        for host, count in zip(env.nodelist, counts):
            if rank < count:
                return host
            rank -= count
    elif env.placement == "cyclic" and len(set(counts)) == 1 and env.nodelist:
        return env.nodelist[rank % len(env.nodelist)]
    return None


def possible_layouts(env: RankEnv) -> List[RankLayout]:
    """Ranks node by node, and (mpirun --map-by node) ranks dealt out to the nodes in turn."""
    size = env.local_world_size or 0
    if not size:
        return []
    layouts: List[RankLayout] = [lambda rank: (rank // size, rank % size)]
    nodes = env.world_size // size
    if env.launcher not in BLOCK_LAUNCHERS and nodes * size == env.world_size:
        layouts.append(lambda rank: (rank % nodes, rank // nodes))
    return layouts


def hosts_by_layout(layout: RankLayout, records: RankRecords) -> Optional[Dict[int, str]]:
    """Host of each node that was seen; None when the records contradict the layout."""
    hosts: Dict[int, str] = {}
    for rank, record in records.items():
        node, place = layout(rank)
        if record.get("local") != place or hosts.setdefault(node, record["host"]) != record["host"]:
            return None
    return hosts


def expected_hosts(env: RankEnv, ranks: List[int], records: RankRecords) -> Dict[int, str]:
    """Host by rank, for those of the ranks where it is known."""
    if env.nodelist and env.tasks_per_node and env.placement in ("block", "cyclic"):
        listed = {rank: listed_host(env, rank) for rank in ranks}
        return {rank: host for rank, host in listed.items() if host}
    fits = []
    for layout in possible_layouts(env):
        hosts = hosts_by_layout(layout, records)
        if hosts is not None:
            fits.append((layout, hosts))
    found = {}
    for rank in ranks:
        guesses: Set[Optional[str]] = {hosts.get(layout(rank)[0]) for layout, hosts in fits}
        host = guesses.pop() if len(guesses) == 1 else None
        if host:
            found[rank] = host
    return found
