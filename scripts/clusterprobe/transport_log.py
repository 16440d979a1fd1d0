"""What NCCL's debug log says about the way the data takes. No torch.

Comes in: the text that NCCL (or RCCL) writes with NCCL_DEBUG=INFO. Goes out: the kinds of connections of one
process, and with all processes' summaries whether the job uses what was asked for.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from clusterprobe.units import rank_ranges

EDGE_LINE = re.compile(r"Channel (\d+)(?:/\d+)? : (\d+)\[[^\]]*\] -> (\d+)\[[^\]]*\](?: \[(?:send|receive)\])? via (\S.*)$")
COUNT_LINE = re.compile(r"(\d+) coll channels, (\d+) collnet channels, (\d+) nvls channels, (\d+) p2p channels")
CHOICE_LINE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
NETWORK_LINE = re.compile(r"(?:Using network|Assigned NET plugin) (.+?)(?: to comm)?$")
DEVICE_LINE = re.compile(r"NET/(\w+)\s?: Using (\[\d+\].+)$")
VERSION_LINE = re.compile(r"(?:NCCL|RCCL) version(?: :)? (\S+)")
SET_LINE = re.compile(r"(NCCL_\w+) set by environment to (.+?)\.?$")
ABSENT_LINE = re.compile(r"NET/(\w+)\s?: No device found")
NVLS_LINE = re.compile(r"NVLS multicast support is (not )?available")
TRANSPORTS = ("p2p", "shm", "net", "ib", "ofi", "socket", "gdr", "nvls")
MOST_CHOICES = 200


@dataclass
class TransportView:
    """One process's log. Counts are connections: a channel between two ranks, in one direction."""

    version: Optional[str] = None
    edges: Dict[str, int] = field(default_factory=dict)  # the words after `via`, device numbers removed
    network: Optional[str] = None
    interfaces: List[str] = field(default_factory=list)
    absent: List[str] = field(default_factory=list)
    channels: int = 0
    p2p_channels: int = 0
    nvls_channels: int = 0
    nvls_possible: Optional[bool] = None
    settings: Dict[str, str] = field(default_factory=dict)
    choices: List[Tuple[str, int, str, str, int]] = field(default_factory=list)  # op, bytes, algorithm, protocol, channels

    def as_json(self) -> Dict[str, Any]:
        return asdict(self)

    @property
    def kinds(self) -> Dict[str, int]:
        """Connections by name in TRANSPORTS; one counts in several (ib is net, and gdr with GPUDirect)."""
        counts: Dict[str, int] = {}
        for via, number in self.edges.items():
            for kind in edge_kinds(via):
                counts[kind] = counts.get(kind, 0) + number
        if self.nvls_channels:
            counts["nvls"] = self.nvls_channels
        return counts


def edge_kinds(via: str) -> List[str]:
    """`NET/IB/GDRDMA` -> net, ib, gdr."""
    words = via.upper().split("/")
    if words[0] != "NET":
        return [words[0].lower()] if words[0] in ("P2P", "SHM") else []
    name = words[1] if len(words) > 1 else ""
    kinds = ["net"]
    if name.startswith("IB"):
        kinds.append("ib")
    elif "OFI" in name or "LIBFABRIC" in name:
        kinds.append("ofi")
    elif name == "SOCKET":
        kinds.append("socket")
    return kinds + (["gdr"] if any(word.startswith("GDRDMA") for word in words) else [])


def plain_via(via: str) -> str:
    """Without comm pointers, device numbers and PXN ranks, so that equal ways have equal names."""
    via = via.split(" comm ")[0].strip()
    words = [re.sub(r"\(.*?\)", "", word) for word in via.split("/")]
    if words[0] == "NET":
        words = [word for word in words if not word.isdigit()]
    elif words[:2] == ["P2P", "indirect"]:
        words = words[:2]
    return "/".join(words)


def read_transport_log(lines: Iterable[str]) -> TransportView:
    """Everything that is known by the end of the log; lines that mean nothing here are skipped."""
    view = TransportView()
    for line in lines:
        text = line.rstrip()
        edge = EDGE_LINE.search(text)
        if edge:
            name = plain_via(edge[4])
            view.edges[name] = view.edges.get(name, 0) + 1
        else:
            _read_fact(view, text)
    return view


