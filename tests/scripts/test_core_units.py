"""Sizes, times, rank ranges and host lists, as tables."""

from __future__ import annotations

import pytest

from clusterprobe.nodelist import expand_nodelist, expand_task_counts
from clusterprobe.units import (
    counted,
    format_rate,
    format_size,
    format_time,
    parse_duration,
    parse_rank_ranges,
    parse_size,
    rank_ranges,
    shorten_list,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8", 8),
        ("0", 0),
        ("64K", 65536),
        ("64KiB", 65536),
        ("64k", 65536),
        ("64KB", 64000),
        ("1MiB", 1 << 20),
        ("1M", 1 << 20),
        ("4G", 4 << 30),
        ("4GiB", 4 << 30),
        ("10GB", 10**10),
        ("1.5G", 3 << 29),
        ("2T", 2 << 40),
        (" 16 M ", 16 << 20),
        ("512B", 512),
        ("1.5KB", 1500),
    ],
)
def test_sizes(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "x", "1X", "-1", "1.3", "0x10", "1e6", "1 2", "K", "1.0001K"])
def test_sizes_refused(text):
    with pytest.raises(ValueError, match=r"size|whole"):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (8, "8 B"),
        (1023, "1023 B"),
        (65536, "64 KiB"),
        (1 << 20, "1 MiB"),
        (3 << 29, "1.5 GiB"),
        (1000, "1000 B"),
        (1 << 50, "1024 TiB"),
    ],
)
def test_size_text(count, text):
    assert format_size(count) == text


def test_size_text_reads_back():
    for power in range(45):
        assert parse_size(format_size(1 << power)) == 1 << power


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("250ms", 0.25),
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1.5m", 90),
        ("10us", 1e-5),
        ("1d", 86400),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5x", "-3", "m", "1:30"])
def test_durations_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "-"),
        (0, "0 B/s"),
        (12.0e6, "12.0 MB/s"),
        (999, "999 B/s"),
        (4.8e11, "480 GB/s"),
        (3.35e12, "3.35 TB/s"),
    ],
)
def test_rate_text(rate, text):
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (8.5e-7, "850 ns"),
        (1.23e-5, "12.3 us"),
        (0.00456, "4.56 ms"),
        (7.89, "7.89 s"),
        (1200, "20 min"),
    ],
)
def test_time_text(seconds, text):
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2], "0-2"),
        ([9, 0, 1, 1], "0-1,9"),
        (range(16384), "0-16383"),
        (range(0, 10, 2), "0,2,4,6,8"),
    ],
)
def test_rank_ranges_there_and_back(ranks, text):
    assert rank_ranges(ranks) == text
    assert parse_rank_ranges(text) == sorted(set(ranks))


@pytest.mark.parametrize("text", ["a", "1-", "-2", "1-b"])
def test_rank_ranges_refused(text):
    with pytest.raises(ValueError, match="rank"):
        parse_rank_ranges(text)


def test_words():
    assert shorten_list("abc") == "a, b, c"
    assert shorten_list(map(str, range(2000)), 2) == "0, 1 and 1,998 more"
    assert [counted(1, "node"), counted(16384, "rank")] == ["1 node", "16,384 ranks"]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7]", ["n01", "n02", "n03", "n7"]),
        ("n[01-03,7],login", ["n01", "n02", "n03", "n7", "login"]),
        ("a,b,c", ["a", "b", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu-a[098-101]-ib", ["gpu-a098-ib", "gpu-a099-ib", "gpu-a100-ib", "gpu-a101-ib"]),
        ("", []),
        ("x[1],y[2-3].site", ["x1", "y2.site", "y3.site"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
    ],
)
def test_node_lists(text, hosts):
    assert expand_nodelist(text) == hosts


@pytest.mark.parametrize(
    "text", ["n[1-3", "n1-3]", "n[3-1]", "n[a-b]", "n[1-2-3]", "n[[1]]", "n[]x[,]"]
)
def test_node_lists_refused(text):
    with pytest.raises(ValueError, match="node list"):
        expand_nodelist(text)


def test_sixteen_thousand_hosts():
    hosts = expand_nodelist("n[00001-16384]")
    assert (len(hosts), hosts[0], hosts[-1]) == (16384, "n00001", "n16384")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("8", [8]),
        ("2(x3)", [2, 2, 2]),
        ("2(x2),1", [2, 2, 1]),
        ("", []),
        ("4,3,4(x2)", [4, 3, 4, 4]),
    ],
)
def test_task_counts(text, counts):
    assert expand_task_counts(text) == counts


@pytest.mark.parametrize("text", ["x", "2(3)", "(x3)"])
def test_task_counts_refused(text):
    with pytest.raises(ValueError, match="task count"):
        expand_task_counts(text)
