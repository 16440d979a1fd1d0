"""What of an instrument's report is kept: numbers, versions and words from a closed list; nothing that names people.

In: a report as the tool wrote it. Out: the part that may be published, and what was left out. Kept is what is on
the list, so that a field a later version of a tool adds stays out until somebody has looked at it. A last look
over the result finds host names and the like that came through all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

# Keys whose words say what was measured, and the form such a word has.
WORDS = frozenset(
    ("op", "dtype", "redop", "place", "mode", "group", "kind", "state", "status", "stage", "timer", "data", "layout",
     "cache", "order", "allocator", "collective", "backend", "device", "columns", "shape", "coverage", "pair_level",
     "float32_matmul_precision", "nproc", "transports", "burst_shape", "sustained_shape")
)  # fmt: skip
_WORD = re.compile(r"[\w .,:;+x×()%-]{1,80}")
# Keys that may hold names, addresses, paths or sentences: dropped with everything below them.
DROPPED = frozenset(
    ("argv", "host", "hosts", "boot_id", "uuids", "uuid", "pcis", "pci", "pids", "pid", "reason", "next_step", "detail",
     "warnings", "trace", "failures", "notes", "json", "csv", "plot", "output_file", "baseline", "init", "nodes",
     "wrong_members", "name", "address", "master_addr", "sender_host", "receiver_host")
)  # fmt: skip
_ENV = ("python", "torch", "cuda", "rocm", "nccl", "driver")
_KEY = re.compile(r"[a-z0-9_]{1,40}")
_ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\S+@\S+\.\w+|\b(?:[a-z0-9-]+\.){2,}[a-z]{2,}\b", re.IGNORECASE)
VERSION = re.compile(r"v?\d[\w.+-]{0,39}")
DEVICE = re.compile(r"[\w .,:()+/®™-]{1,80}")  # on one line, and nothing that a page would take for markup


def _kept(value: Any, key: str) -> Any:
    """The value without what is not on the list; None stands for nothing."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return value if key in WORDS and _WORD.fullmatch(value) else None
    if isinstance(value, list):
        return [_kept(item, key) for item in value]
    out = {}
    for name, item in value.items():
        if name not in DROPPED and _KEY.fullmatch(name):
            kept = _kept(item, name)
            if kept is not None or item is None:
                out[name] = kept
    return out


def _system(text: str) -> str:
    """Kernel and C library without the words of whoever built the kernel."""
    kernel = re.match(r"(\w+)-(\d+(?:\.\d+)*)", text)
    machine, libc = re.search(r"x86_64|aarch64|arm64|ppc64le", text), re.search(r"glibc\d+\.\d+", text)
    parts = [f"{kernel[1]} {kernel[2]}" if kernel else "", machine[0] if machine else "", libc[0] if libc else ""]
    return ", ".join(part for part in parts if part)


def devices(report: Mapping[str, Any]) -> dict[str, int]:
    """Device name → how many, as the nodes of the report have them."""
    count: Counter[str] = Counter()
    for node in report["world"]["nodes"]:
        count[str(node["device"] or "unknown")] += len(node["uuids"] or ()) or 1
    return dict(sorted(count.items()))


def publishable(report: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a valid report that may be published."""
    world, env = report["world"], report["env"]
    return {
        "schema_version": report["schema_version"],
        "tool": report["tool"],
        "version": report["version"],
        "day": report["started"][:10],
        "status": report["status"],
        "rc": report["rc"],
        "env": {key: env[key] for key in _ENV if VERSION.fullmatch(str(env.get(key) or ""))}
        | {"os": _system(str(env.get("os", "")))},
        "world": {
            "size": world["size"], "node_count": world["node_count"], "launcher": world["launcher"],
            "devices": devices(report),
        },
        "config": _kept(report["config"], "config"),
        "stages": [{k: s[k] for k in ("stage", "status", "seconds")} for s in report["stages"]],
        "results": _kept(report["results"], "results"),
        "per_rank": _kept(report["per_rank"], "per_rank"),
        "pairs": _kept(report["pairs"], "pairs"),
        "telemetry": _kept(report["telemetry"], "telemetry"),
        "warning_count": len(report["warnings"]),
    }  # fmt: skip


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every (key, string) of a document; a mapping's keys are the strings of the key ""."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield "", str(name)
            yield from _strings(item, str(name))


def personal(report: Mapping[str, Any]) -> set[str]:
    """Names of the reader's machines that the report itself tells: hosts, boot ids, serial numbers of devices."""
    found = set()
    for node in report["world"]["nodes"]:
        found |= {str(node["host"]), str(node["boot_id"]), *map(str, node["uuids"] or ())}
    # "vm" or "node" would be found in many an honest word.
    return {name for name in found if len(name) > 4}


def leaks(kept: Mapping[str, Any], names: set[str]) -> list[str]:
    """Strings of the kept part that name a machine or a person all the same."""
    return sorted(
        {text for _, text in _strings(kept) if _ADDRESS.search(text) or any(name.lower() in text.lower() for name in names)}
    )


def left_out(report: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Keys under which something was left out, for the reader to see."""
    have = Counter(_strings(kept))
    gone = Counter(_strings(report)) - have
    return sorted({key for key, _ in gone if key and key not in ("started", "ended", "os")})
