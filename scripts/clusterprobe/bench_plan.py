"""What a run of all_reduce_bench will do: the lines of --dry-run, without torch where the device is named, and the limit of a row."""

from __future__ import annotations

import argparse
from typing import List

from clusterprobe.bench_options import (
    BENCH_NAME,
    refuse_contradictions,
    wanted_sizes,
    wanted_specs,
)
from clusterprobe.bench_row_run import row_memory
from clusterprobe.collective_table import COLLECTIVES, extent_of
from clusterprobe.collective_values import type_bytes
from clusterprobe.device import choose_kind
from clusterprobe.launch import RankEnv
from clusterprobe.probe import local_rank_count
from clusterprobe.units import counted, format_size


def bench_plan(args: argparse.Namespace, env: RankEnv) -> List[str]:
    """What --dry-run prints: ranks, rows, and the memory they take."""
    kind = choose_kind(args.device)
    world, by = max(env.world_size, local_rank_count(args, env)), f"found by launcher {env.launcher}"
    if world > env.world_size:
        by = "started here"
    sizes, specs = wanted_sizes(args, kind), wanted_specs(args)
    refuse_contradictions(args, sizes)
    need = max(row_memory(spec, extent_of(spec.op, sizes.sizes[-1], type_bytes(spec.dtype), world, spec.place == "in"),
                          args.buffer_sets or 1) for spec in specs)
    return [f"{BENCH_NAME}: {counted(world, 'rank')} {by}, device {kind}",
            f"  {counted(len(specs), 'kind')} of rows x {counted(len(sizes.sizes), 'size')} "
            f"({format_size(sizes.sizes[0])} to {format_size(sizes.sizes[-1])}) x {counted(len(args.group), 'kind')} of groups",
            *(f"  {' '.join(filter(None, (spec.op, spec.dtype, spec.redop, spec.mode)))}: S is {COLLECTIVES[spec.op].size_text}"
              for spec in specs[:20]),
            *([f"  … and {len(specs) - 20:,} more kinds of rows"] if len(specs) > 20 else []),
            f"  memory: {format_size(need)} a rank at {format_size(sizes.sizes[-1])}; sizes that do not fit are left out, with the reason",
            f"  limits: {row_limit(args):g} s a row, {args.timeout:g} s in all"]


def row_limit(args: argparse.Namespace) -> float:
    """Seconds for one row: a budget that --row-time asks for is no hang. A number of iterations has no budget."""
    budget = 0.0 if args.num_iterations else args.row_time
    return args.stage_timeout + (budget if budget > args.stage_timeout / 2 else 0.0)
