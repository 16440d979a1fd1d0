"""How much memory a rank may take: the host's, or less where a control group says so."""

from __future__ import annotations

import pytest

from clusterprobe.cgroup_memory import cgroup_room

MIB = 1 << 20


def tree(root, cgroup: str, **files: str):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return str(root)


def test_no_group_is_no_limit(tmp_path):
    assert cgroup_room(str(tmp_path)) is None
    assert cgroup_room(tree(tmp_path, "0::/job\n", **{"job__memory.max": "max", "job__memory.current": "5"})) is None


def test_a_parent_may_hold_the_limit_and_dropped_cache_is_free(tmp_path):
    root = tree(tmp_path, "0::/job/step\n", **{
        "job__memory.max": str(1000 * MIB), "job__memory.current": str(400 * MIB),
        "job__memory.stat": f"anon 1\ninactive_file {100 * MIB}", "job__step__memory.max": "max",
        "job__step__memory.current": str(300 * MIB)})
    assert cgroup_room(root) == 700 * MIB


@pytest.mark.parametrize("folder", ["memory__docker__abc__", "memory__"])  # the second as a container sees its own group
def test_version_1(tmp_path, folder):
    root = tree(tmp_path, "4:cpu,memory:/docker/abc\n1:name=systemd:/x\n0::/\n", **{
        folder + "memory.limit_in_bytes": str(512 * MIB), folder + "memory.usage_in_bytes": str(600 * MIB),
        folder + "memory.stat": "cache 3"})
    assert cgroup_room(root) == 0
    unlimited = tree(tmp_path / "other", "4:memory:/\n", **{
        "memory__memory.limit_in_bytes": "9223372036854771712", "memory__memory.usage_in_bytes": "7"})
    assert cgroup_room(unlimited) is None
