"""Joining the world: the stages that every tool passes before its first collective.

Store, census, consistency, and what each node should be warned about. A difference in arguments or in the
versions that must agree ends the run before a collective can hang on it; other differences are warnings.
"""

from __future__ import annotations

import os
import platform
from typing import Any, Callable, Dict, List, Mapping, Optional

from clusterprobe.census import Census, Difference, find_differences
from clusterprobe.device import Device, load_torch
from clusterprobe.exits import CANNOT_RUN, USAGE, ProbeFailure
from clusterprobe.interfaces import ifname_findings, interface_of, list_interfaces
from clusterprobe.preflight import merge_findings, node_findings
from clusterprobe.rendezvous import Endpoint, is_loopback, source_address
from clusterprobe.session import Session
from clusterprobe.software import describe_software, driver_version, nccl_version
from clusterprobe.store import read_records

# Variables that steer the transport; per-rank ones (devices, ranks) are left out, they must differ.
FACT_PREFIXES = (
    "NCCL_",
    "UCX_",
    "GLOO_",
    "RCCL_",
    "FI_",
    "TORCH_NCCL_",
    "CUDA_DEVICE_",
    "HSA_",
    "OMP_NUM_THREADS",
)
LOCAL_VARIABLES = ("NCCL_DEBUG_FILE",)  # a file of its own for every rank is no difference
LOCAL_OPTIONS = ("json", "force", "dry_run")  # may differ between ranks
MUST_AGREE = ("torch", "nccl", "device kind")
TELL_EVERY = 10.0
LATE_AFTER = 3.0
NODE_WARNINGS_TOLD = 12  # texts that hold a node's own numbers come once a node


def collect_facts(environ: Mapping[str, str], device: Optional[Device] = None) -> Dict[str, Any]:
    """What should be equal on all ranks."""
    torch = load_torch()
    facts: Dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": getattr(torch.version, "hip", None),
        "nccl": nccl_version(torch),
        "driver": driver_version(),
        "kernel": platform.release(),
        "device kind": device.kind if device else None,
        "device": device.name if device else None,
    }
    facts.update(
        {
            key: value
            for key, value in environ.items()
            if key.startswith(FACT_PREFIXES) and key not in LOCAL_VARIABLES
        }
    )
    return facts


def join_world(session: Session) -> None:
    """Store, census and consistency, each a stage with its deadline."""
    with session.stage("store"):
        session.connect()
    with session.stage("census"):
        take_census(session, collect_facts(os.environ, session.device))
    with session.stage("consistency"):
        check_consistency(session)


def take_census(session: Session, facts: Mapping[str, Any]) -> str:
    """Everybody reports; rank 0 names who did not, fills the report's world and env, returns who was late."""
    config = {key: value for key, value in session.config.items() if key not in LOCAL_OPTIONS}
    device = session.device.as_json() if session.device else {}
    limit = session.patience()
    watch = LateWatch(session, lambda ranks: name_absent(session, ranks), limit)
    census = session.control.take_census(
        session.host, session.node, device, facts, config, limit, watch.see
    )
    if census is not None:
        watch_names = LateWatch(session, lambda ranks: census.names(ranks, 4), limit)
        watch_names.seconds, watch_names.last = watch.seconds, watch.last
        session.report.put("world", census.as_json())
        session.report.put("env", describe_software())
        return watch_names.sentence()
    return ""


def name_absent(session: Session, ranks: List[int]) -> str:
    """Where they are expected, by the neighbours that reported; reads no more records than these."""
    env = session.env
    size = env.local_world_size or 0
    near = {other for rank in ranks for other in range(rank - size, rank + size + 1)}
    known = sorted(other for other in near if 0 <= other < env.world_size)
    return Census(env, read_records(session.control.client, "census", known)).names(ranks, 4)


