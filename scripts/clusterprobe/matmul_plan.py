"""From the command line to what will be measured: shapes or a grid, limits, and the plan in words. No torch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from clusterprobe.exits import USAGE, ProbeFailure
from clusterprobe.matmul_dtypes import MatmulDtype
from clusterprobe.matmul_options import SEARCH_AXES
from clusterprobe.matmul_shapes import (
    MatmulShape,
    ShapeGrid,
    ShapeLimits,
    axis_range,
    default_grid,
    parse_shape,
    read_shapes,
)
from clusterprobe.units import counted, format_time

LONGEST_CALL = {"cpu": 0.02}  # seconds of one product; longer ones tell nothing new and cost budget
LONGEST_CALL_DEVICE = 2.5e-3
SHORTEST_SHARE = 1 / 30
LEAST_INTENSITY = {"cpu": 20.0}
LEAST_INTENSITY_DEVICE = 300.0  # FLOP/byte at 2-byte operands; below, memory is the limit on every current card
DEFAULT_LAST_CACHE = 32 << 20  # where the device doesn't tell
SWEEP_SECONDS = 0.03
MOST_SHAPES = 1_000_000  # of one sweep; each is a row in memory


@dataclass(frozen=True)
class MatmulRequest:
    """What the user asked for: listed shapes to sweep, or axes (given or default) to search."""

    shapes: Tuple[MatmulShape, ...]
    axes: Tuple[Optional[Tuple[int, ...]], ...]
    search: bool
    batch: int

    def grid(self, longest_flop: float) -> ShapeGrid:
        usual = default_grid(longest_flop, self.batch)
        m, n, k = (given or default for given, default in zip(self.axes, (usual.m, usual.n, usual.k)))
        return ShapeGrid(m, n, k, self.batch)


def read_axis(args: argparse.Namespace, axis: str) -> Optional[Tuple[int, ...]]:
    """The sizes of --m or --m-range; None when neither was given."""
    listed, ranged = getattr(args, axis), getattr(args, f"{axis}_range")
    if listed and ranged:
        raise ProbeFailure(USAGE, f"--{axis} and --{axis}-range exclude each other")
    if ranged:
        if len(ranged) != 3:
            raise ProbeFailure(USAGE, f"--{axis}-range takes START STOP STEP")
        try:
            return axis_range(*ranged)
        except ValueError as error:
            raise ProbeFailure(USAGE, f"--{axis}-range: {error}") from None
    if listed and min(listed) < 1:
        raise ProbeFailure(USAGE, f"--{axis} takes sizes from 1 up")
    return tuple(sorted(set(listed))) if listed else None


def listed_shapes(args: argparse.Namespace) -> List[MatmulShape]:
    """Those of --shape and --shapes-file, each once."""
    found = [parse_shape(text) for text in args.shape or ()]
    if args.shapes_file:
        try:
            found += read_shapes(args.shapes_file)
        except OSError as error:
            raise ProbeFailure(USAGE, f"cannot read {args.shapes_file}: {error.strerror or error}") from None
        except ValueError as error:  # also: not UTF-8
            raise ProbeFailure(USAGE, f"--shapes-file: {error}") from None
        if not found:
            raise ProbeFailure(USAGE, f"{args.shapes_file} holds no shape", "write MxNxK, one a line")
    return [MatmulShape(one.m, one.n, one.k, args.batch) for one in dict.fromkeys(found)]


def read_request(args: argparse.Namespace) -> MatmulRequest:
    """Lists and ranges name a sweep of their product; --search samples it instead."""
    request = _read_request(args)
    for option, value in (("--num-iterations", args.num_iterations), ("--num-warmup-iterations", args.num_warmup_iterations)):
        if request.search and value is not None:
            raise ProbeFailure(USAGE, f"{option} counts in a sweep; a search divides its --budget",
                               "name shapes, or leave it out")
    return request


def _read_request(args: argparse.Namespace) -> MatmulRequest:
    axes = tuple(read_axis(args, axis) for axis in "mnk")
    given = [axis is not None for axis in axes]
    sampled = args.search == SEARCH_AXES
    shapes = listed_shapes(args)
    if shapes:
        if any(given) or sampled:
            raise ProbeFailure(USAGE, "--shape and --shapes-file stand alone, without --search, --m, --n, --k and ranges")
        return MatmulRequest(tuple(shapes), axes, False, args.batch)
    if args.search == "grid" and not any(given):
        raise ProbeFailure(USAGE, "--search grid sweeps shapes, and none are given", "add --m, --n and --k, or leave it out")
    if any(given) and not all(given) and not sampled:
        missing = " ".join(f"--{axis}" for axis, here in zip("mnk", given) if not here)
        raise ProbeFailure(USAGE, f"a sweep needs all three axes; missing: {missing}", "or add --search")
    if all(given) and not sampled:
        grid = ShapeGrid(*axes, args.batch)
        if len(grid) > MOST_SHAPES:
            raise ProbeFailure(USAGE, f"{len(grid):,} shapes are more than a sweep can hold ({MOST_SHAPES:,})",
                               "take larger steps, or sample them with --search")
        return MatmulRequest(tuple(grid), axes, False, args.batch)
    return MatmulRequest((), axes, True, args.batch)


def check_sweep_time(args: argparse.Namespace, request: MatmulRequest, dtypes: Sequence[MatmulDtype]) -> None:
    """Refuse at the start what --timeout would certainly end in the middle; with --num-iterations nobody can tell."""
    if request.search or args.num_iterations is not None:
        return
    tried = sum(not dtype.refusal(shape, "cuda") for dtype in dtypes for shape in request.shapes)
    least = SWEEP_SECONDS * args.passes * tried
    if least > args.timeout:
        raise ProbeFailure(
            USAGE, f"a sweep of {len(request.shapes):,} shapes takes {format_time(least)} at the very least, --timeout is "
            f"{format_time(args.timeout)}", f"give --timeout {-(-3 * least // 3600):.0f}h, or sample the shapes with --search")


def shape_limits(kind: str, dtype: MatmulDtype, rate: float, memory: Optional[int], restricted: bool) -> ShapeLimits:
    """Limits for candidates from the measured rate (FLOP/s); a grid that the user gave is only held to memory."""
    bytes_high = 0.6 * memory if memory else float("inf")
    if restricted:
        return ShapeLimits(0, float("inf"), 0, bytes_high, dtype.in_bytes, dtype.out_bytes)
    longest = longest_flop(kind, rate)
    return ShapeLimits(longest * SHORTEST_SHARE, longest, LEAST_INTENSITY.get(kind, LEAST_INTENSITY_DEVICE),
                       bytes_high, dtype.in_bytes, dtype.out_bytes)


def longest_flop(kind: str, rate: float) -> float:
    return rate * LONGEST_CALL.get(kind, LONGEST_CALL_DEVICE)


def cache_rule(cache: str, cache_bytes: int, known: bool) -> str:
    """One sentence for the head of the output."""
    size = f"{cache_bytes / 2 ** 20:.0f} MiB" + ("" if known else ", assumed")
    if cache == "flush":
        return f"a buffer of 4 x the last-level cache ({size}) is overwritten before each repetition, outside its time"
    if cache == "none":
        return f"every repetition uses the same operands; what fits the last-level cache ({size}) stays in it"
    return f"repetitions rotate over operands so that 2 x the last-level cache ({size}) lies between two uses"


def describe_plan(args: argparse.Namespace, request: MatmulRequest, dtypes: Sequence[MatmulDtype]) -> List[str]:
    """For --dry-run: no device is asked, so the default grid is described, not listed."""
    lines = [f"dtypes: {', '.join(one.name for one in dtypes)}; data {args.data}; layout {args.layout}; "
             f"cache {args.cache}"]
    if request.search:
        axes = ", ".join(f"{name} {'default' if axis is None else counted(len(axis), 'size')}"
                         for name, axis in zip("MNK", request.axes))
        lines.append(f"search: {axes}; {args.budget:g} s of measuring per dtype, up to {args.candidates} candidates")
        return lines
    flop = sum(shape.flop for shape in request.shapes)
    lines.append(f"sweep: {counted(len(request.shapes), 'shape')}, {args.passes:,} pass(es), {flop / 1e12:,.1f} TFLOP once through")
    spec = dtypes[0]
    largest = max(request.shapes, key=lambda one: one.touched_bytes(spec.in_bytes, spec.out_bytes))
    lines.append(f"largest: {largest}, {largest.touched_bytes(spec.in_bytes, spec.out_bytes) / 2 ** 20:,.0f} MiB "
                 f"of operands in {spec.name}")
    return lines
