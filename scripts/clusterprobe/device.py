"""torch, its accelerator and this rank's device. torch is imported here and nowhere else at module level.

Devices are told apart by UUID, never by the text of CUDA_VISIBLE_DEVICES, which may hold UUIDs or MIG
names. ROCm builds of torch answer under `cuda`; `vendor` tells.
"""

from __future__ import annotations

import glob
import os
import re
import warnings
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from clusterprobe.cgroup_memory import cgroup_room
from clusterprobe.exits import CANNOT_RUN, USAGE, ProbeFailure
from clusterprobe.units import rank_ranges

OLDEST_TORCH = (2, 2)
DEVICE_KINDS = ("cuda", "xpu", "hpu", "mps", "cpu")
BACKEND_OF = {"cuda": "nccl", "xpu": "xccl", "hpu": "hccl", "mps": "gloo", "cpu": "gloo"}


@dataclass(frozen=True)
class Device:
    """The device that this rank uses. Unknown properties are None."""

    kind: str
    index: Optional[int]
    name: str
    vendor: str
    uuid: Optional[str] = None
    pci: Optional[str] = None
    memory_bytes: Optional[int] = None
    units: Optional[int] = None  # streaming multiprocessors, compute units, Xe cores
    l2_bytes: Optional[int] = None
    capability: Optional[str] = None

    @property
    def label(self) -> str:
        """What torch.device() takes."""
        return self.kind if self.index is None else f"{self.kind}:{self.index}"

    @property
    def backend(self) -> str:
        return BACKEND_OF[self.kind]

    def as_json(self) -> Dict[str, Any]:
        return asdict(self)


def load_torch() -> Any:
    """Import torch without its remarks about absent optional packages."""
    warnings.filterwarnings("ignore", message=".*[Nn]um[Pp]y.*")
    warnings.filterwarnings("ignore", message=".*kernel cache directory.*")  # a read-only home
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its warnings bury the verdict
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise ProbeFailure(
            CANNOT_RUN,
            f"torch can't be imported: {error}",
            "run the tool with the Python that has torch",
        ) from None
    refuse_old_torch(torch.__version__)
    return torch


def refuse_old_torch(version: str) -> None:
    """`2.2.0a0+81ea7a4` of a container counts as 2.2; a version that is no number says nothing about its age."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found.group(1)), int(found.group(2))) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ProbeFailure(
            CANNOT_RUN,
            f"torch {version} is too old, {oldest} is the oldest that works",
            f"run the tool with a Python that has torch {oldest} or later",
            named=True,
        )


def device_module(kind: str) -> Any:
    """torch.cuda, torch.xpu … ; None for cpu and for kinds this torch was not built for."""
    return None if kind == "cpu" else getattr(load_torch(), kind, None)


def count_devices(kind: str) -> int:
    """Usable devices of a kind; 0 when torch or the driver has none."""
    module = device_module(kind)
    if kind == "cpu":
        return 1
    if kind == "mps":  # torch 2.2 has torch.mps, which can't be asked
        return int(load_torch().backends.mps.is_available())
    if module is None or not module.is_available():
        return 0
    return int(module.device_count()) if hasattr(module, "device_count") else 1


def choose_kind(wanted: str = "auto") -> str:
    """The accelerator that is there, cpu otherwise; a failure when a kind asked for by name is absent."""
    if wanted == "rocm":
        wanted = "cuda"
    if wanted != "auto" and wanted not in DEVICE_KINDS:
        raise ProbeFailure(
            USAGE, f"--device {wanted} is not one of {', '.join(DEVICE_KINDS)}, auto"
        )
    if wanted == "hpu":
        _import_habana()
    if wanted == "auto":
        return next((kind for kind in DEVICE_KINDS if count_devices(kind)), "cpu")
    if not count_devices(wanted):
        raise ProbeFailure(
            CANNOT_RUN,
            f"no {wanted} device: {absent_reason(wanted)}",
            "use --device cpu to test everything but the accelerator",
        )
    return wanted


def _import_habana() -> None:
    try:
        import habana_frameworks.torch.core  # noqa: F401 - registers torch.hpu
    except ImportError:
        pass  # count_devices then finds no torch.hpu and says so


def absent_reason(kind: str) -> str:
    """Why there is none, as far as one can tell from here."""
    torch = load_torch()
    if kind != "cuda":
        return f"torch {torch.__version__} reports none"
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return f"torch {torch.__version__} is built without CUDA and ROCm"
    driver = os.path.exists("/proc/driver/nvidia/version")
    nodes = glob.glob("/dev/nvidia[0-9]*")
    if driver and not nodes:
        return "the NVIDIA driver is loaded but /dev/nvidia* is absent (container without device access?)"
    if not driver and torch.version.cuda:
        return "no NVIDIA driver is loaded on this host"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "the driver lists none" + (
        f"; CUDA_VISIBLE_DEVICES={visible!r}" if visible is not None else ""
    )


def pick_index(local_rank: int, visible: int) -> Tuple[int, str]:
    """(device index, remark): the local rank's own, or the only visible one that the launcher assigned."""
    if visible > local_rank:
        return local_rank, ""
    if visible == 1:
        return 0, f"one device is visible; local rank {local_rank} takes it"
    raise ProbeFailure(
        CANNOT_RUN,
        f"local rank {local_rank} has no device: {visible} visible",
        "start one rank per visible device, or check CUDA_VISIBLE_DEVICES and --gpus-per-task",
    )


