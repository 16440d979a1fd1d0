"""Node preflight on small recorded trees, and the expected values of the checked collectives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterprobe.checked_collectives import expected_sums
from clusterprobe.preflight import (
    NodeLimits,
    has_infiniband,
    installed_gpus,
    judge_kernel,
    judge_limits,
    merge_findings,
    open_files_needed,
)
from clusterprobe.ring_links import LinkLook, link_rate_range, ring_members, slow_links

PLENTY = NodeLimits(shm_total=1 << 38, shm_free=1 << 38, nofile=(1 << 20, 1 << 20))


def put(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("limits", "rdma", "words"),
    [
        (PLENTY, True, None),
        (NodeLimits(), False, None),
        (
            NodeLimits(shm_total=64 << 20, shm_free=64 << 20),
            False,
            "/dev/shm holds 64 MiB, 8 ranks want 512 MiB",
        ),
        (NodeLimits(shm_total=1 << 34, shm_free=1 << 20), False, "/dev/shm has only 1 MiB free"),
        (
            NodeLimits(nofile=(64, 64)),
            False,
            "open files are limited to 64, a world of 8 may need 416",
        ),
        (
            NodeLimits(memlock=65536),
            True,
            "locked memory is limited to 64 KiB and RDMA devices are present",
        ),
        (NodeLimits(memlock=65536), False, None),
        (NodeLimits(cgroup_memory=4 << 30), False, "the cgroup allows 4 GiB for 8 ranks"),
    ],
)
def test_limits(limits, rdma, words):
    found = judge_limits(limits, 8, 8, rdma)
    assert (found == []) if words is None else (len(found) == 1 and words in found[0])


def test_a_big_world_needs_more_files():
    assert open_files_needed(16384, 8) == 65920
    assert "65,920" in judge_limits(NodeLimits(nofile=(65536, 65536)), 16384, 8, False)[0]


def test_kernel_settings(tmp_path):
    assert judge_kernel(str(tmp_path)) == []
    put(tmp_path, "proc/sys/kernel/numa_balancing", "1\n")
    assert judge_kernel(str(tmp_path)) == [], "one NUMA node: nothing migrates"
    for node in (0, 1):
        (tmp_path / f"sys/devices/system/node/node{node}").mkdir(parents=True)
    assert "NUMA balancing" in judge_kernel(str(tmp_path))[0]


def test_iommu_matters_with_several_gpus(tmp_path):
    (tmp_path / "sys/kernel/iommu_groups/0").mkdir(parents=True)
    put(tmp_path, "proc/cmdline", "root=/dev/sda quiet")
    for slot in range(2):
        put(tmp_path, f"sys/bus/pci/devices/{slot}/vendor", "0x10de\n")
        put(tmp_path, f"sys/bus/pci/devices/{slot}/class", "0x030200\n")
    assert "NCCL_P2P_DISABLE=1" in judge_kernel(str(tmp_path))[0]
    put(tmp_path, "proc/cmdline", "root=/dev/sda iommu=pt")
    assert judge_kernel(str(tmp_path)) == []


def test_left_over_nccl_files(tmp_path):
    put(tmp_path, "dev/shm/nccl-AbC")
    assert judge_kernel(str(tmp_path))[0].startswith("1 NCCL file in /dev/shm (nccl-AbC) holds 0 B, left by a killed job or")
    put(tmp_path, "dev/shm/nccl-Xyz", "x" * 5000)
    found = judge_kernel(str(tmp_path))[0]
    assert re.match(r"2 NCCL files in /dev/shm \(nccl-AbC, nccl-Xyz\) hold [1-9]\d* (B|KiB), left by", found)


def test_gpus_on_the_bus(tmp_path):
    assert installed_gpus(str(tmp_path)) == []
    for slot, vendor, kind in (
        ("a", "0x10de", "0x030200"),
        ("b", "0x1002", "0x120000"),
        ("c", "0x10de", "0x060400"),
        ("d", "0x8086", "0x030000"),
    ):
        put(tmp_path, f"sys/bus/pci/devices/{slot}/vendor", vendor)
        put(tmp_path, f"sys/bus/pci/devices/{slot}/class", kind)
    assert sorted(installed_gpus(str(tmp_path))) == ["AMD", "NVIDIA"]
    assert not has_infiniband(str(tmp_path))
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert has_infiniband(str(tmp_path))


def test_equal_findings_are_told_once():
    merged = merge_findings({0: ["a", "b"], 8: ["b"], 16: ["b"], 24: []})
    assert merged == {"b": [0, 8, 16], "a": [0]}


@pytest.mark.parametrize("world", [1, 2, 3, 7, 64, 4096, 16384])
def test_expected_sums(world):
    sums = expected_sums(world)
    assert sums == [sum((3 * rank + place) % 7 for rank in range(world)) for place in range(7)]
    assert max(sums) < 2**24, "exact in float32"
    if world % 7:
        assert len(set(sums)) > 1, "a shifted result must differ"


def test_rings():
    places = [0, 1, 1, 2, 2]
    assert ring_members(places, 2) == {"node": [1, 2], "across": [2, 4]}
    assert ring_members(places, 0) == {"across": [0, 1, 3]}
    assert ring_members([0], 0) == {}


def look(sender: int, seconds: float) -> LinkLook:
    return LinkLook("across", sender, 1 << 20, seconds, 0)


def test_slow_link_is_named_by_sender_and_receiver():
    looks = {rank: look((rank - 1) % 8, 0.001 + rank * 1e-6) for rank in range(8)}
    assert slow_links(looks) == []
    looks[5] = look(4, 0.05)
    ((sender, receiver, rate, usual),) = slow_links(looks)
    assert (sender, receiver) == (4, 5)
    assert rate == pytest.approx((1 << 20) / 0.05)
    assert usual > 10 * rate
    assert link_rate_range(looks)[0] == rate
    assert link_rate_range({}) is None


def test_a_link_a_little_slower_is_not_named():
    looks = {rank: look((rank - 1) % 8, 0.001) for rank in range(8)}
    looks[3] = look(2, 0.0015)
    assert slow_links(looks) == []
