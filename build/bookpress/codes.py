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
    "CFG001": Code("book.toml is not valid TOML.", "Mend the syntax at the line given."),
    "CFG002": Code("book.toml has a key or table nobody reads.", "Correct its spelling or remove it."),
    "CFG003": Code("A value in book.toml has the wrong type or form.", "Write it as the message says."),
    "CFG004": Code("The book has no chapters.", "List them in [[part]] tables."),
    "CFG005": Code("A required key is missing.", "Give [book] a title and a version."),
    "CFG006": Code("A listed chapter is not there.", "Correct the path; it is relative to book.toml."),
    "CFG007": Code("A chapter is listed twice.", "Keep one entry; previous and next would loop."),
    "CFG008": Code("A file is not UTF-8.", "Save it as UTF-8."),
    "CFG009": Code("A chapter file is in no part.", "List it in book.toml or remove it."),
    # --- FMT: front matter (load.py) ---
    "FMT001": Code("The chapter has no front matter.", "Start it with the five keys between --- lines."),
    "FMT002": Code("The front matter is not valid YAML.", "Quote values that hold a colon."),
    "FMT003": Code("The front matter has a key nobody reads.", "Correct its spelling or remove it."),
    "FMT004": Code("A front matter key is missing.", "Add it; every chapter states all five."),
    "FMT005": Code("A date is not in ISO form.", "Write year-month-day: 2026-11-30."),
    # --- TPL: templating and facts (expand.py, facts.py, tabulate.py) ---
    "TPL001": Code("A template tag cannot be run.", "Mend the tag; in code it would stay as written."),
    "TPL002": Code("A fact's path leads nowhere.", "Use the key that the hint names."),
    "TPL003": Code("A data file is not there.", "Correct the first part of the fact's path."),
    "TPL004": Code("A fact has no source or no date.", "State both at the figure or at its record."),
    "TPL005": Code("A data file is not valid YAML.", "Mend it at the line given."),
    "TPL006": Code("A table definition is missing or wrong.", "See an existing file in data/tables."),
    "TPL007": Code("A measurement or its key is not there.", "Paths are relative to the chapter."),
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
