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
    "COD001": Code("The language of a fence is unknown.", "Use the name in the hint, or `text`."),
    "COD002": Code("A line of code is wider than the page.", "Break it; in shell with a backslash."),
    "COD003": Code("Code holds a control byte.", "Remove it; colour codes end with NO_COLOR=1."),
    "COD004": Code("Code holds an invisible character.", "Replace it by a space or remove it."),
    # --- TAB: tables (tables.py) ---
    "TAB001": Code("A row has more cells than the header.", "Write a pipe inside a cell as \\|."),
    "TAB002": Code("A row has fewer cells than the header.", "Add the missing cells, empty if need be."),
    "TAB003": Code("Header and delimiter row differ in cells.", "Give both the same number of cells."),
    "TAB004": Code("A table caption stands above no table.", "Put `Table: …` right before the table."),
    "TAB005": Code("A caption's attributes cannot be read.", "Write {#tbl-name wide=wrap|landscape|stack}."),
    # --- MTH: math (mathtex.py) ---
    "MTH001": Code("A formula cannot be read.", "Use LaTeX math that pandoc knows."),
    "MTH002": Code("A formula cannot be drawn.", "Write it with simpler constructs."),
    "MTH003": Code("A formula holds a character no font has.", "Use the TeX command for the symbol."),
    # --- IMG: images (figures.py) ---
    "IMG001": Code("An image is not there.", "Correct the path; it is relative to the chapter."),
    "IMG002": Code("An image has no alternative text.", "State its message: ![message](file.svg)."),
    "IMG003": Code("An image is on the network.", "Save it beside the chapter; builds fetch nothing."),
    "IMG004": Code("An image lies outside the book's folder.", "Copy it into the book."),
    "IMG005": Code("An image cannot be read or is of an unknown kind.", "Use SVG, PNG, JPEG or WebP."),
    "IMG006": Code("An SVG file has text in foreignObject.", "Export with plain <text>; PDF loses the rest."),
    "IMG007": Code("An SVG file has scripts or event handlers.", "Remove them."),
    "IMG008": Code("An SVG file refers to the network or another file.", "Embed what it needs."),
    "IMG009": Code("An SVG file has no viewBox.", "Add viewBox=\"0 0 WIDTH HEIGHT\" to <svg>."),
    "IMG010": Code("A picture has dark strokes on no ground.", "Give it an opaque ground: night mode."),
    "IMG011": Code("A bitmap is very large.", "Scale it below 4000 pixels and 4 MB."),
    "IMG012": Code("An image is animated.", "Pages show its first frame; use a still picture."),
    # --- GLY: characters no bundled font has (glyphs.py) ---
    "GLY001": Code("No font of the book has a character.", "Write it differently; the hint has its name."),
    # --- LNK: links, anchors, citations (link.py) ---
    # --- NUM: numbers and cross-references (number.py) ---
    # --- PDF: found while making or reading the PDF ---
    # --- EPB: found while making or reading the EPUB ---
    "EPB001": Code("EPUBCheck refuses the EPUB.", "Mend the markup at the line given."),
    "EPB002": Code("Ace finds a barrier for readers.", "Do what its rule asks at the place named."),
    "EPB003": Code(
        "An image has a format that EPUB readers need not show.", "Save it as PNG, JPEG, SVG or GIF."
    ),
    "EPB004": Code("An image lies on the network.", "Put the file into the book's folder."),
    "EPB005": Code("A chapter is not well-formed XHTML.", "Close every tag of the raw HTML in it."),
    # --- WEB: found while making or reading the web edition ---
    "WEB001": Code("An id is one that the page's own furniture uses.", "Give the heading another id: {#my-id}."),
    "WEB002": Code("A chapter's page would stand where the press puts its own.", "Rename the chapter's file."),
    "WEB003": Code("redirects.yaml is no mapping of addresses.", "Write lines such as old.html: new.html."),
    "WEB004": Code("A redirect leads to no page or place.", "Correct the address to the right of the colon."),
    "WEB005": Code("A redirect starts at an address in use.", "Remove the line."),
    "WEB006": Code("The search index is larger than its budget.", "Shorten raw records in the text."),
    # --- CHK: found by the checks over finished outputs (checks/) ---
    "CHK001": Code(
        "A fence's text in an output differs from its source.", "Keep to characters that can be printed."
    ),
    "CHK002": Code("A link in an output leads nowhere.", "Correct its target."),
    "CHK003": Code(
        "Something is printed outside the page or its text area.", "Shorten it or give it another policy."
    ),
    "CHK004": Code("Two builds of the same book differ.", "Remove what depends on time, place or order."),
    "CHK005": Code("An output to be checked is not there.", "Build it first."),
}
