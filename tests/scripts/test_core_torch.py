"""torch of every supported age: too old is one line, and what an old store lacks is done another way."""

from __future__ import annotations

import pytest
from conftest import GPU_TEST, SCRIPTS

from clusterprobe.device import refuse_old_torch
from clusterprobe.exits import CANNOT_RUN, ProbeFailure

TOOLS = ("torch-distributed-gpu-test.py", "all_reduce_bench.py", "mamf-finder.py")
# The torch that is there, under an older one's version.
OLD = """import os, runpy, sys, torch
torch.__version__ = "2.1.2+cu121"
sys.orig_argv = [sys.executable, *sys.argv]  # what Python 3.9 does not keep
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TOO_OLD = [
    "why: torch 2.1.2+cu121 is too old, 2.2 is the oldest that works",
    "next: run the tool with a Python that has torch 2.2 or later",
]
# `Old` hides what torch 2.2's store lacks; with such a torch both are the same.
STORE = """import sys, threading, time
from datetime import timedelta
sys.path.insert(0, {scripts!r})
import torch.distributed as dist
from clusterprobe.store import StoreClient, present_ranks, read_records

class Old:
    def __init__(self, store):
        self.store = store
    def __getattr__(self, name):
        if name == "check":
            raise AttributeError(name)
        return getattr(self.store, name)

server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, timeout=timedelta(seconds=20))
for number, store in enumerate((server, Old(server), dist.HashStore(), Old(dist.HashStore()))):
    client = StoreClient(store, f"try{{number}}/")
    before = store.num_keys()
    assert not client.has(["one"]) and not client.has(["one", "two"]), number
    assert store.num_keys() == before, "asking leaves no key behind"
    assert client.look("one") is None
    client.put("one", {{"rank": 1}})
    assert client.has(["one"]) and not client.has(["one", "two"]) and not client.has(["two", "one"]), number
    client.put("two", None)
    assert client.has(["two", "one"])
    assert client.look("one") == {{"rank": 1}}
    for rank in (0, 2, 3, 7):
        client.put(f"roll/{{rank}}", rank)
    assert present_ranks(client, "roll", range(9)) == [0, 2, 3, 7]
    assert read_records(client, "roll", range(9)) == {{rank: rank for rank in (0, 2, 3, 7)}}
    assert client.first_to_put("verdict", "mine") and not client.first_to_put("verdict", "other")
    assert client.look("verdict") == "mine"

other = dist.TCPStore("127.0.0.1", server.port, None, False, wait_for_workers=False, timeout=timedelta(seconds=20))
woken = []
waiting = threading.Thread(target=lambda: woken.append(StoreClient(other, "wake/").comes("verdict", 60)))
waiting.start()
time.sleep(1)
StoreClient(server, "wake/").first_to_put("verdict", "mine")
waiting.join(50)
assert woken == [True], "who waits for a verdict hears it when it is written"
print("all as it should be")
"""


@pytest.mark.parametrize("version", ["2.2.0", "2.2.0a0+81ea7a4", "2.14.1+cu130", "3.0.0", "10.1", "main"])
def test_supported_versions(version):
    refuse_old_torch(version)


@pytest.mark.parametrize("version", ["1.13.0a0", "2.1.2+cu121", "2.0", "0.4.1"])
def test_old_versions(version):
    with pytest.raises(ProbeFailure) as failure:
        refuse_old_torch(version)
    assert failure.value.rc == CANNOT_RUN
    assert failure.value.reason.startswith(f"torch {version} is too old, 2.2 ")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("count", [1, 3])
def test_too_old_is_told_once(run_tool, tmp_path, tool, count):
    """By the first of the local ranks; the others find the same."""
    (tmp_path / "old.py").write_text(OLD)
    ended = run_tool("old.py", SCRIPTS / tool, "--device", "cpu", "--nproc", count, "--json", "none")
    lines = ended.out.splitlines()
    assert (ended.rc, ended.err) == (CANNOT_RUN, "")
    assert [line for line in lines if line.startswith(("why:", "next:"))] == TOO_OLD
    assert ended.result["status"] == "skipped"


def test_too_old_without_a_choice_of_ranks(run_tool, tmp_path):
    """Counting devices needs torch already; help, version and a plan do not."""
    (tmp_path / "old.py").write_text(OLD)
    ended = run_tool("old.py", GPU_TEST)
    assert (ended.rc, ended.err, ended.out.splitlines()[:2]) == (CANNOT_RUN, "", TOO_OLD)
    assert list(tmp_path.glob("*.json")) == []
    for word in ("--help", "--version", "--dry-run"):
        assert run_tool("old.py", GPU_TEST, "--device", "cpu", word).rc == 0


def test_stores_of_every_age(run_tool):
    ended = run_tool("-c", STORE.format(scripts=str(SCRIPTS)))
    assert (ended.rc, ended.err, ended.out) == (0, "", "all as it should be\n")
