"""The command line of all_reduce_bench and what it asks for: kinds of rows, sizes, effort.

The option names of the public originals (all_reduce_bench, torch-dist-bench: --num_iterations, --num_warmup_iterations,
--payload_size_in_gib, --profile_stability, --collectives, --min-payload, --max-payload, --min-busbw-payload,
--with-host-overhead, --separate-tables, --local_rank) and of nccl-tests (-b -e -f -i -n -w -d -o) mean here what
they mean there.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Sequence

from clusterprobe.bench_checks import (
    CHECK_EVERY,
    one_file_each,
    one_way_to_say_sizes,
    options_that_act,
)
from clusterprobe.bench_groups import GROUP_KINDS, check_group_name
from clusterprobe.bench_measure import BATCH, Effort
from clusterprobe.case_ring import MOST_RING_SETS
from clusterprobe.collective_cases import CaseSpec
from clusterprobe.collective_table import COLLECTIVES, sweep_sizes
from clusterprobe.collective_values import REDUCE_OPS, TYPE_TRAITS, type_name
from clusterprobe.exits import USAGE, ProbeFailure
from clusterprobe.options import (
    ProbeParser,
    count_option,
    duration_option,
    filled_option,
    make_parser,
    path_option,
    rate_option,
    size_option,
)
from clusterprobe.transport_log import TRANSPORTS

BENCH_NAME = "all_reduce_bench"
BENCH_MODES = ("block", "stream", "graph")
OTHER_NAMES = {"batchisendirecv": "send_recv"}  # what others call a ring of sends to the right
MOST_BATCH = 100_000  # calls in flight at once
MOST_OFFSET = 1 << 20  # elements: past the largest page of any device, where alignment begins anew
DEFAULT_SWEEP = {"cpu": (8, 16 << 20, 8.0), "device": (8, 16 << 30, 4.0)}
BENCH_EPILOG = """\
Start it like the job it stands for:
  torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint node1:29500 --rdzv-backend c10d all_reduce_bench.py
  srun -N2 --ntasks-per-node=8 --gpus-per-node=8 python all_reduce_bench.py --group node,rail,pairs
  python all_reduce_bench.py --nproc 4 --device cpu --collective all --sizes 1M

Times are those of the slowest rank, per iteration; rates are decimal and come from the median time."""


def name_list(known: Sequence[str], what: str, aliases: Optional[Mapping[str, str]] = None) -> Callable[[str], List[str]]:
    """A parser of `a,b,c` or `all`; dashes and underscores may be there or not."""
    plain = {squeezed(name): name for name in known}
    plain.update(aliases or {})

    def parse(text: str) -> List[str]:
        names = []
        for word in filter(None, (part.strip() for part in text.split(","))):
            if word.lower() != "all" and squeezed(word) not in plain:
                raise argparse.ArgumentTypeError(f"{word!r} is no {what}; known are {', '.join(known)}, all")
            names += list(known) if word.lower() == "all" else [plain[squeezed(word)]]
        if not names:
            raise argparse.ArgumentTypeError(f"no {what} named; known are {', '.join(known)}, all")
        return list(dict.fromkeys(names))
    return parse


def squeezed(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def dtype_list(text: str) -> List[str]:
    if text.strip().lower() == "all":
        return list(TYPE_TRAITS)
    names = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = type_name(word)
        if name is None:
            raise argparse.ArgumentTypeError(f"{word!r} is no type; known are {', '.join(TYPE_TRAITS)}, all")
        names.append(name)
    if not names:
        raise argparse.ArgumentTypeError(f"no type named; known are {', '.join(TYPE_TRAITS)}, all")
    return list(dict.fromkeys(names))


def group_list(text: str) -> List[str]:
    try:
        names = list(dict.fromkeys(check_group_name(word) for word in text.split(",") if word.strip()))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not names:
        raise argparse.ArgumentTypeError(f"no group named; known are {', '.join(GROUP_KINDS)}")
    return names


def payload_option(text: str) -> int:
    """A size that something can be sent of: a call of no bytes is `barrier`."""
    size = size_option(text)
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size above zero")
    return size


def size_list(text: str) -> List[int]:
    sizes = [payload_option(word) for word in text.split(",") if word.strip()]
    if not sizes:
        raise argparse.ArgumentTypeError("no size named; write 8,64K,1MiB")
    return sizes


def gib_option(text: str) -> float:
    """The public original takes fractions of a GiB."""
    gib = rate_option(text)
    if gib * (1 << 30) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of a byte or more")
    return gib


def factor_option(text: str) -> float:
    factor = rate_option(text)
    if factor <= 1:
        raise argparse.ArgumentTypeError(f"a factor of {text} does not grow")
    return factor


def transport_list(text: str) -> List[str]:
    return name_list(TRANSPORTS, "transport")(text)


class NotMeasuredHere(argparse.Action):
    """An option of a public original without a counterpart: doing something else instead would be a wrong number."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        parser.error(f"{self.option_strings[0]}: windows of symmetric memory are not measured here; --allocator nccl takes "
                     "NCCL's own memory, which is something else")


