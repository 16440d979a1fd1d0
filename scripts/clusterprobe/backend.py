"""The measured backend: process groups of torch.distributed, opened with the device bound and by our store.

Comes in: a session with a device and a joined control plane. Goes out: a ready default group.
"""

from __future__ import annotations

import inspect
import os
import time
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

from clusterprobe.exits import CANNOT_RUN, USAGE, ProbeFailure
from clusterprobe.interfaces import interface_of, list_interfaces
from clusterprobe.rendezvous import source_address


def set_gloo_interface(address: str, environ: Any = None) -> Optional[str]:
    """Gloo guesses from the host's name; the interface that routes to rank 0 is right more often.

    Does nothing when GLOO_SOCKET_IFNAME is set. Returns the interface that was set.
    """
    target = os.environ if environ is None else environ
    if target.get("GLOO_SOCKET_IFNAME"):
        return None
    local = source_address(address)
    name = interface_of(local, list_interfaces()) if local else None
    if name:
        target["GLOO_SOCKET_IFNAME"] = name
    return name


def refuse_backend(name: str, device_kind: str, torch_version: str, dist: Any) -> None:
    """A backend that this torch lacks, or that has nothing to do with the device, before a group opens with it."""
    known = [str(word) for word in dist.Backend.backend_list if word != "undefined"]
    for word in (part.rpartition(":")[2].strip().lower() for part in name.split(",")):
        if word not in known:
            raise ProbeFailure(
                USAGE, f"backend {name}: {word!r} is none of {', '.join(known)}", named=True
            )
        probe = getattr(dist, f"is_{word}_available", None)
        if probe is not None and not probe():
            raise ProbeFailure(
                CANNOT_RUN,
                f"backend {name}: torch {torch_version} is built without {word}",
                named=True,
            )
        if word == "nccl" and device_kind == "cpu" and name == word:
            raise ProbeFailure(
                USAGE, "backend nccl moves no data of a cpu", "use gloo, or --device cuda", True
            )


def takes_device(init: Callable[..., Any]) -> bool:
    """Torch 2.2 does not; there the device that open_device made the current one is taken."""
    return "device_id" in inspect.signature(init).parameters


def open_group(
    session: Any,
    backend: Optional[str] = None,
    name: str = "main",
    members: Optional[Sequence[int]] = None,
) -> float:
    """init_process_group through our store; returns the seconds it took.

    Pass another `name` to open a second backend after the first was destroyed. `members` are the ranks of
    a smaller group that this rank belongs to; its name must then be the group's own.
    """
    import torch
    import torch.distributed as dist

    control, device = session.control, session.device
    chosen = backend or device.backend
    refuse_backend(chosen, device.kind, torch.__version__, dist)
    if chosen == "gloo" and control.endpoint is not None:
        set_gloo_interface(control.endpoint.address)
    limit = min(session.watchdog.remaining(), 86400.0) + 60.0  # the watchdog ends first, with names
    options = {}
    if chosen != "gloo" and device.index is not None and takes_device(dist.init_process_group):
        options["device_id"] = torch.device(
            device.label
        )  # binds the communicator: no guess from the rank
    start = time.monotonic()
    dist.init_process_group(
        chosen,
        store=control.new_store(name, limit),
        rank=session.env.rank if members is None else list(members).index(session.env.rank),
        world_size=session.env.world_size if members is None else len(members),
        timeout=timedelta(seconds=limit),
        **options,
    )
    session.group_open = True
    return time.monotonic() - start


def close_group(session: Any) -> None:
    """Orderly end of the default group while all ranks live."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    session.group_open = False


def gather_into(output: Any, part: Any, group: Any = None, async_op: bool = False) -> Any:
    """all_gather into one tensor under the name that this torch wants."""
    import torch.distributed as dist

    call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return call(output, part, group=group, async_op=async_op)


def scatter_reduced(
    output: Any, whole: Any, op: Any = None, group: Any = None, async_op: bool = False
) -> Any:
    """reduce_scatter of one tensor under the name that this torch wants."""
    import torch.distributed as dist

    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return call(
        output, whole, op=dist.ReduceOp.SUM if op is None else op, group=group, async_op=async_op
    )
