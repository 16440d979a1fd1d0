"""Data whose result is known exactly: f(rank, index) for every reduce op, every type and any world.

The formulas take Python integers and integer tensors alike. Narrow types can hold few integers exactly
(bfloat16 up to 256, float8 up to 8 or 16), so for large worlds only a few ranks, other ones at every
index, contribute a non-neutral value: the partial sums stay exact in whatever order they are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

SUM_CYCLE = 7
RANK_STEP = 3
# name → (family, largest integer up to which all are exact, unit roundoff)
TYPE_TRAITS: Dict[str, Any] = {
    "float64": ("float", 1 << 53, 2.0 ** -53), "float32": ("float", 1 << 24, 2.0 ** -24),
    "float16": ("float", 1 << 11, 2.0 ** -11), "bfloat16": ("float", 1 << 8, 2.0 ** -8),
    "float8_e4m3fn": ("float", 16, 2.0 ** -4), "float8_e4m3fnuz": ("float", 16, 2.0 ** -4),
    "float8_e5m2": ("float", 8, 2.0 ** -3), "float8_e5m2fnuz": ("float", 8, 2.0 ** -3),
    "complex128": ("complex", 1 << 53, 2.0 ** -53), "complex64": ("complex", 1 << 24, 2.0 ** -24),
    "int64": ("int", 1 << 40, 0.0), "int32": ("int", 1 << 30, 0.0), "int16": ("int", 1 << 14, 0.0),
    "int8": ("int", 100, 0.0), "uint8": ("int", 200, 0.0), "uint16": ("int", 1 << 15, 0.0),
    "uint32": ("int", 1 << 31, 0.0), "uint64": ("int", 1 << 40, 0.0), "bool": ("bool", 1, 0.0),
}
TYPE_ALIASES = {"fp64": "float64", "double": "float64", "fp32": "float32", "float": "float32",
                "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn",
                "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
                "long": "int64", "int": "int32"}
REDUCE_OPS = ("sum", "avg", "min", "max", "prod", "band", "bor", "bxor", "premul_sum")
PREMUL_FACTOR = 2
MOVE_PRIMES = ((65536, 65521), (2048, 2039), (251, 251), (100, 97), (16, 13), (8, 7), (1, 2))


def type_name(text: str) -> Optional[str]:
    """The torch name of a type, None when unknown here."""
    name = TYPE_ALIASES.get(text.strip().lower(), text.strip().lower())
    return name if name in TYPE_TRAITS else None


def moved_value(dtype: str, rank: Any, index: Any) -> Any:
    """What rank sends at index in collectives that only move data."""
    limit = TYPE_TRAITS[dtype][1]
    prime = next(prime for least, prime in MOVE_PRIMES if limit >= least)
    return (rank * RANK_STEP + index) % prime


@dataclass(frozen=True)
class ReduceRule:
    """Terms and the result of one reduce op in one type over n ranks."""

    redop: str
    dtype: str
    n: int

    @property
    def family(self) -> str:
        return TYPE_TRAITS[self.dtype][0]

    @property
    def limit(self) -> int:
        whole = TYPE_TRAITS[self.dtype][1]
        return whole // PREMUL_FACTOR if self.redop == "premul_sum" else whole

    @property
    def full(self) -> bool:
        """All ranks contribute at every index."""
        return self.redop in ("sum", "premul_sum") and (SUM_CYCLE - 1) * self.n <= self.limit

    @property
    def active(self) -> int:
        """How many ranks contribute at an index in sparse sums; each adds at most 3."""
        return max(1, min(self.n, self.limit // 3, 4 if self.redop == "avg" else 64))

    @property
    def checkable(self) -> bool:
        """An integer average needs the whole sum inside the type."""
        return not (self.redop == "avg" and self.family != "float" and 8 * self.n > self.limit)

    @property
    def tolerance(self) -> float:
        """Relative; zero for all but the average of floats, whose 1/n is rounded."""
        if self.redop != "avg" or self.family == "int":
            return 0.0
        return 2.0 * (self.active + 2) * TYPE_TRAITS[self.dtype][2]

    def term(self, rank: Any, index: Any) -> Any:
        """What `rank` contributes at `index`."""
        turn = (rank - index) % self.n  # 0 for the rank whose turn it is at this index
        if self.family == "bool":
            return self._bool_term(turn, index)
        if self.redop in ("sum", "premul_sum"):
            if self.full:
                return (rank * RANK_STEP + index) % SUM_CYCLE
            return (turn < self.active) * (index % 3 + 1)
        if self.redop == "avg":
            if self.family == "int":
                return index % 5 + 1 + (turn == 0) * 1 * (self.n > 1) - (turn == 1) * 1
            return (turn < self.active) * (index % 3 + 1)
        if self.redop == "prod":
            return 1 + (turn < index % 4) * 1
        if self.redop == "max":
            return (turn == 0) * (index % 5 + 1)
        if self.redop == "min":
            return 6 - (turn == 0) * (6 - index % 5)
        return self._bit_term(turn, index)

    def _bit_term(self, turn: Any, index: Any) -> Any:
        if self.redop == "band":
            return 7 - (turn == 0) * (7 - index % 5)
        extra = (turn == 1) * 2 if self.redop == "bxor" else 0
        return (turn == 0) * (index % 5 + 1) + extra

    def _bool_term(self, turn: Any, index: Any) -> Any:
        if self.redop in ("min", "prod", "band"):
            return 1 - (turn == 0) * (index % 3 == 0) * 1
        return (turn == 0) * (index % 3 != 0) * 1

    def result(self, index: Any) -> Any:
        """The exact result at `index`; for averages of floats a sum, still to be divided by n."""
        if self.family == "bool":
            return (index % 3 != 0) * 1
        if self.redop in ("sum", "premul_sum"):
            factor = PREMUL_FACTOR if self.redop == "premul_sum" else 1
            if self.full:
                cycles, rest = divmod(self.n, SUM_CYCLE)
                parts = [(rank * RANK_STEP + index) % SUM_CYCLE for rank in range(rest)]
                return factor * (cycles * sum(range(SUM_CYCLE)) + sum(parts) + index * 0)
            return factor * self.active * (index % 3 + 1)
        if self.redop == "avg":
            return index % 5 + 1 if self.family == "int" else self.active * (index % 3 + 1)
        if self.redop == "prod":
            return power_of_two(index % 4, self.n)
        if self.redop == "bxor":
            own = index % 5 + 1
            return own ^ 2 if self.n > 1 else own
        return index % 5 + (0 if self.redop in ("min", "band") else 1)

    @property
    def divisor(self) -> int:
        return self.n if self.redop == "avg" and self.family != "int" else 1


def power_of_two(exponent: Any, n: int) -> Any:
    """2 ** min(exponent, n) for exponents 0 to 3, by comparisons, so that tensors pass."""
    total: Any = 1
    for step in range(1, min(3, n) + 1):
        total = total * (1 + (exponent >= step) * 1)
    return total


def type_bytes(name: str) -> int:
    """Bytes of one value, by the type's name: a plan needs no torch, and a torch may lack the type."""
    digits = "".join(sign for sign in name.split("_")[0] if sign.isdigit())
    return max(1, int(digits or 8) // 8)


def known_types(torch: Any) -> List[str]:
    """The types of this table that this torch has."""
    return [name for name in TYPE_TRAITS if hasattr(torch, name)]
