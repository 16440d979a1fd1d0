"""host-memory-cow.svg: one data set in a parent alone, and in the parent with four workers that read it."""

from __future__ import annotations

import json

import plotting as p

FACTS: list[str] = []
FILES = ["host_memory.json"]


def main() -> None:
    record = json.loads((p.MEASUREMENTS / FILES[0]).read_text())
    cases = list(record["summary"])[::-1]
    figure, axes = p.new(58)
    for row, case in enumerate(cases):
        found = record["summary"][case]
        for shift, key, colour in ((0.2, "parent_rss", p.RULE), (-0.2, "pss_all", p.ACCENT)):
            axes.barh(row + shift, found[key], height=0.36, color=colour)
            axes.annotate(f"{found[key]:,.0f}", (found[key], row + shift), xytext=(3, 0),
                          textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(range(len(cases)), cases)
    axes.set(xlabel="MiB (grey: parent alone; dark: parent and four workers after one pass)", xlim=(0, 3700))
    axes.grid(False)
    p.save(figure, "host-memory-cow", "host_memory_cow", FACTS, FILES, "Memory of one data set, forked")


if __name__ == "__main__":
    main()