def bench_parser() -> ProbeParser:
    parser = make_parser(
        BENCH_NAME, "Measures collectives between the ranks of a job: latency, algbw and busbw by size, with checked "
        "results, and names late ranks and slow hosts.", BENCH_EPILOG, stage_timeout="120s",
        gate=("GB/s", "fail when busbw is below this at the sizes from --gate-bytes on"))
    add_what(parser.add_argument_group("what"))
    add_how(parser.add_argument_group("how"))
    add_judging(parser.add_argument_group("judging"))
    parser.add_argument("--local-rank", type=int, default=None, help=argparse.SUPPRESS)  # some launchers pass it
    parser.add_argument("--separate-tables", action="store_true", help=argparse.SUPPRESS)  # they always are
    parser.add_argument("--sym-mem", action=NotMeasuredHere, nargs=0, help=argparse.SUPPRESS)
    parser.checks += [one_way_to_say_sizes, options_that_act, one_file_each]
    return parser


def add_what(group: Any) -> None:
    group.add_argument("--collective", "--collectives", type=name_list(list(COLLECTIVES), "collective", OTHER_NAMES), default=["all_reduce"], metavar="NAMES",
                       help="comma list or all: " + ", ".join(COLLECTIVES) + " (default all_reduce)")
    group.add_argument("-d", "--dtype", type=dtype_list, default=["float32"], metavar="TYPES",
                       help="comma list or all; torch's names, also bf16, fp16, fp8 (default float32)")
    group.add_argument("-o", "--redop", type=name_list(REDUCE_OPS, "reduce op"), default=["sum"], metavar="OPS",
                       help="comma list or all: " + ", ".join(REDUCE_OPS) + " (default sum)")
    group.add_argument("--place", choices=("default", "in", "out", "both"), default="default",
                       help="in place or out of place, where the collective has both; default is out for these")
    group.add_argument("--mode", type=name_list(BENCH_MODES, "mode"), default=["block"], metavar="MODES",
                       help="block: each call waited for; stream: calls queued, one wait; graph: replay of a CUDA "
                            "graph (default block)")
    group.add_argument("--with-host-overhead", dest="mode", action="store_const", const=["block"], help=argparse.SUPPRESS)
    group.add_argument("--group", type=group_list, default=["world"], metavar="GROUPS",
                       help="comma list of " + ", ".join(GROUP_KINDS) + ": all groups of a kind at the same time (default world)")
    group.add_argument("--backend", type=filled_option("name"), metavar="NAME", help="torch's backend (default: nccl, xccl or hccl by device, gloo on cpu)")
    group.add_argument("--sizes", type=size_list, metavar="LIST", help="comma list such as 8,64K,1MiB,1000003; need not divide")
    group.add_argument("-b", "--min-bytes", "--min-payload", type=payload_option, metavar="SIZE", help="start of the sweep (default 8)")
    group.add_argument("-e", "--max-bytes", "--max-payload", type=payload_option, metavar="SIZE",
                       help="end of the sweep (default 16G, 16M on a CPU, or what memory allows)")
    group.add_argument("-f", "--factor", type=factor_option, metavar="X", help="step of the sweep as a factor (default 4, on a CPU 8)")
    group.add_argument("-i", "--step-bytes", type=payload_option, metavar="SIZE", help="step of the sweep as a number of bytes")
    group.add_argument("--payload-size-in-gib", type=gib_option, metavar="GIB", help="one size, in GiB")
    group.add_argument("--min-busbw-payload", type=payload_option, metavar="SIZE",
                       help="give smaller sizes their times only, no rates (default: rates for all)")
    group.add_argument("--offset", type=count_option(0, MOST_OFFSET), default=0, metavar="ELEMENTS", help="misalign the buffers by so many elements")
    group.add_argument("--pair-level", choices=("auto", "node", "rank"), default="auto",
                       help="members of the pair matrix: one rank per node, or every rank (auto: ranks up to 64)")
    group.add_argument("--pair-bytes", type=payload_option, metavar="SIZE", help="message between pairs (default 64M, 1M on a CPU)")
    group.add_argument("--pair-rounds", type=count_option(1), default=256, metavar="N",
                       help="most rounds of pairs; above, they are evenly chosen (default %(default)s)")
    group.add_argument("--allow-one", action="store_true", help="one rank is not a failure: its calls are only checked")


