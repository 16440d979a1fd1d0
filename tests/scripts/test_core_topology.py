"""Groups and pair rounds."""

from __future__ import annotations

import itertools

import pytest

from clusterprobe.census import pack_placement, unpack_placement
from clusterprobe.topology import (
    linked_groups,
    node_groups,
    node_identity,
    pair_rounds,
    rail_groups,
    ring_neighbours,
    stride_groups,
)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 13, 64])
def test_every_pair_once(count):
    rounds = list(pair_rounds(count))
    assert len(rounds) == count - 1 + count % 2
    seen = [pair for pairs in rounds for pair in pairs]
    assert sorted(seen) == list(itertools.combinations(range(count), 2))
    for pairs in rounds:
        members = [member for pair in pairs for member in pair]
        assert len(members) == len(set(members))


def test_one_member_has_no_pair():
    assert [pair for pairs in pair_rounds(1) for pair in pairs] == []


def test_rounds_of_a_big_world_come_one_by_one():
    first = list(itertools.islice(pair_rounds(16384), 3))
    assert [len(pairs) for pairs in first] == [8192] * 3
    assert not set(first[0]) & set(first[1])


UNEVEN = ["a", "b", "b", "b", "a"]


def test_node_and_rail_groups():
    assert node_groups(UNEVEN) == [[0, 4], [1, 2, 3]]
    assert rail_groups(UNEVEN) == [[0, 1], [4, 2], [3]]
    assert rail_groups([]) == []


def test_stride_groups():
    assert stride_groups(8, 3) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    for wrong in (0, 9):
        with pytest.raises(ValueError, match="stride"):
            stride_groups(8, wrong)


def test_ring():
    assert [ring_neighbours([2, 5, 9], rank) for rank in (2, 5, 9)] == [(9, 5), (2, 9), (5, 2)]


def test_node_identity_override():
    assert node_identity({"CLUSTERPROBE_NODE": "n7"}) == ("n7", "override:n7")
    host, key = node_identity({})
    assert host
    assert key != host


def test_placement_packs_small():
    regular = [rank // 8 for rank in range(16384)]
    cyclic = [rank % 2048 for rank in range(16384)]
    for places in (regular, cyclic, [0], [0, 1, 1, 1, 0], []):
        assert unpack_placement(pack_placement(places)) == places
    assert len(pack_placement(regular)) < 300
    assert len(pack_placement(cyclic)) < 300


@pytest.mark.parametrize(("world", "size"), [(5, 2), (513, 128), (16384, 128)])
def test_overlapping_groups_link_all_ranks(world, size):
    members, seen = {}, {0}
    for rank in range(world):
        for name, ranks in linked_groups(world, rank, size):
            assert members.setdefault(name, ranks) == ranks
            assert rank in ranks
            assert len(ranks) <= size
    assert sum(map(len, members.values())) == 2 * world
    for _ in range(3):  # near, far, near
        seen |= {other for ranks in members.values() if seen & set(ranks) for other in ranks}
    assert len(seen) == world
