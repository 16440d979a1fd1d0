"""Every collective once, with data whose result is known, and a comparison of every value.

Rank r holds (3r + i) mod 7 at place i: small integers, so sums are exact in float32 for any world, and
each rank's share differs. Outputs are filled with a poison first, so that work that was not done shows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from clusterprobe.backend import gather_into, scatter_reduced
from clusterprobe.device import Device, wait_for_device

CYCLE = 7
RANK_STRIDE = 3
POISON = -77.0
COLLECTIVE_NAMES = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
)
UNSUPPORTED_WORDS = ("not support", "not implemented", "unsupported", "does not support")


@dataclass(frozen=True)
class Checked:
    """One collective at one size on this rank. `unsupported` holds the backend's reason."""

    op: str
    count: int
    seconds: float
    wrong: int
    first: str = ""
    unsupported: str = ""


def expected_sums(world: int) -> List[float]:
    """Sum over all ranks at the places 0 … 6; place i has the value of i mod 7."""
    return [
        float(sum((RANK_STRIDE * rank + place) % CYCLE for rank in range(world)))
        for place in range(CYCLE)
    ]


class CheckedCollectives:
    """The operations for one rank. Each returns (output, expected); `run` times and compares."""

    def __init__(self, torch: Any, device: Device, rank: int, world: int) -> None:
        import torch.distributed as dist

        self._torch, self._dist, self._device = torch, dist, device
        self._rank, self._world = rank, world
        self._sums = torch.tensor(expected_sums(world), device=device.label)
        self.operations: Dict[str, Callable[[int], Tuple[Any, Any]]] = {
            name: getattr(self, "_" + name) for name in COLLECTIVE_NAMES
        }

    def run(self, op: str, total: int) -> Checked:
        """`total` values over all ranks where the operation splits them, else per rank."""
        start = time.perf_counter()
        try:
            output, expected = self.operations[op](total)
            wait_for_device(self._device.kind)
        except (RuntimeError, NotImplementedError) as error:
            text = str(error).strip().splitlines()[0]
            if not any(word in text.lower() for word in UNSUPPORTED_WORDS):
                raise
            return Checked(op, total, 0.0, 0, unsupported=text)
        seconds = time.perf_counter() - start
        if output is None:
            return Checked(op, total, seconds, 0)
        return Checked(op, total, seconds, *self._compare(output, expected))

    def _compare(self, output: Any, expected: Any) -> Tuple[int, str]:
        differs = ~(output == expected)  # NaN differs from everything
        wrong = int(differs.sum().item())
        if not wrong:
            return 0, ""
        place = int(differs.to(self._torch.int8).argmax().item())
        return wrong, (
            f"{wrong:,} of {output.numel():,} values are wrong, the first at {place:,}: "
            f"{output[place].item():g} instead of {expected[place].item():g}"
        )

    def _data(self, rank: int, count: int, first: int = 0) -> Any:
        places = self._torch.arange(first, first + count, device=self._device.label)
        return ((places + RANK_STRIDE * rank) % CYCLE).to(self._torch.float32)

    def _sum(self, count: int, first: int = 0) -> Any:
        places = self._torch.arange(first, first + count, device=self._device.label) % CYCLE
        return self._sums[places]

    def _empty(self, count: int) -> Any:
        return self._torch.full((count,), POISON, device=self._device.label)

    def _share(self, total: int) -> int:
        return max(1, total // self._world)

    def _all_reduce(self, total: int) -> Tuple[Any, Any]:
        values = self._data(self._rank, total)
        self._dist.all_reduce(values)
        return values, self._sum(total)

    def _broadcast(self, total: int) -> Tuple[Any, Any]:
        root = self._world - 1
        values = self._data(root, total) if self._rank == root else self._empty(total)
        self._dist.broadcast(values, src=root)
        return values, self._data(root, total)

    def _reduce(self, total: int) -> Tuple[Any, Any]:
        values = self._data(self._rank, total)
        self._dist.reduce(values, dst=0)
        return (values, self._sum(total)) if self._rank == 0 else (None, None)

    def _all_gather(self, total: int) -> Tuple[Any, Any]:
        share = self._share(total)
        output = self._empty(share * self._world)
        gather_into(output, self._data(self._rank, share))
        places = self._torch.arange(share, device=self._device.label)
        ranks = self._torch.arange(self._world, device=self._device.label)
        expected = ((places[None, :] + RANK_STRIDE * ranks[:, None]) % CYCLE).to(
            self._torch.float32
        )
        return output, expected.flatten()

    def _reduce_scatter(self, total: int) -> Tuple[Any, Any]:
        share = self._share(total)
        output = self._empty(share)
        scatter_reduced(output, self._data(self._rank, share * self._world))
        return output, self._sum(share, first=share * self._rank)

    def _all_to_all(self, total: int) -> Tuple[Any, Any]:
        share = self._share(total)
        output = self._empty(share * self._world)
        self._dist.all_to_all_single(output, self._data(self._rank, share * self._world))
        mine = self._torch.arange(share, device=self._device.label) + share * self._rank
        ranks = self._torch.arange(self._world, device=self._device.label)
        expected = ((mine[None, :] + RANK_STRIDE * ranks[:, None]) % CYCLE).to(self._torch.float32)
        return output, expected.flatten()

    def _gather(self, total: int) -> Tuple[Any, Any]:
        share = self._share(total)
        values = self._data(self._rank, share)
        if self._rank:
            self._dist.gather(values, dst=0)
            return None, None
        parts = [self._empty(share) for _ in range(self._world)]
        self._dist.gather(values, parts, dst=0)
        return self._torch.cat(parts), self._torch.cat(
            [self._data(r, share) for r in range(self._world)]
        )

    def _scatter(self, total: int) -> Tuple[Any, Any]:
        share = self._share(total)
        output = self._empty(share)
        parts: Optional[List[Any]] = None
        if self._rank == 0:
            parts = [self._data(rank, share) for rank in range(self._world)]
        self._dist.scatter(output, parts, src=0)
        return output, self._data(self._rank, share)

    def _barrier(self, total: int) -> Tuple[Any, Any]:
        if self._device.index is not None:
            self._dist.barrier(
                device_ids=[self._device.index]
            )  # or NCCL guesses the device from the rank
        else:
            self._dist.barrier()
        return None, None
