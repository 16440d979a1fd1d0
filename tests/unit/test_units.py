"""A number and its unit stay together in prose, and nowhere else."""

from __future__ import annotations

import pytest
from lxml import etree

from bookpress import units


def bound(markup: str) -> str:
    root = etree.fromstring(f"<body>{markup}</body>")
    units.bind(root)
    return etree.tostring(root, encoding="unicode")[6:-7].replace("\u00a0", "~")


@pytest.mark.parametrize(
    ("markup", "want"),
    [
        ("4.8 TB/s and 80 ms", "4.8~TB/s and 80~ms"),
        ("67 TFLOPS at 57 °C, 1980 MHz.", "67~TFLOPS at 57~°C, 1980~MHz."),
        ("<p>a <em>10 W</em> and 2 KiB</p>", "<p>a <em>10~W</em> and 2~KiB</p>"),
        ("30 s apart, 3 h later, 8 GiB", "30~s apart, 3~h later, 8~GiB"),
    ],
)
def test_bound(markup, want):
    assert bound(markup) == want


@pytest.mark.parametrize(
    "markup",
    [
        "2 shards, 8 half, 3 min/max, 5 Bytes_x, 4 hosts, 7 a day",
        "<pre><code>sleep 2 s</code></pre>",
        "in <code>10 MB</code> of",
        "rank 0 sends 8 m_total",
        "H 100 TBx",
    ],
)
def test_left_alone(markup):
    assert bound(markup) == markup
