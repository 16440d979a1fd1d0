"""The collectives that the benchmark knows: what S means, the bus factor, and what each needs in memory.

Pure arithmetic, no torch. n is the number of ranks of the group, S the bytes that the rate counts:
algbw = S / t and busbw = algbw x factor(n), where t is the time of the slowest rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

BUFFER_TEXT = "count x size, the buffer of one rank"
MOST_SIZES = 10_000
WHOLE_TEXT = "share x ranks x size, the whole buffer"


@dataclass(frozen=True)
class CollectiveKind:
    """One collective.

    `reduces`: takes a reduce op; `waits`: no rank can leave before all have come; `even`: every rank has the same
    to do, so that one with a longer time than the others stands apart.
    """

    name: str
    size_text: str
    factor: str  # double, share, one or none: see bus_factor
    places: Tuple[str, ...] = ("out",)
    reduces: bool = False
    waits: bool = False
    splits: bool = False  # the buffer is cut into one share per rank
    capturable: bool = True
    even: bool = True
    remark: str = ""


COLLECTIVES: Dict[str, CollectiveKind] = {kind.name: kind for kind in (
    CollectiveKind("all_reduce", BUFFER_TEXT, "double", ("in",), reduces=True, waits=True),
    CollectiveKind("all_gather", WHOLE_TEXT, "share", ("out", "in"), waits=True, splits=True),
    CollectiveKind("all_gather_uneven", "sum of the ranks' unequal shares", "share", waits=True, splits=True, even=False,
                   remark="one broadcast per rank: inside NCCL's backend, and here on gloo, which takes equal shares only"),
    CollectiveKind("reduce_scatter", WHOLE_TEXT, "share", ("out", "in"), reduces=True, waits=True, splits=True),
    CollectiveKind("all_to_all", WHOLE_TEXT, "share", waits=True, splits=True),
    CollectiveKind("all_to_all_uneven", "most that any rank sends", "share", waits=True, splits=True, even=False),
    CollectiveKind("broadcast", BUFFER_TEXT, "one", ("in",), even=False),
    CollectiveKind("reduce", BUFFER_TEXT, "one", ("in",), reduces=True, even=False),
    CollectiveKind("gather", WHOLE_TEXT, "share", splits=True, even=False),
    CollectiveKind("scatter", WHOLE_TEXT, "share", splits=True, even=False),
    CollectiveKind("send_recv", "count x size, sent to the right neighbour", "one"),
    CollectiveKind("pair", "count x size, exchanged both ways by ranks 0-1, 2-3, ...", "one", even=False),
    CollectiveKind("p2p_batch", "2 x count x size, to both neighbours in one batch", "one"),
    CollectiveKind("barrier", "no data: time only", "none", ("none",), waits=True, capturable=False),
    CollectiveKind("all_gather_object", "pickled bytes x ranks", "none", waits=True, capturable=False,
                   remark="pickles on the CPU and sends sizes first: it shows what the call costs, not the link"),
)}


def bus_factor(op: str, n: int) -> Optional[float]:
    """What the busiest link of a flat ring carries, per byte of S. None: time only; so is one rank, which has no link."""
    kind = COLLECTIVES[op].factor
    if kind == "none" or n < 2:
        return None
    return {"double": 2.0 * (n - 1) / n, "share": (n - 1) / n, "one": 1.0}[kind]


def rates_of(op: str, n: int, size: int, seconds: float) -> Tuple[Optional[float], Optional[float]]:
    """(algbw, busbw) in bytes/s; None where nothing travels that a rate could be of."""
    factor = bus_factor(op, n)
    if factor is None or seconds <= 0 or size <= 0:
        return None, None
    return size / seconds, size / seconds * factor


def uneven_share(count: int, rank: int) -> int:
    """Elements of a rank's unequal share around `count`; three sizes in turn."""
    return max(1, count + (rank % 3 - 1) * (count // 2))


def uneven_split(count: int, source: int, target: int) -> int:
    """Elements that source sends to target in the uneven all-to-all. Never below one."""
    return max(1, count + ((source + 2 * target) % 3 - 1) * (count // 2))


@dataclass(frozen=True)
class Extent:
    """How large one row is: `count` elements (a share where the op splits), S, and this row's memory."""

    count: int
    size: int  # S in bytes
    memory: int  # bytes that the rank with the most needs


def extent_of(op: str, wanted: int, element: int, n: int, reduces_in_place: bool = False) -> Extent:
    """The nearest that can be done to `wanted` bytes: sizes need not divide; S says what was done."""
    kind = COLLECTIVES[op]
    if op == "barrier":
        return Extent(0, 0, 0)
    if not kind.splits:
        parts = 2 if op == "p2p_batch" else 1
        count = max(1, wanted // element // parts)
        copies = {"send_recv": 2, "pair": 2, "p2p_batch": 3}.get(op, 2 if reduces_in_place or kind.reduces else 1)
        if op == "all_gather_object":
            return Extent(max(1, wanted // n), max(1, wanted // n) * n, 4 * wanted + 4096)
        return Extent(count, parts * count * element, copies * count * element)
    count = max(1, wanted // element // n)
    if op == "all_gather_uneven":
        whole = sum(uneven_share(count, rank) for rank in range(n))
        return Extent(count, whole * element, (whole + 2 * count) * element)
    if op == "all_to_all_uneven":
        most = most_sent(count, n)
        return Extent(count, most * element, 2 * (most + 2 * count * n) * element)
    whole = count * n
    both = {"all_to_all": 2 * whole, "reduce_scatter": 2 * whole + count}
    return Extent(count, whole * element, both.get(op, whole + count) * element)


def most_sent(count: int, n: int) -> int:
    """Elements sent by the rank that sends most; the pattern repeats after three ranks."""
    return max(sum(uneven_split(count, source, target) for target in range(n)) for source in range(min(3, n)))


def sweep_sizes(smallest: int, largest: int, factor: float, step: Optional[int]) -> List[int]:
    """smallest, x factor (or + step), up to largest."""
    if smallest < 1 or largest < smallest:
        raise ValueError(f"sizes from {smallest} to {largest} are no range")
    if step is None and factor <= 1:
        raise ValueError(f"factor {factor:g} does not grow")
    if step is not None and (step < 1 or (largest - smallest) // step > MOST_SIZES):
        raise ValueError(f"a step of {step} bytes makes more than {MOST_SIZES:,} sizes")
    if step is None and math.log(largest / smallest) / math.log(factor) > MOST_SIZES:
        raise ValueError(f"a factor of {factor:g} makes more than {MOST_SIZES:,} sizes")
    sizes, size = [], float(smallest)
    while size <= largest:
        sizes.append(int(size))
        size = size + step if step else size * factor
    return list(dict.fromkeys(sizes))
