"""Colours of tokens.css: text is legible on its ground in both themes, and apart in greyscale where it must be."""

from __future__ import annotations

import re

import pytest

from bookpress import templates

TEXT = {
    "--paper": ("ink", "ink-soft", "accent", "link", "note", "tip", "important", "warning", "caution"),
    "--paper-code": (
        "ink", "code-keyword", "code-string", "code-comment", "code-number", "code-name", "code-error",
    ),
    **{f"--{kind}-paper": ("ink", kind) for kind in ("note", "tip", "important", "warning", "caution")},
}  # fmt: skip
PAIRS = [(ground, f"--{text}") for ground, texts in TEXT.items() for text in texts]


def theme(name: str) -> dict[str, str]:
    light, dark = templates.text("css/tokens.css").split('[data-theme="dark"]')
    values = dict(re.findall(r"(--[a-z-]+):\s*(#[0-9a-f]{6});", light))
    return values | (dict(re.findall(r"(--[a-z-]+):\s*(#[0-9a-f]{6});", dark)) if name == "dark" else {})


def luminance(color: str) -> float:
    parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize(("ground", "text"), PAIRS)
def test_text_is_legible(name, ground, text):
    values = theme(name)
    assert contrast(values[ground], values[text]) >= 4.5


def test_stacks_are_those_of_the_font_list():
    from bookpress import fonts

    css = templates.text("css/tokens.css")
    for role, variable in (("text", "--font-text"), ("sans", "--font-sans"), ("code", "--font-code")):
        assert re.search(rf"{variable}:\s*([^;]+);", css)[1] == fonts.stack(role)
