"""Addresses, names, ports, interface patterns: real sockets, no torch."""

from __future__ import annotations

import socket
import time

import pytest

from clusterprobe.exits import CANNOT_RUN, MISSING_RANK, ProbeFailure
from clusterprobe.interfaces import judge_ifname, list_interfaces, parse_ifname, usable_interfaces
from clusterprobe.launch import RankEnv
from clusterprobe.rendezvous import (
    Endpoint,
    choose_endpoint,
    is_loopback,
    owns_address,
    parse_endpoint,
    port_is_taken,
    port_swallows,
    resolve_host,
    source_address,
    wait_for_listener,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("h:1", ("h", 1)),
        ("h", ("h", None)),
        ("tcp://h:29500", ("h", 29500)),
        ("[::1]:5", ("::1", 5)),
        ("::1", ("::1", None)),
        ("[::1]", ("::1", None)),
        ("tcp://[fe80::1]:29500", ("fe80::1", 29500)),
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("tcp://h:1?rank=0", ("h", 1)),
    ],
)
def test_endpoints(text, wanted):
    assert parse_endpoint(text) == wanted


@pytest.mark.parametrize("text", ["", ":1", "h:x", "[::1", "[::1]x", "[::1]:"])
def test_endpoints_refused(text):
    with pytest.raises(ValueError, match="not host:port"):
        parse_endpoint(text)


@pytest.mark.parametrize("address", ["::1", "[::1]", "127.0.0.1", "localhost"])
def test_both_forms_of_ipv6_mean_the_same(address):
    env = RankEnv("env", 0, 2, local_world_size=2, master_addr=address, master_port=1234)
    found = choose_endpoint(env)
    assert found.port == 1234
    assert is_loopback(found.address)
    assert str(choose_endpoint(RankEnv("env", 0, 2, local_world_size=2), "[::1]:9")) == "[::1]:9"


def test_unresolvable_is_one_sentence_and_quick():
    start = time.monotonic()
    with pytest.raises(ProbeFailure, match=r"cannot resolve no-such-host\.invalid") as caught:
        resolve_host("no-such-host.invalid")
    assert caught.value.rc == CANNOT_RUN
    assert time.monotonic() - start < 5.5


def test_loopback_master_of_several_nodes():
    for env in (
        RankEnv("slurm", 0, 4, nodelist=("a", "b"), master_addr="127.0.0.1"),
        RankEnv("torchrun", 0, 4, local_world_size=2, master_addr="localhost"),
    ):
        with pytest.raises(ProbeFailure, match="is loopback"):
            choose_endpoint(env)


def test_one_machine_that_plays_a_cluster(monkeypatch):
    """Loopback is right where every node of the list is this machine, and only there."""
    names = {"n1": ["127.0.0.1"], "n2": ["127.0.0.1"], "far": ["203.0.113.5"]}
    monkeypatch.setattr("clusterprobe.rendezvous.resolve_host", lambda host, limit=5.0: names[host])
    counts = (1, 1)
    assert (
        choose_endpoint(
            RankEnv("slurm", 0, 2, local_world_size=1, nodelist=("n1", "n2"), tasks_per_node=counts)
        ).host
        == "n1"
    )
    with pytest.raises(ProbeFailure, match="is loopback"):
        choose_endpoint(
            RankEnv(
                "slurm", 0, 2, local_world_size=1, nodelist=("n1", "far"), tasks_per_node=counts
            )
        )


def test_sources_of_the_address():
    assert choose_endpoint(RankEnv("single", 0, 1)).address == "127.0.0.1"
    assert (
        choose_endpoint(RankEnv("openmpi", 0, 4, local_world_size=4, job="9")).source == "one node"
    )
    listed = RankEnv("slurm", 1, 2, nodelist=("localhost",), tasks_per_node=(2,), job="7.0")
    assert choose_endpoint(listed).source == "node list"
    with pytest.raises(ProbeFailure, match="nothing tells where rank 0 is"):
        choose_endpoint(RankEnv("openmpi", 0, 4, local_world_size=2))
    with pytest.raises(ProbeFailure, match="host:port"):
        choose_endpoint(RankEnv("single"), "h:x")


