"""The allow-list, the builder's nesting rules, and trees as text."""

import pytest
from lxml import etree
from smallbook import codes, draft_of, tree_of

from bookpress import html


@pytest.mark.parametrize(
    ("tag", "given", "kept"),
    [
        ("p", {"align": "CENTER", "onclick": "x()", "style": "color:red"}, {"class": "center"}),
        ("td", {"style": "text-align: right; width: 9px", "colspan": "2"}, {"colspan": "2", "class": "right"}),
        ("td", {"colspan": "two", "width": "10"}, {}),
        ("img", {"src": "a.png", "width": "120px", "height": "40"}, {"src": "a.png", "width": "120", "height": "40"}),
        ("img", {"src": "a.png", "width": "47%"}, {"src": "a.png", "class": "width-45"}),
        ("a", {"name": "old place"}, {"id": "old-place"}),
        ("a", {"href": "x", "target": "_blank", "class": "number"}, {"href": "x"}),
        ("details", {"open": None}, {"open": "open"}),
        ("ol", {"start": "3", "type": "a"}, {"start": "3"}),
        ("ul", {"align": "center", "dir": "sideways"}, {}),
    ],
)
def test_clean(tag, given, kept):
    assert html.clean(tag, given) == kept


def test_only_void_elements_close_themselves():
    root = etree.fromstring('<div><a id="x"/><br/><math xmlns="http://www.w3.org/1998/Math/MathML"><mspace/></math></div>')
    body = html.serialise(root)
    assert '<a id="x"></a><br/>' in body
    assert "<mspace/>" in body
    assert html.serialise(etree.fromstring(body)) == body


def test_text_leaves_out_note_marks_and_reads_math_as_tex():
    root = etree.fromstring(
        '<h2>A  <b>b</b><br/>c<a class="fnref" href="#fn-1"><sup>1</sup></a> '
        '<math xmlns="http://www.w3.org/1998/Math/MathML" alttext="x^2"><mi>x</mi></math>!</h2>'
    )
    assert html.text(root) == "A b c x^2!"


def test_drop_and_unwrap_keep_the_words_around():
    root = etree.fromstring("<p>a<i>b</i>c<u>d<b>e</b>f</u>g</p>")
    html.drop(root[0])
    html.unwrap(root[0])
    assert etree.tostring(root) == b"<p>acd<b>e</b>fg</p>"


@pytest.mark.parametrize(
    ("source", "body"),
    [
        # A block ends the paragraph; what follows is a paragraph again.
        ("a <div>b</div> c", "<p>a </p><div>b</div><p> c</p>"),
        # Formatting that a block interrupts goes on inside it.
        ("<div><b>x\n<p>y</p></b></div>", "<div><b>x\n</b><p><b>y</b></p></div>"),
        # Misnested formatting, as HTML reads it.
        ("<div><i>a<b>b</i>c</b></div>", "<div><i>a<b>b</b></i><b>c</b></div>"),
        # Omitted end tags.
        ("<ul><li>a<li>b</ul>", "<ul><li>a</li><li>b</li></ul>"),
        ("<dl><dt>t<dd>d</dl>", "<dl><dt>t</dt><dd>d</dd></dl>"),
        # A list item or cell that lacks its list or row.
        ("<ul>a</ul>", "<ul><li>a</li></ul>"),
        ("<li>a</li>", "<ul><li>a</li></ul>"),
        # A target is a point, closed or not.
        ('<a name="x">word', '<p><a id="x"></a>word</p>'),
        # Obsolete names.
        ("<p><tt>a</tt> <strike>b</strike></p>", "<p><code>a</code> <s>b</s></p>"),
        ("<center>a</center>", '<div class="center">a</div>'),
        # What no page shows goes, with its content where that is no text.
        ("a <script>x</script><style>y</style>b", "<p>a b</p>"),
        ("<svg>\n\n<text>x</text>\n\n</svg>\n\nb", "<p>b</p>"),
        ("the <title> tag", "<p>the  tag</p>"),
        ("<picture><source srcset=x><b>p</b></picture>", "<p><b>p</b></p>"),
        # A heading in a summary, a heading in a heading.
        ("<details><summary><h3>s</h3></summary>t</details>", "<details><summary><h2>s</h2></summary><p>t</p></details>"),
        # A line end after <pre> is HTML's, not the text's.
        ("<pre>\na\n\nb</pre>", "<pre>a\n\nb</pre>"),
        ("a<hr>b", "<p>a</p><hr><p>b</p>"),
    ],
)
def test_nesting(tmp_path, source, body):
    root = tree_of(tmp_path, f"{source}\n", strict=False)
    for element in root.iter():
        for name in ("data-line", "data-site", "id") if element.tag != "a" else ("data-line",):
            element.attrib.pop(name, None)
    inner = "".join(etree.tostring(e, encoding="unicode", with_tail=False, method="html") for e in root[1:])
    assert inner.replace("\n<", "<").replace("\n", "") == body.replace("\n<", "<").replace("\n", "")


def test_table_parts_find_their_places(tmp_path):
    root = tree_of(tmp_path, "<table><caption>C</caption><tr><th>a<th>b<tr><td>1<td>2<tfoot><td>f</table>\n")
    figure = root.find("figure")
    assert [e.tag for e in figure] == ["figcaption", "table"]
    shape = [(g.tag, [[c.tag for c in row] for row in g]) for g in figure[1]]
    assert shape == [("thead", [["th", "th"]]), ("tbody", [["td", "td"]]), ("tfoot", [["td"]])]


def test_what_html_cannot_mean_is_reported_with_its_place(tmp_path):
    draft = draft_of(tmp_path, "a <b>x\n\ny</i>\n\n<td>z</td>\n\n<div>\n\n<weird-tag>\n", strict=False)
    found = [(p.code, p.line, p.col) for p in draft.problems]
    assert found == [
        ("MDN003", 1, 3), ("MDN004", 3, 2), ("MDN013", 5, 1), ("MDN004", 5, 6), ("MDN003", 7, 1), ("MDN001", 9, 1),
    ]  # fmt: skip


def test_markdown_walls_off_raw_end_tags(tmp_path):
    draft = draft_of(tmp_path, "- one </li></ul>\n- two\n", strict=False)
    root = etree.fromstring(draft.body)
    assert [li.text.strip() for li in root.iter("li")] == ["one", "two"]
    assert codes(draft.problems) == ["MDN004", "MDN004"]
