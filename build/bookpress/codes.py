"""Every problem code, with what it means and what an author does about it.

Codes are stable: never reused, never renumbered. The generated page `problems` of the web edition and
`python -m bookpress codes` print this list. Add a code in the section of the stage that reports it.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    meaning: str  # one sentence: what is wrong
    remedy: str  # one sentence: what to write instead


CODES: dict[str, Code] = {
    # --- CFG: book.toml and the order of chapters (config.py, load.py) ---
    # --- FMT: front matter (load.py) ---
    # --- TPL: templating and facts (expand.py, facts.py) ---
    # --- MDN: Markdown and raw HTML (parse.py, html.py) ---
    # --- INC: code included from files (include.py) ---
    # --- COD: fences (code.py) ---
    # --- TAB: tables (tables.py) ---
    # --- MTH: math (mathtex.py) ---
    # --- IMG: images (figures.py) ---
    # --- GLY: characters no bundled font has (glyphs.py) ---
    # --- LNK: links, anchors, citations (link.py) ---
    # --- NUM: numbers and cross-references (number.py) ---
    # --- PDF: found while making or reading the PDF ---
    # --- EPB: found while making or reading the EPUB ---
    # --- WEB: found while making or reading the web edition ---
}
