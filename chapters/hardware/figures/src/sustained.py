"""accelerators-sustained.svg: rate, clock and power of one H200 over 30 s of bf16 matmul."""

from __future__ import annotations

import math
import statistics

import plotting as p

FACTS: list[str] = []
FILES = ["h200_ceilings.rates.csv", "h200_ceilings.sensors.csv"]
FIRST, LAST, BINS = 0.015, 30.0, 70


def binned(rows: list[dict[str, float]], key: str) -> tuple[list[float], ...]:
    """Seconds, median, least and greatest of `key` in bins of equal width on a log scale."""
    step = math.log(LAST / FIRST) / BINS
    bins: dict[int, list[float]] = {}
    for row in rows:
        if FIRST <= row["seconds"] <= LAST:
            bins.setdefault(int(math.log(row["seconds"] / FIRST) / step), []).append(row[key])
    order = sorted(bins)
    seconds = [FIRST * math.exp((i + 0.5) * step) for i in order]
    values = [bins[i] for i in order]
    middle = [statistics.median(v) for v in values]
    return seconds, middle, [min(v) for v in values], [max(v) for v in values]


def panel(axes, rows: list[dict[str, float]], key: str) -> None:
    seconds, middle, least, greatest = binned(rows, key)
    axes.fill_between(seconds, least, greatest, color="#d5d9dc", lw=0)
    axes.plot(seconds, middle, color=p.INK, lw=1.0)


def main() -> None:
    rates, sensors = p.series("rates"), p.series("sensors")
    figure, (top, middle, bottom) = p.new(92, rows=3, sharex=True)
    panel(top, rates, "tflops")
    top.set(ylabel="TFLOPS", ylim=(500, 820))
    panel(middle, sensors, "sm_mhz")
    middle.set(ylabel="SM clock, MHz", ylim=(1100, 2050))
    panel(bottom, sensors, "power_w")
    seconds, mean, _, _ = binned(sensors, "power_average_w")
    bottom.plot(seconds, mean, color=p.ACCENT, lw=1.0, ls=(0, (5, 2)))
    bottom.annotate("1 s mean, as nvidia-smi prints it", (1.15, 430), color=p.ACCENT, fontsize=7)
    bottom.annotate("instantaneous", (0.18, 860), fontsize=7)
    bottom.set(ylabel="Power, W", ylim=(0, 1000), xscale="log", xlim=(FIRST, LAST))
    bottom.set_xticks([0.03, 0.1, 0.3, 1, 3, 10, 30], ["0.03", "0.1", "0.3", "1", "3", "10", "30"])
    bottom.set_xlabel("Seconds after the first matmul, logarithmic")
    for axes in (top, middle, bottom):
        axes.minorticks_off()
        axes.grid(True)
    title = "Rate, clock and power of one H200 over 30 s of bf16 matmul"
    p.save(figure, "accelerators-sustained", "sustained", FACTS, FILES, title)


if __name__ == "__main__":
    main()
