"""Where the ranks meet: address and port of the control store, looked at before torch is asked.

torch retries an unresolvable name for many seconds and ends in a native trace. Here names are resolved,
routed and connected to with plain sockets first, so that the answer is one sentence.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from clusterprobe.exits import CANNOT_RUN, MISSING_RANK, ProbeFailure
from clusterprobe.expected import listed_host
from clusterprobe.launch import RankEnv, derived_port

RESOLVE_LIMIT = 5.0


@dataclass(frozen=True)
class Endpoint:
    """`host` as given (without brackets), `address` as resolved, `source` says where it comes from."""

    host: str
    port: int
    address: str
    source: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Tuple[str, Optional[int]]:
    """(host, port) of `tcp://h:1`, `h:1`, `[::1]:1`, `::1`, `[::1]`, `h`. Brackets are taken off."""
    rest = text.strip()
    for scheme in ("tcp://", "env://"):
        rest = rest[len(scheme) :] if rest.startswith(scheme) else rest
    rest = rest.split("/")[0].split("?")[0]
    if rest.startswith("["):
        host, closed, tail = rest[1:].partition("]")
        if not closed or (tail and not (tail.startswith(":") and tail[1:].isdigit())):
            raise ValueError(f"{text!r} is not host:port; an IPv6 address is written [::1]:29500")
        return host, int(tail[1:]) if tail else None
    if rest.count(":") > 1:  # a bare IPv6 address
        return rest, None
    host, colon, port = rest.partition(":")
    if not host or (colon and not port.isdigit()):
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port) if colon else None


def resolve_host(host: str, limit: float = RESOLVE_LIMIT) -> List[str]:
    """Addresses of a name, numeric ones unchanged; the resolver can hang, so it gets a time limit."""
    answer: List[object] = []

    def ask() -> None:
        try:
            answer.append(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answer.append(error)

    asker = threading.Thread(target=ask, name="resolver", daemon=True)
    asker.start()
    asker.join(limit)
    if not answer:
        raise ProbeFailure(
            CANNOT_RUN,
            f"the resolver did not answer for {host} within {limit:g} s",
            "check /etc/resolv.conf on this host, or give MASTER_ADDR as an address",
        )
    if isinstance(answer[0], Exception):
        raise ProbeFailure(
            CANNOT_RUN,
            f"cannot resolve {host} ({getattr(answer[0], 'strerror', None) or answer[0]})",
            f"check MASTER_ADDR; `getent hosts {host}` must answer on every node",
        )
    found: List[str] = []
    for family, _, _, _, sockaddr in answer[0]:  # type: ignore[attr-defined]
        if family in (socket.AF_INET, socket.AF_INET6) and sockaddr[0] not in found:
            found.append(sockaddr[0])
    return found


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.split("%")[0]).is_loopback
    except ValueError:
        return False


def source_address(address: str, port: int = 9) -> Optional[str]:
    """The local address from which the kernel would route to `address`; None when there is no route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, port))  # a datagram socket sends nothing on connect
            return probe.getsockname()[0]
        except OSError:
            return None


def owns_address(address: str) -> bool:
    """Whether this host can bind the address, in other words whether it is one of its own."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address.split("%")[0], 0))
            return True
        except OSError:
            return False


def _refuse_loopback(env: RankEnv, host: str, addresses: Sequence[str]) -> None:
    """Each of several nodes would look for rank 0 on itself."""
    several = len(env.nodelist) > 1 or (env.local_world_size or env.world_size) < env.world_size
    if (
        several
        and all(is_loopback(address) for address in addresses)
        and not nodes_are_here(env.nodelist)
    ):
        raise ProbeFailure(
            CANNOT_RUN,
            f"{host} is loopback ({addresses[0]}) but the world has more than one node",
            "set MASTER_ADDR to an address of rank 0 that other nodes reach"
            + ("" if host in addresses else f"; a line `127.0.1.1 {host}` in /etc/hosts also causes this"),
        )


def choose_endpoint(env: RankEnv, init: Optional[str] = None) -> Endpoint:
    """The store's place from --init, the launcher, or the node list; refuses what can't work."""
    host, port, source = env.master_addr, env.master_port, "MASTER_ADDR"
    if init:
        try:
            given, given_port = parse_endpoint(init)
        except ValueError as error:
            raise ProbeFailure(CANNOT_RUN, str(error)) from None
        host, source = given, "--init"
        port = port if given_port is None else given_port
    elif host:
        host = parse_endpoint(host)[0] if host.startswith("[") else host
    if not host and env.nodelist:
        host, source = listed_host(env, 0) or env.nodelist[0], "node list"
    one_node = (
        env.world_size == 1 or env.local_world_size == env.world_size or len(env.nodelist) == 1
    )
    if not host and one_node:
        host, source = "127.0.0.1", "one node"
    if not host:
        raise ProbeFailure(
            CANNOT_RUN,
            f"nothing tells where rank 0 is ({env.launcher}, world {env.world_size})",
            "set MASTER_ADDR to rank 0's host, with mpirun: -x MASTER_ADDR=$(hostname -I | cut -d' ' -f1)",
        )
    if port is not None and not 1 <= port <= 65535:
        raise ProbeFailure(
            CANNOT_RUN,
            f"{source if init else 'MASTER_PORT'} gives port {port}; ports are 1 to 65535",
            "give a free port above 1024",
        )
    addresses = resolve_host(host)
    _refuse_loopback(env, host, addresses)
    return Endpoint(host, port or derived_port(env.job or env.launcher), addresses[0], source)


def nodes_are_here(nodelist: Sequence[str]) -> bool:
    """Whether every listed node resolves to loopback: one machine that plays a small cluster."""
    if not 1 < len(nodelist) <= 8:
        return False
    try:
        return all(is_loopback(address) for host in nodelist for address in resolve_host(host))
    except ProbeFailure:
        return False


def wait_for_listener(endpoint: Endpoint, limit: float, who: str) -> None:
    """Try to connect until somebody listens. `who` names the rank that should, for the message."""
    end = time.monotonic() + limit
    error: Optional[OSError] = None
    while True:
        try:
            left = max(0.2, min(3.0, end - time.monotonic()))
            socket.create_connection((endpoint.address, endpoint.port), timeout=left).close()
            return
        except OSError as problem:
            error = problem
        if time.monotonic() >= end:
            raise ProbeFailure(
                MISSING_RANK,
                f"{who} did not open {endpoint} within {limit:g} s ({error.strerror or error})",
                f"is rank 0 running there, and is port {endpoint.port} open between the nodes?",
            )
        time.sleep(0.2)


def port_is_taken(endpoint: Endpoint) -> Optional[str]:
    """Why the port can't be bound on this host, None when it can."""
    family = socket.AF_INET6 if ":" in endpoint.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", endpoint.port))
            return None
        except OSError as error:
            return error.strerror or str(error)


def port_swallows(endpoint: Endpoint, limit: float = 3.0) -> bool:
    """Whether this host drops what it sends to its own port: a closed one refuses at once."""
    try:
        socket.create_connection((endpoint.address, endpoint.port), timeout=limit).close()
    except socket.timeout:
        return True
    except OSError:
        pass  # refused: closed, as it should be
    return False
