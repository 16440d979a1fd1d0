"""One row's collective on one rank: its buffers, the call, and what must come out.

`launch` starts the call and returns the works to wait for; on a CPU they run in the background, on an
accelerator the call only queues. `wait_all` ends it. Ranks are seats in the group, 0 to n - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence

from clusterprobe.backend import gather_into, scatter_reduced
from clusterprobe.collective_buffers import CheckedBuffers, Region
from clusterprobe.collective_table import COLLECTIVES, Extent, uneven_share, uneven_split
from clusterprobe.collective_values import PREMUL_FACTOR, ReduceRule
from clusterprobe.device import wait_for_device

REDOP_NAMES = {"sum": "SUM", "avg": "AVG", "min": "MIN", "max": "MAX", "prod": "PRODUCT", "band": "BAND",
               "bor": "BOR", "bxor": "BXOR"}


POINT_TO_POINT = ("send_recv", "pair", "p2p_batch")


@dataclass(frozen=True)
class CaseSpec:
    """What a row measures, apart from its size."""

    op: str
    dtype: str
    redop: str = ""
    place: str = "out"
    mode: str = "block"
    offset: int = 0


@dataclass(frozen=True)
class GroupSeat:
    """This rank's group: all members by world rank, its own seat, torch's group (None is the world)."""

    members: Sequence[int]
    seat: int
    group: Any = None

    @property
    def n(self) -> int:
        return len(self.members)


class CollectiveCase:
    """Buffers and call of one row. Raises what torch raises when the backend can't do it."""

    def __init__(self, torch: Any, spec: CaseSpec, extent: Extent, seat: GroupSeat, device: str,
                 pool: Any = None) -> None:
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        self.spec, self.extent, self.seat = spec, extent, seat
        self.on_cpu = device == "cpu"
        self.device = device
        self.rule = ReduceRule(spec.redop, spec.dtype, seat.n) if COLLECTIVES[spec.op].reduces else None
        self.buffers = CheckedBuffers(torch, spec.dtype, device, self.rule, pool)
        # NCCL reads the factor in the tensor's own type: a Python number is right for some types only.
        self._factor = torch.full((1,), PREMUL_FACTOR, device=device).to(self.buffers.dtype)
        self.redop = reduce_operation(dist, spec.redop, self._factor) if self.rule else None
        self._pristine: Optional[Any] = None
        self._call: Callable[[], List[Any]] = getattr(self, "_" + spec.op)()
        self.mutates = self.rule is not None and spec.place == "in"

    @property
    def checkable(self) -> bool:
        """Whether this rank has values to compare: a root that only sends has none, and counts no check."""
        has_values = bool(self.buffers.targets) or self.spec.op == "all_gather_object"
        return has_values and (self.rule is None or self.rule.checkable)

    def probe(self) -> None:
        """A type that the backend refuses inside a batch of sends leaves the batch open for good: ask before.

        A broadcast of one value is refused for the same types, and leaves nothing behind.
        """
        if self.on_cpu or self.seat.n < 2 or self.spec.op not in POINT_TO_POINT:
            return
        self.dist.broadcast(self.buffers.empty(1), src=self.seat.members[0], group=self.seat.group)

    def launch(self) -> List[Any]:
        return self._call()

    def wait_all(self, works: Sequence[Any]) -> None:
        for work in works:
            if work is not None:
                work.wait()
        wait_for_device(self.device.split(":")[0])

    def prepare(self) -> None:
        """Poisoned outputs, own data in the inputs: before a checked call."""
        self.buffers.poison()
        self.restore()

    def restore(self) -> None:
        """The inputs as they were; in place every call changes them."""
        if self.spec.place != "in" or self.rule is None:
            self.buffers.fill()
            return
        whole = self.buffers.sources[0].tensor
        if self._pristine is None:
            self.buffers.fill()
            self._pristine = whole.clone()
        whole.copy_(self._pristine)

    def _own(self, tensor: Any, pattern: str, rank: Optional[int] = None, first: int = 0) -> Any:
        self.buffers.sources.append(Region(tensor, pattern, self.seat.seat if rank is None else rank, first))
        return tensor

    def _due(self, tensor: Any, pattern: str, rank: int = 0, first: int = 0, share: int = 0) -> Any:
        self.buffers.targets.append(Region(tensor, pattern, rank, first, share))
        return tensor

    def _empty(self, count: int) -> Any:
        return self.buffers.empty(count, self.spec.offset)

    def _works(self, work: Any) -> List[Any]:
        return [work] if work is not None else []

    def _all_reduce(self) -> Callable[[], List[Any]]:
        values = self._due(self._own(self._empty(self.extent.count), "term"), "result")
        return lambda: self._works(self.dist.all_reduce(values, op=self.redop, group=self.seat.group, async_op=self.on_cpu))

    def _reduce(self) -> Callable[[], List[Any]]:
        values = self._own(self._empty(self.extent.count), "term")
        if self.seat.seat == 0:
            self._due(values, "result")
        root = self.seat.members[0]
        return lambda: self._works(self.dist.reduce(values, dst=root, op=self.redop, group=self.seat.group,
                                                    async_op=self.on_cpu))

    def _broadcast(self) -> Callable[[], List[Any]]:
        values = self._empty(self.extent.count)
        if self.seat.seat == 0:
            self._own(values, "moved", 0)
        else:
            self._due(values, "moved", 0)
        root = self.seat.members[0]
        return lambda: self._works(self.dist.broadcast(values, src=root, group=self.seat.group, async_op=self.on_cpu))

    def _all_gather(self) -> Callable[[], List[Any]]:
        share, n, seat = self.extent.count, self.seat.n, self.seat.seat
        output = self._due(self._empty(share * n), "moved", share=share)
        part = output[seat * share:(seat + 1) * share] if self.spec.place == "in" else self._empty(share)
        self._own(part, "moved")
        return lambda: self._works(gather_into(output, part, self.seat.group, self.on_cpu))

    def _all_gather_uneven(self) -> Callable[[], List[Any]]:
        shares = [uneven_share(self.extent.count, rank) for rank in range(self.seat.n)]
        if self.dist.get_backend(self.seat.group) == "gloo":
            return self._uneven_by_broadcasts(shares)
        parts = [self._due(self._empty(share), "moved", rank) for rank, share in enumerate(shares)]
        own = self._own(self._empty(shares[self.seat.seat]), "moved")
        return lambda: self._works(self.dist.all_gather(parts, own, group=self.seat.group, async_op=self.on_cpu))

    def _uneven_by_broadcasts(self, shares: Sequence[int]) -> Callable[[], List[Any]]:
        """gloo takes equal shares only; one broadcast a rank is what NCCL's backend does inside."""
        parts, members, group = [self._empty(share) for share in shares], self.seat.members, self.seat.group
        for rank, part in enumerate(parts):
            (self._own if rank == self.seat.seat else self._due)(part, "moved", rank)
        return lambda: [self.dist.broadcast(part, src=members[rank], group=group, async_op=self.on_cpu)
                        for rank, part in enumerate(parts)]

    def _reduce_scatter(self) -> Callable[[], List[Any]]:
        share, seat = self.extent.count, self.seat.seat
        whole = self._own(self._empty(share * self.seat.n), "term")
        output = whole[seat * share:(seat + 1) * share] if self.spec.place == "in" else self._empty(share)
        self._due(output, "result", first=seat * share)
        return lambda: self._works(scatter_reduced(output, whole, self.redop, self.seat.group, self.on_cpu))

    def _all_to_all(self) -> Callable[[], List[Any]]:
        share, n, seat = self.extent.count, self.seat.n, self.seat.seat
        whole = self._own(self._empty(share * n), "moved")
        output = self._due(self._empty(share * n), "moved", first=seat * share, share=share)
        return lambda: self._works(self.dist.all_to_all_single(output, whole, group=self.seat.group, async_op=self.on_cpu))

    def _all_to_all_uneven(self) -> Callable[[], List[Any]]:
        count, n, seat = self.extent.count, self.seat.n, self.seat.seat
        sent = [uneven_split(count, seat, rank) for rank in range(n)]
        received = [uneven_split(count, rank, seat) for rank in range(n)]
        whole, output = self._empty(sum(sent)), self._empty(sum(received))
        out_at = in_at = 0
        for rank in range(n):  # the pattern of a message starts at its target's number x 2 count
            self._own(whole[out_at:out_at + sent[rank]], "moved", seat, rank * 2 * count)
            self._due(output[in_at:in_at + received[rank]], "moved", rank, seat * 2 * count)
            out_at, in_at = out_at + sent[rank], in_at + received[rank]
        return lambda: self._works(self.dist.all_to_all_single(
            output, whole, output_split_sizes=received, input_split_sizes=sent, group=self.seat.group,
            async_op=self.on_cpu))

    def _gather(self) -> Callable[[], List[Any]]:
        share, root = self.extent.count, self.seat.members[0]
        own, parts = self._own(self._empty(share), "moved"), None
        if self.seat.seat == 0:
            parts = list(self._due(self._empty(share * self.seat.n), "moved", share=share).chunk(self.seat.n))
        return lambda: self._works(self.dist.gather(own, parts, dst=root, group=self.seat.group, async_op=self.on_cpu))

    def _scatter(self) -> Callable[[], List[Any]]:
        share, root, seat = self.extent.count, self.seat.members[0], self.seat.seat
        output, parts = self._due(self._empty(share), "moved", 0, seat * share), None
        if seat == 0:
            parts = list(self._own(self._empty(share * self.seat.n), "moved", 0).chunk(self.seat.n))
        return lambda: self._works(self.dist.scatter(output, parts, src=root, group=self.seat.group, async_op=self.on_cpu))

    def _exchange(self, sends: Sequence[Any], receives: Sequence[Any]) -> Callable[[], List[Any]]:
        dist, members, group = self.dist, self.seat.members, self.seat.group
        batch = [dist.P2POp(dist.isend, tensor, members[seat], group) for tensor, seat in sends]
        batch += [dist.P2POp(dist.irecv, tensor, members[seat], group) for tensor, seat in receives]
        return (lambda: list(dist.batch_isend_irecv(batch))) if batch else (lambda: [])

    def _send_recv(self) -> Callable[[], List[Any]]:
        n, seat = self.seat.n, self.seat.seat
        if n < 2:
            return lambda: []
        left = (seat - 1) % n
        own = self._own(self._empty(self.extent.count), "moved")
        got = self._due(self._empty(self.extent.count), "moved", left)
        return self._exchange([(own, (seat + 1) % n)], [(got, left)])

    def _pair(self) -> Callable[[], List[Any]]:
        partner = self.seat.seat ^ 1
        if partner >= self.seat.n:
            return lambda: []  # an odd world leaves its last rank without a partner
        own = self._own(self._empty(self.extent.count), "moved")
        got = self._due(self._empty(self.extent.count), "moved", partner)
        return self._exchange([(own, partner)], [(got, partner)])

    def _p2p_batch(self) -> Callable[[], List[Any]]:
        n, seat, count = self.seat.n, self.seat.seat, self.extent.count
        if n < 2:
            return lambda: []
        left, right = (seat - 1) % n, (seat + 1) % n
        own = self._own(self._empty(count), "moved")
        from_left, from_right = (self._due(self._empty(count), "moved", rank) for rank in (left, right))
        return self._exchange([(own, right), (own, left)], [(from_left, left), (from_right, right)])

    def _barrier(self) -> Callable[[], List[Any]]:
        index = self.device.partition(":")[2]
        if index:
            return lambda: self._works(self.dist.barrier(group=self.seat.group, device_ids=[int(index)]))
        return lambda: self._works(self.dist.barrier(group=self.seat.group, async_op=True))

    def _all_gather_object(self) -> Callable[[], List[Any]]:
        own = bytes([self.seat.seat % 251]) * self.extent.count
        self.objects: List[Any] = [None] * self.seat.n

        def call() -> List[Any]:
            self.dist.all_gather_object(self.objects, own, group=self.seat.group)
            return []
        return call

    def wrong(self) -> Any:
        """(wrong values, a sentence about the first)."""
        if self.spec.op != "all_gather_object":
            return self.buffers.wrong()
        bad = [rank for rank, got in enumerate(self.objects) if got != bytes([rank % 251]) * self.extent.count]
        self.objects[:] = [None] * self.seat.n
        return len(bad), f"the objects of ranks {bad[:8]} differ" if bad else ""


def reduce_operation(dist: Any, name: str, factor: Any) -> Any:
    """torch's operation of this name."""
    if name == "premul_sum":
        return dist._make_nccl_premul_sum(factor)
    return getattr(dist.ReduceOp, REDOP_NAMES[name])

