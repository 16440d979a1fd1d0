"""Clock offsets between hosts, so that entry stamps of different hosts can be compared.

One rank per node asks a small TCP server on rank 0 for its time, many times, and believes the answer with
the smallest round trip; half of that trip bounds the error. The other ranks of the node read the same
clock and take over the result through the store.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from clusterprobe.topology import node_groups

STAMP = struct.Struct("!q")
CLOCK_PINGS = 40
CLOCK_LIMIT = 3.0  # seconds for connecting and for each answer


@dataclass(frozen=True)
class ClockOffset:
    """Add `offset` to this host's clock to get rank 0's; `error` bounds the mistake. Nanoseconds."""

    offset: int
    error: int


class ClockServer:
    """Answers each byte with the time; one thread for all clients."""

    def __init__(self, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.bind((address, 0))
        self._socket.listen(1024)
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self._stop = threading.Event()
        threading.Thread(target=self._serve, name="clock", daemon=True).start()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while not self._stop.is_set():
                for key, _ in selector.select(0.2):
                    self._answer(selector, key.fileobj)
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def _answer(self, selector: Any, peer: Any) -> None:
        try:
            if peer is self._socket:
                client, _ = peer.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(client, selectors.EVENT_READ)
            elif peer.recv(1):
                peer.sendall(STAMP.pack(time.perf_counter_ns()))
            else:
                raise ConnectionError("closed")
        except OSError:
            if peer is not self._socket:
                selector.unregister(peer)
                peer.close()

    def close(self) -> None:
        self._stop.set()


def ask_clock(address: str, port: int, pings: int = CLOCK_PINGS) -> ClockOffset:
    """OSError when the server can't be reached."""
    best: Optional[ClockOffset] = None
    with socket.create_connection((address, port), CLOCK_LIMIT) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(pings):
            sent = time.perf_counter_ns()
            peer.sendall(b"?")
            answer = b""
            while len(answer) < STAMP.size:
                piece = peer.recv(STAMP.size - len(answer))
                if not piece:
                    raise ConnectionError("the clock server closed the connection")
                answer += piece
            now = time.perf_counter_ns()
            look = ClockOffset(STAMP.unpack(answer)[0] - (sent + now) // 2, (now - sent) // 2)
            best = look if best is None or look.error < best.error else best
    return best or ClockOffset(0, 0)


def agree_on_clocks(session: Any, places: Sequence[int]) -> Optional[ClockOffset]:
    """This rank's offset; None where the server can't be reached. Every rank must call it."""
    control, env = session.control, session.env
    if control.endpoint is None:
        return ClockOffset(0, 0)
    server = None
    if env.rank == 0:
        server = ClockServer(control.endpoint.address)
        control.share("clock", server.port)
    port = control.receive("clock", session.patience())
    node = places[env.rank]
    leader = env.rank == next(rank for rank, place in enumerate(places) if place == node)
    found: Optional[ClockOffset] = None
    if leader:
        try:
            found = ClockOffset(0, 0) if env.rank == 0 else ask_clock(control.endpoint.address, port)
        except OSError as error:
            session.report.warn(f"clock of node {node}: {error}")
        control.share(f"clock/{node}", [found.offset, found.error] if found else None)
    else:
        told = control.receive(f"clock/{node}", session.patience())
        found = ClockOffset(*told) if told else None
    control.all_together("clock", session.patience())
    if server is not None:
        server.close()
    return found


def node_leaders(places: Sequence[int]) -> Sequence[int]:
    """The first rank of every node."""
    return [group[0] for group in node_groups([str(place) for place in places])]
