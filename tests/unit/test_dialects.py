"""Lines that Jekyll and doc-builder know become what pandoc reads, and no line moves."""

import pytest

from bookpress.dialects import translate


@pytest.mark.parametrize(
    ("row", "ours"),
    [
        ("{% details Click & see. %}", "<details><summary>Click &amp; see.</summary>"),
        ("  {%- enddetails -%}", "  </details>"),
        ('{% include figure.liquid path="a/b.png" class="x" %}', "![](</a/b.png>)"),
        (
            '{% include figure.html path="a.png" caption="<b>Figure:</b> *x* of y" %}',
            '![Figure: x of y](</a.png>){caption="<b>Figure:</b> *x* of y"}',
        ),
        ('{% include figure.html path="a.png" alt="b" caption="<a href=\\"c\\">d</a>" %}',
         """![b](</a.png>){caption="<a href='c'>d</a>"}"""),
        ("{% include image.html src='https://a.b/c.png' alt='rise' %}", "![rise](<https://a.b/c.png>)"),
        ("{% include note.html %}", "{% include note.html %}"),
        ("{% include figure.html %}", "{% include figure.html %}"),
        ("## What is NLP?[[what-is-nlp]]", "## What is NLP? {#what-is-nlp}"),
        ("text [[what-is-nlp]]", "text [[what-is-nlp]]"),
    ],
)
def test_a_line(row, ours):
    assert translate(row, templating=False) == ours


def test_code_and_templates_stay():
    code = "```\n{% details x %}\n## a[[b]]\n```\n\n## a[[b]]"
    assert translate(code, templating=False) == code[:-6] + "a {#b}"
    assert translate(code, templating=True) == code
