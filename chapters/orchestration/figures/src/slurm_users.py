"""Draw the two figures of the Slurm chapter: `python3 slurm_users.py` writes the SVG files one folder up.

Standard library only; ink on white, meaning by shape and words, so greyscale loses nothing.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

OUT = Path(__file__).resolve().parents[1]
FONT = "'Source Sans 3','DejaVu Sans',sans-serif"
INK, GREY, PALE, WHITE = "#1a1a1a", "#cfd6df", "#eef1f5", "#ffffff"


def text(x: float, y: float, words: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="14" text-anchor="{anchor}"{weight} fill="{INK}">'
        f"{escape(words)}</text>"
    )


def box(x: float, y: float, w: float, h: float, fill: str = WHITE, dash: str = "") -> str:
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
        f'stroke="{INK}" stroke-width="1.2"{extra}/>'
    )


def line(x1: float, y1: float, x2: float, y2: float, arrow: bool = False, dash: str = "") -> str:
    end = ' marker-end="url(#tip)"' if arrow else ""
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{INK}" '
        f'stroke-width="1.2"{extra}{end}/>'
    )


def drawing(height: int, title: str, parts: list[str]) -> str:
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {height}" width="560" '
        f'height="{height}" font-family="{FONT}">\n<title>{escape(title)}</title>\n{tip}\n'
        f'<rect width="560" height="{height}" fill="{WHITE}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def steps() -> str:
    """Nodes as columns, the script in the first, steps as bands across both."""
    columns = (16.0, 226.0)
    wide = 194.0
    parts = [box(4, 4, 428, 300, WHITE), text(16, 24, "Job: two nodes until the time limit", bold=True)]
    for x, name in zip(columns, ("node1", "node2: no script here"), strict=True):
        parts += [box(x, 36, wide, 258, PALE), text(x + 10, 54, name, bold=True)]
    parts += [
        box(26, 64, 174, 44, GREY),
        text(36, 82, "batch script"),
        text(36, 100, "once, first node only"),
    ]
    bands = (
        (122, "step 0: srun python3 train.py", (("task 0", "task 1"), ("task 2", "task 3"))),
        (210, "step 1: srun --overlap py-spy …", (("task 0",), ("task 1",))),
    )
    for y, name, tasks in bands:
        parts += [box(22, y, 392, 76, WHITE, dash="5 3"), text(32, y + 19, name)]
        for x, names in zip(columns, tasks, strict=True):
            for number, words in enumerate(names):
                left = x + 14 + number * 86
                parts += [box(left, y + 30, 78, 34, WHITE), text(left + 39, y + 52, words, "middle")]
    parts += [
        text(444, 62, "--signal=B:USR1"),
        text(444, 80, "scancel --batch"),
        line(440, 86, 204, 86, arrow=True),
        text(444, 150, "--signal=USR1"),
        text(444, 168, "scancel --signal"),
        line(440, 160, 418, 160, arrow=True),
        line(440, 166, 418, 226, arrow=True),
        text(444, 266, "time limit, scancel:"),
        text(444, 284, "script and steps"),
        line(440, 272, 436, 272, arrow=True),
    ]
    return drawing(310, "What a job is made of, and which signal reaches which part", parts)


def signal() -> str:
    """Three rows over one time axis: ranks, script, queue."""
    warn_early, warn_late, saved, limit, kill = 120.0, 200.0, 296.0, 330.0, 400.0
    axis = 206.0
    parts = [
        text(12, 22, "ranks", bold=True),
        box(84, 8, 76, 22, GREY),
        text(92, 24, "training"),
        box(160, 8, 116, 22, WHITE),
        text(168, 24, "step, save"),
        text(284, 24, "exit 85"),
        text(12, 66, "script", bold=True),
        box(84, 52, 76, 22, PALE),
        text(92, 68, "wait"),
        box(160, 52, 116, 22, PALE),
        text(168, 68, "trap, wait again"),
        box(276, 52, 20, 22, GREY),
        text(304, 68, "scontrol requeue"),
        text(12, 110, "queue", bold=True),
        box(296, 96, 176, 22, WHITE, dash="5 3"),
        text(304, 112, "BeginTime: 2 minutes"),
        box(472, 96, 68, 22, GREY),
        text(478, 112, "start 1"),
        line(160, 30, 160, 52, dash="2 2"),
        line(276, 30, 276, 52, dash="2 2"),
        line(saved, 74, saved, 96, dash="2 2"),
        line(84, axis, 548, axis, arrow=True),
        box(warn_early, axis - 12, warn_late - warn_early, 12, GREY),
        line(limit, 130, limit, axis + 6),
        line(kill, 160, kill, axis + 6),
        text(warn_early - 34, axis - 38, "warning comes in"),
        text(warn_early - 34, axis - 20, "these 60 s"),
        line(warn_late, axis - 12, warn_late, axis + 6),
        text(warn_late, axis + 22, "asked for", "middle"),
        text(limit + 6, 144, "time limit: TERM to all"),
        text(kill + 6, 174, "KILL, 30 s later"),
        line(warn_late, axis + 34, limit, axis + 34, arrow=True),
        line(limit, axis + 34, warn_late, axis + 34, arrow=True),
        text(limit + 8, axis + 39, "the SECONDS of --signal=…"),
        line(limit, axis + 6, limit, axis + 40, dash="2 2"),
        line(warn_late, axis + 26, warn_late, axis + 40, dash="2 2"),
    ]
    return drawing(256, "From the warning to the restart", parts)


def main() -> None:
    (OUT / "slurm-users-steps.svg").write_text(steps(), encoding="utf-8")
    (OUT / "slurm-users-signal.svg").write_text(signal(), encoding="utf-8")


if __name__ == "__main__":
    main()
