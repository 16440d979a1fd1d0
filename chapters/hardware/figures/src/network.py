"""Draw the three figures of the network chapter: `python3 network.py` writes the SVG files one folder up.

Numbers come from data/interconnects.yaml. Ink on white, meaning by shape and words, so that greyscale
loses nothing. Needs PyYAML.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml
from inkdraw import INK, box, circle, svg, text

OUT = Path(__file__).resolve().parents[1]
DATA = OUT.parents[2] / "data/interconnects.yaml"
SOFT, GREY, PALE, WHITE = "#5b6570", "#cfd6df", "#eef1f5", "#ffffff"


def figure_of(record: str, key: str) -> float:
    node: Any = yaml.safe_load(DATA.read_text(encoding="utf-8"))[record][key]
    return float(node["value"] if isinstance(node, dict) else node)


def line(x1: float, y1: float, x2: float, y2: float, width: float = 1, dash: str = "", ink: str = INK) -> str:
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{ink}" '
        f'stroke-width="{width:g}"{extra}/>'
    )


def units() -> str:
    """One link, six numbers: the same NVLink 4 as a bar for each way to quote it."""
    links = figure_of("nvlink4", "links")
    usable = links * figure_of("nvlink4", "usable_link_one_way_gb_per_s")
    raw = links * figure_of("nvlink4", "raw_link_one_way_gb_per_s")
    rows = [
        ("printed, both directions added", figure_of("nvlink4", "two_way_gb_per_s"), GREY),
        ("raw one-way, by nvidia-smi", raw, PALE),
        ("one-way, after the encoding", figure_of("nvlink4", "one_way_gb_per_s"), GREY),
        ("copy to the other GPU, measured", figure_of("nvlink4", "measured_one_way_gb_per_s"), PALE),
        ("NCCL's plan for a ring (busbw)", usable, GREY),
        ("that ring's algbw, 8 GPUs", usable * 8 / 14, PALE),
    ]
    scale = 270 / 900
    parts = []
    for at, (words, value, fill) in enumerate(rows):
        y = 10 + 30 * at
        parts.append(text(262, y + 17, words, 15, "end"))
        parts.append(box(270, y, value * scale, 22, fill, 0))
        inside = value > 800
        x = 270 + value * scale + (-6 if inside else 6)
        parts.append(text(x, y + 16, f"{value:.0f}", 15, "end" if inside else "start", True))
    parts.append(text(270, 10 + 30 * len(rows) + 12, "GB/s for one H100 or H200"))
    return svg(560, 206, "Six ways to quote one NVLink 4", parts)


def ring_points(cx: float, cy: float, radius: float, count: int) -> list[tuple[float, float]]:
    angles = [2 * math.pi * k / count - math.pi / 2 for k in range(count)]
    return [(cx + radius * math.cos(a), cy + radius * math.sin(a)) for a in angles]


def caption(x: float, y: float, title: str, lines: list[str]) -> list[str]:
    head = text(x, y, title, 14, "middle", True)
    return [head, *(text(x, y + 18 * (k + 1), words, 14, "middle") for k, words in enumerate(lines))]


def topologies() -> str:
    """Switch, full mesh and torus: what a pair gets and what all links give."""
    parts = []
    points = ring_points(95, 92, 68, 8)
    parts += [line(95, 92, x, y, 2.4) for x, y in points]
    parts += [box(71, 80, 48, 24, GREY), text(95, 96, "switch", 12, "middle")]
    parts += [circle(x, y, 8) for x, y in points]
    pair, every = (figure_of("nvlink4", k) for k in ("pair_one_way_gb_per_s", "one_way_gb_per_s"))
    parts += caption(95, 192, "NVLink 4, switch", [f"a pair: {pair:.0f} GB/s", f"all peers: {every:.0f} GB/s"])
    points = ring_points(280, 92, 68, 8)
    parts += [line(*points[a], *points[b], 0.9) for a in range(8) for b in range(a)]
    parts += [circle(x, y, 8) for x, y in points]
    pair, every = (figure_of("xgmi_mi300", k) for k in ("pair_one_way_gb_per_s", "one_way_gb_per_s"))
    parts += caption(280, 192, "MI300X, full mesh", [f"a pair: {pair:.0f} GB/s", f"all peers: {every:.0f} GB/s"])
    grid = [(407 + 38 * c, 35 + 38 * r) for r in range(4) for c in range(4)]
    for r in range(4):
        parts.append(line(407 - 20, 35 + 38 * r, 407 + 38 * 3 + 20, 35 + 38 * r))
        parts.append(line(407 + 38 * r, 35 - 20, 407 + 38 * r, 35 + 38 * 3 + 20))
    parts += [circle(x, y, 8) for x, y in grid]
    pair, every = (figure_of("ici_v6e", k) for k in ("pair_one_way_gb_per_s", "one_way_gb_per_s"))
    parts += caption(464, 192, "TPU v6e, torus", [
        f"a neighbor: {pair:.0f} GB/s", f"four neighbors: {every:.0f} GB/s", "open ends wrap around",
    ])  # fmt: skip
    return svg(560, 256, "A switch, a full mesh and a torus", parts)


def rails() -> str:
    """A rail-optimised fat tree: rail i of each node ends at leaf i."""
    parts = []
    starts, pitch, width = (14.0, 200.0, 386.0), 40.0, 160.0
    leaf_x, leaf_y, spine_y, nic_y = (72.0, 212.0, 352.0, 492.0), 92.0, 22.0, 196.0
    for x in leaf_x:
        for s in (190.0, 372.0):
            parts.append(line(x, leaf_y, s, spine_y + 24, 0.8, ink=SOFT))
    parts += [box(start, nic_y - 8, width, 104, PALE) for start in starts]
    for n, start in enumerate(starts):
        for rail, x in enumerate(leaf_x):
            wide = 3.2 if rail == 1 and n != 1 else 0.9
            dash = "6 4" if rail == 3 and n != 1 else ""
            wide = 2.4 if dash else wide
            parts.append(line(start + 20 + pitch * rail, nic_y, x, leaf_y + 24, wide, dash))
    for s in (190.0, 372.0):
        parts += [box(s - 45, spine_y, 90, 24, GREY), text(s, spine_y + 17, "spine", 14, "middle")]
    for rail, x in enumerate(leaf_x):
        parts += [box(x - 38, leaf_y, 76, 24, GREY), text(x, leaf_y + 17, f"leaf {rail}", 14, "middle")]
    for n, start in enumerate(starts):
        for rail in range(4):
            x = start + 20 + pitch * rail
            parts += [box(x - 15, nic_y, 30, 18), text(x, nic_y + 14, f"N{rail}", 12, "middle")]
            parts.append(line(x, nic_y + 18, x, nic_y + 36))
            parts += [box(x - 15, nic_y + 36, 30, 20), text(x, nic_y + 51, f"G{rail}", 12, "middle")]
        parts.append(line(start + 20, nic_y + 66, start + 20 + 3 * pitch, nic_y + 66, 3))
        for rail in range(4):
            x = start + 20 + pitch * rail
            parts.append(line(x, nic_y + 56, x, nic_y + 66, 1.4))
        parts.append(text(start + width / 2, nic_y + 86, f"node {n}, NVLink below", 12, "middle"))
    parts.append(text(14, 322, "thick: G1 to G1 of another node, one leaf"))
    parts.append(text(14, 340, "dashed: G0 to G3 of another node, over NVLink to G3 first, then one leaf"))
    return svg(560, 350, "Rails: each GPU's NIC ends at the leaf of its own index", parts)


FIGURES = {"network-units": units, "network-topologies": topologies, "network-rails": rails}


def main() -> None:
    for name, draw in FIGURES.items():
        (OUT / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