def test_port_in_use_and_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        place = Endpoint("127.0.0.1", port, "127.0.0.1", "test")
        assert "in use" in port_is_taken(place)
        wait_for_listener(place, 2, "rank 0")
    assert port_is_taken(place) is None
    with pytest.raises(ProbeFailure, match="rank 0 did not open") as caught:
        wait_for_listener(place, 0.3, "rank 0")
    assert caught.value.rc == MISSING_RANK


def test_own_addresses_and_routes():
    assert owns_address("127.0.0.1")
    assert not owns_address("203.0.113.7")
    assert source_address("127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "names", "exact", "exclude"),
    [
        ("eth0", ("eth0",), False, False),
        ("b0,b1", ("b0", "b1"), False, False),
        ("^lo,docker0", ("lo", "docker0"), False, True),
        ("=eth0", ("eth0",), True, False),
        ("^=lo", ("lo",), True, True),
        (" ib0 , ib1 ", ("ib0", "ib1"), False, False),
        ("", (), False, False),
    ],
)
def test_ifname_forms(text, names, exact, exclude):
    found = parse_ifname(text)
    assert (found.names, found.exact, found.exclude) == (names, exact, exclude)


HOST = {"lo": ["127.0.0.1"], "bond0": ["10.0.0.5"], "bond0.2093": ["10.9.0.5"], "eth1": ["fe80::1"]}


@pytest.mark.parametrize(
    ("variable", "text", "chosen", "trouble"),
    [
        ("NCCL_SOCKET_IFNAME", "eth1", ["eth1"], ""),
        ("NCCL_SOCKET_IFNAME", "bond0", ["bond0", "bond0.2093"], "also takes bond0.2093"),
        ("NCCL_SOCKET_IFNAME", "=bond0", ["bond0"], ""),
        ("NCCL_SOCKET_IFNAME", "bond", ["bond0", "bond0.2093"], ""),
        ("NCCL_SOCKET_IFNAME", "^lo", ["bond0", "bond0.2093", "eth1"], ""),
        ("NCCL_SOCKET_IFNAME", "^=bond0", ["lo", "bond0.2093", "eth1"], ""),
        ("NCCL_SOCKET_IFNAME", "ib", [], "matches no interface here; there are lo, bond0"),
        ("NCCL_SOCKET_IFNAME", "", [], "set but empty"),
        ("GLOO_SOCKET_IFNAME", "bond0", ["bond0"], ""),
        ("GLOO_SOCKET_IFNAME", "bond", [], "matches no interface"),
        ("GLOO_SOCKET_IFNAME", "10.0.0.5", [], "holds an address, its interface is bond0"),
        ("NCCL_SOCKET_IFNAME", "10.1.1.1", [], "no interface of this host has"),
        ("NCCL_SOCKET_IFNAME", "fe80::1", [], "its interface is eth1"),
    ],
)
def test_ifname_judgment(variable, text, chosen, trouble):
    found, said = judge_ifname(variable, text, HOST)
    assert found == chosen
    assert (trouble in said) if trouble else said == ""


def test_usable_interfaces():
    assert usable_interfaces(HOST) == ["bond0", "bond0.2093"]
    assert usable_interfaces({"lo": ["127.0.0.1", "::1"]}) == []


def test_this_machine_has_loopback():
    assert "127.0.0.1" in list_interfaces().get("lo", [])


def test_a_port_that_swallows_is_told_from_a_closed_one():
    """A queue that is full drops what comes, as a firewall does; a closed port refuses."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        place = Endpoint("127.0.0.1", port, "127.0.0.1", "test")
        assert not port_swallows(place, 1.0)
        server.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for line in waiting:
            line.setblocking(False)
            line.connect_ex(("127.0.0.1", port))
        assert port_swallows(place, 1.0)
        for line in waiting:
            line.close()
