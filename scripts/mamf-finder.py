#!/usr/bin/env python3
"""Maximum achievable matmul FLOPS; see `mamf-finder.py --help`. The code is in clusterprobe/mamf.py."""

import sys

from clusterprobe.hold import hold_signals

hold_signals(True)

from clusterprobe.mamf import mamf_main  # noqa: E402

if __name__ == "__main__":
    sys.exit(mamf_main())
