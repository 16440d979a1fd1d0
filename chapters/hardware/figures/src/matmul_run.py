"""accelerator-benchmarks-run.svg: clock and power of one H200 through a default run of mamf-finder."""

from __future__ import annotations

import json

import plotting as p

FACTS: list[str] = []
FILES = ["mamf_h200_seed0.json"]
PHASES = [
    (0.0, 5.2, "cool"),
    (5.2, 36.8, "hot, without a pause: rounds, finals, hold"),
    (36.8, 40.3, "burst"),
]


def trace() -> list[dict[str, float]]:
    return json.loads((p.MEASUREMENTS / FILES[0]).read_text())["telemetry"]


def main() -> None:
    rows = trace()
    seconds = [row["seconds"] for row in rows]
    figure, (top, bottom) = p.new(66, rows=2, sharex=True)
    top.plot(seconds, [row["sm_mhz"] for row in rows], color=p.INK, lw=0.8)
    top.set(ylabel="SM clock, MHz", ylim=(1250, 2200))
    bottom.plot(seconds, [row["power_w"] for row in rows], color=p.INK, lw=0.8)
    bottom.axhline(700, color=p.ACCENT, lw=0.8, ls=(0, (5, 2)))
    bottom.annotate("limit 700 W", (20, 725), color=p.ACCENT, fontsize=7)
    bottom.set(ylabel="Power, W", ylim=(0, 850), xlim=(0, seconds[-1]))
    bottom.set_xlabel("Seconds after the start of the measuring")
    for first, last, name in PHASES:
        for axes in (top, bottom):
            axes.axvline(last, color=p.RULE, lw=0.6)
        centre = (first + last) / 2
        top.annotate(name, (centre, 2180), ha="center", va="top", fontsize=7, color=p.SOFT)
    for axes in (top, bottom):
        axes.grid(True)
    title = "Clock and power of one H200 through a run of mamf-finder"
    p.save(figure, "accelerator-benchmarks-run", "matmul_run", FACTS, FILES, title)


if __name__ == "__main__":
    main()
