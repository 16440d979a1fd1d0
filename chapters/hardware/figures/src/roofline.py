"""accelerators-roofline.svg: memory roof and matmul peak of three parts, and what one H200 did."""

from __future__ import annotations

import plotting as p

PARTS = [
    # record, dtype, label, line style, width, colour, label's shift in points
    ("nvidia_h200_sxm", "bf16", "H200 bf16", "-", 1.6, p.INK, -4.5),
    ("nvidia_h200_sxm", "fp8", "H200 fp8", (0, (5, 2)), 0.9, p.INK, -4.5),
    ("nvidia_b200_sxm", "bf16", "B200 bf16", (0, (6, 2, 1, 2)), 0.9, p.SOFT, 0.8),
    ("amd_mi300x", "bf16", "MI300X bf16", (0, (1, 1.6)), 1.1, p.SOFT, -2.5),
]
FACTS = [f"{r}.dense_tflops.{d}" for r, d, *_ in PARTS]
FACTS += [f"{r}.hbm_tb_per_s" for r in dict.fromkeys(r for r, *_ in PARTS)]
FILES = ["h200_ceilings.json"]
NAMED = {"1": (4, -9), "16": (4, -9), "128": (6, -8), "512": (-2, -11), "8192": (-4, -11)}


def main() -> None:
    figure, axes = p.new(82)
    left, right = 0.7, 6000
    for record, dtype, label, style, width, colour, shift in PARTS:
        peak = p.figure_of(f"{record}.dense_tflops.{dtype}")
        bandwidth = p.figure_of(f"{record}.hbm_tb_per_s")
        xs, ys = [left, peak / bandwidth, right], [left * bandwidth, peak, peak]
        axes.plot(xs, ys, linestyle=style, linewidth=width, color=colour)
        axes.annotate(
            label, (right, peak), xytext=(3, shift), textcoords="offset points", color=colour
        )
    rows = p.measured()["by_rows"]["rows"]
    xs = [row["flop_per_byte"] for row in rows.values()]
    ys = [row["tflops"] for row in rows.values()]
    axes.plot(xs, ys, "o", markersize=3.6, color=p.ACCENT, markeredgecolor="white", mew=0.4)
    for name, offset in NAMED.items():
        point = (rows[name]["flop_per_byte"], rows[name]["tflops"])
        text = f"{name} row" if name == "1" else f"{name} rows"
        axes.annotate(
            text, point, xytext=offset, textcoords="offset points", color=p.ACCENT, fontsize=7
        )
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(2.5, 3500))
    axes.set_xlabel("FLOP per byte of memory traffic")
    axes.set_ylabel("TFLOPS")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    axes.set_yticks([10, 100, 1000], ["10", "100", "1000"])
    axes.minorticks_off()
    axes.grid(True)
    title = "Roofline of H200, B200 and MI300X with measured H200 points"
    p.save(figure, "accelerators-roofline", "roofline", FACTS, FILES, title)


if __name__ == "__main__":
    main()
