"""Stages 0 to 2 of torch-distributed-gpu-test: what one rank can find out alone.

Each returns a line for the table or raises; a failure travels to rank 0 with the census where it can.
"""

from __future__ import annotations

import os
from typing import Tuple

from clusterprobe.backend import refuse_backend
from clusterprobe.device import absent_reason, choose_kind, count_devices, load_torch
from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.interfaces import (
    IFNAME_VARIABLES,
    judge_ifname,
    list_interfaces,
    usable_interfaces,
)
from clusterprobe.preflight import installed_gpus
from clusterprobe.rendezvous import (
    Endpoint,
    choose_endpoint,
    is_loopback,
    port_is_taken,
    source_address,
)
from clusterprobe.session import Session

PREFLIGHT_STAGE = 4


def look_at_launcher(session: Session) -> str:
    """Stage 0: who started this rank."""
    env = session.env
    for note in env.notes:
        session.report.warn(note)
    where = f", local rank {env.local_rank}"
    where += f" of {env.local_world_size}" if env.local_world_size else ""
    return f"{env.launcher}: rank {env.rank} of {env.world_size:,}{where}"


def look_at_devices(session: Session) -> str:
    """Stage 1: bind the device; a GPU on the bus that torch can't see is a failure, not a CPU run."""
    torch = load_torch()
    hidden = installed_gpus()
    if session.args.device == "auto" and choose_kind() == "cpu" and hidden:
        raise ProbeFailure(
            CANNOT_RUN,
            f"{len(hidden)} {hidden[0]} devices are on the PCI bus but torch sees none: "
            f"{absent_reason('cuda')}",
            "mend the driver, or use --device cpu to leave them out",
        )
    device = session.open_device()
    if session.args.backend:
        refuse_backend(
            session.args.backend, device.kind, torch.__version__, torch.distributed
        )
    count = count_devices(device.kind)
    identity = device.uuid or device.pci
    return f"torch {torch.__version__}, {count} × {device.name}" + (
        f", mine is {identity}" if identity else ""
    )


def find_endpoint(session: Session) -> Tuple[Endpoint, str]:
    """The store's place and the local address that reaches it; raises when no store can be there."""
    endpoint = choose_endpoint(session.env, session.args.init)
    if session.env.local_world_size != session.env.world_size and not usable_interfaces(
        list_interfaces()
    ):
        raise ProbeFailure(
            CANNOT_RUN,
            "no interface of this host has an address but loopback",
            "several nodes need a network: ip addr",
        )
    source = source_address(endpoint.address)
    if source is None:
        raise ProbeFailure(
            CANNOT_RUN,
            f"no route from this host to {endpoint.host}"
            + ("" if endpoint.host == endpoint.address else f" ({endpoint.address})"),
            f"ip route get {endpoint.address}",
        )
    if session.env.rank == 0 and not session.env.agent_store and port_is_taken(endpoint):
        raise ProbeFailure(
            CANNOT_RUN,
            f"port {endpoint.port} is in use on rank 0's host",
            "set MASTER_PORT to a free port; `ss -ltnp` shows who holds this one",
        )
    return endpoint, source


def look_at_address(session: Session) -> str:
    """Stage 2: interface patterns, name, family, route and port of the store."""
    interfaces = list_interfaces()
    notes = []
    for variable in IFNAME_VARIABLES:
        if os.environ.get(variable) is not None:
            chosen, trouble = judge_ifname(variable, os.environ[variable], interfaces)
            if trouble and not chosen:
                raise ProbeFailure(CANNOT_RUN, trouble, f"mend or unset {variable}")
            if trouble and session.args.stop_after < PREFLIGHT_STAGE:  # which tells it of every host
                session.report.warn(trouble)
            notes.append(f"{variable} takes {', '.join(chosen)}")
    if session.env.world_size == 1:
        return "; ".join(["one rank, nothing to reach", *notes])
    endpoint, source = find_endpoint(session)
    by = next((name for name, owned in interfaces.items() if source in owned), "?")
    family = (
        "IPv6"
        if ":" in endpoint.address
        else "loopback"
        if is_loopback(endpoint.address)
        else "IPv4"
    )
    shown = (
        endpoint.address
        if endpoint.host == endpoint.address
        else f"{endpoint.host} is {endpoint.address}"
    )
    return "; ".join(
        [
            f"{shown} port {endpoint.port} ({endpoint.source}, {family}), reached from {source} on {by}",
            *notes,
        ]
    )
