"""Draw the figures of chapter "Collectives": `python3 collectives.py` writes the SVG files one folder up.

Standard library only. The measured points come from measurements/gloo_model.json, the model's lines from
gloo_fit.py beside it, the crossover from the two formulas of the chapter.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path

import inkdraw as d

FIGURES = Path(__file__).resolve().parents[1]
MEASUREMENTS = FIGURES.parent / "measurements"
sys.path.insert(0, str(MEASUREMENTS))

N = 4
CELL_W, CELL_H = 19.0, 17.0
RANKS = "0123"

# What each rank holds after the call, one string per rank, a letter per block: before, rank r holds
# r's blocks 0..3, written as its own letter A..D. "+" is the sum over ranks of that block.
MOVES = (
    ("broadcast from 1", ("BBBB",) * 4),
    ("reduce to 1", ("", "++++", "", "")),
    ("all-reduce", ("++++",) * 4),
    ("scatter from 1", ("B   ", " B  ", "  B ", "   B")),
    ("gather to 1", ("", "ABCD", "", "")),
    ("all-gather", ("ABCD",) * 4),
    ("reduce-scatter", ("+   ", " +  ", "  + ", "   +")),
    ("all-to-all", ("ABCD",) * 4),
    ("send to the next", ("DDDD", "AAAA", "BBBB", "CCCC")),
)
FILL = {"A": d.SHADES[0], "B": d.SHADES[1], "C": d.SHADES[2], "D": d.SHADES[3], "+": "#ffffff"}


def cells(x: float, y: float, rank: int, held: str, name: str) -> list[str]:
    out = []
    for place, letter in enumerate(held.ljust(N)):
        if letter == " ":
            continue
        left = x + place * CELL_W
        number = {"all-to-all": rank, "gather to 1": 0, "all-gather": 0}.get(name, place)
        out.append(d.box(left, y, CELL_W, CELL_H, FILL[letter], 0))
        ink = "#ffffff" if letter == "D" else d.INK
        words = f"Σ{number}" if letter == "+" else f"{letter}{number}"
        out.append(d.text(left + CELL_W / 2, y + 12.6, words, 11, "middle", letter == "+", ink))
    return out


def panel(x: float, y: float, name: str, after: tuple[str, ...]) -> list[str]:
    out = [d.text(x + 18, y, name, 14, bold=True)]
    for rank in range(N):
        top = y + 8 + rank * (CELL_H + 4)
        out.append(d.text(x + 8, top + 13, RANKS[rank], 12, "middle", fill=d.MUTED))
        out += cells(x + 18, top, rank, after[rank], name)
    return out


def moves() -> str:
    width, top = 150.0, 40.0
    parts = panel(4, top + 104, "before", ("AAAA", "BBBB", "CCCC", "DDDD"))
    parts.append(d.arrow(112, top + 152, 140, top + 152))
    for index, (name, after) in enumerate(MOVES):
        column, row = index % 3, index // 3
        parts += panel(148 + column * width, top - 18 + row * 122, name, after)
    return d.svg(600, 372, "What nine collectives leave on each of four ranks", parts)


def ring_panel(x: float, y: float) -> list[str]:
    spots = [(x + 66 + 48 * math.cos(math.pi * (0.25 * k - 0.5)),
              y + 68 + 48 * math.sin(math.pi * (0.25 * k - 0.5))) for k in range(8)]
    out = [d.between(spots[k], spots[(k + 1) % 8], 12) for k in range(8)]
    for k, (cx, cy) in enumerate(spots):
        out += [d.circle(cx, cy, 11), d.text(cx, cy + 4.5, str(k), 12, "middle")]
    return out


def tree_panel(x: float, y: float) -> list[str]:
    at = {0: (66, 8), 1: (34, 46), 2: (98, 46), 3: (14, 86), 4: (54, 86), 5: (80, 86), 6: (118, 86), 7: (14, 126)}
    at = {k: (x + px, y + py + 6) for k, (px, py) in at.items()}
    edges = ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3))
    out = [d.between(at[a], at[b], 12, both=True) for a, b in edges]
    for k, (cx, cy) in at.items():
        out += [d.circle(cx, cy, 11), d.text(cx, cy + 4.5, str(k), 12, "middle")]
    return out


def doubling_panel(x: float, y: float) -> list[str]:
    out = []
    for step, stride in enumerate((1, 2, 4)):
        top = y + 14 + step * 46
        for k in range(8):
            cx = x + 8 + k * 18
            out += [d.circle(cx, top, 7.5), d.text(cx, top + 4, str(k), 10.5, "middle")]
            if not k & stride:
                end = cx + 18 * stride
                lift = 6 + 4 * stride
                out.append(f'<path d="M{cx:.4g} {top + 8:.4g}Q{(cx + end) / 2:.4g} {top + 8 + lift:.4g} '
                           f'{end:.4g} {top + 8:.4g}" fill="none" stroke="{d.INK}" stroke-width="1"/>')
    return out


def switch_panel(x: float, y: float) -> list[str]:
    out = [d.box(x + 14, y + 8, 104, 30, d.SHADES[1]), d.text(x + 66, y + 28, "Σ in switch", 13, "middle", True)]
    for k in range(8):
        cx = x + 8 + k * 16.6
        out.append(d.arrow(cx, y + 98, x + 20 + k * 13, y + 40, both=True))
        out += [d.circle(cx, y + 108, 8), d.text(cx, y + 112, str(k), 10.5, "middle")]
    return out


def algorithms() -> str:
    names = (("ring", "2(n−1) steps", "2(n−1)/n · S", ring_panel),
             ("tree, one of two", "2 log₂ n steps", "2 S in both", tree_panel),
             ("recursive halving", "2 log₂ n steps", "2(n−1)/n · S", doubling_panel),
             ("switch reduces", "2 steps", "S", switch_panel))
    parts = []
    for index, (name, steps, volume, draw) in enumerate(names):
        x = 6 + index * 150
        parts.append(d.text(x, 20, name, 14, bold=True))
        parts += draw(x, 32)
        parts += [d.text(x, 196, steps, 13), d.text(x, 214, f"sends {volume}", 13)]
    return d.svg(600, 224, "Four ways to all-reduce between eight ranks", parts)


def ring_time(n: int, size: float, alpha: float, rate: float) -> float:
    return 2 * (n - 1) * alpha + 2 * (n - 1) / n * size / rate


def tree_time(n: int, size: float, alpha: float, rate: float) -> float:
    return 2 * math.log2(n) * alpha + 2 * size / rate


def crossing(n: int, alpha: float, rate: float) -> float:
    """Bytes at which ring and tree take the same time."""
    return alpha * rate * n * (n - 1 - math.log2(n))


def crossover() -> str:
    alpha, rate, low, high = 14e-6, 50e9, 2.0**14, 2.0**35
    chart = d.Chart(d.Axis(low, high, d.sizes(14, 20, 24, 28, 32), True),
                    d.Axis(3e-5, 3.0, [(1e-4, "0.1 ms"), (1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "0.1 s"), (1, "1 s")],
                           True), 62, 30, 430, 210)
    points = [low * 2 ** (k / 2) for k in range(43)]
    for n, shape in ((8, "ring"), (64, "dot")):
        chart.line([(s, ring_time(n, s, alpha, rate)) for s in points])
        chart.line([(s, tree_time(n, s, alpha, rate)) for s in points], dash="6 4")
        where = crossing(n, alpha, rate)
        chart.mark(where, ring_time(n, where, alpha, rate), shape)
    chart.label(low, ring_time(64, low, alpha, rate), "ring, 64 nodes", 6, -6)
    chart.label(low, ring_time(8, low, alpha, rate), "ring, 8", 6, -6)
    chart.label(2.0**21, tree_time(8, 2.0**21, alpha, rate), "tree, 64 above 8 (dashed)", 8, 26)
    chart.titles("S, logarithmic", "Time")
    end = chart.at(crossing(64, alpha, rate), ring_time(64, crossing(64, alpha, rate), alpha, rate))
    chart.parts.append(d.text(end[0] - 12, end[1] - 8, "equal at 2.4 GiB", 14, "end"))
    return d.svg(520, 286, "All-reduce time of ring and tree by size", chart.parts)


def gloo() -> str:
    import gloo_fit as g

    rows = json.loads((MEASUREMENTS / "gloo_model.json").read_text())["rows"]
    alpha, rate = g.fit(rows)
    chart = d.Chart(d.Axis(2.0**15.6, 2.0**23.5, d.sizes(16, 18, 20, 22, 23), True),
                    d.Axis(8e-4, 1.4, [(1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "0.1 s"), (1, "1 s")], True),
                    62, 30, 430, 230)
    for op, n, shape, dash in (("all_reduce", 2, "ring", ""), ("all_reduce", 8, "dot", ""),
                               ("broadcast", 8, "diamond", "6 4")):
        sizes = sorted({r["bytes"] for r in rows if r["op"] == op and r["hosts"] == n})
        chart.line([(s, g.predict(op, n, s, alpha, rate)) for s in sizes], dash=dash, width=1.1)
        for size in sizes:
            of = [r["seconds"] for r in rows if (r["op"], r["hosts"], r["bytes"]) == (op, n, size)]
            chart.mark(size, statistics.mean(of), shape)
    chart.label(2.0**23, 0.99, "broadcast, 8", -14, -2, "end")
    chart.label(2.0**16, 2.6e-2, "all-reduce, 8", 0, -12)
    chart.label(2.0**17.6, 3e-3, "all-reduce, 2", 4, 10)
    chart.titles("S, logarithmic", "Time; lines: model fitted to 4 hosts, marks: measured")
    return d.svg(520, 306, "gloo's measured times against the fitted model", chart.parts)


def main() -> None:
    for name, draw in (("moves", moves), ("algorithms", algorithms), ("crossover", crossover), ("gloo", gloo)):
        (FIGURES / f"collectives-{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
