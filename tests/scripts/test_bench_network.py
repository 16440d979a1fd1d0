"""all_reduce_bench between network namespaces: a capped host is named, and the rate is the cap's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import SCRIPTS, Ended, clean_environment, free_port

pytestmark = pytest.mark.slow
BENCH = SCRIPTS / "all_reduce_bench.py"
HOSTS = 4
CAP_MBIT = 200
CAP_BYTES = CAP_MBIT * 1e6 / 8


def command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


class Lab:
    """Hosts behind one switch, each a network namespace; nothing of the machine's own network changes."""

    def __init__(self, name: str, hosts: int) -> None:
        self.names = [f"{name}h{number}" for number in range(hosts)]
        self.switch = f"{name}sw"
        self.made: list[str] = []

    def open(self) -> None:
        for name in (self.switch, *self.names):
            command("ip", "netns", "add", name)
            self.made.append(name)
        self.inside(self.switch, "ip", "link", "add", "br0", "type", "bridge")
        self.inside(self.switch, "ip", "link", "set", "br0", "mtu", "9000", "up")
        for number, name in enumerate(self.names):
            self.inside(self.switch, "ip", "link", "add", f"p{number}", "mtu", "9000", "type", "veth", "peer", "name", "eth0",
                        "netns", name)
            self.inside(self.switch, "ip", "link", "set", f"p{number}", "mtu", "9000", "master", "br0", "up")
            self.inside(name, "ip", "link", "set", "lo", "up")
            self.inside(name, "ip", "link", "set", "eth0", "mtu", "9000", "up")
            self.inside(name, "ip", "addr", "add", f"{self.address(number)}/24", "dev", "eth0")

    def close(self) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def address(self, number: int) -> str:
        return f"10.77.0.{number + 1}"

    def entry(self, name: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{name}"]

    def inside(self, name: str, *words: str) -> None:
        command(*self.entry(name), *words)

    def cap(self, number: int, mbit: int) -> None:
        """Limit what this host sends."""
        self.inside(self.names[number], "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{mbit}mbit",
                    "burst", "64kb", "latency", "100ms")

    def run(self, python: str, folder: Path, *options: str, per_host: int = 1, limit: float = 280) -> dict[int, Ended]:
        world, port = len(self.names) * per_host, str(free_port())
        ranks = {}
        for rank in range(world):
            host, local = divmod(rank, per_host)
            env = clean_environment(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(local),
                                    LOCAL_WORLD_SIZE=str(per_host), MASTER_ADDR=self.address(0), MASTER_PORT=port,
                                    CLUSTERPROBE_NODE=f"host{host}")
            words = [*self.entry(self.names[host]), python, str(BENCH), "--device", "cpu", *options]
            ranks[rank] = subprocess.Popen(words, env=env, cwd=folder, text=True, stdout=(folder / f"o{rank}").open("w"),
                                           stderr=(folder / f"e{rank}").open("w"))
        try:
            codes = {rank: child.wait(limit) for rank, child in ranks.items()}
        finally:
            for child in ranks.values():
                if child.poll() is None:
                    child.kill()
                    child.wait()
        return {rank: Ended(rc, (folder / f"o{rank}").read_text(), (folder / f"e{rank}").read_text())
                for rank, rc in codes.items()}


@contextmanager
def opened_lab(hosts: int, kind: type[Lab] = Lab) -> Iterator[Lab]:
    """The hosts for the length of a block; a test is skipped, in CI failed, where they can't be made."""
    missing = [name for name in ("ip", "tc", "nsenter") if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing or os.geteuid() != 0:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop(f"network namespaces need root and iproute2 (missing: {missing})")
    made = kind(f"cpb{os.getpid()}", hosts)
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture
def lab() -> Iterator[Lab]:
    with opened_lab(HOSTS) as made:
        yield made


def test_capped_host_is_named_and_the_rate_is_its_cap(lab, torch_python, tmp_path, valid_report):
    lab.cap(2, CAP_MBIT)
    ended = lab.run(torch_python, tmp_path, "--sizes", "8M", "--num-iterations", "5", "--num-warmup-iterations", "1",
                    "--group", "world,pairs", "--pair-bytes", "4M", "--json", "r.json")
    assert {end.rc for end in ended.values()} == {0}, ended
    report = valid_report(tmp_path / "r.json")
    row = report["results"][0]
    assert abs(row["busbw"] / CAP_BYTES - 1) < 0.05, row
    suspects = report["pairs"][0]["suspects"]
    assert [(suspect["member"], suspect["side"]) for suspect in suspects] == [("rank 2@host2", "out")], suspects
    assert abs(suspects[0]["alone"] / CAP_BYTES - 1) < 0.05
    assert abs(suspects[0]["bytes_per_second"] / CAP_BYTES - 1) < 0.05
    assert "warning: slow: rank 2@host2 sends at" in ended[0].out
    assert "its own link" in ended[0].out


def test_equal_hosts_are_not_accused(lab, torch_python, tmp_path, valid_report):
    for number in range(HOSTS):
        lab.cap(number, 2 * CAP_MBIT)
    ended = lab.run(torch_python, tmp_path, "--sizes", "4M", "--num-iterations", "3", "--num-warmup-iterations", "1",
                    "--group", "world,pairs", "--pair-bytes", "4M", "--json", "r.json")
    assert {end.rc for end in ended.values()} == {0}, ended
    report = valid_report(tmp_path / "r.json")
    assert report["pairs"][0]["suspects"] == []
    assert "slow:" not in ended[0].out


def test_node_and_rail_groups_with_a_capped_host(lab, torch_python, tmp_path, valid_report):
    """Two ranks a host: inside the nodes the cap is not seen, on the rails it is the rate."""
    lab.cap(1, CAP_MBIT)
    ended = lab.run(torch_python, tmp_path, "--sizes", "2M", "--num-iterations", "8", "--num-warmup-iterations", "1",
                    "--group", "node,rail", "--json", "r.json", per_host=2)
    assert {end.rc for end in ended.values()} == {0}, ended
    rows = valid_report(tmp_path / "r.json")["results"]
    nodes = [row for row in rows if row["group"] == "node"]
    rails = [row for row in rows if row["group"] == "rail"]
    assert sorted(row["members"] for row in nodes) == ["ranks 0-1", "ranks 2-3", "ranks 4-5", "ranks 6-7"]
    assert sorted(row["members"] for row in rails) == ["ranks 0,2,4,6", "ranks 1,3,5,7"]
    both = sum(row["busbw"] for row in rails)  # the two rails share the capped link
    assert abs(both / CAP_BYTES - 1) < 0.15
