"""accelerator-benchmarks-waves.svg: bf16 rate along N on one H200, and what tile arithmetic predicts."""

from __future__ import annotations

import json

import plotting as p

FACTS: list[str] = []
FILES = ["h200_timing.json"]
TILE, SMS = (128, 256), 132


def share(m: int, n: int) -> float:
    """Useful share of all SMs' time, with whole waves of one tile."""
    tiles = -(-m // TILE[0]) * -(-n // TILE[1])
    return m * n / (TILE[0] * TILE[1]) / (SMS * -(-tiles // SMS))


def main() -> None:
    waves = json.loads((p.MEASUREMENTS / FILES[0]).read_text())["waves"]
    sizes = [int(n) for n in waves["n"]]
    rates = [row["tflops"] for row in waves["n"].values()]
    best = max(rates)
    figure, axes = p.new(62)
    model = [best * share(waves["m"], n) for n in sizes]
    axes.plot(sizes, model, color=p.SOFT, lw=0.9, ls=(0, (4, 2)))
    axes.plot(sizes, rates, "o-", ms=2.6, lw=0.9, color=p.ACCENT)
    axes.annotate("measured", (sizes[-1], rates[-1]), xytext=(4, -2), textcoords="offset points",
                  fontsize=7, color=p.ACCENT)  # fmt: skip
    axes.annotate("whole waves", (sizes[-1], model[-1]), xytext=(4, -8), fontsize=7,
                  textcoords="offset points", color=p.SOFT)  # fmt: skip
    axes.set(xlim=(sizes[0] - 100, sizes[-1] + 100), ylim=(0, 1.08 * best))
    axes.set_xticks(range(1536, sizes[-1] + 1, 1536))
    axes.set_xlabel("N (M = 2816, K = 4096)")
    axes.set_ylabel("TFLOPS, burst")
    axes.grid(True)
    title = "Rate of a bf16 product along N on one H200, and a wave model"
    p.save(figure, "accelerator-benchmarks-waves", "matmul_waves", FACTS, FILES, title)


if __name__ == "__main__":
    main()
