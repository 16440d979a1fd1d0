"""Draw the two figures of chapter "NVIDIA GPUs": `python3 nvidia_faults.py` writes them one folder up.

Standard library only; ink on white, meaning by shape and words, so greyscale loses nothing.
"""

from __future__ import annotations

from pathlib import Path

import inkdraw as d

FIGURES = Path(__file__).resolve().parents[1]
FILL, PALE = "#d5dbe3", "#f2f4f7"


def box(x: float, y: float, w: float, h: float, rows: tuple[str, ...], fill: str = "#ffffff") -> list[str]:
    """A box with centered rows, the first one bold."""
    top = y + h / 2 - 9 * (len(rows) - 1) + 5
    return [d.box(x, y, w, h, fill, 4)] + [
        d.text(x + w / 2, top + 18 * n, row, 14 if n == 0 else 13, "middle", n == 0) for n, row in enumerate(rows)
    ]


def arrow(start: tuple[float, float], end: tuple[float, float], words: str = "",
          at: tuple[float, float] = (0, 0)) -> list[str]:
    return [d.arrow(*start, *end)] + ([d.text(*at, words, 13)] if words else [])


QUESTIONS = (
    (("Is a GPU missing?", "count against the bus"), "no",
     ("The card, its power, its slot", "79, 119, 143; or the container")),
    (("An Xid at that minute?", "kernel log, first one"), "no",
     ("The number names the owner", "154 states the action")),
    (("Counters or flags set?", "ECC, remap, recovery"), "no",
     ("Memory", "reset now, return by the flags")),
    (("Fails on another node?", "same inputs, other GPU"), "no",
     ("Your program or its versions", "blocking launches, sanitizer")),
    (("Slow or wrong only here?", "clocks, PCIe, bits"), "",
     ("This card or its place", "swap: does it follow the card?")),
)


def triage() -> str:
    parts, step, left, right = [], 74, 4, 312
    for n, (question, no, answer) in enumerate(QUESTIONS):
        y = 6 + n * step
        parts += box(left, y, 220, 50, question, PALE) + box(right, y, 244, 50, answer, FILL)
        parts += arrow((left + 220, y + 25), (right - 4, y + 25), words="yes", at=(left + 252, y + 19))
        if no:
            parts += arrow((left + 110, y + 50), (left + 110, y + step - 3), words=no, at=(left + 118, y + 67))
    return d.svg(560, 6 + len(QUESTIONS) * step - 18, "Five questions find the owner of a GPU failure", parts)


def memory() -> str:
    parts = box(4, 6, 236, 50, ("Uncorrectable error in a row", "48, with 171 for HBM"), PALE)
    parts += box(312, 6, 244, 50, ("The program ends: 94", "95: every program ends"), FILL)
    parts += arrow((240, 31), (308, 31))
    parts += box(4, 96, 236, 50, ("Its page is taken out of use", "at once, no reset needed"))
    parts += arrow((122, 56), (122, 93))
    parts += box(4, 186, 236, 50, ("Row entered for remapping: 63", "Pending reads Yes"))
    parts += arrow((122, 146), (122, 183))
    parts += box(4, 276, 236, 50, ("Row replaced, page back", "Pending No, count one up"))
    parts += arrow((122, 236), (122, 273), words="GPU reset", at=(130, 259))
    parts += box(312, 186, 244, 68, ("No spare for it: failure flag", "9th row of a bank, a replaced row",
                                     "again, or after 512 in all"), PALE)
    parts += arrow((240, 211), (308, 211))
    parts += box(312, 294, 244, 50, ("Field diagnostic, return", "the flag stays set"), FILL)
    parts += arrow((434, 254), (434, 291))
    return d.svg(560, 350, "What happens to a row of GPU memory that fails", parts)


if __name__ == "__main__":
    for name, draw in (("triage", triage), ("memory", memory)):
        (FIGURES / f"nvidia-{name}.svg").write_text(draw(), encoding="utf-8")
