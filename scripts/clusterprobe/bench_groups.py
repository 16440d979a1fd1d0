"""Partitions of the world: the groups that measure at the same time, and torch's groups for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Sequence

from clusterprobe.collective_cases import GroupSeat
from clusterprobe.exits import CANNOT_RUN, USAGE, ProbeFailure
from clusterprobe.topology import node_groups, rail_groups, stride_groups
from clusterprobe.units import rank_ranges

GROUP_KINDS = ("world", "node", "rail", "stride:K", "pairs")


@dataclass(frozen=True)
class Partition:
    """Groups by kind; ranks of no group only keep step."""

    name: str
    groups: List[List[int]]

    @property
    def measured(self) -> List[List[int]]:
        """Groups of two and more; in a world of one that one, whose calls are only checked."""
        if len(self.groups) == 1 and len(self.groups[0]) == 1:
            return self.groups
        return [group for group in self.groups if len(group) > 1]

    @property
    def idle(self) -> int:
        """Ranks that belong to no measured group."""
        return sum(len(group) for group in self.groups) - sum(len(group) for group in self.measured)


def check_group_name(text: str) -> str:
    """The name as used inside; ValueError says what is allowed."""
    name = text.strip().lower()
    kind, _, number = name.partition(":")
    plain = [one for one in GROUP_KINDS if ":" not in one]
    if name in plain or (kind == "stride" and number.isascii() and number.isdigit() and int(number) > 0):
        return name
    raise ValueError(f"{text!r} is no group; known are {', '.join(GROUP_KINDS)}")


def partition_of(name: str, places: Sequence[int]) -> Partition:
    """`places[rank]` is the number of the rank's node."""
    keys = [str(place) for place in places]
    if name == "world":
        return Partition(name, [list(range(len(places)))])
    if name == "node":
        return Partition(name, node_groups(keys))
    if name == "rail":
        return Partition(name, rail_groups(keys))
    stride = int(name.partition(":")[2])
    if stride > len(places):
        raise ProbeFailure(USAGE, f"--group {name}: the world has only {len(places)} ranks", named=True)
    return Partition(name, stride_groups(len(places), stride))


def members_text(members: Sequence[int]) -> str:
    """`ranks 0-7`, `ranks 0,8,16`, and for many that are apart `ranks 0-16376 step 8`."""
    if len(members) > 8 and members[-1] - members[0] >= len(members):
        step = members[1] - members[0]
        if all(b - a == step for a, b in zip(members, members[1:])):
            return f"ranks {members[0]}-{members[-1]} step {step}"
    pieces = rank_ranges(members).split(",")
    return f"ranks {','.join(pieces) if len(pieces) <= 8 else ','.join(pieces[:8]) + f' and more, {len(members):,} in all'}"


def open_partition(partition: Partition, rank: int) -> GroupSeat:
    """This rank's seat. Only members create their group, so the cost does not grow with the groups.

    A rank alone creates one too: torch names such a group after its ranks and the number of groups before,
    which must be equal on all ranks.
    """
    import torch.distributed as dist

    mine = next((group for group in partition.groups if rank in group), [rank])
    if partition.name == "world":
        return GroupSeat(mine, mine.index(rank), None)
    try:
        group: Any = dist.new_group(mine, use_local_synchronization=True)
    except TypeError:
        raise ProbeFailure(CANNOT_RUN, "this torch can't open a group among its members only",
                           "use torch 2.1 or later") from None
    return GroupSeat(mine, mine.index(rank), group)
