"""The style sheet of the print edition with all values in it, and the lengths that follow from the page.

In: book.toml's page and code width, tokens.css, print.css, code.css. Out: CSS without variables, which the layout
engine reads faster than it resolves them, and the size at which a full line of code fits.
"""

from __future__ import annotations

import re

from .. import code, templates
from ..model import Config
from ..problems import WrongUse

_UNITS = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 25.4 / 72, "px": 25.4 / 96}
_ADVANCE = 0.6  # of JetBrains Mono, in em
_PADDING = 7.0  # points on either side of code
_LARGEST, _SMALLEST = 8.2, 5.6  # points; below, code is no longer read with pleasure
_VALUE = re.compile(r"(--[a-z-]+):\s*([^;]+);")


def millimetres(length: str) -> float:
    """A CSS length in millimetres."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*(mm|cm|in|pt|px)\s*", length)
    if not found:
        raise WrongUse(f"page size {length!r} is not a length such as 176mm or 7in")
    return float(found[1]) * _UNITS[found[2]]


def margin(config: Config) -> float:
    """Left and right margins in millimetres: a tenth of the page, within reason."""
    return min(max(millimetres(config.page.width) * 0.105, 12.0), 22.0)


def measure(config: Config) -> int:
    """Width of the text in CSS pixels."""
    return int((millimetres(config.page.width) - 2 * margin(config)) / 25.4 * 96)


def code_size(config: Config) -> float:
    """Points at which `code_width` columns fill the measure."""
    line = (millimetres(config.page.width) - 2 * margin(config)) / 25.4 * 72 - 2 * _PADDING
    # A hair less than full: rounding in the layout must not push a full line over.
    return min(max(int(line / (config.code_width * _ADVANCE) * 100 - 1) / 100, _SMALLEST), _LARGEST)


def columns(config: Config) -> int:
    """Columns that fit; fewer than `code_width` only where the page is too narrow for it."""
    line = (millimetres(config.page.width) - 2 * margin(config)) / 25.4 * 72 - 2 * _PADDING
    return min(config.code_width, int(line / (code_size(config) * _ADVANCE)))


def style(config: Config) -> str:
    """The whole style sheet."""
    light = templates.text("css/tokens.css").partition('[data-theme="dark"]')[0]
    values = dict(_VALUE.findall(light))
    values |= {
        "--page-width": config.page.width, "--page-height": config.page.height,
        "--page-margin": f"{margin(config):.3f}mm", "--code-size": f"{code_size(config)}pt",
        "--code-padding": f"{_PADDING}pt",
        "--image-height": f"{millimetres(config.page.height) - 62:.2f}mm",
    }  # fmt: skip
    css = re.sub(r"/\*.*?\*/", "", templates.text("css/print.css"), flags=re.DOTALL)
    return re.sub(r"var\((--[a-z-]+)\)", lambda m: values[m[1]], css) + code.css("light")
