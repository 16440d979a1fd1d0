"""Limits and settings of a node that make collectives hang or crash later: looked at before anything runs.

Each check returns findings: a short text with what to do. They are warnings, since none of them is a
fault for every job. All paths are below `root`, so recorded trees can stand in for a machine.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from clusterprobe.units import counted, format_size, shorten_list

SHM_PER_RANK = (
    64 << 20
)  # what NCCL and a few loader workers need; the container default is 64 MiB in all
DISPLAY_CLASSES = ("0x03", "0x12")  # display controllers and processing accelerators
GPU_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x1da3": "Habana"}


@dataclass(frozen=True)
class NodeLimits:
    """What the process may use; None where the system can't tell."""

    shm_total: Optional[int] = None
    shm_free: Optional[int] = None
    nofile: Optional[Tuple[int, int]] = None
    memlock: Optional[int] = None  # None: unlimited or unknown
    cgroup_memory: Optional[int] = None


def read_text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def raise_open_files() -> Optional[Tuple[int, int]]:
    """Raise the soft limit of open files to the hard one; (soft before, hard)."""
    try:
        import resource
    except ImportError:
        return None  # Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return soft, soft  # the system refuses: judge by what we have
    return soft, hard


def read_limits(root: str = "/") -> NodeLimits:
    shm_total = shm_free = None
    try:
        shm = os.statvfs(os.path.join(root, "dev/shm"))
        shm_total, shm_free = shm.f_frsize * shm.f_blocks, shm.f_frsize * shm.f_bavail
    except (OSError, AttributeError):
        pass  # no /dev/shm at all: reported as unknown
    memlock = None
    try:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        memlock = None if soft == resource.RLIM_INFINITY else soft
    except ImportError:
        pass  # Windows has no such limit
    text = read_text(os.path.join(root, "sys/fs/cgroup/memory.max")) or read_text(
        os.path.join(root, "sys/fs/cgroup/memory/memory.limit_in_bytes")
    )
    cgroup = int(text) if text and text.isdigit() and int(text) < 1 << 60 else None
    return NodeLimits(shm_total, shm_free, raise_open_files(), memlock, cgroup)


def has_infiniband(root: str = "/") -> bool:
    return bool(glob.glob(os.path.join(root, "sys/class/infiniband/*")))


def open_files_needed(world: int, local: int) -> int:
    """A rank of an all-to-all holds sockets to every other rank; add files, pipes and the runtime's own."""
    return 256 + 4 * world + 16 * local


def judge_limits(limits: NodeLimits, world: int, local: int, rdma: bool) -> List[str]:
    found = []
    need = max(SHM_PER_RANK * local, 1 << 28)
    if limits.shm_total is not None and limits.shm_total < need:
        found.append(
            f"/dev/shm holds {format_size(limits.shm_total)}, {local} ranks want {format_size(need)}: "
            "start the container with --shm-size or --ipc=host"
        )
    elif limits.shm_free is not None and limits.shm_free < need // 4:
        found.append(
            f"/dev/shm has only {format_size(limits.shm_free)} free: see what fills it (ls -l /dev/shm)"
        )
    if limits.nofile is not None and limits.nofile[1] < open_files_needed(world, local):
        found.append(
            f"open files are limited to {limits.nofile[1]:,}, a world of {world:,} may need "
            f"{open_files_needed(world, local):,}: raise the hard limit (ulimit -Hn)"
        )
    if rdma and limits.memlock is not None and limits.memlock < 1 << 30:
        found.append(
            f"locked memory is limited to {format_size(limits.memlock)} and RDMA devices are present: "
            "registration will fail; set memlock to unlimited"
        )
    if limits.cgroup_memory is not None and limits.cgroup_memory < local << 30:
        found.append(
            f"the cgroup allows {format_size(limits.cgroup_memory)} for {local} ranks: expect OOM kills"
        )
    return found


def judge_kernel(root: str = "/") -> List[str]:
    found = []
    if read_text(
        os.path.join(root, "proc/sys/kernel/numa_balancing")
    ) == "1" and _several_numa_nodes(root):
        found.append(
            "automatic NUMA balancing is on: pages migrate under the ranks "
            "(sysctl kernel.numa_balancing=0)"
        )
    command_line = (read_text(os.path.join(root, "proc/cmdline")) or "").split()
    groups = glob.glob(os.path.join(root, "sys/kernel/iommu_groups/*"))
    if groups and "iommu=pt" not in command_line and len(installed_gpus(root)) > 1:
        found.append(
            "the IOMMU translates device traffic (no iommu=pt): GPU peer access may hang or be slow; "
            "if stage 8 hangs, try NCCL_P2P_DISABLE=1 and look at ACS (lspci -vvv, ACSCtl)"
        )
    stale = sorted(glob.glob(os.path.join(root, "dev/shm/nccl-*")))
    if stale:
        found.append(
            f"{counted(len(stale), 'NCCL file')} in /dev/shm ({shorten_list(map(os.path.basename, stale), 2)}) "
            f"{'hold' if len(stale) > 1 else 'holds'} {format_size(sum(map(held_bytes, stale)))}, left by a killed job or "
            "used by a running one: `fuser -v /dev/shm/nccl-*` shows whose they are; remove those that nobody has open"
        )
    return found


def held_bytes(path: str) -> int:
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0  # its job ended meanwhile


def _several_numa_nodes(root: str) -> bool:
    return len(glob.glob(os.path.join(root, "sys/devices/system/node/node[0-9]*"))) > 1


def installed_gpus(root: str = "/") -> List[str]:
    """Vendors of the accelerators on the PCI bus, driver or not."""
    vendors = []
    for path in glob.glob(os.path.join(root, "sys/bus/pci/devices/*")):
        vendor = read_text(os.path.join(path, "vendor")) or ""
        kind = read_text(os.path.join(path, "class")) or ""
        if vendor in GPU_VENDORS and kind.startswith(DISPLAY_CLASSES):
            vendors.append(GPU_VENDORS[vendor])
    return vendors


def node_findings(world: int, local: int, root: str = "/") -> List[str]:
    """Everything that this node should be warned about."""
    return judge_limits(read_limits(root), world, local, has_infiniband(root)) + judge_kernel(root)


def merge_findings(by_rank: Dict[int, Sequence[str]]) -> Dict[str, List[int]]:
    """Finding → ranks whose node has it, the most common first."""
    merged: Dict[str, List[int]] = {}
    for rank, findings in sorted(by_rank.items()):
        for text in findings:
            merged.setdefault(text, []).append(rank)
    return dict(sorted(merged.items(), key=lambda item: -len(item[1])))
