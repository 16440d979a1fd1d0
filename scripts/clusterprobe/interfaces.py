"""Network interfaces of this host and the patterns of NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME.

NCCL reads a comma list of prefixes; `=` in front makes the names exact, `^` excludes, `^=` excludes exact
names. Gloo reads exact names only. A prefix matches more than people expect (bond0 takes bond0.2093 too).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from clusterprobe.rendezvous import is_loopback

SIOCGIFADDR = 0x8915  # Linux: IPv4 address of an interface
IFNAME_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


@dataclass(frozen=True)
class IfPattern:
    """A parsed *_SOCKET_IFNAME."""

    names: Tuple[str, ...]
    exact: bool
    exclude: bool

    def accepts(self, name: str) -> bool:
        hit = any(name == one if self.exact else name.startswith(one) for one in self.names)
        return hit != self.exclude


def parse_ifname(text: str, gloo: bool = False) -> IfPattern:
    """The pattern as the library reads it."""
    rest = text.strip()
    exclude = rest.startswith("^") and not gloo
    rest = rest[1:] if exclude else rest
    exact = rest.startswith("=") or gloo
    rest = rest[1:] if rest.startswith("=") and not gloo else rest
    return IfPattern(
        tuple(name.strip() for name in rest.split(",") if name.strip()), exact, exclude
    )


def list_interfaces() -> Dict[str, List[str]]:
    """Interface names with their addresses; IPv6 link-local addresses carry no scope here."""
    try:
        names = [name for _, name in socket.if_nameindex()]
    except (OSError, AttributeError):
        return {}
    found: Dict[str, List[str]] = {name: [] for name in names}
    for name in names:
        address = _ipv4_of(name)
        if address:
            found[name].append(address)
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            for line in file:
                digits, *_, name = line.split()
                packed = bytes.fromhex(digits)
                found.setdefault(name, []).append(socket.inet_ntop(socket.AF_INET6, packed))
    except OSError:
        pass  # no IPv6 in this kernel: the IPv4 addresses are the answer
    return found


def _ipv4_of(name: str) -> Optional[str]:
    try:
        import fcntl  # not on Windows
    except ImportError:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(
                probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15])
            )
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def interface_of(address: str, interfaces: Mapping[str, List[str]]) -> Optional[str]:
    """The interface that owns a local address."""
    return next((name for name, owned in interfaces.items() if address in owned), None)


def judge_ifname(
    variable: str, text: str, interfaces: Mapping[str, List[str]]
) -> Tuple[List[str], str]:
    """(interfaces it selects, what is wrong with it or '')."""
    pattern = parse_ifname(text, gloo=variable.startswith("GLOO"))
    if not pattern.names:
        return [], f"{variable} is set but empty"
    for name in pattern.names:
        owner = next((one for one, owned in interfaces.items() if name in owned), None)
        if (
            owner
            or (name.count(".") == 3 and name.replace(".", "").isdigit())
            or name.count(":") > 1
        ):
            which = (
                f", its interface is {owner}" if owner else " that no interface of this host has"
            )
            return [], f"{variable}={text} holds an address{which}; write the interface's name"
    chosen = [name for name in interfaces if pattern.accepts(name)]
    if not chosen:
        return [], f"{variable}={text} matches no interface here; there are {', '.join(interfaces)}"
    wider = [name for name in chosen if name not in pattern.names]
    if (
        wider
        and not pattern.exact
        and not pattern.exclude
        and any(n in chosen for n in pattern.names)
    ):
        return chosen, (
            f"{variable}={text} is a prefix and also takes {', '.join(wider)}; "
            f"write ={text} for exact names"
        )
    return chosen, ""


def ifname_findings(environ: Mapping[str, str], leads: Optional[str] = None) -> List[str]:
    """What is wrong on this host with the patterns that are set, fatal or not. `leads` goes to rank 0.

    NCCL's interface is often another one on purpose; gloo's seldom is, and then its connections are refused.
    """
    interfaces = list_interfaces()
    judged = [
        judge_ifname(variable, environ[variable], interfaces)[1]
        for variable in IFNAME_VARIABLES
        if variable in environ
    ]
    gloo = environ.get("GLOO_SOCKET_IFNAME", "").strip()
    if leads and gloo in interfaces and gloo != leads:
        judged.append(
            f"GLOO_SOCKET_IFNAME={gloo}, but rank 0 is reached on {leads}: unset it, unless {gloo} too leads to every host"
        )
    return [trouble for trouble in judged if trouble]


def usable_interfaces(interfaces: Mapping[str, List[str]]) -> List[str]:
    """Interfaces with an address that another host could reach."""
    return [
        name
        for name, owned in interfaces.items()
        if any(not is_loopback(one) and not one.startswith("fe80") for one in owned)
    ]
