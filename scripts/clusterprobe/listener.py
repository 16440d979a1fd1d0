"""Who listens at the control store's port when torch does not get through: torch's store, a stranger, or nobody awake.

Comes in: the endpoint. Goes out: a word, and the failure that says it.
"""

from __future__ import annotations

import socket
import struct

from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.rendezvous import Endpoint

# What a client of torch sends first: VALIDATE and its magic number, then PING with a number to give back.
STORE_HELLO = b"\x00" + struct.pack("<I", 0x3C85F7CE) + b"\x0d" + struct.pack("<I", 0x5AFE)
STORE_ANSWER = struct.pack("<I", 0x5AFE)


def ask_listener(endpoint: Endpoint, limit: float) -> str:
    """Who listens there: `store` of torch, `stranger`, or `silent`.

    Silence is no proof: torch's server looks up the name of every peer before it serves the next, so with
    a slow resolver and many ranks it keeps still for seconds.
    """
    try:
        with socket.create_connection((endpoint.address, endpoint.port), max(0.5, limit)) as line:
            line.settimeout(max(0.5, limit))
            line.sendall(STORE_HELLO)
            return "store" if line.recv(len(STORE_ANSWER)) == STORE_ANSWER else "stranger"
    except socket.timeout:
        return "silent"
    except OSError:
        return "stranger"


def foreign_listener(endpoint: Endpoint, silent: bool = False) -> ProbeFailure:
    """Not our store, as far as can be heard: the kernel takes connections for a stopped rank 0 as well."""
    if silent:
        return ProbeFailure(
            CANNOT_RUN,
            f"port {endpoint.port} on {endpoint.host} takes connections and says nothing: rank 0 is stopped "
            "there, or another program holds the port",
            "on that host `ss -ltnp` shows who holds it; a rank 0 in state T is stopped, for another program "
            "set MASTER_PORT to a free port",
        )
    return ProbeFailure(
        CANNOT_RUN,
        f"port {endpoint.port} on {endpoint.host} answers, but not as this run's store: "
        "another program holds it",
        "set MASTER_PORT to a free port",
    )
