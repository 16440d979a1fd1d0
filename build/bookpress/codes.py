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
    "TPL008": Code("A file of questions is missing or wrong.", "See an existing file in data/questions."),
    "TPL009": Code("A calculator or its formula is missing or wrong.", "See a file in data/calculators."),
    # --- MDN: Markdown and raw HTML (parse.py, html.py) ---
    "MDN001": Code("A word in angle brackets is no HTML tag.", "Write it in backticks: `<rank>`."),
    "MDN002": Code("An HTML tag has no place in a book.", "Use Markdown or a tag of the allow-list."),
    "MDN003": Code("An HTML tag is not closed.", "Add the end tag in the same block."),
    "MDN004": Code("An HTML end tag closes nothing.", "Remove it or open the tag before it."),
    "MDN005": Code("The text holds a control byte.", "Remove it; it is not legal in XML."),
    "MDN006": Code("A name with underscores became emphasis.", "Write it in backticks."),
    "MDN007": Code("A footnote has no text.", "Add a line [^name]: …"),
    "MDN008": Code("A footnote is never referenced.", "Refer to it or remove it."),
    "MDN009": Code("A heading level is skipped.", "Go down one level at a time."),
    "MDN010": Code("A heading is empty.", "Give it words or remove it."),
    "MDN011": Code("An id is used twice in a chapter.", "Rename one of them."),
    "MDN012": Code("A table asks for an unknown policy.", "Use wide=wrap, landscape or stack."),
    "MDN013": Code("A part of a table or figure stands outside it.", "Put it in, or remove the tag."),
    "MDN014": Code("Blocks nest too deeply to be read.", "Look for runs of > or list marks."),
    "MDN015": Code("A tag of another press's templates stands in the text.", "Write what it would give."),
    "MDN016": Code("A footnote refers to a footnote.", "Say it in one note, or refer to both from the text."),
    "MDN017": Code("pandoc gives up on a chapter.", "Halve the chapter to find the block."),
    # --- INC: code included from files (include.py) ---
    "INC001": Code("An included file is not there.", "Paths are relative to the chapter."),
    "INC002": Code("An included file has no such region.", "Use the name in the hint."),
    "INC003": Code("An included file lies outside the book's folder.", "Move it into the book."),
    "INC004": Code("The marks of a region do not pair.", "One region: NAME, one endregion: NAME."),
    "INC005": Code("A fence includes a file and has text too.", "Empty the fence."),
    # --- FEN: how fences are written and proven (fences.py) ---
    "FEN001": Code("A fence is not closed.", "Close it with as many marks as opened it."),
    "FEN002": Code("A fence does not say how it is proven.", "Give it a mode: {.run}, {.parse} …"),
    "FEN003": Code("A fence has an unknown mode.", "Use run, slurm, gpu, parse or shown."),
    "FEN004": Code("A fence has an unknown attribute.", "Correct its spelling or remove it."),
    "FEN005": Code("An attribute's value has the wrong form.", "Write a whole number."),
    "FEN006": Code("A fence id is used twice in a chapter.", "Rename one of them."),
    "FEN007": Code("A fence names a fence that is not there.", "Use the id in the hint."),
    "FEN008": Code("A shown fence gives no reason.", "Say why nothing can check it."),
    "FEN009": Code("A fence's attributes cannot be read.", "Write {.mode key=value key=\"two words\"}."),
    "FEN010": Code("A fence has two modes.", "Keep one."),
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
    "TAB005": Code("A table runs on from a paragraph.", "Put an empty line before the table."),
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
    "IMG013": Code("An SVG file draws too many elements.", "Draw it with less; a picture is no program."),
    # --- GLY: characters no bundled font has (glyphs.py) ---
    "GLY001": Code("No font of the book has a character.", "Write it differently; the hint has its name."),
    # --- LNK: links, anchors, citations (link.py) ---
    "LNK001": Code("A link leads to a file that is not there.", "Correct the path."),
    "LNK002": Code("A link leads to an anchor that is not there.", "Use the id in the hint."),
    "LNK003": Code("A link leads to a folder plus anchor.", "Name the README.md: GitHub needs it."),
    "LNK004": Code("A link differs in case from the file.", "Spell it as the file is named."),
    "LNK005": Code("A link leads out of the book's folder.", "Use a full URL."),
    "LNK006": Code("A link has no target.", "Write the path or URL, or remove the link."),
    "LNK007": Code("A link has a scheme no book carries.", "Use https, mailto or a relative path."),
    "LNK008": Code("A citation has no entry in the bibliography.", "Use the key in the hint or add it."),
    "LNK009": Code("The bibliography has a faulty entry.", "Each work needs a title and known keys."),
    # --- NUM: numbers and cross-references (number.py) ---
    "NUM001": Code("A cross-reference leads to what has no number.", "Caption it, or write the text."),
    "NUM002": Code("A cross-reference names another kind of thing.", "Correct the word or the target."),
    # --- PDF: found while making or reading the PDF ---
    "PDF001": Code("Something is wider than the page or its table cell.", "Shorten it or choose another width."),
    "PDF002": Code("An image cannot be drawn.", "Check that it opens elsewhere; save it again as PNG or SVG."),
    "PDF003": Code("A link inside the chapter leads nowhere.", "Correct the anchor."),
    "PDF004": Code("No font of the book has a character.", "Replace the character, or write it in words."),
    "PDF005": Code("The layout engine reports a fault.", "The message is its own; report it when unclear."),
    "PDF006": Code("The layout engine stops at a chapter.", "Halve the chapter to find the block."),
    # --- EPB: found while making or reading the EPUB ---
    "EPB001": Code("EPUBCheck refuses the EPUB.", "Mend the markup at the line given."),
    "EPB002": Code("Ace finds a barrier for readers.", "Do what its rule asks at the place named."),
    "EPB003": Code(
        "An image has a format that EPUB readers need not show.", "Save it as PNG, JPEG, SVG or GIF."
    ),
    "EPB004": Code("An image lies on the network.", "Put the file into the book's folder."),
    "EPB005": Code("A chapter is not well-formed XHTML.", "Close every tag of the raw HTML in it."),
    # --- PRV: proofs (prove) ---
    "PRV001": Code("A command of the book failed.", "Mend the command, or say exit=N if it should fail."),
    "PRV002": Code("An output fence differs from what ran.", "Look at the run; prove --refresh if it is right."),
    "PRV003": Code("A GPU record is older than its fence.", "Run prove --gpu again on a CUDA machine."),
    "PRV004": Code("A GPU fence has no record.", "Run prove --gpu on a CUDA machine."),
    "PRV005": Code("A language's parser or linter objects.", "Mend the line."),
    "PRV006": Code("A fence's language cannot be executed.", "Use bash or python, or another mode."),
    "PRV007": Code("A command did not end in time.", "Mend it, or give timeout=SECONDS."),
    "PRV008": Code("An output fence names no command.", "Add {of=ID}."),
    "PRV009": Code("A fence needs a package that is not pinned.", "Add it to requirements-prove.txt."),
    "PRV010": Code("A run was not cut off from the network.", "Prove where namespaces are allowed."),
    "PRV011": Code("data/proofs.json cannot be read.", "Write it again: bookpress prove --record."),
    # --- WEB: found while making or reading the web edition ---
    "WEB001": Code("An id is one that the page's own furniture uses.", "Give the heading another id: {#my-id}."),
    "WEB002": Code("A chapter's page would stand where the press puts its own.", "Rename the chapter's file."),
    "WEB003": Code("redirects.yaml is no mapping of addresses.", "Write lines such as old.html: new.html."),
    "WEB004": Code("A redirect leads to no page or place.", "Correct the address to the right of the colon."),
    "WEB005": Code("A redirect starts at an address in use.", "Remove the line."),
    "WEB006": Code("The search index is larger than its budget.", "Shorten raw records in the text."),
    # --- BND: the instruments' sources, where they are pasted into single files (bundle.py, onefile.py) ---
    "BND001": Code("A module does not parse on every supported Python.", "Write it as Python 3.9 has it."),
    "BND002": Code("An import inside the package leads nowhere or in a circle.", "Correct it, or move the name."),
    "BND003": Code("Code that cannot be pasted into one file.", "Import absolutely, unrenamed, at the top."),
    "BND004": Code("A tool needs more than the standard library.", "Import torch inside a function, nothing else."),
    "BND005": Code("A top-level name has two meanings over a tool's modules.", "Rename one of them."),
    "BND006": Code("The instruments' version is not the book's.", "Write the same version in both files."),
    "BND007": Code("A tool has no console command.", "Add it to [project.scripts] of its pyproject.toml."),
    # --- REL: the release, before anything leaves this machine (release/) ---
    "REL001": Code("The tree holds changes that no commit holds.", "Commit them, or put them away."),
    "REL002": Code("The version is older than the present one.", "Choose a higher one."),
    "REL003": Code("The version's tag exists.", "Choose the next version; a tag never moves."),
    "REL004": Code("Files disagree about the version.", "Write book.toml's version in all of them."),
    "REL005": Code("The changelog has nothing to say of this release.", "Add changelog.d/NAME.KIND.md."),
    "REL006": Code("A changelog fragment has the wrong form.", "See changelog.d/README.md."),
    "REL007": Code("Book, checks, tests or artefacts failed.", "Read the log named, mend it, start again."),
    "REL008": Code("The commit checked out is not the released one.", "Check out the tag, or release first."),
    "REL009": Code("The branch moved while the release was built.", "Run the release again."),
    "REL010": Code("A file is over the budget of [hub].", "Make it smaller, or raise file_budget_mb."),
    "REL011": Code("The Hub would refuse the card's head.", "Correct the value at its line."),
    "REL012": Code("The files built here are not those the tag vouches for.", "Publish with the tools of the release."),
    # --- HUB: what the server says or has (release/publish.py) ---
    "HUB001": Code("The version is published with other bytes.", "Release the next version."),
    "HUB002": Code("The server has a newer version.", "Release a version above it."),
    "HUB003": Code("The server has other bytes than were sent.", "Publish again; it is not tagged."),
    "HUB004": Code("The Hub refuses the content.", "Do what the server's message says."),
    "HUB005": Code("The repository changes under every try.", "See who else writes to it."),
    # --- VER: a release as a reader got it (release/verifier.py) ---
    "VER001": Code("SHA256SUMS is missing, damaged or another one.", "Download it again from the tag."),
    "VER002": Code("A file of the release is not there.", "Download it, or ignore missing files."),
    "VER003": Code("A file differs from what was released.", "Download it again; do not run it."),
    "VER004": Code("provenance.json and SHA256SUMS disagree.", "Do not trust this copy."),
    # --- STL, EXT, REC: upkeep of a published book (upkeep/) ---
    "STL001": Code("A fact is past its shelf life.", "Check it against its source and set its date."),
    "STL002": Code("A chapter is past its shelf life.", "Check it and set `verified` in its front matter."),
    "STL003": Code("A verified date is no day in the past.", "Write the day of the check: 2026-11-30."),
    "EXT001": Code("A link to another site leads nowhere.", "Link to where it moved, or to an archived copy."),
    "EXT002": Code("A link to another site could not be judged.", "Open it by hand; robots may be refused."),
    "REC001": Code("The file is no report of an instrument.", "Send the JSON file as the tool wrote it."),
    "REC002": Code("The run was not finished well.", "Send the report of a run with status ok."),
    "REC003": Code("A result was wrong or not checked.", "Run the tool with its checks on."),
    "REC004": Code("Figures of a report contradict one another.", "Send the file as the tool wrote it."),
    "REC005": Code("A figure is above what the hardware can do.", "Run again; if right, correct the peak in data/."),
    "REC006": Code("A record would name a machine or a person.", "Open an issue; the kept fields need a mend."),
    "REC007": Code("The run is filed already.", "Send a new run."),
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
    "CHK006": Code("Words of a chapter are those of another text.", "Write them anew, or mark a quotation."),
}
