"""Characters that no face has are found in the source, not on the page."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from bookpress import glyphs
from bookpress.model import Config, Expanded, Features, FrontMatter, Source

CONFIG = Config(root=Path("/book"), path=Path("/book/book.toml"), title="T", slug="t", version="1")


def check(body: str, text: str, strict: bool = True) -> list[str]:
    config = Config(root=CONFIG.root, path=CONFIG.path, title="T", slug="t", version="1",
                    features=Features(strict=strict))
    source = Expanded(Source("a.md", "a", "a.html", 0, FrontMatter(), text, 3), text,
                      tuple(range(3, text.count("\n") + 4)))
    return [str(p) for p in glyphs.check(etree.fromstring(body), source, config)]


def test_a_character_that_no_face_has_is_named_with_its_line():  # F09
    assert check("<p>ok 𓀀</p>", "ok\n\nok 𓀀") == [
        "a.md:5:4 GLY001 no font of the book has '𓀀' (U+13000)"
        " (egyptian hieroglyph a001: write it differently)"]
    assert check("<p>𓀀</p>", "𓀀", strict=False)[0].startswith("a.md:3:1 GLY001 warning:")


def test_every_line_is_named():
    assert len(check("<p>𓀀 𓀀</p>", "𓀀\n𓀀 𓀀\n")) == 2


def test_a_book_that_is_not_strict_hears_of_a_character_once():
    assert len(check("<p>𓀀 𓀀</p>", "𓀀\n𓀀 𓀀\n", strict=False)) == 1


def test_what_engineers_write_passes():  # F07, F09, F10
    text = "漢 🚀 ≥ ┌─┐ ✓ ✗ → ⇒ 한국어 é ½ ₂ ⁻¹ µ Ω 👍🏽 👨‍👩‍👧 🇩🇪 1️⃣ ⚠️ \u00ad\u200b"
    assert check(f"<pre>{text}</pre>", text) == []


def test_a_character_from_an_entity_has_its_block_line():
    assert check('<section><p data-line="9">&#x13000;</p></section>', "&#x13000;") == [
        "a.md:9:1 GLY001 no font of the book has '𓀀' (U+13000)"
        " (egyptian hieroglyph a001: write it differently)"]


def test_formulas_are_not_its_business():
    math = '<p>a<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>𓀀</mi></math>b</p>'
    assert check(math, "x") == []
