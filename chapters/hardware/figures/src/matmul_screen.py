"""accelerator-benchmarks-screen.svg: rate against work per product, cool and hot, for all shapes looked at."""

from __future__ import annotations

import json

import plotting as p

FACTS: list[str] = []
FILES = ["mamf_h200_seed0.json", "mamf_h200_seed1.json"]


def looks() -> list[tuple[float, float | None, float | None]]:
    """GFLOP of one product, TFLOPS when cool, TFLOPS when hot."""
    found = []
    for file in FILES:
        report = json.loads((p.MEASUREMENTS / file).read_text())
        screen = next(one for one in report["results"] if one["kind"] == "screen")
        found += [(2e-9 * m * n * k, cool, hot) for m, n, k, cool, hot, _ in screen["rows"]]
    return found


def main() -> None:
    figure, axes = p.new(70)
    cool = [(work, rate) for work, rate, _ in looks() if rate]
    hot = [(work, rate) for work, _, rate in looks() if rate]
    axes.plot(*zip(*cool, strict=True), "o", ms=2.2, mfc="none", mec=p.SOFT, mew=0.5)
    axes.plot(*zip(*hot, strict=True), "s", ms=2.2, color=p.ACCENT, mew=0)
    axes.annotate("cool: short looks after rests", (60, 862), fontsize=7, color=p.SOFT)
    axes.annotate("hot: at the power limit", (560, 622), fontsize=7, color=p.ACCENT)
    axes.set(xscale="log", xlim=(50, 3000), ylim=(600, 880))
    axes.set_xticks([50, 100, 300, 1000, 3000], ["50", "100", "300", "1000", "3000"])
    axes.minorticks_off()
    axes.set_xlabel("Work of one product, GFLOP")
    axes.set_ylabel("TFLOPS")
    axes.grid(True)
    title = "Rates of all shapes that two searches looked at on one H200"
    p.save(figure, "accelerator-benchmarks-screen", "matmul_screen", FACTS, FILES, title)


if __name__ == "__main__":
    main()
