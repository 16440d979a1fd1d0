"""Which ranks belong together: node, rail, stride and pair groups, and the identity of a node.

A node is known by its boot id and its host name together, which is also how NCCL tells hosts apart: names
repeat (images, cut names), and boot ids are equal in containers of one machine. CLUSTERPROBE_NODE overrides.
"""

from __future__ import annotations

import socket
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

NODE_OVERRIDE = "CLUSTERPROBE_NODE"


def host_name() -> str:
    """The name as the kernel has it, never cut."""
    return socket.gethostname() or "unknown-host"


def read_boot_id() -> Optional[str]:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def node_identity(environ: Mapping[str, str]) -> Tuple[str, str]:
    """(host shown to people, key that tells nodes apart)."""
    override = environ.get(NODE_OVERRIDE)
    if override:
        return override, "override:" + override
    return host_name(), f"{read_boot_id() or 'unknown-boot'}/{host_name()}"


def node_groups(keys: Sequence[str]) -> List[List[int]]:
    """Ranks of each node, nodes in the order of their first rank. keys[rank] is the node key."""
    groups: Dict[str, List[int]] = {}
    for rank, key in enumerate(keys):
        groups.setdefault(key, []).append(rank)
    return list(groups.values())


def rail_groups(keys: Sequence[str]) -> List[List[int]]:
    """Ranks with the same place in their node. Uneven nodes give shorter groups for the last rails."""
    nodes = node_groups(keys)
    widest = max((len(node) for node in nodes), default=0)
    return [[node[place] for node in nodes if place < len(node)] for place in range(widest)]


def stride_groups(world: int, stride: int) -> List[List[int]]:
    """Ranks r, r+k, r+2k … for each r < k."""
    if not 1 <= stride <= world:
        raise ValueError(f"stride {stride} does not fit a world of {world}")
    return [list(range(first, world, stride)) for first in range(stride)]


def linked_groups(world: int, rank: int, size: int) -> List[Tuple[str, List[int]]]:
    """(name, ranks) of the two groups of about `size` that a rank is in: its neighbours, and ranks far apart.

    Together they link all ranks: every neighbourhood meets every other one in the second kind.
    """
    groups = -(-world // size)
    near = rank // size
    return [
        (f"near{near}", list(range(near * size, min(world, (near + 1) * size)))),
        (f"far{rank % groups}", list(range(rank % groups, world, groups))),
    ]


def pair_rounds(count: int) -> Iterator[List[Tuple[int, int]]]:
    """Every pair exactly once in the fewest rounds, each member at most once a round (circle method).

    Yields round by round: all pairs of 16,384 members would not fit in memory.
    """
    seats = count + count % 2  # an odd count gets an empty seat; its partner rests
    for turn in range(seats - 1):
        pairs = []
        for place in range(seats // 2):
            a = seats - 1 if place == 0 else (turn + place) % (seats - 1)
            b = turn if place == 0 else (turn - place) % (seats - 1)
            if a < count and b < count:
                pairs.append((min(a, b), max(a, b)))
        yield sorted(pairs)


def ring_neighbours(members: Sequence[int], rank: int) -> Tuple[int, int]:
    """(receives from, sends to) in a ring of these members."""
    place = list(members).index(rank)
    return members[place - 1], members[(place + 1) % len(members)]