class LateWatch:
    """Who came last, and how much later than rank 0. Tells the reader while it waits, and for how long."""

    def __init__(
        self, session: Session, name_rank: Callable[[List[int]], str], limit: float
    ) -> None:
        self._session = session
        self._name = name_rank
        self._limit = limit
        self._told = 0.0
        self.seconds = 0.0
        self.last: List[int] = []

    def see(self, seconds: float, count: int, missing: List[int]) -> None:
        self.seconds, self.last = seconds, missing or self.last
        if seconds - self._told < TELL_EVERY:
            return
        self._told = seconds
        who = self._name(missing) if missing else f"{self._session.env.world_size - count:,} ranks"
        self._session.report.line(f"  … {seconds:.0f} of {self._limit:.0f} s: waiting for {who}")

    def sentence(self) -> str:
        """Empty when nobody was late."""
        if self.seconds < LATE_AFTER or not self.last:
            return ""
        return f"last came {self._name(self.last)}, {self.seconds:.0f} s after rank 0"


def check_consistency(session: Session) -> List[Difference]:
    """Rank 0 compares; all ranks learn whether to go on. Returns the harmless differences on rank 0."""
    harmless: List[Difference] = []
    refusal = None
    if session.rank0:
        census = session.control.census
        client = session.control.client
        refusal = refused_difference(census, find_differences(client, census, "config"), "config")
        facts = find_differences(client, census, "facts")
        refusal = refusal or refused_difference(
            census, [d for d in facts if d.name in MUST_AGREE], "facts"
        )
        harmless = [difference for difference in facts if difference.name not in MUST_AGREE]
        for difference in harmless:
            session.report.warn(f"ranks differ in {difference.sentence(census)}")
        if refusal:
            raise refusal
    session.control.from_rank0("consistent", True, session.patience())
    return harmless


def findings_here(session: Session) -> List[str]:
    """What this node should be warned about: its first rank tells it, the others have nothing to add."""
    env, places = session.env, session.control.places
    if places.index(places[env.rank]) != env.rank:
        return []
    local = env.local_world_size or places.count(places[env.rank])
    leads = interface_to(session.control.endpoint) if session.control.endpoint else None
    return node_findings(env.world_size, local) + ifname_findings(os.environ, leads)


def interface_to(endpoint: Endpoint) -> Optional[str]:
    """The interface that leads to rank 0; None on a single host, where any does."""
    source = None if is_loopback(endpoint.address) else source_address(endpoint.address)
    return interface_of(source, list_interfaces()) if source else None


def node_warnings(census: Census, nodes: int, values: Mapping[int, Any]) -> List[str]:
    """Findings of all nodes by the rank that told them, equal ones told once."""
    merged = merge_findings(dict(values))
    warnings = [
        f"{census.names(ranks, 2)}: {text}"
        if len(ranks) < nodes or len(ranks) == 1
        else f"every node: {text}"
        for text, ranks in list(merged.items())[:NODE_WARNINGS_TOLD]
    ]
    rest = {rank for ranks in list(merged.values())[NODE_WARNINGS_TOLD:] for rank in ranks}
    if rest:
        warnings.append(
            f"{len(merged) - NODE_WARNINGS_TOLD:,} more findings like these on the nodes of "
            f"{census.names(sorted(rest), 4)}; torch-distributed-gpu-test --stop-after 4 on one of them "
            "shows its own"
        )
    return warnings


def warn_of_nodes(session: Session) -> None:
    """All ranks: rank 0 prints what the nodes found, before a backend needs what they lack."""
    values = session.control.gather_all("preflight", findings_here(session), session.patience())
    if values is not None:
        nodes = len(set(session.control.places))
        for text in node_warnings(session.control.census, nodes, values):
            session.report.warn(text)


def refused_difference(census: Census, differences: List[Difference], kind: str) -> Any:
    if not differences:
        return None
    text = "; ".join(difference.sentence(census) for difference in differences[:3])
    if kind == "config":
        return ProbeFailure(
            USAGE,
            f"ranks were started with different options: {text}",
            "give every rank the same command line",
            named=True,
        )
    return ProbeFailure(
        CANNOT_RUN,
        f"ranks run different software: {text}",
        "install the same torch and NCCL on every host",
        named=True,
    )