def open_device(wanted: str, local_rank: int) -> Tuple[Device, str]:
    """Choose, bind and describe this rank's device before any process group exists."""
    kind = choose_kind(wanted)
    if kind == "cpu":
        return Device("cpu", None, cpu_name(), "cpu"), ""
    if kind == "mps":
        return Device("mps", None, "Apple GPU", "apple"), ""
    index, remark = pick_index(local_rank, count_devices(kind))
    module = device_module(kind)
    try:
        module.set_device(index)
        return describe_device(kind, index), remark
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0]
        raise ProbeFailure(
            CANNOT_RUN,
            f"{kind}:{index} can't be opened: {first}",
            "is another process using it exclusively, or is its driver in error state?",
        ) from None


def describe_device(kind: str, index: int) -> Device:
    torch, module = load_torch(), device_module(kind)
    found = module.get_device_properties(index)
    hip = getattr(torch.version, "hip", None)
    vendor = {"xpu": "intel", "hpu": "habana"}.get(kind, "amd" if hip else "nvidia")
    pci = None
    if getattr(found, "pci_bus_id", None) is not None:
        pci = f"{getattr(found, 'pci_domain_id', 0):04x}:{found.pci_bus_id:02x}:{getattr(found, 'pci_device_id', 0):02x}"
    capability = f"{found.major}.{found.minor}" if hasattr(found, "major") else None
    return Device(
        kind,
        index,
        getattr(found, "name", kind),
        vendor,
        uuid=str(found.uuid) if getattr(found, "uuid", None) else None,
        pci=pci,
        memory_bytes=getattr(found, "total_memory", None),
        units=getattr(found, "multi_processor_count", getattr(found, "gpu_subslice_count", None)),
        l2_bytes=getattr(found, "L2_cache_size", None),
        capability=getattr(found, "gcnArchName", None) if hip else capability,
    )


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                "cpu",
            )
    except OSError:
        return "cpu"


def wait_for_device(kind: str) -> None:
    """Until everything queued on the current device is done."""
    module = device_module(kind)
    if module is not None:
        module.synchronize()


def free_memory(kind: str) -> Optional[int]:
    """Bytes that an allocation could take now; None when nobody can tell. On a CPU the control group counts too."""
    module = device_module(kind)
    if module is not None and hasattr(module, "mem_get_info"):
        return int(module.mem_get_info()[0])
    known = [room for room in (host_memory(), cgroup_room()) if room is not None]
    return min(known) if known else None


def host_memory() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(
                (int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")),
                None,
            )
    except OSError:
        return None


def shared_devices(records: Sequence[Mapping[str, Any]]) -> List[str]:
    """Sentences for devices that several ranks of one node hold. Records: rank, node, uuid or pci."""
    holders: Dict[Tuple[Any, Any], List[int]] = {}
    for record in records:
        identity = record.get("uuid") or record.get("pci")
        if identity:
            holders.setdefault((record["node"], identity), []).append(record["rank"])
    return [
        f"ranks {rank_ranges(ranks)} share device {identity}"
        for (_, identity), ranks in holders.items()
        if len(ranks) > 1
    ]
