#!/usr/bin/env python3
"""Measure how a matmul may be timed wrong, and what its shape, scales and kernel cost on one CUDA card.

    python3 chapters/hardware/measurements/h200_timing.py --out h200_timing.json [--only PART ...] [--dry]

The parts, one after another: timing mistakes, caches, waves along N, few rows (decode), grouped products
(experts), attention, the scatter of one figure, scales of fp8, and recipes of scales that may end the
process (the last two are in h200_scales.json). Needs torch and h200_ceilings.py beside it, whose clock, power and timing code it uses. Changes no
setting of the card. `--dry` takes small sizes, for a machine without one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from h200_ceilings import Bench, Call, burst, flop, identity, sustained

SCHEMA = 1
FIRST: dict[str, float] = {}  # the very first product of the process, before anything is warm


def pause(bench: Bench, seconds: float = 0.3) -> None:
    """Back to an idle card at full clock."""
    bench.rest(seconds)


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def tensor(bench: Bench, *sizes: int, kind: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*sizes, device=bench.device).to(kind)


def graph_of(bench: Bench, call: Call) -> Call:
    """The same work replayed from a CUDA graph, so that launches cost the host nothing."""
    if not bench.cuda:
        return call
    call()
    bench.sync()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


# --- timing mistakes ------------------------------------------------------------------------------


def first_call(bench: Bench) -> None:
    """Host time of the first and the third product: the first one loads the library and its kernels."""
    a = tensor(bench, 256 if bench.dry else 4096, 256 if bench.dry else 4096)
    for name in ("first", "second", "third"):
        bench.sync()
        begin = time.perf_counter()
        a @ a
        bench.sync()
        FIRST[name] = round((time.perf_counter() - begin) * 1e6, 1)


def mistakes(bench: Bench) -> dict:
    """One product timed in several ways, all with 50 calls after a rest."""
    report: dict = {"first_calls_us": FIRST, "calls": 50, "shapes": {}}
    for side in (64, 128) if bench.dry else (512, 4096):
        a, b = tensor(bench, side, side), tensor(bench, side, side)
        out = torch.empty_like(a)
        ways = timed_ways(bench, lambda a=a, b=b, out=out: torch.mm(a, b, out=out), 50)
        work = flop((side, side, side))
        report["shapes"][str(side)] = {
            name: {"us": round(t * 1e6, 2), "tflops": round(work / t / 1e12, 1)}
            for name, t in ways.items()
        }
    return report


def timed_ways(bench: Bench, call: Call, calls: int) -> dict[str, float]:
    """Seconds per call, by the way of timing."""

    def loop() -> None:
        for _ in range(calls):
            call()

    def host(work: Call, wait: bool) -> float:
        bench.sync()
        begin = time.perf_counter()
        work()
        if wait:
            bench.sync()
        return (time.perf_counter() - begin) / calls

    def waiting_loop() -> None:
        for _ in range(calls):
            call()
            bench.sync()

    def events(work: Call) -> float:
        bench.sync()
        begin = bench.mark()
        work()
        end = bench.mark()
        bench.sync()
        return bench.between(begin, end) / calls

    replay = graph_of(bench, loop)
    ways: dict[str, Callable[[], float]] = {
        "host clock, no wait": lambda: host(loop, wait=False),
        "host clock, wait after every call": lambda: host(waiting_loop, wait=False),
        "host clock, wait at the end": lambda: host(loop, wait=True),
        "events around every call": lambda: statistics.median(bench.median_seconds(call, calls)),
        "events around the loop": lambda: events(loop),
        "events around a graph": lambda: events(replay),
    }
    found = {}
    for name, way in ways.items():
        pause(bench)
        way()  # once without counting
        pause(bench, 0.1)
        found[name] = statistics.median(way() for _ in range(3))
    return found


# --- caches ---------------------------------------------------------------------------------------


def caches(bench: Bench) -> dict:
    """The same work on operands that stay in the cache and on operands that rotate; from a graph."""
    report = {}
    side = 256 if bench.dry else 4096
    for name, sizes in {
        f"1 x {side} x {side}": (1, side, side),
        f"{side // 4} x {side // 4} x {side // 4}": (side // 4,) * 3,
        f"{side} x {side} x {side}": (side,) * 3,
    }.items():
        m, n, k = sizes
        moved = 2 * (m * k + k * n + m * n)
        rows = {}
        for copies in (1, max(2, -(-200 * 2**20 // moved)) if not bench.dry else 2):
            sets = [
                (tensor(bench, m, k), tensor(bench, n, k).t(), tensor(bench, m, n))
                for _ in range(min(copies, 64))
            ]

            def work(sets=sets) -> None:
                for turn in range(64):
                    a, b, out = sets[turn % len(sets)]
                    torch.mm(a, b, out=out)

            replay = graph_of(bench, work)
            pause(bench)
            seconds = statistics.median(bench.median_seconds(replay, 5, 2)) / 64
            rows["rotating" if copies > 1 else "one set"] = {
                "us": round(seconds * 1e6, 2),
                "tflops": round(flop(sizes) / seconds / 1e12, 1),
                "gb_per_s": round(moved / seconds / 1e9, 0),
            }
        report[name] = rows
    return report


# --- waves ----------------------------------------------------------------------------------------


def waves(bench: Bench) -> dict:
    """M x K fixed, N in steps of 128: tiles of 128 x 256 fill 132 SMs at every multiple of N = 1536."""
    m, k, step, last = (64, 64, 16, 128) if bench.dry else (2816, 4096, 128, 9216)
    a, weights = tensor(bench, m, k), tensor(bench, last, k)
    out = torch.empty(m * last, device=bench.device, dtype=torch.bfloat16)
    sizes = list(range(6 * step if not bench.dry else step, last + 1, step))
    looks: dict[int, list[float]] = {n: [] for n in sizes}
    for turn in range(3):
        order = random.Random(turn).sample(sizes, len(sizes))
        for n in order:
            b, c = weights[:n].t(), out[: m * n].view(m, n)
            pause(bench, 0.04)
            times = bench.median_seconds(lambda b=b, c=c: torch.mm(a, b, out=c), 12, 3)
            looks[n].append(statistics.median(times))
    rows = {
        str(n): {
            "us": round(statistics.median(times) * 1e6, 2),
            "tflops": round(flop((m, n, k)) / statistics.median(times) / 1e12, 1),
            "spread": round(max(times) / min(times) - 1, 4),
        }
        for n, times in looks.items()
    }
    return {"m": m, "k": k, "step": step, "passes": 3, "n": rows}


# --- scales of fp8 and fp4 ------------------------------------------------------------------------


def scaled(bench: Bench) -> dict:
    """Each way to scale fp8 or fp4 operands: the rate, or why torch refuses it here."""
    shape = (256, 256, 256) if bench.dry else (4096, 4096, 8192)
    report: dict = {"shape_mnk": list(shape), "ways": {}}
    for name, make in scale_ways(bench, shape).items():
        try:
            call = make()
            call()
            bench.sync()
            bursts = [burst(bench, call, shape, 0.4)["tflops"] for _ in range(2)]
            steady = sustained(bench, call, shape, 2.0)
            report["ways"][name] = {
                "burst_tflops": max(bursts),
                "sustained_tflops": steady["tflops"],
                "sm_mhz": steady["state"].get("sm_mhz", {}).get("mean"),
            }
        except (RuntimeError, AttributeError, TypeError, ValueError, NotImplementedError) as error:
            report["ways"][name] = {"refused": one_line(error)}
    return report


def scale_ways(bench: Bench, shape: tuple[int, int, int]) -> dict[str, Callable[[], Call]]:
    from torch.nn.functional import ScalingType, scaled_mm

    m, n, k = shape
    a, b = tensor(bench, m, k), tensor(bench, n, k)
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)

    def ones(*sizes: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.ones(*sizes, device=bench.device).to(kind)

    def inner(rows: int, columns: int) -> torch.Tensor:
        """Scales of blocks along K, laid out along the rows as the kernels want them."""
        return ones(columns, rows).t()

    def way(recipe_a, scale_a, recipe_b, scale_b, fast: bool) -> Call:
        return lambda: scaled_mm(
            a8, b8.t(), scale_a, recipe_a, scale_b, recipe_b,
            output_dtype=torch.bfloat16, use_fast_accum=fast,
        )  # fmt: skip

    def mx() -> Call:
        kind = torch.float8_e8m0fnu
        sa, sb = ones(m * k // 32, kind=kind), ones(n * k // 32, kind=kind)
        return lambda: torch._scaled_mm(a8, b8.t(), sa, sb, out_dtype=torch.bfloat16)

    def nvfp4() -> Call:
        four = torch.float4_e2m1fn_x2
        pa = torch.zeros(m, k // 2, dtype=torch.uint8, device=bench.device).view(four)
        pb = torch.zeros(n, k // 2, dtype=torch.uint8, device=bench.device).view(four)
        sa = ones(m * k // 16, kind=torch.float8_e4m3fn)
        sb = ones(n * k // 16, kind=torch.float8_e4m3fn)
        return lambda: torch._scaled_mm(pa, pb.t(), sa, sb, out_dtype=torch.bfloat16)

    kinds = ScalingType
    return {
        "bf16": lambda: lambda: torch.mm(a, b.t()),
        "fp8, one scale per tensor, fast sums": lambda: way(
            kinds.TensorWise, ones(1), kinds.TensorWise, ones(1), True),
        "fp8, one scale per tensor, exact sums": lambda: way(
            kinds.TensorWise, ones(1), kinds.TensorWise, ones(1), False),
        "fp8, one scale per row": lambda: way(
            kinds.RowWise, ones(m, 1), kinds.RowWise, ones(n, 1).t(), True),
        "fp8, blocks 1 x 128 and 128 x 128": lambda: way(
            kinds.BlockWise1x128, inner(m, k // 128), kinds.BlockWise128x128,
            ones(n // 128, k // 128).t(), False),
        "fp8, blocks 1 x 128 on both": lambda: way(
            kinds.BlockWise1x128, inner(m, k // 128), kinds.BlockWise1x128,
            inner(n, k // 128), False),
        "mxfp8, blocks 1 x 32": mx,
        "nvfp4, blocks 1 x 16": nvfp4,
    }  # fmt: skip


# --- recipes that may end the process -------------------------------------------------------------

MXFP8_ALONE = """
import torch
from torch.nn.functional import ScalingType, SwizzleType, scaled_mm
kind, swizzle = ScalingType.BlockWise1x32, {swizzle}
a, b = (torch.randn(256, 512, device="{device}").to(torch.float8_e4m3fn) for _ in range(2))
scale = torch.ones(256 * 512 // 32, device="{device}").to(torch.float8_e8m0fnu)
scaled_mm(a, b.t(), scale, kind, scale, kind, swizzle_a=swizzle, swizzle_b=swizzle, output_dtype=torch.bfloat16)
torch.cuda.is_available() and torch.cuda.synchronize()
print("it ran")
"""


def alone(bench: Bench) -> dict:
    """MXFP8 scales with and without their swizzle, each in a process of its own: how it ended and its last words."""
    report = {}
    for name, swizzle in (("mxfp8, no swizzle", "None"), ("mxfp8, swizzle", "SwizzleType.SWIZZLE_32_4_4")):
        code = MXFP8_ALONE.format(swizzle=swizzle, device=bench.device)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        words = (done.stdout + done.stderr).strip().splitlines()
        report[name] = {"exit": done.returncode, "last_words": words[-1][:300] if words else ""}
    return report


# --- few rows, experts, attention -----------------------------------------------------------------


def decode(bench: Bench) -> dict:
    """M tokens through one up-projection (4096 to 14336), launched one by one and from a graph."""
    n, k = (512, 256) if bench.dry else (14336, 4096)
    weights = [tensor(bench, n, k).t() for _ in range(4)]  # 448 MiB in rotation
    eights = [w.t().to(torch.float8_e4m3fn).t() for w in weights]
    one = torch.ones((), device=bench.device)
    report: dict = {"n": n, "k": k, "rows": {}}
    for m in (1, 8, 16, 32, 64, 128, 256, 512):
        x = tensor(bench, m, k)
        x8 = torch.randn(max(m, 16), k, device=bench.device).to(torch.float8_e4m3fn)
        out = torch.empty(m, n, device=bench.device, dtype=torch.bfloat16)

        def wide(x=x, out=out) -> None:
            for w in weights:
                torch.mm(x, w, out=out)

        def narrow(x=x8) -> None:
            for w in eights:
                torch._scaled_mm(x, w, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

        row: dict = {}
        for name, call, size in (("bf16", wide, 2), ("fp8", narrow, 1)):
            for how, work in (("launched", call), ("graph", graph_of(bench, call))):
                pause(bench, 0.1)
                seconds = statistics.median(bench.median_seconds(work, 20)) / len(weights)
                row[f"{name} {how}"] = {
                    "us": round(seconds * 1e6, 2),
                    "tflops": round(flop((m, n, k)) / seconds / 1e12, 2),
                    "weights_tb_per_s": round(n * k * size / seconds / 1e12, 3),
                }
        report["rows"][str(m)] = row
    return report


def grouped(bench: Bench) -> dict:
    """Products of experts: one grouped call, a loop, and a dense product of the same work."""
    cases = {  # experts, rows in all, N, K
        "8 experts, 2048 rows each": (8, 16384, 14336, 4096),
        "128 experts, 512 rows each": (128, 65536, 768, 2048),
        "128 experts, 16 rows each": (128, 2048, 768, 2048),
    }
    report = {}
    for name, (experts, rows, n, k) in cases.items():
        if bench.dry:
            experts, rows, n, k = 4, 64, 64, 64
        each = rows // experts
        x, w = tensor(bench, rows, k), tensor(bench, experts, n, k).transpose(-2, -1)
        ends = torch.arange(each, rows + 1, each, device=bench.device, dtype=torch.int32)

        def one_call(x=x, w=w, ends=ends) -> object:
            return torch.nn.functional.grouped_mm(x, w, offs=ends)

        def loop(x=x, w=w, each=each) -> None:
            for place in range(w.shape[0]):
                torch.mm(x[place * each : (place + 1) * each], w[place])

        def dense(x=x, w=w) -> object:
            return torch.mm(x, w[0])

        row: dict = {}
        for way, call in (("grouped", one_call), ("loop", loop), ("dense", dense)):
            try:
                pause(bench, 0.3)
                seconds = statistics.median(bench.median_seconds(call, 12, 3))
                row[way] = {
                    "us": round(seconds * 1e6, 1),
                    "tflops": round(flop((rows, n, k)) / seconds / 1e12, 1),
                }
            except (RuntimeError, AttributeError) as error:
                row[way] = {"refused": one_line(error)}
        report[name] = row
    return report


def attention(bench: Bench) -> dict:
    """scaled_dot_product_attention by backend; a causal product counts half of the full one's work."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    b, h, s, d = (1, 2, 128, 64) if bench.dry else (2, 32, 8192, 128)
    q, k, v = (tensor(bench, b, h, s, d).requires_grad_() for _ in range(3))
    grad = tensor(bench, b, h, s, d)
    report: dict = {"batch": b, "heads": h, "length": s, "head_dim": d, "backends": {}}
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for name, backend in backends.items():
        for causal in (False, True):

            def forward(causal=causal) -> torch.Tensor:
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            work = 4.0 * b * h * s * s * d / (2 if causal else 1)
            label = f"{name}, {'causal' if causal else 'full'}"
            try:
                with sdpa_kernel(backend):
                    with torch.no_grad():
                        pause(bench, 0.3)
                        ahead = statistics.median(bench.median_seconds(forward, 8, 2))
                    pause(bench, 0.3)
                    both = statistics.median(
                        bench.median_seconds(lambda: forward().backward(grad), 5, 2)
                    )
                report["backends"][label] = {
                    "forward_tflops": round(work / ahead / 1e12, 1),
                    "forward_ms": round(ahead * 1e3, 3),
                    "both_tflops": round(3.5 * work / both / 1e12, 1),
                    "both_ms": round(both * 1e3, 3),
                }
            except RuntimeError as error:
                report["backends"][label] = {"refused": one_line(error)}
    return report


def scatter(bench: Bench) -> dict:
    """One figure again and again: bursts after a rest, and steady states after two seconds of load."""
    shape = (256, 256, 256) if bench.dry else (8192, 8192, 8192)
    a, b = tensor(bench, *shape[:2]), tensor(bench, *shape[1:])
    out = torch.empty_like(a)

    def call() -> None:
        torch.mm(a, b, out=out)

    bursts = [burst(bench, call, shape, 0.7)["tflops"] for _ in range(5)]
    steady = [sustained(bench, call, shape, 1.5)["tflops"] for _ in range(5)]
    return {"shape_mnk": list(shape), "burst_tflops": bursts, "sustained_tflops": steady}


PARTS = (mistakes, caches, waves, decode, grouped, attention, scatter, scaled, alone)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--dry", action="store_true", help="small sizes, on the CPU if need be")
    parser.add_argument("--only", nargs="+", help="names of parts")
    args = parser.parse_args()
    began = time.perf_counter()
    torch.manual_seed(0)
    bench = Bench("cuda" if torch.cuda.is_available() else "cpu", args.dry)
    if not bench.cuda and not args.dry:
        print("no CUDA device; --dry runs small sizes on the CPU", file=sys.stderr)
        return 6
    first_call(bench)
    report: dict = {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv), "dry_run": args.dry, "device": identity(bench),
    }  # fmt: skip
    status = 0
    for part in PARTS:
        if args.only and part.__name__ not in args.only:
            continue
        start = time.perf_counter()
        try:
            report[part.__name__] = part(bench)
        except Exception:  # a part that fails leaves the others their time on the card
            report[part.__name__] = {"failed": traceback.format_exc()}
            print(traceback.format_exc(), file=sys.stderr)
            status = 1
        if bench.cuda:
            torch.cuda.empty_cache()
        report["seconds"] = round(time.perf_counter() - began, 1)
        args.out.write_text(json.dumps(report, indent=1) + "\n")
        print(f"{part.__name__}: {time.perf_counter() - start:.1f} s", flush=True)
    print(f"total {report['seconds']} s")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
