#!/usr/bin/env python3
"""Measure what one CUDA accelerator really gives: matmul, memory, copies, clocks, power.

Needs torch and the standard library. Changes no setting of the card; reads its sensors through NVML
every 20 ms while the work runs. Writes one JSON file with everything, two CSV files with the traces,
and prints a short summary.

States of a matmul rate, kept apart on purpose:
  burst      the best 50 ms window of a half-second run that starts from an idle card
  sustained  the mean over the second half of an 8 s run without a pause
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import platform
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

SCHEMA = 1
SHAPES = [
    (8192, 8192, 8192),
    (4096, 4096, 8192),
    (4224, 4096, 8192),  # 33 x 16 tiles of 128 x 256: four full waves on 132 SMs
    (2816, 3072, 16384),  # 22 x 12 tiles: two full waves
    (2048, 2048, 12288),
    (3072, 4096, 16384),
]
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
QUERY = (
    "name,driver_version,vbios_version,memory.total,memory.reserved,power.limit,power.max_limit,"
    "clocks.max.sm,clocks.max.mem,pcie.link.gen.max,pcie.link.gen.current,pcie.link.width.current,"
    "ecc.mode.current,persistence_mode,mig.mode.current"
)
Call = Callable[[], object]


# --- sensors --------------------------------------------------------------------------------------


class _Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


class Sensors:
    """Clock, power and temperature of device 0, straight from NVML."""

    POWER_INSTANT, MEMORY_TEMP = 186, 82  # NVML field ids

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        if self.lib.nvmlInit_v2() != 0:
            raise OSError("NVML did not start")
        self.device = ctypes.c_void_p()
        self.lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))
        self.reasons = getattr(
            self.lib,
            "nvmlDeviceGetCurrentClocksEventReasons",
            self.lib.nvmlDeviceGetCurrentClocksThrottleReasons,
        )

    def _uint(self, name: str, *arguments: int) -> int | None:
        out = ctypes.c_uint()
        status = getattr(self.lib, name)(self.device, *arguments, ctypes.byref(out))
        return out.value if status == 0 else None

    def _field(self, field: int) -> int | None:
        value = _Field(field=field)
        status = self.lib.nvmlDeviceGetFieldValues(self.device, 1, ctypes.byref(value))
        if status or value.status:
            return None
        return value.value & 0xFFFFFFFF

    def read(self) -> dict[str, float | int | None]:
        mask = ctypes.c_ulonglong()
        known = self.reasons(self.device, ctypes.byref(mask)) == 0
        average, instant = self._uint("nvmlDeviceGetPowerUsage"), self._field(self.POWER_INSTANT)
        return {
            "sm_mhz": self._uint("nvmlDeviceGetClockInfo", 1),
            "mem_mhz": self._uint("nvmlDeviceGetClockInfo", 2),
            "power_w": None if instant is None else instant / 1000,
            "power_average_w": None if average is None else average / 1000,
            "gpu_c": self._uint("nvmlDeviceGetTemperature", 0),
            "mem_c": self._field(self.MEMORY_TEMP),
            "reasons": mask.value if known else None,
        }


class Sampler(threading.Thread):
    """Reads the sensors every `period` seconds until `stop`; samples carry host time."""

    def __init__(self, sensors: Sensors, period: float = 0.02) -> None:
        super().__init__(daemon=True)
        self.sensors, self.period = sensors, period
        self.samples: list[tuple[float, dict]] = []
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(self.period):
            self.samples.append((time.perf_counter(), self.sensors.read()))

    def stop(self) -> None:
        self.done.set()
        self.join()

    def between(self, begin: float, end: float) -> list[tuple[float, dict]]:
        return [(t, s) for t, s in self.samples if begin <= t <= end]


# --- timing ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trace:
    """Ends of equal groups of calls, in seconds after `begin` (host clock)."""

    begin: float
    ends: list[float]
    group: int

    def rates(self, work: float) -> list[tuple[float, float]]:
        """(seconds, work per second) of each group but the first, which holds the start."""
        pairs = zip(self.ends, self.ends[1:], strict=False)
        return [(b, self.group * work / (b - a)) for a, b in pairs]

    def mean_rate(self, work: float, since: float) -> float:
        kept = [end for end in self.ends if end >= since]
        if len(kept) < 2:  # slower than the window: one group fills half the run
            kept = self.ends
        return (len(kept) - 1) * self.group * work / (kept[-1] - kept[0])

    def best_rate(self, work: float, window: float) -> float:
        best, first = 0.0, 0
        for last in range(1, len(self.ends)):
            while self.ends[last] - self.ends[first + 1] >= window:
                first += 1
            span = self.ends[last] - self.ends[first]
            if span >= window:
                best = max(best, (last - first) * self.group * work / span)
        return best or self.mean_rate(work, 0)


class Bench:
    """The device, its sampler, and the way work on it is timed."""

    def __init__(self, device: str, dry: bool) -> None:
        self.device, self.cuda, self.dry = torch.device(device), device == "cuda", dry
        self.sampler: Sampler | None = None
        if self.cuda:
            self.sampler = Sampler(Sensors())
            self.sampler.start()

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin, end) -> float:
        return begin.elapsed_time(end) / 1e3 if self.cuda else end - begin

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def rest(self, seconds: float) -> None:
        self.sync()
        time.sleep(0.01 if self.dry else seconds)

    def run_for(self, call: Call, seconds: float, group_seconds: float) -> Trace:
        """Back-to-back calls for `seconds`, with a mark about every `group_seconds`."""
        seconds = 0.2 if self.dry else seconds
        call()
        self.sync()
        first = self.mark()
        call()
        last = self.mark()
        self.sync()
        group = max(1, round(group_seconds / max(self.between(first, last), 1e-6)))
        begin, start, marks = time.perf_counter(), self.mark(), []
        while time.perf_counter() - begin < seconds or len(marks) < 4:
            for _ in range(group):
                call()
            marks.append(self.mark())
            if self.cuda and len(marks) > 4:
                marks[-4].synchronize()  # stay a few groups ahead, not a whole run
        self.sync()
        return Trace(begin, [self.between(start, mark) for mark in marks], group)

    def median_seconds(self, call: Call, repetitions: int, warmup: int = 5) -> list[float]:
        """Sorted seconds per call, each call between its own marks."""
        for _ in range(warmup):
            call()
        self.sync()
        marks = []
        for _ in range(2 if self.dry else repetitions):
            begin = self.mark()
            call()
            marks.append((begin, self.mark()))
        self.sync()
        return sorted(self.between(begin, end) for begin, end in marks)

    def state(self, begin: float, end: float) -> dict:
        """What the sensors said between two host times."""
        samples = [s for _, s in self.sampler.between(begin, end)] if self.sampler else []
        out: dict[str, object] = {"samples": len(samples)}
        for key in ("sm_mhz", "mem_mhz", "power_w", "power_average_w", "gpu_c", "mem_c"):
            values = [s[key] for s in samples if s[key] is not None]
            if values:
                out[key] = {
                    "mean": round(statistics.fmean(values), 1),
                    "min": min(values),
                    "max": max(values),
                }
        masks = [s["reasons"] for s in samples if s["reasons"] is not None]
        out["reasons"] = {
            name: round(sum(bool(mask & bit) for mask in masks) / len(masks), 3)
            for bit, name in REASONS.items()
            if masks and any(mask & bit for mask in masks)
        }
        return out


# --- matmul ---------------------------------------------------------------------------------------


def filled(bench: Bench, rows: int, columns: int, pattern: str = "normal") -> torch.Tensor:
    """A float32 matrix with the named contents."""
    x = torch.empty(rows, columns, device=bench.device)
    if pattern == "zeros":
        return x.zero_()
    if pattern == "ones":
        return x.fill_(1.0)
    if pattern == "uniform":
        return x.uniform_(0, 1)
    x.normal_()
    return x.relu_() if pattern == "half-zero" else x


def matmul(bench: Bench, dtype: str, shape: tuple[int, int, int], pattern: str = "normal") -> Call:
    """One product of `shape` in `dtype`, operands made once, result written in place."""
    m, n, k = shape
    a, b = filled(bench, m, k, pattern), filled(bench, n, k, pattern)
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    if dtype.startswith("fp8"):
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        one = torch.ones((), device=bench.device)
        fast = dtype == "fp8"
        return lambda: torch._scaled_mm(
            a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    if dtype == "int8":
        a, b = (a * 40).to(torch.int8), (b * 40).to(torch.int8)
        return lambda: torch._int_mm(a, b.t())
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
    kind = kinds.get(dtype, torch.float32)
    a, b = a.to(kind), b.t().contiguous().to(kind)
    out = torch.empty(m, n, device=bench.device, dtype=kind)
    return lambda: torch.mm(a, b, out=out)


def flop(shape: tuple[int, int, int]) -> float:
    m, n, k = shape
    return 2.0 * m * n * k


def burst(bench: Bench, call: Call, shape: tuple[int, int, int], rest: float) -> dict:
    bench.rest(rest)
    trace = bench.run_for(call, 0.5, 0.005)
    end = trace.begin + trace.ends[-1]
    return {
        "tflops": round(trace.best_rate(flop(shape), 0.05) / 1e12, 1),
        "state": bench.state(trace.begin, end),
    }


def sustained(bench: Bench, call: Call, shape: tuple[int, int, int], seconds: float) -> dict:
    trace = bench.run_for(call, seconds, 0.01)
    half, end = trace.ends[-1] / 2, trace.ends[-1]
    return {
        "tflops": round(trace.mean_rate(flop(shape), half) / 1e12, 1),
        "seconds": round(end, 2),
        "state": bench.state(trace.begin + half, trace.begin + end),
    }


def by_dtype(bench: Bench) -> dict:
    """Burst and sustained rate of each dtype on its best shape of the list."""
    shapes = [tuple(x // 32 for x in s) for s in SHAPES] if bench.dry else SHAPES
    report = {}
    for dtype in ("bf16", "fp16", "fp8", "fp8-slow-accum", "int8", "tf32", "fp32", "fp64"):
        call = None
        try:
            screen = {}
            for shape in shapes:
                call = matmul(bench, dtype, shape)
                screen["x".join(map(str, shape))] = burst(bench, call, shape, 0.5)["tflops"]
            best = max(shapes, key=lambda s: screen["x".join(map(str, s))])
            call = matmul(bench, dtype, best)
            bursts = [burst(bench, call, best, 1.0) for _ in range(3)]
            bench.rest(0.5)
            report[dtype] = {
                "shape_mnk": list(best),
                "screen_burst_tflops": screen,
                "burst_tflops": statistics.median(b["tflops"] for b in bursts),
                "burst_runs": bursts,
                "sustained": sustained(bench, call, best, 8.0),
            }
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            report[dtype] = {"skipped": str(error).splitlines()[0]}
        del call  # frees the operands before the next dtype
    return report


def by_data(bench: Bench) -> dict:
    """The same bf16 product on different contents, each at its steady state."""
    shape = (256, 256, 256) if bench.dry else SHAPES[0]
    report = {"shape_mnk": list(shape), "patterns": {}}
    for pattern in ("normal", "uniform", "half-zero", "ones", "zeros", "normal again"):
        call = matmul(bench, "bf16", shape, pattern.removesuffix(" again"))
        bench.rest(1.0)
        report["patterns"][pattern] = sustained(bench, call, shape, 5.0)
    return report


def by_duty(bench: Bench) -> dict:
    """bf16 products for a share of every 100 ms: clock and power follow the share."""
    shape = (256, 256, 256) if bench.dry else SHAPES[0]
    call, report, period = matmul(bench, "bf16", shape), {}, 0.1
    for share in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85):
        bench.rest(1.0)
        begin, active, calls = time.perf_counter(), 0.0, 0
        while time.perf_counter() - begin < (0.3 if bench.dry else 4.0):
            tick, first = time.perf_counter(), bench.mark()
            while time.perf_counter() - tick < share * period:
                call()
                calls += 1
                last = bench.mark()
                bench.sync()
            active += bench.between(first, last)
            time.sleep(max(0.0, period - (time.perf_counter() - tick)))
        end = time.perf_counter()
        report[f"{share:.2f}"] = {
            "active_share": round(active / (end - begin), 3),
            "tflops_while_active": round(calls * flop(shape) / active / 1e12, 1),
            "state": bench.state(begin + (end - begin) / 4, end),
        }
    return {"shape_mnk": list(shape), "period_s": period, "shares": report}


def by_rows(bench: Bench) -> dict:
    """bf16 (M x 8192) times (8192 x 8192) for growing M: from bytes-bound to FLOP-bound."""
    k = 256 if bench.dry else 8192
    weights = [filled(bench, k, k).bfloat16() for _ in range(4)]  # together far above the L2
    report = {}
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        x = filled(bench, m, k).bfloat16()
        out = torch.empty(m, k, device=bench.device, dtype=torch.bfloat16)

        def call(x=x, out=out) -> None:
            for w in weights:
                torch.mm(x, w, out=out)

        bench.rest(0.2)
        times = bench.median_seconds(call, 30)
        seconds = statistics.median(times) / len(weights)
        moved = 2 * (m * k + k * k + m * k)
        report[str(m)] = {
            "flop_per_byte": round(flop((m, k, k)) / moved, 2),
            "tflops": round(flop((m, k, k)) / seconds / 1e12, 2),
            "gb_per_s": round(moved / seconds / 1e9, 1),
        }
    return {"n": k, "k": k, "weights_in_rotation": len(weights), "rows": report}


# --- memory and copies ----------------------------------------------------------------------------


def device_memory(bench: Bench) -> dict:
    """Read, write, copy and triad rates; and the copy rate against the size of the array."""
    gib = 2**20 if bench.dry else 2**30
    count = 8 * gib // 4
    a, b, c = (torch.empty(count, device=bench.device) for _ in range(3))
    b.normal_(), c.normal_()
    size = a.numel() * 4
    kernels: dict[str, tuple[int, Call]] = {
        "read (sum)": (size, b.sum),
        "write (fill)": (size, lambda: a.fill_(1.5)),
        "copy": (2 * size, lambda: a.copy_(b)),
        "scale": (2 * size, lambda: torch.mul(b, 3.0, out=a)),
        "triad": (3 * size, lambda: torch.add(b, c, alpha=3.0, out=a)),
    }
    report = {"array_gib": size / 2**30, "rates": {}, "copy_by_size": {}}
    for name, (moved, call) in kernels.items():
        begin = time.perf_counter()
        times = bench.median_seconds(call, 60)
        report["rates"][name] = {
            "tb_per_s": round(moved / statistics.median(times) / 1e12, 3),
            "best_tb_per_s": round(moved / times[0] / 1e12, 3),
            "worst_tb_per_s": round(moved / times[-1] / 1e12, 3),
            "state": bench.state(begin, time.perf_counter()),
        }
    for exponent in range(20, 21 if bench.dry else 34):
        n = 2**exponent // 4
        times = bench.median_seconds(lambda n=n: a[:n].copy_(b[:n]), 40, 10)
        report["copy_by_size"][str(2**exponent)] = round(
            2 * 2**exponent / statistics.median(times) / 1e12, 3
        )
    return report


def host_copies(bench: Bench) -> dict:
    """Host-device copies, pinned and pageable, one way and both ways at once."""
    if not bench.cuda:
        return {"skipped": "no device"}
    size, report = 2**30, {}
    device = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    for kind in ("pinned", "pageable"):
        host = [torch.ones(size, dtype=torch.uint8, pin_memory=kind == "pinned") for _ in range(2)]
        rates = {}
        for label, n in (("64 KiB", 2**16), ("1 MiB", 2**20), ("16 MiB", 2**24), ("1 GiB", size)):
            to = bench.median_seconds(
                lambda n=n, h=host: device[0][:n].copy_(h[0][:n], non_blocking=True), 12, 3
            )
            back = bench.median_seconds(
                lambda n=n, h=host: h[1][:n].copy_(device[1][:n], non_blocking=True), 12, 3
            )
            rates[label] = {
                "to_device_gb_per_s": round(n / statistics.median(to) / 1e9, 2),
                "to_host_gb_per_s": round(n / statistics.median(back) / 1e9, 2),
            }
        if kind == "pinned":
            rates["1 GiB both ways"] = both_ways(device, host, size)
        report[kind] = rates
    return report


def both_ways(device: list[torch.Tensor], host: list[torch.Tensor], size: int) -> dict:
    streams = [torch.cuda.Stream() for _ in range(2)]
    seconds = []
    for _ in range(8):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.cuda.stream(streams[0]):
            device[0].copy_(host[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            host[1].copy_(device[1], non_blocking=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return {"sum_gb_per_s": round(2 * size / statistics.median(seconds) / 1e9, 2)}


# --- the card -------------------------------------------------------------------------------------


def smi(*arguments: str) -> str:
    run = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else f"exit {run.returncode}"


def identity(bench: Bench) -> dict:
    """Versions, properties, limits; no serial number, no UUID."""
    out: dict[str, object] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "kernel": platform.release(),
        "machine": platform.machine(),
    }
    if not bench.cuda:
        return out | {"name": platform.processor() or "CPU"}
    free, total = torch.cuda.mem_get_info()
    p = torch.cuda.get_device_properties(0)
    keys, values = (
        QUERY.split(","),
        smi(f"--query-gpu={QUERY}", "--format=csv,noheader").split(", "),
    )
    return out | {
        "name": p.name,
        "capability": f"{p.major}.{p.minor}",
        "multiprocessors": p.multi_processor_count,
        "l2_bytes": p.L2_cache_size,
        "shared_memory_per_multiprocessor_bytes": p.shared_memory_per_multiprocessor,
        "shared_memory_per_block_optin_bytes": p.shared_memory_per_block_optin,
        "registers_per_multiprocessor": p.regs_per_multiprocessor,
        "memory_bus_bits": getattr(p, "memory_bus_width", None),
        "memory_clock_khz": getattr(p, "memory_clock_rate", None),
        "total_bytes": total,
        "free_bytes_after_context": free,
        "nvidia_smi": dict(zip(keys, values, strict=False)),
        "nvidia_smi_q": smi("-q", "-d", "TEMPERATURE,POWER,CLOCK,MEMORY,ECC").splitlines(),
    }


def largest_allocation(bench: Bench) -> dict:
    """How much of the card one process can hold, in plain allocations of 256 MiB."""
    if not bench.cuda:
        return {"skipped": "no device"}
    torch.cuda.empty_cache()
    blocks, step = [], 2**28
    try:
        while True:
            blocks.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        held = len(blocks) * step
    del blocks
    torch.cuda.empty_cache()
    return {"held_bytes": held, "step_bytes": step}


def long_run(bench: Bench, out: Path) -> dict:
    """30 s of bf16 from an idle card, rates and sensors written as CSV."""
    shape = (256, 256, 256) if bench.dry else SHAPES[0]
    call = matmul(bench, "bf16", shape)
    bench.rest(5.0)
    trace = bench.run_for(call, 30.0, 0.01)
    rates = [(t, r / 1e12) for t, r in trace.rates(flop(shape))]
    rows = ["seconds,tflops", *(f"{t:.3f},{r:.1f}" for t, r in rates)]
    out.with_suffix(".rates.csv").write_text("\n".join(rows) + "\n")
    if bench.sampler:
        begin, end = trace.begin - 2.0, trace.begin + trace.ends[-1] + 2.0
        samples = bench.sampler.between(begin, end)
        keys = list(samples[0][1])
        rows = [",".join(["seconds", *keys])]
        for t, s in samples:
            rows.append(",".join([f"{t - trace.begin:.3f}", *(str(s[key]) for key in keys)]))
        out.with_suffix(".sensors.csv").write_text("\n".join(rows) + "\n")
    early = [r for t, r in rates if t < 1.0] or [rates[0][1]]
    late = [r for t, r in rates if t > trace.ends[-1] - 10.0]
    return {
        "shape_mnk": list(shape),
        "seconds": round(trace.ends[-1], 2),
        "best_tflops": round(max(r for _, r in rates), 1),
        "first_second_tflops": round(statistics.fmean(early), 1),
        "last_10_s_tflops": round(statistics.fmean(late), 1),
        "last_10_s_spread_tflops": round(statistics.pstdev(late), 2),
        "state_last_10_s": bench.state(
            trace.begin + trace.ends[-1] - 10.0, trace.begin + trace.ends[-1]
        ),
    }


# --- main -----------------------------------------------------------------------------------------


def summary(report: dict) -> list[str]:
    lines = [f"{report['device']['name']}  torch {report['device']['torch']}"]
    lines.append("matmul, TFLOPS       burst  sustained  MHz   W")
    for dtype, row in report["by_dtype"].items():
        if "skipped" in row:
            lines.append(f"{dtype:18} skipped: {row['skipped'][:50]}")
            continue
        state = row["sustained"]["state"]
        mhz, watt = (state.get(k, {}).get("mean", 0) for k in ("sm_mhz", "power_w"))
        rates = f"{row['burst_tflops']:8.1f} {row['sustained']['tflops']:10.1f}"
        lines.append(f"{dtype:18} {rates} {mhz:5.0f} {watt:4.0f}")
    lines.append("bf16 by contents, TFLOPS sustained")
    for pattern, row in report["by_data"]["patterns"].items():
        mhz = row["state"].get("sm_mhz", {}).get("mean", 0)
        lines.append(f"{pattern:18} {row['tflops']:19.1f} {mhz:5.0f}")
    lines.append("device memory, TB/s")
    for name, row in report["device_memory"]["rates"].items():
        lines.append(f"{name:18} {row['tb_per_s']:8.3f}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(20261130)
    begin = time.perf_counter()
    bench = Bench(options.device, options.dry_run)
    report: dict[str, object] = {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python3 " + " ".join(sys.argv),
        "dry_run": options.dry_run,
        "device": identity(bench),
    }
    stages: list[tuple[str, Callable[[], dict]]] = [
        ("idle", lambda: idle(bench)),
        ("device_memory", lambda: device_memory(bench)),
        ("host_copies", lambda: host_copies(bench)),
        ("largest_allocation", lambda: largest_allocation(bench)),
        ("long_run", lambda: long_run(bench, options.out)),
        ("by_data", lambda: by_data(bench)),
        ("by_rows", lambda: by_rows(bench)),
        ("by_dtype", lambda: by_dtype(bench)),
        ("by_duty", lambda: by_duty(bench)),
    ]
    failed: list[str] = []
    for name, stage in stages:
        started = time.perf_counter()
        try:
            report[name] = stage()
        except Exception as error:  # the card is rented by the minute: keep the other stages
            report[name] = {"failed": f"{type(error).__name__}: {error}"}
            failed.append(name)
            traceback.print_exc()
        print(f"{name}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        report["seconds"] = round(time.perf_counter() - begin, 1)
        options.out.write_text(json.dumps(report, indent=1) + "\n")  # keep what is measured
        if bench.cuda:
            torch.cuda.empty_cache()
    if bench.sampler:
        bench.sampler.stop()
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
        return 1
    print("\n".join(summary(report)))
    return 0


def idle(bench: Bench) -> dict:
    begin = time.perf_counter()
    time.sleep(0.05 if bench.dry else 3.0)
    return bench.state(begin, time.perf_counter())


if __name__ == "__main__":
    sys.exit(main())
