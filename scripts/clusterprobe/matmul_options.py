"""mamf-finder's command line. Option names of the public tool of that name are accepted with their meaning."""

from __future__ import annotations

import argparse
from typing import Any

from clusterprobe.matmul_data import DATA_KINDS
from clusterprobe.matmul_dtypes import parse_dtypes
from clusterprobe.matmul_shapes import parse_shape
from clusterprobe.options import (
    ProbeParser,
    count_option,
    duration_option,
    make_parser,
    path_option,
)

DESCRIPTION = """Find the highest matmul rate that a device reaches, over shapes.

Two figures, never mixed: burst (after a rest, full clock, before the power limit reacts) and sustained
(back to back, in the steady state at the power limit). Without shapes, a search under a time budget; with
--m/--n/--k (or ranges), a sweep of all their combinations."""

EPILOG = """examples:
  mamf-finder.py                                   bf16 on every visible device, under a minute
  mamf-finder.py --dtype fp8,tf32 --budget 20s
  mamf-finder.py --m 4096 --n 4096 8192 --k-range 1024 16384 1024
  mamf-finder.py --shape 2048x2048x12288 --shape 8192x8192x8192
  mamf-finder.py --fail-below 620                  exit 3 when a device is slower than that, sustained"""


SEARCH_AXES = "axes"  # --search without a word
MOST_SIDE = 1 << 40  # of a matrix; no row of it fits a device


class OneDeviceAction(argparse.Action):
    """--cuda-device picks one device, so one process runs."""

    def __call__(self, parser, namespace, value, option_string=None):
        namespace.cuda_device = value
        namespace.nproc = 1


def foreign_knob(text: str) -> str:
    raise argparse.ArgumentTypeError(
        f"{text!r} tunes another finder's search; here --budget, --candidates, --finalists and --passes do")


def shape_option(text: str) -> str:
    try:
        return str(parse_shape(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def dtype_option(text: str) -> str:
    try:
        return ",".join(one.name for one in parse_dtypes(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def mamf_parser() -> ProbeParser:
    parser = make_parser("mamf-finder", DESCRIPTION, EPILOG, stage_timeout="120s",
                         gate=("TFLOPS", "fail when a device's sustained rate is lower"))
    _add_shapes(parser.add_argument_group("shapes (C[M,N] = A[M,K] B[K,N])"))
    _add_measurement(parser.add_argument_group("measurement"))
    _add_text(parser.add_argument_group("text"))
    return parser


def _add_shapes(shapes: Any) -> None:
    for axis in "mnk":
        shapes.add_argument(f"--{axis}", type=count_option(0, MOST_SIDE), nargs="+", metavar=axis.upper(),
                            help=f"sizes of {axis.upper()}")
        shapes.add_argument(f"--{axis}-range", type=count_option(0, MOST_SIDE), nargs="+", metavar="N",
                            help="START STOP STEP; STOP itself is left out")
    shapes.add_argument("--shape", type=shape_option, action="append", metavar="MxNxK",
                        help="one shape; may be repeated")
    shapes.add_argument("--batch", type=count_option(1), default=1, help="products per call (default %(default)s)")
    shapes.add_argument("--shapes-file", type=path_option, metavar="PATH",
                        help="shapes from a file, MxNxK (or commas, spaces) a line")
    shapes.add_argument("--search", nargs="?", choices=(SEARCH_AXES, "auto", "grid"), const=SEARCH_AXES,
                        help="search the given axes instead of sweeping them; grid sweeps them, auto is the default: "
                             "a sweep where shapes are given, a search where none are")
    shapes.add_argument("--budget", type=duration_option, default="40s", metavar="TIME",
                        help="seconds of measuring per dtype for a search (default %(default)s)")
    shapes.add_argument("--candidates", type=count_option(1), default=360, metavar="N",
                        help="shapes that a search starts from (default %(default)s)")
    shapes.add_argument("--finalists", type=count_option(1), default=6, metavar="N",
                        help="shapes measured interleaved at the end (default %(default)s)")
    shapes.add_argument("--passes", type=count_option(1), default=1, metavar="N",
                        help="sweep the shapes this many times (default %(default)s)")
    shapes.add_argument("--order", choices=("shuffled", "given"), default="shuffled",
                        help="order of a sweep (default %(default)s)")


def _add_measurement(how: Any) -> None:
    how.add_argument("--dtype", type=dtype_option, default="bf16", metavar="NAMES",
                     help="bf16, fp16, tf32, fp32, fp64, fp8 (e4m3), fp8_e5m2, fp8_fnuz, int8, torch's names, a "
                          "comma list, or all (default %(default)s)")
    how.add_argument("--data", choices=DATA_KINDS, default="randn",
                     help="contents of the operands; ones and zeros draw less power (default %(default)s)")
    how.add_argument("--layout", choices=("tn", "nn"), default="tn",
                     help="tn: B is stored N x K as a linear layer's weight; nn: K x N (default %(default)s)")
    how.add_argument("--cache", choices=("rotate", "flush", "none"), default="rotate",
                     help="what lies in the last-level cache before a repetition (default %(default)s)")
    how.add_argument("--slow-accum", action="store_true", help="fp8 without the fast, less exact accumulation")
    how.add_argument("--num-iterations", type=count_option(1), metavar="N",
                     help="counted repetitions per shape of a sweep (default: as many as take 30 ms)")
    how.add_argument("--num-warmup-iterations", type=count_option(0), metavar="N",
                     help="dropped repetitions before them (default: by time)")
    how.add_argument("--telemetry", choices=("on", "off"), default="on",
                     help="clocks, power, temperature and throttle reasons beside each figure (default %(default)s)")
    how.add_argument("--tune", type=foreign_knob, help=argparse.SUPPRESS)
    how.add_argument("--cuda-device", type=count_option(0), action=OneDeviceAction, metavar="INDEX",
                     help="only this device (default: all visible devices at once)")


def _add_text(out: Any) -> None:
    out.add_argument("--output-file", type=path_option, metavar="PATH", help="also write every look as a line of text")
    out.add_argument("--notes", default="", help="kept in the report")
    out.add_argument("--plot", action="store_true", help="draw the finalists, and the best rate by work per call, as bars")
    out.add_argument("--verbose", dest="verbose", action="store_true", default=False, help="print every look")
    out.add_argument("--no-verbose", dest="verbose", action="store_false", help="print finalists only (default)")