def _read_fact(view: TransportView, text: str) -> None:
    """Lines about the communicator, the network, the settings and the tuner's choice."""
    counts = COUNT_LINE.search(text)
    if counts:
        view.channels = max(view.channels, int(counts[1]))
        view.nvls_channels = max(view.nvls_channels, int(counts[3]))
        view.p2p_channels = max(view.p2p_channels, int(counts[4]))
        return
    choice = CHOICE_LINE.search(text)
    if choice:
        entry = (choice[1], int(choice[2]), choice[3], choice[4], int(choice[6]) - int(choice[5]) + 1)
        if entry not in view.choices and len(view.choices) < MOST_CHOICES:
            view.choices.append(entry)
        return
    for pattern, keep in FACT_LINES:
        found = pattern.search(text)
        if found:
            keep(view, found)
            return


def _keep_version(view: TransportView, found: Any) -> None:
    view.version = found[1]


def _keep_network(view: TransportView, found: Any) -> None:
    view.network = found[1].strip()


def _keep_interfaces(view: TransportView, found: Any) -> None:
    text = f"{found[1]}: {found[2]}"
    if text not in view.interfaces:
        view.interfaces.append(text)


def _keep_absent(view: TransportView, found: Any) -> None:
    if found[1] not in view.absent:
        view.absent.append(found[1])


def _keep_nvls(view: TransportView, found: Any) -> None:
    view.nvls_possible = found[1] is None


def _keep_setting(view: TransportView, found: Any) -> None:
    view.settings[found[1]] = found[2]


FACT_LINES = ((SET_LINE, _keep_setting), (ABSENT_LINE, _keep_absent), (NETWORK_LINE, _keep_network),
              (DEVICE_LINE, _keep_interfaces), (NVLS_LINE, _keep_nvls), (VERSION_LINE, _keep_version))


def transport_sentence(view: TransportView) -> str:
    """`24 channels; 48 x P2P/CUMEM; network Socket (IB: no device); NVLS not available`."""
    parts = [f"{view.channels} channels" if view.channels else "no channel count in the log"]
    parts += [f"{number} x {via}" for via, number in sorted(view.edges.items(), key=lambda item: -item[1])]
    if not view.edges:
        parts.append("no connection in the log")
    if view.network:
        parts.append(f"network {view.network}" + (f" ({', '.join(view.absent)}: no device)" if view.absent else ""))
    if view.nvls_channels:
        parts.append(f"NVLS on {view.nvls_channels} channels")
    elif view.nvls_possible is False:
        parts.append("NVLS not available")
    return "; ".join(parts)


def judge_transport(required: str, views: Mapping[int, Optional[TransportView]], places: Sequence[int]) -> Tuple[bool, str]:
    """(met, sentence). A way that is required must be used, and nothing slower in its place.

    `places[rank]` is the rank's node. Ranks without a log are no proof of anything and fail.
    """
    silent = [rank for rank, view in views.items() if view is None or not (view.edges or view.channels)]
    if silent:
        return False, f"no NCCL log from ranks {rank_ranges(silent)}"
    known = {rank: view.kinds for rank, view in views.items() if view is not None}
    if len(known) < 2:
        return False, "one rank has no connection"
    if required == "nvls":
        without = [rank for rank, kinds in known.items() if not kinds.get("nvls")]
        return not without, f"NVLS is not used by ranks {rank_ranges(without)}" if without else "NVLS is used by all"
    users = [rank for rank, kinds in known.items() if kinds.get(required)]
    instead = [rank for rank in known if _replaced(required, known[rank])]
    if not users:
        return False, f"no rank uses {required}: {_used_ways(views)}" + _one_node_remark(required, places)
    if instead:
        return False, f"not only {required}: ranks {rank_ranges(instead)} use {_used_ways({rank: views[rank] for rank in instead})}"
    return True, f"{required} is used by ranks {rank_ranges(users)}"


def _replaced(required: str, kinds: Mapping[str, int]) -> bool:
    """Did connections go another way that should have gone this one?"""
    if required in ("ib", "ofi", "socket", "gdr"):
        return kinds.get("net", 0) > kinds.get(required, 0)
    if required == "p2p":
        return kinds.get("shm", 0) > 0
    return False


def _one_node_remark(required: str, places: Sequence[int]) -> str:
    network = required in ("net", "ib", "ofi", "gdr")
    return "; all ranks are on one node, whose connections need no network" if network and len(set(places)) == 1 else ""


def _used_ways(views: Mapping[int, Optional[TransportView]]) -> str:
    ways = sorted({via for view in views.values() if view is not None for via in view.edges})
    return ", ".join(ways[:6]) if ways else "no connection in the logs"
