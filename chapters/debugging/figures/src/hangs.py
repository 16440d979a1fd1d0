"""Draw the two figures of chapter "Hangs": `python3 hangs.py` writes the SVG files one folder up.

The timeline's times come from the recorded logs of the NCCL run, the end from torch's own sleep.
Standard library only; ink on white, meaning by shape and words, so greyscale loses nothing.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape

CHAPTER = Path(__file__).resolve().parents[2]
RECORD = CHAPTER / "measurements" / "nccl-hangs" / "branch"
FONT = "'Source Sans 3','DejaVu Sans',sans-serif"
INK, MUTED, FILL, PALE = "#1a1a1a", "#555555", "#d5dbe3", "#f2f4f7"


def text(x: float, y: float, words: str, size: int = 14, anchor: str = "start", bold=False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{weight} '
            f'fill="{INK}">{escape(words)}</text>')


def label(x: float, y: float, words: str, anchor: str) -> str:
    """Text on a white strip, so that the lines behind it stay out of the letters."""
    width = 8.0 * len(words)
    start = x if anchor == "start" else x - width
    strip = f'<rect x="{start - 2:g}" y="{y - 13:g}" width="{width:g}" height="18" fill="#ffffff"/>'
    return strip + text(x, y, words, 14, anchor)


def box(x: float, y: float, w: float, h: float, fill: str = "#ffffff", dash: str = "") -> str:
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
            f'stroke="{INK}" stroke-width="1.2"{extra}/>')


def line(x1: float, y1: float, x2: float, y2: float, arrow: bool = False, dash: str = "") -> str:
    end = ' marker-end="url(#tip)"' if arrow else ""
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{INK}" '
            f'stroke-width="1.2"{extra}{end}/>')


def svg(width: int, height: int, title: str, parts: list[str]) -> str:
    tip = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
           f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>')
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="{FONT}">\n<title>{escape(title)}</title>\n{tip}\n'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n')


QUESTIONS = (
    ("Is a rank's process missing?", "It died; the rest wait", "exit status, kernel log"),
    ("Is a thread in state D or T?", "Storage, or it was stopped", "/proc/PID/stack"),
    ("One rank outside a collective?", "That rank is the cause", "its stack, its workers"),
    ("In different collectives?", "Control flow diverged", "recorder, DETAIL mode"),
    ("All in one collective, one line?", "Network or a peer's GPU", "RAS twice, then the fabric"),
)


def triage() -> str:
    parts, top, step = [], 16, 70
    parts.append(text(4, top + 2, "Take one stack and one thread list per rank, then ask:", 14, bold=True))
    for n, (question, meaning, proof) in enumerate(QUESTIONS):
        y = top + 14 + n * step
        parts += [box(4, y, 236, 40, PALE), text(122, y + 25, question, 14, "middle")]
        parts += [line(240, y + 20, 300, y + 20, True), text(268, y + 14, "yes", 13, "middle")]
        parts += [box(304, y - 4, 252, 48, FILL), text(314, y + 16, meaning, 14, bold=True),
                  text(314, y + 35, "look at: " + proof, 13)]
        if n + 1 < len(QUESTIONS):
            parts += [line(122, y + 40, 122, y + step, True), text(130, y + 59, "no", 13)]
    height = top + 14 + len(QUESTIONS) * step - 14
    return svg(560, height, "Five questions find the kind of a hang", parts)


def clock(stamp: str) -> float:
    return datetime.strptime(stamp[:15], "%H:%M:%S.%f").timestamp()


def events() -> dict[str, float]:
    """Seconds after rank 0's all-reduce was issued, out of the recorded log and file times."""
    log = (RECORD / "log.txt").read_text()
    fired = re.search(r"E\d+ (\S+) .*Watchdog caught .* ran for (\d+) mill", log)
    start = clock(fired[1]) - int(fired[2]) / 1000
    listing = (RECORD / "ls.txt").read_text()
    stamps = re.findall(r"(\d\d:\d\d:\d\d\.\d+) \+0000 (\S+)", listing)
    when = {name: clock(time) - start for time, name in stamps}
    return {
        "asked": when["pipe.txt"],
        "on_demand": when["dumps"],
        "fired": int(fired[2]) / 1000,
        "file_1": when["rank_1"],
        "file_0": when["rank_0"],
        "killed": when["ls.txt"],
    }


def timeline() -> str:
    record = json.loads((CHAPTER / "measurements" / "nccl-hangs.json").read_text())
    limit = record["process_group_timeout_s"]
    at = events()
    left, right, last = 16.0, 544.0, 90.0

    def x(seconds: float) -> float:
        return left + (right - left) * seconds / last

    raises = at["fired"] + 60
    rows = [text(left, 20, "Rank 0 waits in the all-reduce: GPU at 100%", 14, bold=True),
            box(left, 28, x(raises) - left, 20, FILL),
            text(left, 74, "Rank 1 computes elsewhere: GPU at 0%", 14, bold=True),
            box(left, 82, x(raises) - left, 20, "#ffffff")]
    axis = 130
    rows.append(line(left, axis, right, axis))
    for second in range(0, 91, 10):
        rows += [line(x(second), axis, x(second), axis + 5),
                 text(x(second), axis + 20, f"{second}", 13, "middle")]
    rows.append(text(right, 20, "seconds after the call", 13, "end"))
    marks = [
        (at["asked"], "dump asked for through the pipe", ""),
        (at["on_demand"], "both dump files written, job untouched", ""),
        (limit, "timeout logged, both ranks dump in 0.2 s", ""),
        (at["killed"], "both still alive (recording ends)", ""),
        (raises, "torch raises: timeout + 4 × 15 s (source)", "5 3"),
    ]
    labels = []
    for n, (second, words, dash) in enumerate(marks):
        y = axis + 60 + n * 26
        rows.append(line(x(second), 104, x(second), y - 4, dash=dash or "1.5 2.5"))
        early = second < 50
        labels.append(label(x(second) + (5 if early else -5), y, f"{second:.0f} s: {words}",
                            "start" if early else "end"))
    rows += labels
    return svg(560, axis + 60 + 26 * len(marks) - 10, "From a missing rank to the end of the job", rows)


if __name__ == "__main__":
    target = CHAPTER / "figures"
    (target / "hangs-triage.svg").write_text(triage())
    (target / "hangs-timeline.svg").write_text(timeline())
