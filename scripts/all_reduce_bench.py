#!/usr/bin/env python3
"""Measures all-reduce and the other collectives between the ranks of a job, with checked results.

    torchrun --nproc-per-node 8 all_reduce_bench.py
    srun -N2 --ntasks-per-node=8 python all_reduce_bench.py --group node,rail,pairs
    python all_reduce_bench.py --help
"""

import sys

from clusterprobe.hold import hold_signals

hold_signals(True)

from clusterprobe.bench import bench_main  # noqa: E402

if __name__ == "__main__":
    sys.exit(bench_main())
