"""What the ranks tell each other between rows: whole numbers over the measured backend.

Times travel as nanoseconds in int64. Per iteration only a reduction travels and per rank a few numbers, so
the traffic of a row does not grow with ranks x iterations. Decisions are rank 0's.
"""

from __future__ import annotations

from typing import Any, List, Sequence

from clusterprobe.backend import gather_into
from clusterprobe.device import Device, wait_for_device


class BenchExchange:
    """Blocking exchanges; every rank of the world (or group) must take part."""

    def __init__(self, torch: Any, device: Device, world: int) -> None:
        import torch.distributed as dist
        self._torch, self._dist = torch, dist
        self._device, self._world = device, world
        self._flag = torch.zeros(1, dtype=torch.int64, device=device.label)

    @property
    def on_cpu(self) -> bool:
        return self._device.kind == "cpu"

    def _tensor(self, numbers: Sequence[int]) -> Any:
        return self._torch.tensor(list(numbers), dtype=self._torch.int64, device=self._device.label)

    def highest(self, numbers: Sequence[int], group: Any = None) -> List[int]:
        """Element by element the maximum over the ranks of the group."""
        values = self._tensor(numbers)
        self._dist.all_reduce(values, op=self._dist.ReduceOp.MAX, group=group)
        self._wait()
        return values.tolist()

    def table(self, numbers: Sequence[int]) -> Any:
        """Every rank's numbers: a CPU tensor of world x len(numbers)."""
        own = self._tensor(numbers)
        everyone = self._torch.empty(self._world * len(numbers), dtype=self._torch.int64, device=self._device.label)
        gather_into(everyone, own)
        self._wait()
        return everyone.cpu().view(self._world, len(numbers))

    def decide(self, number: int) -> int:
        """Rank 0's number on every rank."""
        value = self._tensor([number])
        self._dist.broadcast(value, src=0)
        self._wait()
        return int(value.item())

    def align(self) -> None:
        """All ranks come, then all go on; the device is idle afterwards."""
        if self._device.kind != "cpu" and self._device.index is not None:
            self._dist.barrier(device_ids=[self._device.index])
        else:
            self._dist.barrier()
        self._wait()

    def _wait(self) -> None:
        """Before a device's numbers are read: only by this wait is a stack known for one that waits for others."""
        wait_for_device(self._device.kind)
