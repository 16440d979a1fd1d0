"""Filling, poisoning and checking of buffers, chunk by chunk on the device.

Outputs are poisoned before a checked call, so that work that was not done shows; the comparison takes
every value, and a NaN differs from everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from clusterprobe.collective_values import TYPE_TRAITS, ReduceRule, moved_value

CHUNK = 1 << 21  # elements; the integer temporaries of a chunk take some 64 MiB
SIGNED_VIEW = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


@dataclass(frozen=True)
class Region:
    """A flat tensor and what belongs in it: `moved` or `term` of a rank, or the `result`, from `first` on.

    With `share` the tensor holds one share of every rank, in order, each from `first` on: one region
    for all ranks, so that a check costs the same number of calls in any world.
    """

    tensor: Any
    pattern: str
    rank: int = 0
    first: int = 0
    share: int = 0


class CheckedBuffers:
    """The buffers of one row on one rank. `sources` are filled, `targets` are poisoned and compared."""

    def __init__(self, torch: Any, dtype: str, device: str, rule: Optional[ReduceRule], pool: Any = None) -> None:
        self._torch = torch
        self._pool = pool  # torch.cuda.MemPool, where the memory is not torch's own
        self._name = dtype
        self._device = device
        self._rule = rule
        self.dtype = getattr(torch, dtype)
        self.sources: List[Region] = []
        self.targets: List[Region] = []

    def empty(self, count: int, offset: int = 0) -> Any:
        """A flat buffer; `offset` elements in front make it misaligned on purpose."""
        if self._pool is None:
            return self._torch.zeros(count + offset, dtype=self.dtype, device=self._device)[offset:]
        with self._torch.cuda.use_mem_pool(self._pool):
            return self._torch.zeros(count + offset, dtype=self.dtype, device=self._device)[offset:]

    def _pattern(self, region: Region, start: int, count: int) -> Any:
        index, rank = self._torch.arange(start, start + count, device=self._device), region.rank
        if region.share:
            rank, index = index // region.share, index % region.share
        index = index + region.first
        if region.pattern == "moved":
            return moved_value(self._name, rank, index)
        if region.pattern == "term":
            return self._rule.term(region.rank, index)
        return self._rule.result(index)

    def _chunks(self, region: Region) -> Any:
        total = region.tensor.numel()
        for start in range(0, total, CHUNK):
            yield start, min(CHUNK, total - start)

    def fill(self) -> None:
        """The ranks' own data into the sources."""
        for region in self.sources:
            for start, count in self._chunks(region):
                region.tensor[start:start + count] = self._pattern(region, start, count).to(self.dtype)

    def clear(self) -> None:
        """Zeros, which no reduce op turns into something that overflows."""
        for region in self.sources:
            region.tensor.zero_()

    def poison(self) -> None:
        """Into the targets, a value that is never right. Call before `fill`: in place they share memory."""
        family = TYPE_TRAITS[self._name][0]
        for region in self.targets:
            if family == "bool":
                for start, count in self._chunks(region):
                    region.tensor[start:start + count] = self._pattern(region, start, count) == 0
            elif family == "int":
                region.tensor.fill_(self._torch.iinfo(self.dtype).max)
            else:
                region.tensor.copy_(self._torch.full((1,), float("nan"), device=self._device).expand(region.tensor.shape))

    def wrong(self) -> Tuple[int, str]:
        """(wrong values, a sentence about the first one)."""
        total, first = 0, ""
        for region in self.targets:
            for start, count in self._chunks(region):
                found, expected = self._comparable(region.tensor[start:start + count]), self._expected(region, start, count)
                bad = self._differs(region, found, expected)
                number = int(bad.sum().item())
                if number and not first:
                    place = int(bad.to(self._torch.uint8).argmax().item())
                    first = (f"the first at {start + place:,} of {region.tensor.numel():,}: "
                             f"{shown(found[place].item())} instead of {shown(expected[place].item())}")
                total += number
        return total, first

    def _expected(self, region: Region, start: int, count: int) -> Any:
        exact = self._pattern(region, start, count)
        if region.pattern == "result" and self._rule.divisor > 1:
            return exact.to(self._float()) / self._rule.divisor
        return self._comparable(exact.to(self.dtype))

    def _differs(self, region: Region, found: Any, expected: Any) -> Any:
        if region.pattern != "result" or not self._rule.tolerance:
            return ~(found == expected)
        wide = self._float()
        error = (found.to(wide) - expected.to(wide)).abs()
        least = self._smallest()
        return ~(error <= expected.to(wide).abs() * self._rule.tolerance + least)

    def _smallest(self) -> float:
        """The gap between the smallest numbers of the type; averages may fall below the normal range."""
        info = self._torch.finfo(self.dtype)
        return float(getattr(info, "tiny", 0.0)) * TYPE_TRAITS[self._name][2] * 2

    def _float(self) -> Any:
        """A type wide enough to compare in."""
        if TYPE_TRAITS[self._name][0] == "complex":
            return self._torch.complex128
        return self._torch.float32 if self._device.startswith("mps") else self._torch.float64

    def _comparable(self, tensor: Any) -> Any:
        """float8 and unsigned types lack comparisons; widening and reinterpreting keep every value."""
        if self._name.startswith("float8"):
            return tensor.to(self._torch.float32)
        if self._name in SIGNED_VIEW:
            return tensor.contiguous().view(getattr(self._torch, SIGNED_VIEW[self._name]))
        return tensor


def shown(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
