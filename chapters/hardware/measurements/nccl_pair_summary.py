#!/usr/bin/env python3
"""Sum up the records of two GPUs for the chapters: nccl_pair_*.json beside this file to nccl_pair_summary.json.

    python3 nccl_pair_summary.py [--check]

`ratio` of a row is theirs / ours in time, so above 1 means that all_reduce_bench measured the higher rate.
`fit` is time = alpha + S / beta by least squares of the relative error. --check writes nothing and exits 1 when
the summary on disk is not what the records say.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE / "nccl_pair_summary.json"
LARGE = 64 << 20
Key = tuple[str, str, str, str, str, int]


def read(name: str) -> dict:
    return json.loads((HERE / f"nccl_pair_{name}.json").read_text())


def turns_of(record: dict) -> dict[Key, dict[str, list[float]]]:
    """(pass, op, dtype, mode, place, bytes) -> who -> microseconds of every turn."""
    found: dict[Key, dict[str, list[float]]] = {}
    for side in ("ours", "theirs"):
        for turn, op, dtype, mode, place, size, micros, _, _ in record[side]:
            name, who = turn.split("/")
            found.setdefault((name, op, dtype, mode, place, size), {}).setdefault(who[-1], []).append(micros)
    return found


def compared_rows(record: dict) -> list[dict]:
    """Rows that both sides measured, medians over turns."""
    rates = {(turn, op, dtype, mode, place, size): bus for side in ("ours", "theirs")
             for turn, op, dtype, mode, place, size, _, bus, _ in record[side]}
    rows = []
    for (name, op, dtype, mode, place, size), who in sorted(turns_of(record).items()):
        middle = {one: statistics.median(found) for one, found in who.items()}
        theirs = middle.get("t", middle.get("T"))
        if "o" not in middle or theirs is None:
            continue
        bus = next(rate for key, rate in rates.items() if key[0].startswith(name + "/") and key[0][-1] == "o" and key[1:] ==
                   (op, dtype, mode, place, size))
        factor = bus * next(found for found in who["o"])
        row = {"pass": name, "op": op, "dtype": dtype, "mode": mode, "place": place, "bytes": size,
               "ours_us": round(middle["o"], 2), "theirs_us": round(theirs, 2), "ours_busbw": round(factor / middle["o"], 2),
               "theirs_busbw": round(factor / theirs, 2), "ratio": round(theirs / middle["o"], 4),
               "turns": [len(who["o"]), len(who.get("t", who.get("T", [])))]}
        for letter, title in (("n", "ratio_nccl_memory"), ("O", "ratio_one_buffer")):
            if letter in middle:
                row[title] = round(theirs / middle[letter], 4)
        if "T" in middle and "t" in middle:
            row["theirs_threads_over_processes"] = round(middle["T"] / middle["t"], 4)
        rows.append(row)
    return rows


def by_size(rows: list[dict]) -> list[dict]:
    """Per pass and size: the median, lowest and highest ratio over collectives and places."""
    groups: dict[tuple[str, int], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["pass"], row["bytes"]), []).append(row)
    out = []
    for (name, size), found in sorted(groups.items()):
        ratios = {f"{row['op']} {row['dtype']} {row['place']}": row["ratio"] for row in found}
        lowest, highest = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        entry = {"pass": name, "bytes": size, "rows": len(found), "median": round(statistics.median(ratios.values()), 4),
                 "lowest": [ratios[lowest], lowest], "highest": [ratios[highest], highest]}
        pooled = [row["ratio_nccl_memory"] for row in found if "ratio_nccl_memory" in row]
        if pooled:
            entry["median_nccl_memory"] = round(statistics.median(pooled), 4)
        out.append(entry)
    return out


def apart(rows: list[dict], limit: float = 0.02) -> list[dict]:
    """Rows of LARGE bytes and more whose rates differ by more than the limit."""
    keep = ("pass", "op", "place", "bytes", "ours_us", "theirs_us", "ratio", "ratio_nccl_memory")
    return [{name: row[name] for name in keep if name in row} for row in rows
            if row["bytes"] >= LARGE and abs(row["ratio"] - 1) > limit]


def fit(rows: list[dict]) -> dict:
    """alpha (us) and beta (GB/s) of the model, weighted so that every size counts alike."""
    sums = [0.0] * 5
    for row in rows:
        weight = 1 / row["us"] ** 2
        for place, value in enumerate((1.0, row["bytes"], row["bytes"] ** 2, row["us"], row["us"] * row["bytes"])):
            sums[place] += weight * value
    one, size, square, time, both = sums
    slope = (one * both - size * time) / (one * square - size * size)
    alpha = (time - slope * size) / one
    return {"alpha_us": round(alpha, 2), "beta_gb_per_s": round(1 / slope / 1e3, 1),
            "worst_error": round(max(abs(alpha + slope * row["bytes"] - row["us"]) / row["us"] for row in rows), 3)}


def curves() -> dict:
    """Every sweep of the study: points and fit."""
    out: dict = {}
    for subject in ("protocols", "transports", "ctas"):
        for world in read(subject)["worlds"]:
            rows = world["rows"]
            out[f"{subject}: {world['name']}"] = {
                "points": [[row["bytes"], row["us"], round(row["bytes"] / row["us"] / 1e3, 3)] for row in rows],
                **({"fit": fit(rows)} if subject != "ctas" else {})}
    return out


def overlap() -> list[dict]:
    out = []
    for world in read("overlap")["worlds"]:
        middle = {name: statistics.median(world[name][key]) for name, key in (
            ("matmul_alone", "main_ms"), ("all_reduce_alone", "side_ms"))}
        together = {key: statistics.median(world["both"][key]) for key in ("main_ms", "side_ms", "all_ms")}
        out.append({"world": world["name"], "matmul_alone_ms": round(middle["matmul_alone"], 2),
                    "all_reduce_alone_ms": round(middle["all_reduce_alone"], 2), "together_ms": round(together["all_ms"], 2),
                    "matmul_slowdown": round(together["main_ms"] / middle["matmul_alone"], 3),
                    "all_reduce_slowdown": round(together["side_ms"] / middle["all_reduce_alone"], 3),
                    "one_after_the_other_ms": round(sum(middle.values()), 2)})
    return out


def small() -> dict:
    """Medians that need no curve."""
    chunks = [{key: value for key, value in row.items() if key != "samples_ms"} for row in read("chunks")["worlds"][0]["rows"]]
    objects = [[row["call"], row["bytes"], round(row["us"], 1)] for row in read("objects")["worlds"][0]["rows"]]
    copies = [[row["way"], row["bytes"], round(row["us"], 1), round(row["gb_per_s"], 1)] for row in read("copies")["worlds"][0]["rows"]]
    first = {world["name"]: {key: world[key] for key in world if key.endswith("_ms")} for world in read("first")["worlds"]}
    launch = {name: round(value, 1) for name, value in read("launch")["worlds"][0]["median_us"].items()}
    return {"chunks": chunks, "objects_us": objects, "copies_us_gb_per_s": copies, "first_calls": first, "launch_us": launch,
            "kernels": read("kernels")["worlds"][0]["calls"]}


def summary() -> dict:
    record = read("compare")
    rows = compared_rows(record)
    large = [row for row in rows if row["bytes"] >= LARGE and row["pass"] in ("large", "stream")]
    return {"what": "two H200 of one host: all_reduce_bench against nccl-tests, and what sets the speed of collectives",
            "date": record["date"], "env": record["env"], "device": record["device"], "nccl_tests": record["nccl_tests"],
            "agreement": {"stream, 64 MiB and more": {
                "rows": len(large), "median": round(statistics.median(row["ratio"] for row in large), 4),
                "within_2_percent": sum(abs(row["ratio"] - 1) <= 0.02 for row in large),
                "without_scatter_and_gather_within_2_percent": [
                    sum(abs(row["ratio"] - 1) <= 0.02 for row in large if row["op"] not in ("scatter", "gather")),
                    sum(1 for row in large if row["op"] not in ("scatter", "gather"))]}},
            "by_size": by_size(rows), "apart": apart(rows), "rows": rows, "curves": curves(), "overlap": overlap(), **small()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = json.dumps(summary(), indent=1) + "\n"
    if args.check:
        return int(TARGET.read_text() != text)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
