"""Formulas written for MathJax and KaTeX: macros, sizes, names, empty lines."""

import pytest

from bookpress import pandoc
from bookpress.texmend import joined, macros, mended, uncommented

DEFINED = macros([
    r"\def\half{\frac12} \newcommand{\pair}[2]{\langle #1, #2 \rangle} \newcommand\R{\mathbb{R}}",
    r"\DeclareMathOperator{\softmax}{softmax} \renewcommand{\norm}[1]{\lVert{#1}\rVert}",
    r"\def\a{\b\b} \def\b{\a\a}",
])  # fmt: skip


@pytest.mark.parametrize(
    ("tex", "simpler"),
    [
        (r"\tiny x \approxeq y", r"x \approx y"),
        (r"\pair{a}{b_{1}} \in \R", r"{\langle a, b_{1} \rangle} \in {\mathbb{R}}"),
        (r"\pair xy", r"{\langle x, y \rangle}"),
        (r"\softmax(\half)", r"{\operatorname{softmax}}({\frac12})"),
        (r"\textcolor{red}{x}\label{eq:1}", "{x}"),
        (r"\\{U_X\\}", r"\{U_X\}"),
        (r"\def\only{x}", ""),
        (r"\smallfrown", r"\smallfrown"),
    ],
)
def test_simpler_words(tex, simpler):
    assert mended(tex, DEFINED) == simpler


def test_what_is_mended_can_be_read():
    sources = [r"\small \pair{a}{b} \approxeq \cfrac{1}{2}", r"\\{ \norm{x} \\}"]
    assert pandoc.mathml([(s, True) for s in sources]) == [None, None]
    assert None not in pandoc.mathml([(mended(s, DEFINED), True) for s in sources])


def test_macros_that_call_themselves_end():
    assert len(mended(r"\a", DEFINED)) < 100_000


def test_broken_tex_passes_through():
    for tex in (r"\pair{a", r"\pair", "{{{", "\\", r"\def\x{", r"\newcommand{\y}[9]{#9"):
        mended(tex, {**DEFINED, **macros([tex])})


def test_comments_end_with_the_line():
    assert uncommented("50\\% % half\nx") == "50\\% \nx"


def test_empty_lines_in_a_formula_are_filled_and_no_line_moves():
    assert joined("$$\na\n\nb\n$$\n\ntext") == "$$\na\n%\nb\n$$\n\ntext"
    for text in ("```\n$$\n\n$$\n```\n", "$$\n\ntext\n\n## Head\n\n$$\n", "cost $$\n\nmore $$\n"):
        assert joined(text) == text
