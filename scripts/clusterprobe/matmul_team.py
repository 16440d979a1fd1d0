"""What the ranks of one mamf-finder run decide together: candidates for the finals, the winner. No torch.

Every rank searches its own device; figures can be compared only on the same shapes, so the lists are merged.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.session import Session


class MatmulTeam:
    """What the ranks decide together. With one rank, its own view."""

    def __init__(self, session: Session, dtype: str, keep: int) -> None:
        self._session, self._dtype, self._keep = session, dtype, keep

    def agree(self, what: str, mine: List[MatmulShape]) -> List[MatmulShape]:
        """One list for all ranks: the shapes that most ranks put high."""
        control, name = self._session.control, f"{self._dtype}/{what}"
        words = [[shape.m, shape.n, shape.k, shape.batch] for shape in mine]
        lists = control.gather_all(name, words, self._session.patience())
        merged = None if lists is None else merge_lists(list(lists.values()), max(self._keep, len(mine)))
        return [MatmulShape(*word) for word in control.from_rank0(name, merged, self._session.patience())]

    def gather(self, what: str, record: Any) -> Optional[Dict[int, Any]]:
        return self._session.control.gather_all(f"{self._dtype}/{what}", record, self._session.patience())


def merge_lists(lists: List[List[List[int]]], keep: int) -> List[List[int]]:
    """By points: the first place of a list of five gives five; ties by the shape itself."""
    points: Dict[Tuple[int, ...], int] = {}
    longest = max((len(one) for one in lists), default=0)
    for one in lists:
        for place, word in enumerate(one):
            points[tuple(word)] = points.get(tuple(word), 0) + longest - place
    return [list(word) for word in sorted(points, key=lambda word: (-points[word], word))[:keep]]
