"""Each rank sends to its right neighbour: first around each node, then across nodes, with a check.

The receiver measures, because on a one-sided slow link both ends of the sender look slow. A link is
reported as sender → receiver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.checked_collectives import CYCLE, POISON, RANK_STRIDE
from clusterprobe.device import Device, wait_for_device
from clusterprobe.stats import median, odd_ones
from clusterprobe.topology import ring_neighbours

SLOW_LINK_SCORE = 6.0
SLOW_LINK_FLOOR = 0.15  # links within 15% of the median are never called slow
SLOW_LINK_RATIO = 2.0  # and only those below half of the median are named


@dataclass(frozen=True)
class LinkLook:
    """What this rank saw of the link from `sender`."""

    kind: str  # node or across
    sender: int
    bytes: int
    seconds: float
    wrong: int


def ring_members(places: Sequence[int], rank: int) -> Dict[str, List[int]]:
    """This rank's rings: its node's ranks, and the ranks with its place in every node."""
    nodes: Dict[int, List[int]] = {}
    for other, node in enumerate(places):
        nodes.setdefault(node, []).append(other)
    mine = nodes[places[rank]]
    seat = mine.index(rank)
    across = [ranks[seat] for ranks in nodes.values() if seat < len(ranks)]
    return {kind: ring for kind, ring in (("node", mine), ("across", across)) if len(ring) > 1}


def send_around(
    torch: Any,
    device: Device,
    kind: str,
    ring: Sequence[int],
    rank: int,
    count: int,
    repeats: int = 3,
) -> LinkLook:
    """Fastest of a few rounds; the first one also sets the connection up."""
    import torch.distributed as dist

    source, target = ring_neighbours(ring, rank)
    places = torch.arange(count, device=device.label)
    outgoing = ((places + RANK_STRIDE * rank) % CYCLE).to(torch.float32)
    expected = ((places + RANK_STRIDE * source) % CYCLE).to(torch.float32)
    best, wrong = None, 0
    for _ in range(repeats):
        incoming = torch.full((count,), POISON, device=device.label)
        wait_for_device(device.kind)
        start = time.perf_counter()
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, outgoing, target), dist.P2POp(dist.irecv, incoming, source)]
        )
        received = None
        for work in reversed(works):  # the receive first: its end is what is measured
            work.wait()
            if device.kind == "cpu" and received is None:
                received = time.perf_counter() - start
        wait_for_device(device.kind)
        seconds = received if received is not None else time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
        wrong = max(wrong, int((~(incoming == expected)).sum().item()))
    return LinkLook(kind, source, count * 4, best or 0.0, wrong)


def slow_links(looks: Dict[int, LinkLook]) -> List[Tuple[int, int, float, float]]:
    """(sender, receiver, its bytes/s, the median bytes/s) of links far below the others of their kind."""
    receivers = sorted(looks)
    rates = [looks[rank].bytes / looks[rank].seconds for rank in receivers]
    usual = median(rates) if rates else 0.0
    found = odd_ones(rates, SLOW_LINK_SCORE, SLOW_LINK_FLOOR, side="low")
    return [
        (looks[receivers[at]].sender, receivers[at], rates[at], usual)
        for at, _ in found
        if rates[at] * SLOW_LINK_RATIO < usual
    ]


def link_rate_range(looks: Dict[int, LinkLook]) -> Optional[Tuple[float, float, float]]:
    rates = [look.bytes / look.seconds for look in looks.values() if look.seconds > 0]
    return (min(rates), median(rates), max(rates)) if rates else None
