"""The one door to `templates/`: Jinja pages, style sheets, scripts, fonts.

Stands beside the outputs: web, pdf, epub and publish take their page shells from here. Comes in: the
name of a template; goes out: a compiled template that escapes by default and stops on an unknown name.

A chapter body is already markup: pass it as `markup(body)`, never switch escaping off in a template.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER = Path(__file__).parents[2] / "templates"

# Page shells are markup, whatever their suffix says; plain ones (the Hub card) are not.
ESCAPED = (".html", ".xhtml", ".svg", ".xml", ".opf", ".ncx")


@cache
def env() -> Environment:
    """The shared environment: strict undefined, escaping by suffix, block lines leave no blank line."""
    return Environment(
        loader=FileSystemLoader(FOLDER, encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=lambda name: name is not None and name.endswith(ESCAPED),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def markup(text: str) -> Markup:
    """Mark finished XHTML (a chapter body) as not to be escaped again."""
    return Markup(text)


def text(name: str) -> str:
    """A file of `templates/` as text, for style sheets and scripts that are copied or joined."""
    return (FOLDER / name).read_text(encoding="utf-8")
