"""Versions of what the ranks run: the report's `env`."""

from __future__ import annotations

import platform
from typing import Any, Dict, Optional

from clusterprobe.device import load_torch


def describe_software() -> Dict[str, Any]:
    """The report's `env`."""
    torch = load_torch()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": getattr(torch.version, "hip", None),
        "os": platform.platform(),
        "nccl": nccl_version(torch),
        "driver": driver_version(),
    }


def nccl_version(torch: Any) -> Optional[str]:
    if not torch.cuda.is_available():
        return None
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except (AttributeError, RuntimeError):
        return None


def driver_version() -> Optional[str]:
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            words = file.readline().split()
        return next((word for word in words if word[:1].isdigit() and "." in word), None)
    except OSError:
        return None
