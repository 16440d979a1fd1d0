"""Draw the figures of chapter "Network debugging": `python3 network_debugging.py` writes them one folder up.

Standard library only. The curves come from measurements/nccl_pair_transports.json and nccl_pair_protocols.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import inkdraw as d

FIGURES = Path(__file__).resolve().parents[1]
MEASUREMENTS = FIGURES.parent / "measurements"

QUESTIONS = (
    (("Log says NET/Socket?", "Using network Socket"), "no",
     ("No RDMA in this process", "plugin, library, device, variable")),
    (("As many NICs as in the node?", "list behind NET/IB : Using"), "no",
     ("Filter or container", "NCCL_IB_HCA, devices, port down")),
    (("GDRDMA on every channel?", "on all ranks alike"), "no",
     ("Through host memory", "peermem or DMA-BUF, ACS, distance")),
    (("P2P inside each node?", "not SHM, not NET"), "no",
     ("Peer access is off", "containers, ACS, a P2P variable")),
    (("Do error counters stand still?", "two snapshots around a run"), "no",
     ("Cable, port, loss, MTU", "the port whose counter rose")),
    (("Are all pairs of hosts alike?", "pair matrix"), "no",
     ("One host or one link", "drain, then look at its counters")),
    (("Do all ranks arrive together?", "none has the shortest time"), "no",
     ("A straggler, not the network", "data, clocks, the code before")),
)


def triage() -> str:
    parts, step, left, right = [], 66, 4, 322
    for n, (question, _, answer) in enumerate(QUESTIONS):
        y = 6 + n * step
        good = "no" if n == 0 else "yes"
        parts += [d.box(left, y, 252, 46, "#f2f4f7", 4), d.text(left + 126, y + 19, question[0], 14, "middle", True),
                  d.text(left + 126, y + 37, question[1], 13, "middle")]
        parts += [d.box(right, y, 254, 46, "#d5dbe3", 4), d.text(right + 127, y + 19, answer[0], 14, "middle", True),
                  d.text(right + 127, y + 37, answer[1], 13, "middle")]
        parts += [d.arrow(left + 252, y + 23, right - 2, y + 23), d.text(left + 274, y + 17, "yes" if n == 0 else "no", 13)]
        if n < len(QUESTIONS) - 1:
            parts += [d.arrow(left + 126, y + 46, left + 126, y + step - 2), d.text(left + 134, y + 61, good, 13)]
    return d.svg(580, 6 + len(QUESTIONS) * step - 14, "Seven questions when the bandwidth is ten times too low", parts)


def curves() -> dict[str, list[tuple[int, float]]]:
    worlds = json.loads((MEASUREMENTS / "nccl_pair_transports.json").read_text())["worlds"]
    default = next(w for w in json.loads((MEASUREMENTS / "nccl_pair_protocols.json").read_text())["worlds"]
                   if w["name"] == "default")
    found = {world["name"]: world["rows"] for world in worlds} | {"p2p": default["rows"]}
    return {name: [(row["bytes"], row["busbw_gb_per_s"]) for row in rows if 2**10 < row["bytes"] <= 2**27]
            for name, rows in found.items()}


def transports() -> str:
    chart = d.Chart(d.Axis(2.0**10.6, 2.0**27.5, d.sizes(11, 15, 19, 23, 27), True),
                    d.Axis(0.01, 600, [(0.01, "0.01"), (0.1, "0.1"), (1, "1"), (10, "10"), (100, "100")], True),
                    62, 30, 440, 220)
    for name, shape, dash in (("p2p", "dot", ""), ("shm", "square", "6 4"), ("socket", "diamond", "2 3")):
        points = curves()[name]
        chart.line(points, dash, 1.2)
        for point in points:
            chart.mark(*point, shape)
    last = {name: points[-1] for name, points in curves().items()}
    chart.label(*last["p2p"], "P2P over NVLink", -6, -11, "end")
    chart.label(*last["shm"], "SHM, host memory", -6, 22, "end")
    chart.label(*last["socket"], "NET/Socket", -6, 22, "end")
    chart.titles("S, logarithmic", "busbw, GB/s, logarithmic")
    return d.svg(526, 292, "All-reduce of two H200 over three transports of NCCL", chart.parts)


def main() -> None:
    for name, draw in (("triage", triage), ("transports", transports)):
        (FIGURES / f"network-debugging-{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
