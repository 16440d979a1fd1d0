"""Public failures that need a network: two hosts, each a network namespace, and what is wrong with their interfaces."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from conftest import GPU_TEST, SCRIPTS, Ended
from test_bench_network import Lab, opened_lab

pytestmark = pytest.mark.slow
BENCH = SCRIPTS / "all_reduce_bench.py"
HOSTS = ("left", "right")
PREFIX = "NCCL_SOCKET_IFNAME=x0 is a prefix and also takes x0.5; write =x0 for exact names"


class TwoHosts(Lab):
    """Interfaces are named as the test says; `second` adds one that leads to another network."""

    def rename(self, host: int, name: str) -> None:
        self.inside(self.names[host], "ip", "link", "set", "eth0", "down")
        self.inside(self.names[host], "ip", "link", "set", "eth0", "name", name)
        self.inside(self.names[host], "ip", "link", "set", name, "up")

    def second(self, host: int, name: str, address: str) -> None:
        at = self.names[host]
        self.inside(self.switch, "ip", "link", "add", f"q{host}", "type", "veth", "peer", "name", name, "netns", at)
        self.inside(self.switch, "ip", "link", "set", f"q{host}", "up")
        self.inside(at, "ip", "link", "set", name, "up")
        self.inside(at, "ip", "addr", "add", address, "dev", name)

    def routes(self, host: int) -> str:
        return subprocess.run([*self.entry(self.names[host]), "ip", "route"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    with opened_lab(2, TwoHosts) as made:
        yield made


@pytest.fixture
def run_on_both(hosts, new_world):
    """One rank a host, both to their end."""

    def run(*options: str, tool=GPU_TEST, limit: float = 120, **variables: str) -> dict[int, Ended]:
        world = new_world(2, address=hosts.address(0))
        world.start(
            tool, "--device", "cpu", "--json", "r.json", *options,
            each={rank: {**variables, "LOCAL_RANK": "0", "CLUSTERPROBE_NODE": name} for rank, name in enumerate(HOSTS)},
            before={rank: hosts.entry(hosts.names[rank]) for rank in range(2)},
            local_size=1,
        )
        return world.finish(limit)

    return run


def passed(ended: dict[int, Ended]) -> None:
    assert {end.rc for end in ended.values()} == {0}, ended
    assert [end.err for end in ended.values()] == ["", ""]
    assert ended[1].out == ""


@pytest.mark.parametrize(("with_second", "who"), [((0, 1), "every node"), ((1,), "rank 1@right"), ((0,), "rank 0@left")])
def test_a_prefix_that_takes_more_interfaces_than_meant(with_second, who, hosts, run_on_both, tmp_path, valid_report):
    """NCCL would use x0.5 as well; also a host that rank 0 does not see is told, before a backend opens."""
    for host in range(2):
        hosts.rename(host, "x0")
    for host in with_second:
        hosts.second(host, "x0.5", f"10.79.0.{host + 1}/24")
    ended = run_on_both(NCCL_SOCKET_IFNAME="x0", GLOO_SOCKET_IFNAME="x0")
    passed(ended)
    lines = ended[0].out.splitlines()
    told = [line for line in lines if "is a prefix" in line]
    assert told == [f"warning: {who}: {PREFIX}"]
    assert lines.index(told[0]) < next(at for at, line in enumerate(lines) if line.startswith("[5]"))
    mine = "x0, x0.5" if 0 in with_second else "x0"
    assert f"NCCL_SOCKET_IFNAME takes {mine}; GLOO_SOCKET_IFNAME takes x0" in ended[0].out  # gloo's names are exact
    assert "1 warning" in ended[0].why
    assert valid_report(tmp_path / "r.json")["warnings"] == [f"{who}: {PREFIX}"]


def test_the_exact_form_takes_one_interface(hosts, run_on_both):
    for host in range(2):
        hosts.rename(host, "x0")
        hosts.second(host, "x0.5", f"10.79.0.{host + 1}/24")
    ended = run_on_both(NCCL_SOCKET_IFNAME="=x0", GLOO_SOCKET_IFNAME="x0")
    passed(ended)
    assert "warning" not in ended[0].out
    assert "NCCL_SOCKET_IFNAME takes x0;" in ended[0].out


def test_the_benchmark_tells_the_prefix_too(hosts, run_on_both):
    hosts.rename(0, "x0")
    hosts.rename(1, "x0")
    hosts.second(1, "x0.5", "10.79.0.2/24")
    ended = run_on_both("--sizes", "64K", "--num-iterations", "2", "--num-warmup-iterations", "1", tool=BENCH,
                        NCCL_SOCKET_IFNAME="x0")
    passed(ended)
    assert f"warning: rank 1@right: {PREFIX}" in ended[0].out


@pytest.mark.parametrize("tool", ["gpu-test", "bench"])
def test_the_interface_is_chosen_by_the_route_to_rank_0(tool, hosts, run_on_both):
    """No default route, other names on either host, and an eth0 that leads elsewhere: a guess would take it."""
    for host, name in enumerate(("ens3", "enp9s0")):
        hosts.rename(host, name)
        hosts.second(host, "eth0", "192.0.2.1/24")
        assert "default" not in hosts.routes(host)
    if tool == "bench":
        passed(run_on_both("--sizes", "64K", "--num-iterations", "2", "--num-warmup-iterations", "1", tool=BENCH))
        return
    ended = run_on_both()
    passed(ended)
    assert "reached from 10.77.0.1 on ens3" in ended[0].out
    (control,) = (line for line in ended[0].out.splitlines() if line.startswith("[5]"))
    assert control.endswith("adds right, on ens3, enp9s0 on rank 1@right")
    assert "2 ranks on 2 nodes returned right data from every collective" in ended[0].why


def test_no_route_to_rank_0(hosts, run_on_both):
    """The host that has none tells it at once and by its name; rank 0 can only wait for it."""
    hosts.inside(hosts.names[1], "ip", "addr", "flush", "dev", "eth0")
    hosts.inside(hosts.names[1], "ip", "addr", "add", "198.51.100.2/24", "dev", "eth0")
    ended = run_on_both("--stage-timeout", "15", limit=60)
    assert {rank: end.rc for rank, end in ended.items()} == {0: 5, 1: 6}
    assert ended[1].why == "rank 1@right: no route from this host to 10.77.0.1"
    assert "next: ip route get 10.77.0.1" in ended[1].out
    assert "never reached the store; 1 of 2 ranks are here" in ended[0].why
    assert [end.err for end in ended.values()] == ["", ""]


def test_an_interface_that_is_not_there(hosts, run_on_both):
    """The guessed eth0 of a site whose hosts call it otherwise."""
    hosts.rename(1, "enp9s0")
    ended = run_on_both("--stage-timeout", "40", limit=60, GLOO_SOCKET_IFNAME="eth0")
    assert {end.rc for end in ended.values()} == {6}
    assert ended[0].why == "rank 1@right: GLOO_SOCKET_IFNAME=eth0 matches no interface here; there are lo, enp9s0"
    assert "next: mend or unset GLOO_SOCKET_IFNAME" in ended[0].out
    assert [end.err for end in ended.values()] == ["", ""]


def test_a_gloo_interface_that_does_not_lead_to_rank_0(hosts, run_on_both, tmp_path, valid_report):
    """It exists on both hosts, so its name is no mistake; gloo's own error names addresses and no variable."""
    for host, name in enumerate(("ens3", "enp9s0")):
        hosts.rename(host, name)
        hosts.second(host, "eth0", "192.0.2.1/24")
    ended = run_on_both("--stage-timeout", "40", limit=60, GLOO_SOCKET_IFNAME="eth0")
    assert {end.rc for end in ended.values()} == {5}
    assert "RuntimeError: Gloo" in ended[0].why
    told = [line for line in ended[0].out.splitlines() if line.startswith("warning: ")]
    assert told == [
        f"warning: rank {rank}@{HOSTS[rank]}: GLOO_SOCKET_IFNAME=eth0, but rank 0 is reached on {name}: "
        "unset it, unless eth0 too leads to every host"
        for rank, name in enumerate(("ens3", "enp9s0"))
    ]
    assert "Traceback" not in ended[0].err + ended[1].err
    assert "innermost frame" not in ended[0].err + ended[1].err, "who raised the error shows no stack of its own end"
