#!/usr/bin/env python3
"""Is the search's winner as fast as the best of an exhaustive sweep, in the same state of the same card?

    python3 mamf_interleaved.py --out DIR [--public PATH [--public-device N]] [--budget 40s ...] [--seeds 0 1 ...]
        [--turns N] [--dry]

One device. First mamf-finder with each seed, that is with its own set and order of candidates, and where its
file is given the public finder. Then, in one process and at the power limit from its first to its last
product: a sweep of every shape of a fixed grid, four times, in random order; the best 64 of it twice more, the best
16 of those in four more orders; the best four of these and the winners of the searches in turn, A B C A B C. What goes
on is chosen by all work over all time; the rates listed look by look (`tflops`), and so those of the turns, are of the
median repetition of a block. The ratio winner / best of the sweep is taken within each turn; its interval is
the bootstrap's over turns. The best of the sweep is chosen from the looks before, so that luck in the
turns that count does not choose.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
from clusterprobe.device import open_device  # noqa: E402
from clusterprobe.matmul_data import MatmulOperands  # noqa: E402
from clusterprobe.matmul_dtypes import parse_dtypes  # noqa: E402
from clusterprobe.matmul_peaks import dense_peak  # noqa: E402
from clusterprobe.matmul_run import DeviceBench  # noqa: E402
from clusterprobe.matmul_samples import work_over_time  # noqa: E402
from clusterprobe.matmul_shapes import MatmulShape, parse_shape  # noqa: E402
from clusterprobe.telemetry import open_telemetry  # noqa: E402

TOOL = ROOT / "scripts" / "mamf-finder.py"
GRID = (range(1024, 12289, 1024), range(1024, 12289, 1024), (1024, 2048, 3072, 4096, 6144, 8192, 10240, 12288))
DRY_GRID = ((64, 128), (64, 128), (64, 128))
PUBLIC_LIST = {"m": (2048, 4096, 8192), "n": (2048, 4096), "k": (4096, 8192, 12288)}


def command(words: list[str], limit: float, env: dict[str, str] | None = None) -> tuple[int | None, str, str, float]:
    start = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, env={**os.environ, **(env or {})})
        return done.returncode, done.stdout, done.stderr, time.monotonic() - start
    except subprocess.TimeoutExpired as late:
        texts = [part.decode() if isinstance(part, bytes) else part or "" for part in (late.stdout, late.stderr)]
        return None, *texts, time.monotonic() - start


def search(budget: str, seed: int, args: argparse.Namespace) -> dict:
    """The tool's own verdict on this card."""
    path = args.out / "search.json"
    words = [sys.executable, str(TOOL), "--nproc", "1", "--seed", str(seed), "--budget", "1s" if args.dry else budget,
             "--json", str(path), "--force"]
    words += ["--m", "128", "192", "--n", "128", "192", "--k", "256", "--dtype", "fp32"] if args.dry else []
    rc, text, errors, seconds = command(words, 120)
    report = json.loads(path.read_text()) if path.exists() else {"results": []}
    path.unlink(missing_ok=True)
    figures = [one for one in report["results"] if one.get("kind") == "figure" and one.get("state") in ("sustained", "final", "burst")]
    keep = ("state", "m", "n", "k", "tflops", "ci", "reps", "percent_of_peak", "telemetry", "drift", "rounds")
    print(f"search of {budget} with seed {seed}: rc {rc}, {seconds:.1f} s", *text.splitlines()[-4:], errors[-300:], sep="\n", flush=True)
    return {"budget": budget, "seed": seed, "rc": rc, "wall_s": round(seconds, 1), "stderr": errors[-400:],
            "figures": [{name: one.get(name) for name in keep} for one in figures]}


def public_finder(args: argparse.Namespace) -> dict:
    """As published, on a short list in its own order and in the reverse; on --public-device where there is another."""
    found, device = [], str(args.public_device)
    for order in (1, -1):
        words = [sys.executable, args.public, "--num_iterations", "50", "--num_warmup_iterations", "20",
                 "--output_file", str(args.out / "public.txt")]
        for axis, sizes in PUBLIC_LIST.items():
            words += [f"--{axis}", *map(str, sizes[::order])]
        rc, text, errors, seconds = command(words, 60, {"CUDA_VISIBLE_DEVICES": device})
        best = {one[0]: [float(one[1]), one[2]] for one in
                re.findall(r"(mean|median|max):\s+([\d.]+) TFLOPS @ (\d+x\d+x\d+)", text)}
        found.append({"order": "as listed" if order > 0 else "reversed", "rc": rc, "wall_s": round(seconds, 1), "best": best,
                      "stderr": errors[-300:]})
        print(f"public finder {found[-1]['order']}: rc {rc}, {seconds:.1f} s, {best}", errors[-200:], flush=True)
    (args.out / "public.txt").unlink(missing_ok=True)
    return {"device": args.public_device, "list": {axis: list(sizes) for axis, sizes in PUBLIC_LIST.items()}, "runs": found}


def winners_of(searches: list[dict]) -> list[MatmulShape]:
    """Each search's sustained shape."""
    held = [one for run in searches for one in run["figures"] if one["state"] == "sustained"]
    return list(dict.fromkeys(MatmulShape(one["m"], one["n"], one["k"]) for one in held))


