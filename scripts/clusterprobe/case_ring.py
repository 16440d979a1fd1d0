"""Several sets of buffers for one row, used in turn, so that no call finds its data in the device's cache.

A training step's gradients lie in device memory; a benchmark that sends the same small buffer again and
again measures the cache instead. Enough sets to fill twice the last-level cache are used in turn.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

from clusterprobe.collective_cases import CollectiveCase

MOST_RING_SETS = 64


def buffer_sets(wanted: Optional[int], size: int, cache: Optional[int], calls: int) -> int:
    """How many sets: as asked for, else enough for twice the cache; one where the cache is unknown.

    Never more than the calls of a sample, so that each set is used in each.
    """
    if wanted is None:
        wanted = -(-2 * cache // max(1, size)) if cache else 1
    return max(1, min(wanted, MOST_RING_SETS, calls))


class CaseRing:
    """Looks like one case; each launch takes the next set."""

    def __init__(self, make: Callable[[], CollectiveCase], count: int) -> None:
        self._cases: List[CollectiveCase] = [make() for _ in range(count)]
        self._next = 0
        self._last = 0
        first = self._cases[0]
        self.torch, self.seat, self.spec = first.torch, first.seat, first.spec
        self.mutates, self.checkable = first.mutates, first.checkable

    def __len__(self) -> int:
        return len(self._cases)

    def probe(self) -> None:
        self._cases[0].probe()

    def launch(self) -> List[Any]:
        self._last = self._next
        self._next = (self._next + 1) % len(self._cases)
        return self._cases[self._last].launch()

    def rewind(self) -> None:
        self._next = 0

    def wait_all(self, works: Sequence[Any]) -> None:
        self._cases[0].wait_all(works)

    def prepare(self) -> None:
        """The set that is launched next."""
        self._cases[self._next].prepare()

    def restore(self) -> None:
        self._cases[self._next].restore()

    def wrong(self) -> Tuple[int, str]:
        """Of the set that was launched last."""
        return self._cases[self._last].wrong()

    def prepare_all(self) -> None:
        for case in self._cases:
            case.prepare()

    def wrong_anywhere(self) -> Tuple[int, str]:
        found = [case.wrong() for case in self._cases]
        return sum(number for number, _ in found), next((text for _, text in found if text), "")

    def clear(self) -> None:
        for case in self._cases:
            case.buffers.clear()
