"""All tools behind one command: `python -m clusterprobe TOOL …`, `python clusterprobe.pyz TOOL …`.

Every argument after the tool's name is the tool's; its exit codes are the tool's.
"""

from __future__ import annotations

import sys
from typing import List

from clusterprobe.hold import hold_signals

hold_signals(True)

from clusterprobe.bench import bench_main  # noqa: E402
from clusterprobe.exits import OK, USAGE  # noqa: E402
from clusterprobe.gpu_test import gpu_test_main  # noqa: E402
from clusterprobe.mamf import mamf_main  # noqa: E402
from clusterprobe.streams import settle_streams  # noqa: E402
from clusterprobe.version import PROBE_VERSION  # noqa: E402

PROBE_TOOLS = {
    "all_reduce_bench": (bench_main, "how fast the ranks of a job exchange data, and who is late"),
    "torch-distributed-gpu-test": (gpu_test_main, "whether the ranks of a job can work together"),
    "mamf-finder": (mamf_main, "how many matmul FLOPS each device reaches"),
}


def describe_tools() -> str:
    width = max(map(len, PROBE_TOOLS)) + 2
    rows = "\n".join(f"  {name:{width}}{what}" for name, (_, what) in PROBE_TOOLS.items())
    return f"usage: clusterprobe TOOL [options]\n\n{rows}\n\nclusterprobe TOOL --help lists a tool's options."


def command_again() -> List[str]:
    """This process's command line for local ranks; Python 3.9 keeps none."""
    if sys.argv[0].endswith("__main__.py"):
        return [sys.executable, "-m", "clusterprobe", *sys.argv[1:]]
    return [sys.executable, *sys.argv]


def clusterprobe_main() -> int:
    settle_streams()
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in ("-h", "--help"):
        print(describe_tools())
        return OK
    if word == "--version":
        print(f"clusterprobe {PROBE_VERSION}")
        return OK
    name = word[:-3] if word.endswith(".py") else word
    if name not in PROBE_TOOLS:
        wrong = f"clusterprobe: no tool {word!r}\n" if word else ""
        print(f"{wrong}{describe_tools()}", file=sys.stderr)
        print(f"RESULT status=error rc={USAGE} tool=clusterprobe json=none", file=sys.stderr)
        return USAGE
    if not hasattr(sys, "orig_argv"):
        sys.orig_argv = command_again()
    sys.argv = [sys.argv[0], *sys.argv[2:]]
    return PROBE_TOOLS[name][0]()


if __name__ == "__main__":
    sys.exit(clusterprobe_main())
