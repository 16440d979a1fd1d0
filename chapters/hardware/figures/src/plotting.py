"""What the figure scripts of this chapter share: style, inputs, and the stamp that says what was drawn.

Run a script by hand with matplotlib 3.10.7 installed, outside the press:

    python chapters/hardware/figures/src/roofline.py

It rewrites the SVG beside this folder. The SVG carries a hash of the script, this file and the inputs;
the unit tests compare it, so a figure that no longer matches its data is found without matplotlib.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
FIGURES = HERE.parent
MEASUREMENTS = FIGURES.parent / "measurements"
BOOK = FIGURES.parents[2]
INK, SOFT, RULE, ACCENT = "#1b1d20", "#50555b", "#c8ccd0", "#0b4f71"
WIDTH_MM = 120


def measured() -> dict[str, Any]:
    return json.loads((MEASUREMENTS / "h200_ceilings.json").read_text())


def series(name: str) -> list[dict[str, float]]:
    """The rows of a trace; empty cells are left out."""
    with (MEASUREMENTS / f"h200_ceilings.{name}.csv").open() as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def figure_of(path: str) -> float:
    """A figure of data/accelerators.yaml by dotted path."""
    node: Any = yaml.safe_load((BOOK / "data/accelerators.yaml").read_text())
    for key in path.split("."):
        node = node[key]
    return float(node["value"] if isinstance(node, dict) else node)


def inputs_hash(script: str, facts: list[str], files: list[str]) -> str:
    """Identity of a figure: its code, the facts it reads and the measurement files it reads."""
    digest = hashlib.sha256()
    for source in (HERE / f"{script}.py", HERE / "plotting.py"):
        digest.update(source.read_bytes())
    for path in facts:
        digest.update(f"{path}={figure_of(path)!r};".encode())
    for file in files:
        digest.update((MEASUREMENTS / file).read_bytes())
    return digest.hexdigest()[:32]


def new(height_mm: float, rows: int = 1, **options: Any):
    """A figure as wide as the text, in the book's sans face, text as outlines."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import font_manager, pyplot

    for face in ("Regular", "SemiBold"):
        font_manager.fontManager.addfont(str(BOOK / f"templates/fonts/SourceSans3-{face}.ttf"))
    mpl.rcParams.update(
        {
            "svg.fonttype": "path",
            "svg.hashsalt": "field-book",
            "font.family": "Source Sans 3",
            "font.size": 8,
            "axes.edgecolor": SOFT,
            "axes.labelcolor": INK,
            "axes.linewidth": 0.6,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": INK,
            "xtick.color": SOFT,
            "ytick.color": SOFT,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "grid.color": RULE,
            "grid.linewidth": 0.4,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
        }
    )
    size = (WIDTH_MM / 25.4, height_mm / 25.4)
    return pyplot.subplots(rows, 1, figsize=size, layout="constrained", **options)


def save(
    figure: Any, name: str, script: str, facts: list[str], files: list[str], title: str
) -> None:
    """Write figures/NAME.svg without a date, with title and input hash."""
    target = FIGURES / f"{name}.svg"
    figure.savefig(target, format="svg", metadata={"Date": None, "Title": title, "Creator": None})
    text = target.read_text()
    text = re.sub(r"<!DOCTYPE.*?>\s*", "", text, flags=re.S)
    stamp = f"<!-- inputs {inputs_hash(script, facts, files)} -->\n"
    text = text.replace("<svg ", stamp + "<svg ", 1)
    target.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
