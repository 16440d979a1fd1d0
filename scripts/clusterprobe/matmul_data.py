"""Operands, the product itself, and the proof that it was computed (torch).

Memory is taken once: one flat pool for each of A, B and C, filled in the target format in chunks; a shape
gets views of them. Consecutive repetitions use different views until at least twice the last-level cache
lies between two uses of the same bytes, so that a small product isn't timed out of the cache.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

from clusterprobe.device import Device, free_memory, load_torch
from clusterprobe.matmul_dtypes import MatmulDtype
from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.units import format_size

DATA_KINDS = ("randn", "ones", "zeros")
FILL_CHUNK = 1 << 24  # elements; a float32 copy of the pool would double the memory
VIEW_ALIGN = 256  # elements between views start on this, so that every view is as aligned as the pool
MOST_SETS = 64
CHECK_ROWS, CHECK_COLUMNS = 6, 512


class OperandsTooLarge(Exception):
    """The shape's operands don't fit; the text says what they need and what is free."""


@dataclass(frozen=True)
class ProductCheck:
    """What the check saw: elements compared, elements off, elements never written, the worst error.

    `worst` is the largest error in units of sqrt(K), the size of a typical sum.
    """

    checked: int
    wrong: int
    unwritten: int
    worst: float

    @property
    def ok(self) -> bool:
        return not self.wrong and not self.unwritten

    def sentence(self) -> str:
        if self.unwritten:
            return f"{self.unwritten:,} elements of the product were never written"
        return f"{self.wrong:,} of {self.checked:,} checked elements are wrong (worst error {self.worst:.3g} sqrt(K))"


class MatmulOperands:
    """The pools and the call. `product` can be replaced to inject faults."""

    def __init__(self, device: Device, dtype: MatmulDtype, data: str = "randn", layout: str = "tn",
                 cache_bytes: int = 0, seed: int = 0, fast_accum: bool = True,
                 product: Optional[Callable[..., None]] = None) -> None:
        self.torch = load_torch()
        self.device, self.dtype, self.data, self.layout = device, dtype, data, layout
        self.cache_bytes = cache_bytes
        self.fast_accum = fast_accum
        self.set_precision()
        self._in = getattr(self.torch, dtype.torch_name)
        self._out = getattr(self.torch, dtype.out_name)
        self._seed = seed
        self._pools: List[Any] = [None, None, None]
        self._product = product or self._choose_product()

    def set_precision(self) -> None:
        """fp32 and tf32 are the same tensors; this switch is the difference, and it is set for each."""
        self.torch.set_float32_matmul_precision("high" if self.dtype.name == "tf32" else "highest")

    def set_count(self, shape: MatmulShape) -> int:
        """Operand sets that a block rotates over."""
        touched = shape.touched_bytes(self.dtype.in_bytes, self.dtype.out_bytes)
        return min(MOST_SETS, 1 + 2 * self.cache_bytes // touched) if touched < 2 * self.cache_bytes else 1

    def reserve(self, shapes: List[MatmulShape]) -> None:
        """Make the pools large enough for all of these at once; OperandsTooLarge when they don't fit."""
        needs = [0, 0, 0]
        for shape in shapes:
            sets = self.set_count(shape)
            for place, count in enumerate(shape.elements()):
                needs[place] = max(needs[place], sets * padded_length(count))
        sizes = (self.dtype.in_bytes, self.dtype.in_bytes, self.dtype.out_bytes)
        have = [0 if pool is None else pool.numel() for pool in self._pools]
        if all(need <= owned for need, owned in zip(needs, have)):
            return
        needs = [max(need, owned) for need, owned in zip(needs, have)]
        extra = sum((need - owned) * size for need, owned, size in zip(needs, have, sizes))
        free = free_memory(self.device.kind)
        if free is not None and extra > 0.85 * free:
            raise OperandsTooLarge(f"needs {format_size(extra)}, {format_size(free)} free")
        for place, (need, owned) in enumerate(zip(needs, have)):
            if need > owned:
                self._grow(place, need)

    def _grow(self, place: int, need: int) -> None:
        self._pools[place] = None
        dtype = self._out if place == 2 else self._in
        pool = self.torch.empty(need, dtype=dtype, device=self.device.label)
        if place < 2:
            self._fill(pool, self._seed + place)
        self._pools[place] = pool

    def _fill(self, pool: Any, seed: int) -> None:
        torch = self.torch
        chance = torch.Generator(device=self.device.label if self.device.kind in ("cuda", "cpu", "xpu") else "cpu")
        chance.manual_seed(seed)
        for first in range(0, pool.numel(), FILL_CHUNK):
            part = pool[first:first + FILL_CHUNK]
            if self.data != "randn":
                part.copy_(torch.full(part.shape, float(self.data == "ones"), device=chance.device).to(part.dtype))
            elif self.dtype.path == "int":
                part.copy_(torch.randint(-127, 128, part.shape, generator=chance, device=chance.device))
            else:
                wide = torch.float64 if self.dtype.name == "fp64" else torch.float32
                part.copy_(torch.randn(part.shape, generator=chance, device=chance.device, dtype=wide).to(part.dtype))

    def sets(self, shape: MatmulShape) -> List[Tuple[Any, Any, Any]]:
        """(A, B, C) views for the rotation."""
        self.reserve([shape])
        return [self._views(shape, turn) for turn in range(self.set_count(shape))]

    def _views(self, shape: MatmulShape, turn: int) -> Tuple[Any, Any, Any]:
        flat = [pool[turn * padded_length(count):turn * padded_length(count) + count]
                for pool, count in zip(self._pools, shape.elements())]
        lead = (shape.batch,) if shape.batch > 1 else ()
        a = flat[0].view(*lead, shape.m, shape.k)
        b = (flat[1].view(*lead, shape.n, shape.k).transpose(-1, -2) if self.layout == "tn"
             else flat[1].view(*lead, shape.k, shape.n))
        return a, b, flat[2].view(*lead, shape.m, shape.n)

    def multiply(self, a: Any, b: Any, c: Any) -> None:
        """C = A B on the current device's queue."""
        self._product(a, b, c)

    def _choose_product(self) -> Callable[..., None]:
        torch = self.torch
        if self.dtype.path == "int":
            return lambda a, b, c: torch._int_mm(a, b, out=c)
        if self.dtype.path == "mm":
            return lambda a, b, c: torch.matmul(a, b, out=c)
        if len(torch.ops.aten._scaled_mm.default._schema.returns) > 1:
            raise TypeError(f"torch {torch.__version__} has another fp8 product; it takes 2.5 or later")
        one = torch.ones((), dtype=torch.float32, device=self.device.label)
        fast, out = self.fast_accum, self._out
        return lambda a, b, c: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out,
                                                use_fast_accum=fast, out=c)

    def check(self, shape: MatmulShape, chance: random.Random) -> ProductCheck:
        """Poison C, multiply, look for what was not written, compare sampled rows with a wide product."""
        torch = self.torch
        a, b, c = self.sets(shape)[0]
        poison = torch.iinfo(self._out).min if self.dtype.path == "int" else float("nan")
        c.fill_(poison)
        self.multiply(a, b, c)
        bad = c == poison if self.dtype.path == "int" else c != c
        unwritten = int(bad.sum())
        rows = sorted({0, shape.m - 1, *(chance.randrange(shape.m) for _ in range(CHECK_ROWS - 2))})
        batch = chance.randrange(shape.batch)
        if shape.batch > 1:
            a, b, c = a[batch], b[batch], c[batch]
        wide = torch.float32 if self.device.kind == "mps" else torch.float64
        few = self._pick_rows(a, rows).to(wide)
        allowance = self.dtype.allowance(shape.k, self.fast_accum)
        checked, wrong, worst = 0, 0, 0.0
        for first in range(0, shape.n, CHECK_COLUMNS):
            part = b[:, first:first + CHECK_COLUMNS]
            exact = few @ (part.to(torch.float32) if self.dtype.path == "scaled" else part).to(wide)
            error = (c[rows, first:first + CHECK_COLUMNS].to(wide) - exact).abs()
            allowed = self.dtype.rtol * exact.abs() + allowance * shape.k ** 0.5
            checked += error.numel()
            wrong += int((~(error <= allowed)).sum())  # NaN is never within bounds
            worst = max(worst, float(torch.nan_to_num(error, nan=3e38).max()) / shape.k ** 0.5)
        return ProductCheck(checked, wrong, unwritten, worst)

    def _pick_rows(self, a: Any, rows: List[int]) -> Any:
        """fp8 tensors can't be indexed everywhere; their bytes can."""
        if self.dtype.path != "scaled":
            return a[rows]
        return a.view(self.torch.uint8)[rows].view(self._in).to(self.torch.float32)

    def close(self) -> None:
        """Give the memory back, for the next format."""
        self._pools = [None, None, None]
        module = getattr(self.torch, self.device.kind, None)
        if module is not None and hasattr(module, "empty_cache"):
            module.empty_cache()


def padded_length(count: int) -> int:
    return -(-count // VIEW_ALIGN) * VIEW_ALIGN
