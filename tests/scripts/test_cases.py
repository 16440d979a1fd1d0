"""CASES.md: every public failure has a test that exists, or a reason. And the few cases that no other file holds."""

from __future__ import annotations

import ast
import glob
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterprobe import device
from clusterprobe.topology import host_name, node_groups, node_identity

HERE = Path(__file__).parent
ROW = re.compile(r"^\| (\d+) \| \[[^\]]+\]\((https://github\.com/[^)]+)\) \| ([A-Z ]+) \| ([^|]+) \| ([^|]+) \|$")
# Tools that this project does not have.
ELSEWHERE = {"BURN", "MEM", "STOR", "DL"}


def rows() -> list[tuple[int, str, str, str, str]]:
    lines = [line for line in (HERE / "CASES.md").read_text(encoding="utf-8").splitlines() if re.match(r"\| \d", line)]
    found = [ROW.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [(int(match[1]), *(match[part].strip() for part in range(2, 6))) for match in found]


def declared_tests(name: str) -> set[str]:
    tree = ast.parse((HERE / name).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_has_a_test_or_a_reason():
    table = rows()
    assert len(table) == len({row[0] for row in table}) == 95
    assert len({row[1] for row in table}) == 95
    for number, _, tool, what, where in table:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", where)
        if where.startswith("not tested: "):
            assert not named
            assert len(where) > 30, number
            assert what == "–"
            continue
        assert named, number
        assert len(what) > 10
        missing = [f"{file}::{test}" for file, test in named if test not in declared_tests(file)]
        assert not missing, (number, missing)
        assert not set(tool.split()) <= ELSEWHERE or tool == "BURN", number


def test_reasons_are_few_and_name_what_is_absent():
    reasons = {row[0]: row[4] for row in rows() if row[4].startswith("not tested: ")}
    assert len(reasons) == 10
    assert all("there is no" in text or "there is none" in text for text in reasons.values()), reasons


def test_long_names_with_an_equal_start_stay_apart(monkeypatch):
    """Two hosts of 70 letters that differ in the last: two nodes, shown whole."""
    keys, shown = [], []
    for last in "ab":
        name = "gpu-worker-of-the-large-cluster-in-the-second-hall-row-17-rack-04-u" + last
        monkeypatch.setattr("socket.gethostname", lambda name=name: name)
        host, key = node_identity({})
        keys.append(key)
        shown.append(host)
    assert host_name() == shown[1]
    assert len(node_groups(keys)) == 2
    assert [len(host) for host in shown] == [68, 68]


@pytest.mark.parametrize(("driver", "nodes", "cuda", "words"), [
    (True, [], "13.0", "/dev/nvidia* is absent"), (False, [], "13.0", "no NVIDIA driver is loaded"),
    (True, ["/dev/nvidia0"], "13.0", "the driver lists none"), (False, [], None, "is built without CUDA and ROCm")])
def test_a_driver_without_devices_is_not_a_missing_driver(driver, nodes, cuda, words, monkeypatch):
    torch = SimpleNamespace(__version__="2.11.0", version=SimpleNamespace(cuda=cuda, hip=None), distributed=None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", SimpleNamespace())
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: driver if str(path) == "/proc/driver/nvidia/version" else real(path))
    monkeypatch.setattr(glob, "glob", lambda pattern: nodes if pattern.startswith("/dev/nvidia") else [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert words in device.absent_reason("cuda")
