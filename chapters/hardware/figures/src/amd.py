"""Figures of "AMD GPUs": which GPUs two filters leave, and what a mesh gives 2, 4 and 8 GPUs.

python3 chapters/hardware/figures/src/amd.py     writes ../amd-layers.svg and ../amd-mesh.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import inkdraw as d

OUT = Path(__file__).resolve().parents[1]
LINK = {
    "MI300X": (64.0, 48.0),
    "MI350X": (76.5, None),
}  # GB/s one way: per link, RCCL's plan for it
PASS = {"MI300X": 304.0, "MI350X": 350.0}  # busbw AMD's suite asks for, 8 GPUs


def row(y: float, label: str, cells: list[tuple[int, str]], of: int) -> list[str]:
    parts = [d.text(8, y + 20, label)]
    for place, words in cells:
        x = 222 + 46 * place
        parts += [d.box(x, y, 38, 30, d.SHADES[1]), d.text(x + 19, y + 20, words, anchor="middle")]
    held = [place for place, _ in cells]
    for place in (p for p in range(of) if p not in held):
        parts.append(d.box(222 + 46 * place, y, 38, 30))
    return parts


def layers() -> str:
    """ROCR=4,5,6,7 leaves positions 0-3; HIP=1,0 picks among those."""
    parts = row(16, "the node's GPUs", [(n, str(n)) for n in range(8)], 8)
    parts += row(112, "ROCR=4,5,6,7", [(n, str(4 + n)) for n in range(4)], 4)
    parts += row(208, "HIP=1,0 counts in those", [(0, "5"), (1, "4")], 2)
    for n in range(4):
        parts.append(d.arrow(222 + 46 * (4 + n) + 19, 46, 222 + 46 * n + 19, 112))
    parts += [d.arrow(287, 142, 241, 208), d.arrow(241, 142, 287, 208)]
    parts += [d.text(236, 256, "cuda:0", 12, "middle"), d.text(292, 256, "cuda:1", 12, "middle")]
    parts += [
        d.text(430, 132, "positions 0 to 3", 13),
        d.text(340, 228, "HIP=4,5 would find nothing", 13),
    ]
    return d.svg(
        600, 268, "ROCR filters physical GPUs; HIP counts positions in what ROCR left", parts
    )


def mesh() -> str:
    """Upper bound on busbw in a full mesh, with RCCL's own link rate and AMD's pass marks."""
    parts: list[str] = []
    scale, left = 0.62, 150.0
    y = 14.0
    for name, (link, plan) in LINK.items():
        for gpus in (2, 4, 8):
            bound = (gpus - 1) * link
            parts.append(d.text(left - 8, y + 18, f"{name}, {gpus} GPUs", anchor="end"))
            parts.append(d.box(left, y, bound * scale, 26, d.SHADES[1], 0))
            if plan:
                parts.append(d.box(left, y + 8, (gpus - 1) * plan * scale, 10, d.SHADES[3], 0))
            parts.append(d.text(left + bound * scale + 6, y + 18, f"{bound:g}"))
            if gpus == 8:
                x = left + PASS[name] * scale
                parts.append(
                    f'<line x1="{x:.4g}" y1="{y - 4:.4g}" x2="{x:.4g}" y2="{y + 30:.4g}" '
                    f'stroke="{d.INK}" stroke-width="2.4"/>'
                )
                parts.append(d.text(x, y + 45, f"AMD's pass mark {PASS[name]:g}", 13, "middle"))
            y += 34
        y += 24
    parts += [
        d.text(
            8,
            y + 8,
            "Light: (g - 1) links at the printed rate, one way, GB/s. Dark: the 48 RCCL plans with.",
            13,
        )
    ]
    return d.svg(600, int(y + 20), "Bus bandwidth a full mesh allows 2, 4 and 8 GPUs", parts)


FIGURES = {"amd-layers": layers, "amd-mesh": mesh}


def main() -> None:
    for name, draw in FIGURES.items():
        (OUT / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
