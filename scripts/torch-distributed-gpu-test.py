#!/usr/bin/env python
"""Tests in ten stages whether the ranks of a job can work together, and names the one that can't.

torchrun --nproc-per-node 8 torch-distributed-gpu-test.py
srun -N2 --ntasks-per-node=8 python torch-distributed-gpu-test.py
python torch-distributed-gpu-test.py --help
"""

import sys

from clusterprobe.hold import hold_signals

hold_signals(True)

from clusterprobe.gpu_test import gpu_test_main  # noqa: E402

if __name__ == "__main__":
    sys.exit(gpu_test_main())
