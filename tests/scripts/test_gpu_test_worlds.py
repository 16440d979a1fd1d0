"""torch-distributed-gpu-test in real gloo worlds: 1, 2, 3, 5 ranks, uneven nodes, self-spawned and by hand."""

from __future__ import annotations

import json

import pytest
from conftest import GPU_TEST

STAGES = [
    "launcher",
    "devices",
    "address",
    "census",
    "consistency",
    "control group",
    "matmul",
    "backend",
    "links",
    "collectives",
]
COLLECTIVES = {
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
}


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_self_spawned(size, run_tool, tmp_path, valid_report):
    done = run_tool(
        GPU_TEST,
        "--nproc",
        str(size),
        "--device",
        "cpu",
        "--json",
        "r.json",
        "--stage-timeout",
        "90",
    )
    assert (done.rc, done.err) == (0, ""), done.out + done.err
    assert done.result == {
        "status": "ok",
        "rc": "0",
        "tool": "torch-distributed-gpu-test",
        "json": "r.json",
    }
    report = valid_report(tmp_path / "r.json")
    assert [stage["stage"] for stage in report["stages"]] == STAGES
    assert {stage["status"] for stage in report["stages"]} <= {"ok", "warn"}
    assert report["world"]["size"] == size
    assert {row["op"] for row in report["results"]} == COLLECTIVES
    assert all(
        row["status"] in ("ok", "unsupported") and row["wrong"] == 0 for row in report["results"]
    )


def test_uneven_nodes(new_world, tmp_path, valid_report):
    """One rank on a, two on b, two on c: groups, names and links follow the nodes."""
    nodes = {0: "a", 1: "b", 2: "b", 3: "c", 4: "c"}
    local = {0: 0, 1: 0, 2: 1, 3: 0, 4: 1}
    each = {
        rank: {
            "CLUSTERPROBE_NODE": node,
            "LOCAL_RANK": str(local[rank]),
            "LOCAL_WORLD_SIZE": str(list(nodes.values()).count(node)),
        }
        for rank, node in nodes.items()
    }
    world = new_world(5, address=host_address()).start(
        GPU_TEST, "--device", "cpu", "--json", "r.json", "--stage-timeout", "90", each=each
    )
    ended = world.finish()
    assert {rank: end.rc for rank, end in ended.items()} == dict.fromkeys(range(5), 0), ended
    assert all(end.out == end.err == "" for rank, end in ended.items() if rank), (
        "only rank 0 prints"
    )
    assert "5 ranks on 3 nodes" in ended[0].why
    report = valid_report(tmp_path / "r.json")
    assert [(node["host"], node["ranks"]) for node in report["world"]["nodes"]] == [
        ("a", "0"),
        ("b", "1-2"),
        ("c", "3-4"),
    ]
    rings = {pair["kind"]: pair["links"] for pair in report["pairs"] if "links" in pair}
    assert rings == {"node": 4, "across": 5}


def host_address() -> str:
    from clusterprobe.interfaces import list_interfaces, usable_interfaces

    interfaces = list_interfaces()
    usable = usable_interfaces(interfaces)
    if not usable:
        pytest.skip("this machine has no address but loopback, which several nodes may not use")
    return interfaces[usable[0]][0]


def test_document_on_stdout(run_tool):
    done = run_tool(
        GPU_TEST,
        "--nproc",
        "2",
        "--device",
        "cpu",
        "--json",
        "-",
        "--stop-after",
        "4",
        "--stage-timeout",
        "90",
    )
    assert done.rc == 0, done.err
    assert json.loads(done.out)["stages"][-1]["stage"] == "consistency"
    assert (
        done.err.splitlines()[-1] == "RESULT status=ok rc=0 tool=torch-distributed-gpu-test json=-"
    )


def test_detail_debug_changes_nothing(run_tool):
    done = run_tool(
        GPU_TEST,
        "--nproc",
        "2",
        "--device",
        "cpu",
        "--json",
        "none",
        "--stage-timeout",
        "90",
        TORCH_DISTRIBUTED_DEBUG="DETAIL",
    )
    assert done.rc == 0, done.out + done.err
    assert done.result["status"] == "ok"


def test_dry_run_prints_the_plan_only(run_tool, tmp_path):
    done = run_tool(
        GPU_TEST, "--dry-run", "--stage-timeout", "7", RANK="0", WORLD_SIZE="16384", LOCAL_RANK="0"
    )
    assert (done.rc, done.err) == (0, "")
    assert "16,384 ranks found by launcher env" in done.out
    assert done.out.count("limit 7 s") == 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tool", [GPU_TEST, GPU_TEST.with_name("mamf-finder.py")])
def test_dry_run_counts_the_ranks_that_would_start_here(run_tool, tool):
    first = [run_tool(tool, "--dry-run", *nproc).out.splitlines()[0] for nproc in ((), ("--nproc", "4"))]
    assert first[0].endswith("a rank per visible device"), first
    assert first[1].endswith("4 ranks started here"), first


BIG_WORLD = """
import sys
sys.path.insert(0, {scripts!r})
import clusterprobe.gpu_test as gpu_test
import clusterprobe.gpu_test_judges as judges
for module in (gpu_test, judges):
    module.CONTROL_GROUP_WHOLE = module.CONTROL_GROUP_SIZE = 2
sys.exit(gpu_test.gpu_test_main())
"""


def test_a_big_world_opens_small_gloo_groups(new_world, tmp_path):
    script = tmp_path / "big.py"
    script.write_text(BIG_WORLD.format(scripts=str(GPU_TEST.parent)))
    ended = new_world(5).start(script, "--device", "cpu", "--json", "none").finish()
    assert {end.rc for end in ended.values()} == {0}, ended
    assert "adds right, in overlapping groups of 2" in ended[0].out
