"""host-cpu-crowd.svg: busy workers on two cores, work done and delay of a launching thread."""

from __future__ import annotations

import json
import statistics

import plotting as p

FACTS: list[str] = []
FILES = ["host_cpu.json"]


def main() -> None:
    record = json.loads((p.MEASUREMENTS / FILES[0]).read_text())
    quiet = {
        int(n): [r["value"] for r in runs if r["foreign_share"] <= record["quiet_share"]]
        for n, runs in record["crowd"].items()
    }
    cases = [n for n in sorted(quiet) if quiet[n]]
    place = {n: i for i, n in enumerate(cases)}
    two = statistics.median(v["slices_per_s"] for v in quiet[2])
    figure, (top, bottom) = p.new(80, rows=2, sharex=True)
    for axes, key, scale in ((top, "slices_per_s", 1 / two), (bottom, "late_p99_us", 1e-3)):
        for n in cases:
            values = [v[key] * scale for v in quiet[n]]
            axes.plot([place[n]] * len(values), values, "o", color=p.RULE, ms=3)
        middle = [statistics.median(v[key] for v in quiet[n]) * scale for n in cases]
        axes.plot(range(len(cases)), middle, "o-", color=p.ACCENT, ms=4, lw=1.0)
        axes.grid(True, axis="y")
        axes.minorticks_off()
    top.set(ylabel="Work, relative to\n2 workers", ylim=(0, 1.4))
    bottom.set(ylabel="Delay, worst 1%\n(ms)", yscale="log", xlabel="Busy workers on two cores")
    bottom.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    bottom.set_xticks(range(len(cases)), [str(n) for n in cases])
    p.save(figure, "host-cpu-crowd", "host_cpu_crowd", FACTS, FILES, "Busy workers on two cores")


if __name__ == "__main__":
    main()
