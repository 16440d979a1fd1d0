"""Sizes, durations, rates and rank lists as text, both ways.

`64K` and `64KiB` are 65,536 (the custom of collective benchmarks), `64KB` is 64,000; rates are
decimal. Rank lists are written as ranges, because a line with 16,384 numbers is not read.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Optional

_SIZE_PATTERN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(I?B)?\s*$", re.IGNORECASE)
_SIZE_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_DURATION_PATTERN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)?\s*$", re.IGNORECASE)
_DURATION_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str) -> int:
    """Bytes in `8`, `64K`, `1MiB`, `4G`, `1.5GB`; ValueError says what was expected."""
    found = _SIZE_PATTERN.match(text)
    if not found:
        raise ValueError(f"{text!r} is not a size; write 8, 64K, 1MiB, 4G or 10GB")
    number, prefix, suffix = found.group(1), found.group(2).upper(), (found.group(3) or "").upper()
    base = 1000 if suffix == "B" and prefix else 1024
    factor = base ** _SIZE_POWERS[prefix]
    value = int(number) * factor if number.isdigit() else float(number) * factor
    if value != int(value):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(value)


def parse_duration(text: str) -> float:
    """Seconds in `30`, `250ms`, `30s`, `5m`, `2h`."""
    found = _DURATION_PATTERN.match(text)
    if not found:
        raise ValueError(f"{text!r} is not a duration; write 30, 250ms, 30s, 5m or 2h")
    return float(found.group(1)) * _DURATION_SECONDS[(found.group(2) or "s").lower()]


def format_size(count: float) -> str:
    """`64 KiB`, `1.5 GiB`; exact for the powers of two that sweeps use."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            text = f"{value:.0f}" if value == int(value) else f"{value:.4g}"
            return f"{text} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def format_rate(bytes_per_second: Optional[float]) -> str:
    """`12.3 GB/s`; a missing rate is a dash."""
    if bytes_per_second is None:
        return "-"
    value = float(bytes_per_second)
    for unit in ("B/s", "KB/s", "MB/s", "GB/s", "TB/s"):
        if abs(value) < 1000 or unit == "TB/s":
            return f"{three_digits(value)} {unit}"
        value /= 1000
    return f"{value:.3g} TB/s"


def format_time(seconds: Optional[float]) -> str:
    """`850 ns`, `12.3 us`, `4.56 ms`, `7.89 s`, `12 min`."""
    if seconds is None:
        return "-"
    for limit, factor, unit in (
        (1e-6, 1e9, "ns"),
        (1e-3, 1e6, "us"),
        (1.0, 1e3, "ms"),
        (600.0, 1, "s"),
    ):
        if abs(seconds) < limit:
            return f"{three_digits(seconds * factor)} {unit}"
    return f"{seconds / 60:.0f} min"


def three_digits(value: float) -> str:
    """Three significant digits, never in exponent form for numbers that people read."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def rank_ranges(ranks: Iterable[int]) -> str:
    """`0-7,9` for [0..7, 9]."""
    pieces: List[str] = []
    start: Optional[int] = None
    last: Optional[int] = None
    for rank in sorted(set(ranks)):
        if last is not None and rank == last + 1:
            last = rank
            continue
        if start is not None:
            pieces.append(str(start) if start == last else f"{start}-{last}")
        start = last = rank
    if start is not None:
        pieces.append(str(start) if start == last else f"{start}-{last}")
    return ",".join(pieces)


def parse_rank_ranges(text: str) -> List[int]:
    """The inverse of `rank_ranges`."""
    ranks: List[int] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"{piece!r} is not a rank or a range of ranks such as 0-7")
        ranks.extend(range(int(first), int(last or first) + 1))
    return ranks


def counted(number: int, noun: str) -> str:
    """`1 rank`, `16,384 ranks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shorten_list(items: Iterable[str], most: int = 8) -> str:
    """`a, b, c and 12 more`."""
    names = list(items)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"
