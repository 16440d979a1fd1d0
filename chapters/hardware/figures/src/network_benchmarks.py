"""Draw the figures of chapter "Network benchmarks": `python3 network_benchmarks.py` writes the SVG files.

Standard library only. The curves come from measurements/curve_shapes.json, the latency lines from the
constants of NCCL 2.30.7 that the chapter quotes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import inkdraw as d

FIGURES = Path(__file__).resolve().parents[1]
MEASUREMENTS = FIGURES.parent / "measurements"


def shapes() -> str:
    cases = json.loads((MEASUREMENTS / "curve_shapes.json").read_text())["cases"]
    chart = d.Chart(d.Axis(2.0**11.6, 2.0**24.5, d.sizes(12, 14, 16, 18, 20, 22, 24), True),
                    d.Axis(0.04, 70, [(0.1, "0.1"), (1, "1"), (10, "10"), (50, "50")], True), 62, 30, 430, 220)
    for case, shape, dash in (("healthy", "dot", ""), ("slow_link", "square", "6 4"), ("late_rank", "diamond", "2 3")):
        points = [(row["bytes"], row["busbw_mb_per_s"]) for row in cases[case]["rows"]]
        chart.line(points, dash, 1.2)
        for point in points:
            chart.mark(*point, shape)
    chart.label(2.0**16, 15, "healthy", -8, -10, "end")
    chart.label(2.0**22, 12.3, "one slow link", 10, 22)
    chart.label(2.0**16, 0.9, "one late rank", 10, 16)
    chart.titles("S, logarithmic", "busbw, MB/s, logarithmic")
    return d.svg(520, 292, "Bus bandwidth by size: healthy, one slow link, one late rank", chart.parts)


def ring_latency(nodes: int, per_node: int) -> float:
    """Microseconds, NCCL 2.30.7's terms for ring and Simple: base, NVLink steps, network steps."""
    steps, between = 2 * (nodes * per_node - 1), 2 * (nodes - 1)
    return 8.4 + (steps - between) * 3.4 + between * 14.0


def tree_latency(nodes: int, per_node: int) -> float:
    return 8.4 + 2 * ((per_node - 1) * 4.0 + math.log2(nodes) * 14.0)


def latency() -> str:
    chart = d.Chart(d.Axis(1.6, 1300, [(n, str(n)) for n in (2, 8, 32, 128, 512)], True),
                    d.Axis(50, 90000, [(100, "0.1 ms"), (1000, "1 ms"), (10000, "10 ms")], True), 62, 30, 430, 190)
    counts = [2**k for k in range(1, 11)]
    chart.line([(n, ring_latency(n, 8)) for n in counts])
    chart.line([(n, tree_latency(n, 8)) for n in counts], dash="6 4")
    chart.label(32, ring_latency(32, 8), "ring: linear in nodes", -8, -14, "end")
    chart.label(64, tree_latency(64, 8), "tree: logarithmic", 0, 22)
    chart.titles("Nodes of 8 GPUs, logarithmic", "Latency in NCCL's model, logarithmic")
    return d.svg(520, 262, "Latency of ring and tree by number of nodes", chart.parts)


def pair() -> str:
    curves = json.loads((MEASUREMENTS / "nccl_pair_summary.json").read_text())["curves"]
    chart = d.Chart(d.Axis(2.0**12.5, 2.0**29.5, d.sizes(13, 17, 21, 25, 29), True),
                    d.Axis(0.1, 450, [(0.1, "0.1"), (1, "1"), (10, "10"), (100, "100")], True), 62, 30, 430, 220)
    for name, shape, dash in (("protocols: default", "dot", ""), ("protocols: LL", "square", "6 4"),
                              ("transports: shm", "ring", ""), ("transports: socket", "diamond", "2 3")):
        points = [(size, rate) for size, _, rate in curves[name]["points"] if size >= 2**13]
        chart.line(points, dash, 1.2)
        for point in points:
            chart.mark(*point, shape)
    chart.label(2.0**25, 238, "NVLink, NCCL's choice", -8, -6, "end")
    chart.label(2.0**29, 123, "LL only", -2, 20, "end")
    chart.label(2.0**27, 27.3, "shared memory", -6, -9, "end")
    chart.label(2.0**27, 3.0, "sockets", -6, 20, "end")
    chart.titles("S, logarithmic", "busbw, GB/s, logarithmic")
    return d.svg(520, 292, "All-reduce between two H200 by protocol and transport", chart.parts)


def main() -> None:
    for name, draw in (("shapes", shapes), ("latency", latency), ("pair", pair)):
        (FIGURES / f"network-benchmarks-{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
