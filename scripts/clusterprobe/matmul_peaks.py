"""The vendor's dense peak for cards known by name, in TFLOPS (TOPS for int8). No torch.

Only for the percent column. A name that is not known for certain gives no percent: a wrong peak is worse
than none. The figures equal the book's accelerator table; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple

# Words after a known name that make another product of it, with other peaks.
OTHER_PRODUCT_WORDS = ("mig", "nvl", "pcie", "max-q", "vf", "virtual", "vgpu", "grid", "lite",
                       "super", "ti", "d")


@dataclass(frozen=True)
class CardPeak:
    """`record` is the card's key in the book's table; `names` are what drivers call it."""

    record: str
    names: Tuple[str, ...]
    dense: Dict[str, float]

    def peak(self, dtype: str) -> Optional[float]:
        """fp16 runs at bf16's rate on every card listed here."""
        return self.dense.get("bf16" if dtype == "fp16" else dtype)


CARD_PEAKS: Tuple[CardPeak, ...] = (
    CardPeak("nvidia_a100_sxm", ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM-80GB"), {"bf16": 312, "int8": 624}),
    CardPeak("nvidia_a100_pcie", ("NVIDIA A100 80GB PCIe",), {"bf16": 312, "int8": 624}),
    CardPeak("nvidia_h100_pcie", ("NVIDIA H100 PCIe",), {"bf16": 756.5, "fp8": 1513, "int8": 1513}),
    CardPeak("nvidia_h100_sxm", ("NVIDIA H100 80GB HBM3",), {"bf16": 989, "fp8": 1978, "int8": 1978}),
    CardPeak("nvidia_h200_sxm", ("NVIDIA H200",),
             {"fp64": 67, "fp32": 67, "tf32": 494.5, "bf16": 989, "fp8": 1978, "int8": 1978}),
    CardPeak("nvidia_h20", ("NVIDIA H20",), {"bf16": 148, "fp8": 294}),
    CardPeak("nvidia_gh200", ("NVIDIA GH200 480GB", "NVIDIA GH200 120GB", "NVIDIA GH200 144G HBM3e"),
             {"bf16": 989, "fp8": 1979}),
    CardPeak("nvidia_b200_sxm", ("NVIDIA B200",), {"bf16": 2250, "fp8": 4500, "int8": 4500}),
    CardPeak("nvidia_b300_sxm", ("NVIDIA B300", "NVIDIA B300 SXM6 AC"), {"bf16": 2250, "fp8": 4500}),
    CardPeak("nvidia_gb200", ("NVIDIA GB200",), {"bf16": 2500, "fp8": 5000, "int8": 5000}),
    CardPeak("nvidia_gb300", ("NVIDIA GB300",), {"bf16": 2500, "fp8": 5000, "int8": 165}),
    CardPeak("nvidia_l40s", ("NVIDIA L40S",), {"bf16": 362, "fp8": 733, "int8": 733}),
    CardPeak("nvidia_rtx_pro_6000_server", ("NVIDIA RTX PRO 6000 Blackwell Server Edition",),
             {"bf16": 468, "fp8": 936}),
    CardPeak("amd_mi250x", ("AMD Instinct MI250X",), {"bf16": 191.5}),  # a visible device is one of the two dies
    CardPeak("amd_mi300x", ("AMD Instinct MI300X",), {"fp64": 163.4, "bf16": 1307.4, "fp8": 2614.9, "int8": 2614.9}),
    CardPeak("amd_mi325x", ("AMD Instinct MI325X",), {"bf16": 1307, "fp8": 2614}),
    CardPeak("amd_mi350x", ("AMD Instinct MI350X",), {"bf16": 2300}),
    CardPeak("amd_mi355x", ("AMD Instinct MI355X",), {"bf16": 2500, "fp8": 5000}),
)


def find_card(name: str) -> Optional[CardPeak]:
    """The card whose name is the longest beginning of the device's name, if what follows changes nothing."""
    words = name.lower().split()
    best: Optional[CardPeak] = None
    length = 0
    for card in CARD_PEAKS:
        for known in card.names:
            mine = known.lower().split()
            if words[:len(mine)] == mine and len(mine) > length:
                best, length = card, len(mine)
    if best is None or any(word in OTHER_PRODUCT_WORDS for word in words[length:]):
        return None
    return best


def dense_peak(name: str, dtype: str) -> Optional[float]:
    """TFLOPS of the device's name and a dtype (`bf16`, `fp8` …); None when unknown."""
    card = find_card(name)
    family = "fp8" if dtype.startswith("fp8") else dtype
    return card.peak(family) if card else None
