"""Time of one TCP message over loopback by size, and the fit t = latency + size / rate.

    python3 network_loopback.py --out network_loopback.json

Two processes, one connection, TCP_NODELAY; half of a round trip is taken as one message. Standard
library only. Loopback has no wire: the point is the shape of the curve, which every link shares.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import multiprocessing
import os
import platform
import socket
import statistics
import time

SIZES = [2**k for k in range(0, 27, 2)]  # 1 byte to 64 MiB
REPETITIONS = 41
FIT_UP_TO = 2**20  # larger messages leave the cache and follow memory, not the socket


def receive(link: socket.socket, view: memoryview) -> None:
    got = 0
    while got < len(view):
        got += link.recv_into(view[got:])


def echo(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in SIZES:
            view = memoryview(bytearray(size))
            for _ in range(REPETITIONS + 2):
                receive(link, view)
                link.sendall(view)


def measure() -> dict[int, list[float]]:
    seconds: dict[int, list[float]] = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = multiprocessing.Process(target=echo, args=(server.getsockname()[1],))
        peer.start()
        link, _ = server.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in SIZES:
            view = memoryview(bytearray(size))
            took = []
            for _ in range(REPETITIONS + 2):
                start = time.perf_counter()
                link.sendall(view)
                receive(link, view)
                took.append((time.perf_counter() - start) / 2)
            seconds[size] = took[2:]
        peer.join()
    return seconds


def fit(points: list[tuple[float, float]]) -> tuple[float, float]:
    """latency and rate that minimise the squared relative error of latency + size / rate."""
    weight = [1 / t**2 for _, t in points]
    sw = sum(weight)
    sx = sum(w * n for w, (n, _) in zip(weight, points, strict=True))
    sy = sum(w * t for w, (_, t) in zip(weight, points, strict=True))
    sxx = sum(w * n * n for w, (n, _) in zip(weight, points, strict=True))
    sxy = sum(w * n * t for w, (n, t) in zip(weight, points, strict=True))
    slope = (sw * sxy - sx * sy) / (sw * sxx - sx * sx)
    return (sy - slope * sx) / sw, 1 / slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    seconds = measure()
    rows = [
        {
            "bytes": size,
            "microseconds": round(statistics.median(took) * 1e6, 2),
            "least": round(min(took) * 1e6, 2),
            "greatest": round(max(took) * 1e6, 2),
            "gb_per_s": round(size / statistics.median(took) / 1e9, 4),
        }
        for size, took in seconds.items()
    ]
    fitted = [r for r in rows if r["bytes"] <= FIT_UP_TO]
    latency, rate = fit([(r["bytes"], r["microseconds"] / 1e6) for r in fitted])
    error = max(
        abs(math.log((latency + r["bytes"] / rate) / (r["microseconds"] / 1e6))) for r in fitted
    )
    result = {
        "schema": 1,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python3 network_loopback.py --out network_loopback.json",
        "system": f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, other work running beside",
        "repetitions": REPETITIONS,
        "rows": rows,
        "fit": {
            "up_to_bytes": FIT_UP_TO,
            "latency_us": round(latency * 1e6, 2),
            "rate_gb_per_s": round(rate / 1e9, 3),
            "half_speed_kib": round(latency * rate / 1024, 1),
            "worst_factor": round(math.exp(error), 2),
        },
    }
    with open(args.out, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
