#!/usr/bin/env python3
"""Fit latency and rate of the ring model to three sizes of one world, then predict all other rows.

    python3 gloo_fit.py          reads gloo_model.json, writes gloo_fit.json

t = steps × alpha + volume(n) × S / B. `steps` and `volume` come from the algorithm, alpha (s) and B
(byte/s) from the fit to the all-reduce of FIT_HOSTS hosts at FIT_SIZES, by least relative squares.
Nothing that is predicted took part in the fit.
"""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIT_HOSTS = 4
FIT_SIZES = (256 << 10, 1 << 20, 4 << 20)
LARGE = 1 << 20  # from here on the bandwidth term rules


def shape(op: str, n: int) -> tuple[float, float]:
    """(steps, volume per byte of S) of the algorithm that gloo uses for a collective, or the ideal one."""
    levels = math.log2(n)
    return {
        "all_reduce": (2 * (n - 1), 2 * (n - 1) / n),  # ring
        "reduce_scatter": (2 * (n - 1), 2 * (n - 1) / n),  # torch's gloo backend runs an all-reduce
        "all_gather": (n - 1, (n - 1) / n),  # ring
        "all_to_all": (n - 1, (n - 1) / n),  # pairwise
        "broadcast": (levels, levels * (levels + 1) / 2),  # binomial tree, whole buffer a hop
    }[op]


def predict(op: str, n: int, size: int, alpha: float, rate: float) -> float:
    steps, volume = shape(op, n)
    return steps * alpha + volume * size / rate


def fit(rows: list[dict]) -> tuple[float, float]:
    """alpha and B by least squares of (measured - model) / measured; linear in alpha and 1/B."""
    points = [row for row in rows
              if row["op"] == "all_reduce" and row["hosts"] == FIT_HOSTS and row["bytes"] in FIT_SIZES]
    a11 = a12 = a22 = b1 = b2 = 0.0
    for row in points:
        steps, volume = shape("all_reduce", FIT_HOSTS)
        x, y = steps / row["seconds"], volume * row["bytes"] / row["seconds"]
        a11, a12, a22, b1, b2 = a11 + x * x, a12 + x * y, a22 + y * y, b1 + x, b2 + y
    determinant = a11 * a22 - a12 * a12
    return (b1 * a22 - b2 * a12) / determinant, determinant / (a11 * b2 - a12 * b1)


def judged(rows: list[dict], alpha: float, rate: float) -> list[dict]:
    """Each row that took no part in the fit, with the model's time and error."""
    out = []
    for row in rows:
        used = (row["op"] == "all_reduce" and row["hosts"] == FIT_HOSTS and row["bytes"] in FIT_SIZES)
        if used or row["op"] in ("barrier", "all_gather_object"):
            continue
        model = predict(row["op"], row["hosts"], row["bytes"], alpha, rate)
        out.append({**row, "model": model, "error": row["seconds"] / model - 1})
    return out


def summary(rows: list[dict]) -> dict:
    errors = [abs(row["error"]) for row in rows]
    return {"rows": len(rows), "median": statistics.median(errors), "greatest": max(errors)}


def main() -> None:
    rows = json.loads((HERE / "gloo_model.json").read_text())["rows"]
    alpha, rate = fit(rows)
    rest = judged(rows, alpha, rate)
    by_op: dict[str, dict] = {}
    for op in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"):
        for n in (2, 4, 8):
            large = [r for r in rest if r["op"] == op and r["hosts"] == n and r["bytes"] >= LARGE]
            small = [r for r in rest if r["op"] == op and r["hosts"] == n and r["bytes"] < LARGE]
            top = [r for r in rest if r["op"] == op and r["hosts"] == n and r["bytes"] == 8 << 20]
            by_op.setdefault(op, {})[str(n)] = {
                "large": summary(large), "small": summary(small),
                "measured_ms_8m": 1e3 * statistics.mean(r["seconds"] for r in top),
                "least_ms_8m": 1e3 * min(r["least"] for r in top),
                "model_ms_8m": 1e3 * top[0]["model"]}
    objects = {}
    for n in (2, 4, 8):
        of = {op: [r["seconds"] for r in rows
                   if r["op"] == op and r["hosts"] == n and r["bytes"] == 64 << 10]
              for op in ("all_gather", "all_gather_object")}
        objects[str(n)] = {op: 1e3 * statistics.mean(v) for op, v in of.items()}
    (HERE / "gloo_fit.json").write_text(json.dumps(
        {"alpha_us": 1e6 * alpha, "rate_mb_per_s": rate / 1e6, "fit_hosts": FIT_HOSTS,
         "fit_sizes": FIT_SIZES, "by_op": by_op, "objects_64k_ms": objects}, indent=1) + "\n")


if __name__ == "__main__":
    main()
