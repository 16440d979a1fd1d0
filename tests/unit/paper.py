"""Lays bodies out with the real style sheet and fonts, for tests: run as a program, since Pango reads its
fonts once a process. In: JSON list of bodies on standard input. Out: for each its pages' overflowing texts and
the text of each line, and one PDF file per body in the folder that is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lxml import etree

from bookpress import code, fonts
from bookpress.model import Config
from bookpress.pdf import prepare, sheet


def main() -> None:
    folder = Path(sys.argv[1])
    fonts.activate(folder)
    from weasyprint import HTML
    from weasyprint.formatting_structure import boxes

    config = Config(root=folder, path=folder / "book.toml", title="T", slug="t", version="1")
    css = sheet.style(config)
    answers = []
    for number, body in enumerate(json.load(sys.stdin)):
        root = etree.fromstring(f'<html lang="en"><body><section class="chapter">{body}</section></body></html>')
        code.fit(root, sheet.columns(config))
        prepare._tables(root)
        shown = etree.tostring(root, encoding="unicode", method="html")
        document = HTML(string=f"<style>{css}</style>{shown}").render()
        document.write_pdf(folder / f"{number}.pdf")
        over, lines, tops, heads, drawn = [], [], set(), [], 0
        for page in document.pages:
            box = page._page_box
            first = len(lines)
            right = box.content_box_x() + box.width
            for inner in box.descendants():
                if isinstance(inner, boxes.LineBox):
                    lines.append("".join(t.text for t in inner.descendants() if isinstance(t, boxes.TextBox))
                                 .replace("\u200b", ""))
                if isinstance(inner, boxes.TextBox) and inner.text.strip():
                    drawn += 1
                    tops.add(round(inner.position_y, 1))
                    ink = inner.width * len(inner.text.rstrip()) / len(inner.text)
                    if inner.position_x + ink > right + 0.5:
                        over.append(inner.text)
            heads.append(next(line for line in lines[first:] if line.strip()))
        answers.append({"over": over, "lines": lines, "drawn": drawn, "tops": sorted(tops), "heads": heads, "pages": len(document.pages)})
    json.dump(answers, sys.stdout)


main()
