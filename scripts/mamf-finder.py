#!/usr/bin/env python3
"""Maximum achievable matmul FLOPS; see `mamf-finder.py --help`. The code is in clusterprobe/mamf.py."""

import sys

from clusterprobe.mamf import mamf_main

if __name__ == "__main__":
    sys.exit(mamf_main())