class HotCard:
    """Looks at shapes without a pause."""

    def __init__(self, args: argparse.Namespace, shapes: list[MatmulShape]) -> None:
        self.dry = args.dry
        self.device, _ = open_device("cpu" if args.dry else "cuda", 0)
        dtype = parse_dtypes("fp32" if args.dry else "bf16")[0]
        operands = MatmulOperands(self.device, dtype, "randn", "tn", self.device.l2_bytes or 0, 0)
        operands.reserve(shapes)
        self.bench = DeviceBench(self.device, operands, dense_peak(self.device.name, dtype.name), iterations=4, warmups=1)
        self.bench.calibrate([MatmulShape(side, side, side) for side in (256, 512, 1024, 2048, 4096)])
        self.telemetry = open_telemetry(self.device.uuid, interval=0.02).start()
        self.chance = random.Random(1)

    def looks(self, shapes: list[MatmulShape], seconds: float, turns: int) -> tuple[dict[MatmulShape, list], dict]:
        """shape -> its looks, one a turn; and what the card did meanwhile."""
        began, found = time.monotonic(), {shape: [] for shape in shapes}
        jobs = []
        for _ in range(turns):
            order = list(shapes)
            self.chance.shuffle(order)
            jobs += [(shape, seconds) for shape in order]
        for look in self.bench.look(jobs):
            found[look.shape].append(look)
        return found, {"seconds": round(time.monotonic() - began, 2),
                       **self.telemetry.between(began, time.monotonic()).as_json()}


def best_of(looks: dict[MatmulShape, list], count: int) -> list[MatmulShape]:
    rates = {shape: work_over_time(found) or 0.0 for shape, found in looks.items()}
    return sorted(rates, key=lambda shape: -rates[shape])[:count]


def round_rate(rate: float | None) -> float | None:
    return rate and round(rate, 2)


def interval(ratios: list[float], seed: int = 0) -> list[float]:
    """95% of the mean, percentile bootstrap over turns."""
    chance = random.Random(seed)
    means = sorted(statistics.fmean(chance.choices(ratios, k=len(ratios))) for _ in range(4000))
    return [means[100], means[3899]]


def contest(card: HotCard, winners: list[MatmulShape], sweep_best: list[MatmulShape], seconds: float, turns: int) -> dict:
    """The turns that count: every shape once a turn."""
    shapes = list(dict.fromkeys([*winners, *sweep_best]))
    looks, state = card.looks(shapes, seconds, turns)
    rates = {str(shape): [look.tflops for look in found] for shape, found in looks.items()}
    means = {name: statistics.fmean([rate for rate in found if rate]) for name, found in rates.items()}
    pairs = []
    for winner in winners:
        for rival in sweep_best:
            both = [(a, b) for a, b in zip(rates[str(winner)], rates[str(rival)], strict=True) if a and b]
            ratios = [a / b for a, b in both]
            pairs.append({"winner": str(winner), "sweep_best": str(rival), "rank_in_sweep": sweep_best.index(rival) + 1,
                          "ratio": statistics.fmean(ratios), "ci95": interval(ratios), "turns": len(ratios)})
    return {"turns": turns, "block_s": seconds, "state": state, "tflops": rates, "mean_tflops": means, "ratios": pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--public", help="path of the public mamf-finder.py")
    parser.add_argument("--public-device", type=int, default=0, help="another device for the public finder, at the same time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of the searches")
    parser.add_argument("--budget", nargs="+", default=["40s"], help="of each search; several: all seeds with each")
    parser.add_argument("--turns", type=int, default=24)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    public: dict = {}
    side = threading.Thread(target=lambda: public.update(public_finder(args)))
    if args.public:
        side.start()
        if args.public_device == 0:
            side.join()  # the same device: one after the other
    record = {"what": "the search's winner and an exhaustive sweep's best, interleaved in the sustained state",
              "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), "dry": args.dry,
              "command": "mamf_interleaved.py " + " ".join(sys.argv[1:]),
              "searches": [search(budget, seed, args) for budget in args.budget for seed in args.seeds]}

    def save() -> None:
        (args.out / "mamf_interleaved.json").write_text(json.dumps(record) + "\n")
    save()
    m, n, k = DRY_GRID if args.dry else GRID
    grid = [MatmulShape(a, b, c) for a in m for b in n for c in k]
    winners = winners_of(record["searches"])
    card = HotCard(args, [*grid, *winners, parse_shape("256x256x256")])
    record["device"] = {"name": card.device.name, "uuid": card.device.uuid, "torch": card.bench.torch.__version__}
    if not args.dry:
        card.looks([MatmulShape(8192, 8192, 8192)], 1.0, 4)  # to the power limit
    passes, wide = (2, 4) if args.dry else (4, 64)
    looks, state = card.looks(grid, -1.0, passes)
    record["sweep"] = {"shapes": len(grid), "passes": passes, "repetitions": 4, "state": state, "best": [
        [str(shape), work_over_time(looks[shape])] for shape in best_of(looks, 16)]}
    record["sweep"]["tflops"] = {str(shape): [round_rate(look.tflops) for look in found] for shape, found in looks.items()}
    save()
    # A sweep's looks are short and follow each other at random: the best of many is partly luck. Two more rounds sort it out.
    for name, count, turns in (("wide", wide, 2), ("again", 16, 4)):
        looks, state = card.looks(best_of(looks, count), 0.02 if args.dry else 0.15, turns)
        record[name] = {"state": state, "turns": turns, "mean_tflops": {str(one): work_over_time(found) for one, found in looks.items()}}
    finalists = best_of(looks, 4)
    record["contest"] = contest(card, winners, finalists, 0.02 if args.dry else 0.2, 6 if args.dry else args.turns)
    save()
    for pair in record["contest"]["ratios"]:
        print(f"{pair['winner']} / {pair['sweep_best']}: {pair['ratio']:.4f}, 95% {pair['ci95'][0]:.4f} to {pair['ci95'][1]:.4f}")
    card.telemetry.stop()
    if args.public:
        side.join()
        record["public"] = public
        save()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
