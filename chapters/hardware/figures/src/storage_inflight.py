"""storage-inflight.svg: random reads and writes of one disk against the bytes in flight."""

from __future__ import annotations

import json

import plotting as p

FILES = ["storage_fio.json"]
UNIT = {"k": 2**10, "m": 2**20}
MARK = {"4k": "o", "16k": "s", "64k": "^", "256k": "D", "1m": "v", "4m": "P"}
SIDES = [("randread", "reads", p.ACCENT, True), ("randwrite", "writes", p.SOFT, False)]


def in_flight(row: dict) -> float:
    return int(row["size"][:-1]) * UNIT[row["size"][-1]] * row["depth"] / 2**10


def main() -> None:
    rows = json.loads((p.MEASUREMENTS / FILES[0]).read_text())["matrix"]
    figure, axes = p.new(74)
    for way, name, colour, filled in SIDES:
        for size, mark in MARK.items():
            points = [row for row in rows if row["rw"] == way and row["size"] == size]
            axes.plot(
                [in_flight(row) for row in points],
                [row["mb_per_s"] for row in points],
                mark,
                markersize=4,
                color=colour,
                markerfacecolor=colour if filled else "white",
                markeredgewidth=0.8,
            )
        axes.plot([], [], "o", markersize=4, color=colour, label=name,
                  markerfacecolor=colour if filled else "white", markeredgewidth=0.8)  # fmt: skip
    for size, mark in MARK.items():
        label = size.replace("k", " KiB").replace("m", " MiB")
        axes.plot([], [], mark, markersize=4, color=p.INK, label=label, linestyle="none")
    axes.set(xscale="log", yscale="log", xlim=(3, 400_000), ylim=(8, 5000))
    axes.set_xticks([4, 64, 1024, 16384, 262144], ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"])
    axes.set_yticks([10, 100, 1000], ["10", "100", "1000"])
    axes.minorticks_off()
    axes.set_xlabel("bytes in flight (request size × queue depth)")
    axes.set_ylabel("MB/s")
    axes.grid(True)
    axes.legend(
        frameon=False, fontsize=7, ncols=4, loc="lower right", handletextpad=0.1, columnspacing=0.9
    )
    p.save(
        figure, "storage-inflight", "storage_inflight", [], FILES, "Rate against bytes in flight"
    )


if __name__ == "__main__":
    main()
