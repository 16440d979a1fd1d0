"""Formulas: complete MathML, drawings that repeat and sit on the baseline, and honest problems."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from bookpress import mathtex, pandoc
from bookpress.inlines import is_formula
from bookpress.model import Config, Expanded, FrontMatter, Source

CONFIG = Config(root=Path("/book"), path=Path("/book/book.toml"), title="T", slug="t", version="1")
TEX = [
    (r"\frac{a}{b} + x_i^2 \le \sqrt{\alpha}", True),
    (r"\text{MFU} = \frac{6ND}{t \cdot F_{\text{peak}}}", True),
    (r"f(x)=\begin{cases} 1 & x>0\\ 0 & \text{else}\end{cases}", True),
    (r"\begin{aligned} a &= b + c \\ &= d\end{aligned}", True),
    (r"\hat{y}=\operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V", True),
    (r"\sum_{i=1}^{n} \int_0^\infty e^{-x^2}\,dx \approx 10^{-3}", True),
    (r"x\in\mathbb{R}^{n\times m}", False),
]


@pytest.fixture(scope="module")
def formulas():
    return pandoc.mathml(TEX)


def chapter(*inner: etree._Element) -> etree._Element:
    root = etree.fromstring('<section><p data-line="7"><span class="math inline"/></p></section>')
    root[0][0].extend(inner)
    return root


def expanded() -> Expanded:
    return Expanded(Source("a.md", "a", "a.html", 0, FrontMatter(), "", 1), "", (1,))


def test_every_formula_has_its_tex_as_alternative_and_no_style(formulas):
    root = chapter(*formulas)
    assert mathtex.finish(root, expanded(), CONFIG) == []
    maths = list(root.iter("{*}math"))
    assert [m.get("alttext") for m in maths] == [" ".join(tex.split()) for tex, _ in TEX]
    assert not root.xpath("//*[@style]")


def test_drawings_are_paths_only_and_the_same_every_time(formulas):
    for math in formulas:
        svg, width, height, depth = mathtex.to_svg(math)
        mathtex._draw.cache_clear()
        assert mathtex.to_svg(math) == (svg, width, height, depth)
        names = {etree.QName(e).localname for e in etree.fromstring(svg).iter()}
        assert names <= {"svg", "path", "rect", "g"}
        assert 0.3 < width < 30
        assert 0.3 < height < 6


def test_depth_is_what_hangs_below_the_baseline():
    sits, hangs, fraction = pandoc.mathml([("x", False), ("y", False), (r"\frac{a}{b}", True)])
    assert mathtex.to_svg(sits)[3] < 0.06
    assert 0.15 < mathtex.to_svg(hangs)[3] < 0.35
    assert 0.5 < mathtex.to_svg(fraction)[3] < 0.9


def test_drawing_leaves_the_tree_as_it_was(formulas):
    before = etree.tostring(formulas[0])
    mathtex.to_svg(formulas[0])
    assert etree.tostring(formulas[0]) == before


def test_characters_without_a_glyph_are_named_with_their_line():
    (math,) = pandoc.mathml([(r"N_{\text{漢}}", False)])
    problems = mathtex.finish(chapter(math), expanded(), CONFIG)
    assert [(p.code, p.line) for p in problems] == [("MTH003", 7)]
    assert "U+6F22" in problems[0].message


def test_what_cannot_be_drawn_is_a_problem_not_a_gap():
    unknown = etree.fromstring('<math xmlns="http://www.w3.org/1998/Math/MathML"><mglyph/></math>')
    problems = mathtex.finish(chapter(unknown), expanded(), CONFIG)
    assert [(p.code, p.level) for p in problems] == [("MTH002", "error")]


@pytest.mark.parametrize(("tex", "after"), [
    ("HOME and ", "PATH"), ("PATH:", "HOME"), ("5 and ", "10"), ("HOME/bin:", "PATH"),
    ("5 an hour, so 10 US", ""),
])
def test_shell_names_and_prices_are_no_formulas(tex, after):  # C03, C04
    assert not is_formula(tex, after)


@pytest.mark.parametrize("tex", ["x", "N", "O(n^2)", r"\alpha", "5 \\times 10^3", "N = 8", "2^{16}"])
def test_formulas_stay_formulas(tex):
    assert is_formula(tex, " ")
