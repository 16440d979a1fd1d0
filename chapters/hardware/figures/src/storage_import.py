"""storage-import.svg: time of `import torch` against the delay of each request to its file system."""

from __future__ import annotations

import json

import plotting as p

FILES = ["storage_import.json"]


def main() -> None:
    record = json.loads((p.MEASUREMENTS / FILES[0]).read_text())
    series = [
        ("first import", record["slow"], "first", "o", p.ACCENT),
        ("second process", record["slow"], "second", "s", p.SOFT),
        ("first, one image file", record["image"], "first", "^", p.INK),
    ]
    figure, axes = p.new(66)
    top = max(row["first_s"] for row in record["slow"])
    for name, rows, kind, mark, colour in series:
        xs = [row["delay_ms"] for row in rows]
        ys = [row[f"{kind}_s"] for row in rows]
        requests = rows[-1][f"{kind}_requests"]["requests"]
        axes.plot(
            xs, ys, mark, markersize=4.5, color=colour, markeredgecolor="white", mew=0.4, zorder=3
        )
        if name != series[2][0]:  # reads of an image run ahead of the program: no straight line
            model = [ys[0] + x * requests / 1000 for x in (0, 2)]
            axes.plot([0, 2], model, "-" if kind == "first" else "--", linewidth=0.9, color=colour)
        label = f"{name}\n{requests:,} requests"
        axes.annotate(
            label, (2, ys[-1]), xytext=(7, -4), textcoords="offset points", fontsize=7, color=colour
        )
    axes.set(xlim=(-0.05, 2.8), ylim=(0, top * 1.15))
    axes.set_yticks([0, 5, 10, 15, 20], ["0", "5", "10", "15", "20"])
    axes.set_xticks([0, 0.25, 0.5, 1, 2], ["0", "0.25", "0.5", "1", "2"])
    axes.set_xlabel("added delay of one request, ms")
    axes.set_ylabel("seconds")
    axes.grid(True)
    title = "Import of torch against the latency of the file system"
    p.save(figure, "storage-import", "storage_import", [], FILES, title)


if __name__ == "__main__":
    main()
