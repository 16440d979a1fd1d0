"""Two functions of WeasyPrint 70.0 done with less work and the same result; a test compares every byte.

Layout sets Pango up anew for every stretch of text and again when it draws it, some 190 times a page, though a
book has few dozen combinations of font and language; and it asks four questions about each of thirteen lengths of
each box, nearly always a number of pixels. Any other version of WeasyPrint is left as it is: slower, not different.
"""

from __future__ import annotations

import weasyprint
from weasyprint.css.properties import Dimension
from weasyprint.layout import percent
from weasyprint.text import line_break
from weasyprint.text.ffi import ffi, gobject, pango
from weasyprint.text.fonts import font_features

VERSION = "70.0"

# What a Pango layout depends on besides its text.
_FONT = (
    "font_family", "font_style", "font_stretch", "font_weight", "font_size", "font_variant_caps",
    "font_variation_settings", "direction", "lang", "font_kerning", "font_variant_ligatures",
    "font_variant_position", "font_variant_numeric", "font_variant_alternates", "font_variant_east_asian",
    "font_feature_settings",
)  # fmt: skip


class _Kit:
    """The parts of a Pango layout that all stretches of one font share."""

    def __init__(self, layout: line_break.Layout, style) -> None:
        self.language = layout.language
        self.context = ffi.gc(
            pango.pango_font_map_create_context(style.font_config.font_map), gobject.g_object_unref
        )
        pango.pango_context_set_round_glyph_positions(self.context, False)
        pango.pango_context_set_base_dir(self.context, line_break.PANGO_DIRECTION[style["direction"]])
        if style["lang"]:
            pango.pango_context_set_language(self.context, self.language)
        self.description = line_break.get_font_description(style)
        features = font_features(
            style["font_kerning"], style["font_variant_ligatures"], style["font_variant_position"],
            style["font_variant_caps"], style["font_variant_numeric"], style["font_variant_alternates"],
            style["font_variant_east_asian"], style["font_feature_settings"],
        )  # fmt: skip
        said = ",".join(f"{key} {value}" for key, value in features.items()).encode()
        self.features = style.font_config.font_features[said] if features else None


def quicken() -> bool:
    """Put the quicker functions in; False where the engine is another version."""
    if weasyprint.VERSION != VERSION:
        return False
    if line_break.Layout.setup is _setup:
        return True
    global _thorough
    _thorough = line_break.Layout.setup
    line_break.Layout.setup = _setup
    percent.resolve_one_percentage = _resolve_one_percentage
    return True


_thorough = line_break.Layout.setup


def _setup(self: line_break.Layout, style) -> None:
    """Layout.setup, from a kit where one is known."""
    if style["text_decoration_line"] != "none" or style["font_language_override"] != "normal":
        _thorough(self, style)
        return
    kit = style.__dict__.get("press_kit")
    if kit is None:
        kit = _kit(self, style)
    self.style = style
    self.first_line_direction = 0
    self.language = kit.language
    self.layout = ffi.gc(pango.pango_layout_new(kit.context), gobject.g_object_unref)
    pango.pango_layout_set_auto_dir(self.layout, False)
    pango.pango_layout_set_font_description(self.layout, kit.description)
    self.ascent = self.underline_position = self.strikethrough_position = None
    if kit.features is not None:
        attributes = pango.pango_attr_list_new()
        pango.pango_attr_list_insert(attributes, kit.features)
        pango.pango_layout_set_attributes(self.layout, attributes)


def _kit(layout: line_break.Layout, style) -> _Kit:
    """The kit of a style's font, made once a font map; the style remembers it."""
    kits = style.font_config.__dict__.setdefault("press_kits", {})
    key = tuple(str(style[name]) for name in _FONT)
    kit = kits.get(key)
    if kit is None:
        _thorough(layout, style)  # registers the features with the font map, as everywhere
        kit = kits[key] = _Kit(layout, style)
    style.press_kit = kit
    return kit


def _resolve_one_percentage(box, property_name: str, refer_to) -> None:
    """percent.resolve_one_percentage: pixels first, then the rest as ever."""
    value = box.style[property_name]
    if type(value) is Dimension and value.unit == "px":
        used = value.value
    else:
        used = percent.percentage(value, box.style, refer_to)
        if used == "auto" and property_name in ("min_width", "min_height"):
            used = 0
    setattr(box, property_name, used)
