"""The PDF: chapters laid out alone and in parallel, then bound into one file.

    make(book, target, cache, jobs, progress) → problems

    sheet      style sheet and lengths            prepare, front   markup of chapters and of the press's pages
    layout     one piece through WeasyPrint        tags, embed, findings   its structure, fonts, problems
    assemble   pieces into a file                  stamps, outline, metadata, container   its parts

Three keys keep work from being done twice: of the whole book (nothing changed: the last file is copied), of a piece
(its layout), of a placed block (its bytes at their numbers).
"""

from __future__ import annotations

from .make import make

__all__ = ["make"]