def add_how(group: Any) -> None:
    group.add_argument("-n", "--num-iterations", type=count_option(1), metavar="N",
                       help="timed iterations of a row (default: until the interval is within 1%%, at most 1000)")
    group.add_argument("-w", "--num-warmup-iterations", type=count_option(0), default=5, metavar="N", help="untimed ones before (default %(default)s)")
    group.add_argument("--row-time", type=duration_option, default="2s", metavar="TIME", help="budget of a row's timed part (default %(default)s)")
    group.add_argument("--batch", type=count_option(1, MOST_BATCH), metavar="N",
                       help=f"calls a sample in stream and graph modes (default: {BATCH}, on a device as many times that as take 10 ms)")
    group.add_argument("--buffer-sets", type=count_option(1, MOST_RING_SETS), metavar="N",
                       help="sets of buffers used in turn (default: enough for twice the device's last-level cache; "
                            "1 measures data that may lie in it)")
    group.add_argument("--allocator", choices=("torch", "nccl"), default="torch",
                       help="whose memory the buffers are: torch's, as in training, or NCCL's own, which it can use without copying "
                            "through its buffers, in graph mode by itself (default %(default)s)")
    group.add_argument("--no-check", action="store_true", help="don't check results (default: first and last call of each row)")
    group.add_argument("--check-every", type=count_option(0), default=CHECK_EVERY, metavar="N",
                       help="check every n-th timed iteration too; 0: none of them (default %(default)s)")
    group.add_argument("--profile-stability", action="store_true", help="list the time of every iteration; needs one size")


def add_judging(group: Any) -> None:
    group.add_argument("--gate-bytes", type=size_option, metavar="SIZE", help="smallest size that --fail-below judges (default: the largest measured)")
    group.add_argument("--line-rate", type=rate_option, metavar="GB/s", help="mark rows with busbw above this: sharp, nvls or a mistake")
    group.add_argument("--transports", nargs="?", const="", metavar="FOLDER",
                       help="read from NCCL's debug log which way the data takes and report it; with FOLDER, keep the logs there")
    group.add_argument("--require-transport", type=transport_list, metavar="NAMES",
                       help="fail (exit 3) unless these are used, and nothing slower in their place: " + ", ".join(TRANSPORTS))
    group.add_argument("--baseline", type=path_option, metavar="FILE", help="earlier report to compare with; slower rows fail (exit 3)")
    group.add_argument("--baseline-tolerance", type=rate_option, default=5.0, metavar="PERCENT", help="ignored change (default %(default)s)")
    group.add_argument("--plot", type=path_option, metavar="PNG", help="write a plot, where matplotlib is installed; text bars are always printed")
    group.add_argument("--csv", type=path_option, metavar="FILE", help="write the rows as CSV")


@dataclass(frozen=True)
class SizePlan:
    """Sizes in bytes; `named`: asked for, so that leaving one out is a partial run."""

    sizes: List[int]
    named: bool


def wanted_sizes(args: argparse.Namespace, kind: str) -> SizePlan:
    if args.payload_size_in_gib is not None:
        return SizePlan([int(args.payload_size_in_gib * (1 << 30))], True)
    if args.sizes:
        return SizePlan(list(dict.fromkeys(args.sizes)), True)
    low, high, factor = DEFAULT_SWEEP["cpu" if kind == "cpu" else "device"]
    first = low if args.min_bytes is None else args.min_bytes
    last = max(high, first) if args.max_bytes is None else args.max_bytes
    try:
        sizes = sweep_sizes(first, last, args.factor or factor, args.step_bytes)
    except ValueError as error:
        raise ProbeFailure(USAGE, str(error), named=True) from None
    return SizePlan(sizes, args.max_bytes is not None)


def wanted_specs(args: argparse.Namespace) -> List[CaseSpec]:
    """Every kind of row, in the order of the command line."""
    specs = []
    for op in args.collective:
        kind = COLLECTIVES[op]
        places = {"both": kind.places, "default": kind.places[:1]}.get(args.place)
        if places is None:
            places = (args.place,) if args.place in kind.places else ()
        for mode in args.mode:
            for place in places or kind.places[:1]:
                for dtype in args.dtype if op not in ("barrier", "all_gather_object") else ["uint8"]:
                    for redop in args.redop if kind.reduces else [""]:
                        specs.append(CaseSpec(op, dtype, redop, place, mode, args.offset))
    return specs


def effort_of(args: argparse.Namespace) -> Effort:
    return Effort(args.num_warmup_iterations, args.num_iterations, 1000, args.row_time, not args.no_check,
                  args.check_every, args.batch, args.buffer_sets)


def refuse_contradictions(args: argparse.Namespace, sizes: Optional[SizePlan] = None) -> None:
    if args.profile_stability and sizes and len(sizes.sizes) != 1:
        raise ProbeFailure(USAGE, "--profile-stability needs one size", "add --payload-size-in-gib or --sizes", named=True)
