"""Templating touches prose only, keeps each line's origin, and names every mistake with its line."""

from pathlib import Path

import pytest

from bookpress.expand import expand, facts_for, protect
from bookpress.model import Config, Features, FrontMatter, Source

DATA = """
units: {bf16: TFLOPS, memory_gb: GB}
gpus:
  h1:
    name: "H|1 {{ $x }}"
    source: https://example.org/h1.pdf
    verified: 2026-11-30
    confidence: verified
    dense: {bf16: 989.5}
    memory_gb: 16384
    other: {value: 3, unit: m, source: "Book, p. 3", verified: 2026-01-01}
  h2: {name: h2, source: https://example.org/h2, verified: 2026-11-30, confidence: secondary, dense: {bf16: 100}}
  bare: {name: bare, memory_gb: 80}
"""
TABLE = """
caption: Peaks
id: tbl-p
from: gpus
rows: [h1, h2]
columns:
  - {key: name, header: Part}
  - {key: dense.bf16, header: bf16, align: right, digits: 0}
  - {key: memory_gb, header: Memory, unit: GB}
sources: true
"""


@pytest.fixture
def book(tmp_path: Path):
    (tmp_path / "data/tables").mkdir(parents=True)
    (tmp_path / "data/gpus.yaml").write_text(DATA)
    (tmp_path / "data/tables/peaks.yaml").write_text(TABLE)
    (tmp_path / "m.json").write_text('{"runs": [{"tflops": 712.34}]}')
    config = Config(
        root=tmp_path, path=tmp_path / "book.toml", title="T", slug="t", version="1",
        features=Features(templating=True),
    )

    def run(text: str, first_line: int = 1):
        source = Source("c.md", "c", "c.html", 0, FrontMatter(), text, first_line)
        return expand(source, config, facts_for(config))

    return run


@pytest.mark.parametrize(
    "text",
    [
        "```yaml\ntoken: ${{ secrets.HF_TOKEN }}\nx: [[ nope ]]\n```",
        "use `{% if x %}` and `[[ book.title ]]` and ``a ` [[ b ]]``",
        '```cpp\nfmt("{} {{}} [[ x ]]", 1)\n```',
        "- item\n\n  ```sh\n  [[ -n $x ]] && awk '{#x} [# y'\n  ```\n\n> ```\n> [[ q ]]\n> ```",
        "````md\n```\n[[ inner ]]\n```\n````",
        "a `code\nover [[ two ]] lines` b",
        "~~~\n[[ x ]]\n```\n[[ y ]]\n~~~",
    ],
)
def test_code_is_never_templated(book, text):
    expanded, problems = book("[[ book.title ]]\n\n" + text)
    assert problems == []
    assert expanded.text == "T\n\n" + text


def test_facts_carry_unit_and_are_escaped(book):
    expanded, problems = book('[[ fact("gpus.h1.dense.bf16") ]], [[ value("gpus.h1.memory_gb") ]], '
                              '[[ fact("gpus.h1.other") ]], [[ value("gpus.h1.name") ]]')
    assert problems == []
    assert expanded.text == "989.5\u00a0TFLOPS, 16,384, 3\u00a0m, H\\|1 \\{\\{ \\$x \\}\\}"
    assert [path for path, _ in expanded.reads] == ["data/gpus.yaml"]


def test_table_from_data_marks_confidence_and_lists_sources(book):
    expanded, problems = book('x\n\n[[ table("peaks") ]]\n\nend')
    assert problems == []
    assert "Table: Peaks {#tbl-p}" in expanded.text
    assert "| H\\|1 \\{\\{ \\$x \\}\\} | 990 | 16,384\u00a0GB |" in expanded.text
    assert "| h2 | 100† | – |" in expanded.text
    assert "[example.org: h1.pdf](<https://example.org/h1.pdf>)" in expanded.text
    # every line of the table belongs to the line that asked for it
    lines = dict(zip(expanded.text.split("\n"), expanded.lines, strict=True))
    assert lines["| h2 | 100† | – |"] == 3
    assert lines["end"] == 5


def test_measurement_and_line_origins_after_blocks(book):
    text = "a\n[% for i in [1, 2] %]\nrow [[ i ]]\n[% endfor %]\n[# gone\nover lines #]\nb [[ measurement('m.json', 'runs.0.tflops', 1) ]]"
    expanded, problems = book(text, first_line=10)
    assert problems == []
    assert [line for line in expanded.text.split("\n") if line] == ["a", "row 1", "row 2", "b 712.3"]
    where = dict(zip(expanded.text.split("\n"), expanded.lines, strict=True))
    assert (where["a"], where["row 2"], where["b 712.3"]) == (10, 12, 16)


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("x\ny [[ nope ]]", "TPL001", 2, "'nope' is undefined"),
        ("x\n\n[[ 1 + ]]", "TPL001", 3, ""),
        ('[[ fact("gpus.h1.dense.bf61") ]]', "TPL002", 1, "did you mean 'bf16'"),
        ('[[ fact("gpu.h1") ]]', "TPL003", 1, "did you mean 'gpus'"),
        ('a\n[[ fact("gpus.bare.memory_gb") ]]', "TPL004", 2, "no source"),
        ('[[ table("peak") ]]', "TPL006", 1, "did you mean 'peaks'"),
        ("[[ measurement('m.json', 'runs.7.tflops') ]]", "TPL007", 1, "at '7'"),
        ("[[ measurement('../../etc/passwd', 'x') ]]", "TPL007", 1, "no measurement file"),
        ("[[ ''.__class__.__mro__ ]]", "TPL001", 1, "unsafe"),
    ],
)
def test_mistakes_name_their_line(book, text, code, line, words):
    expanded, problems = book(text)
    assert [(p.code, p.line) for p in problems] == [(code, line)]
    assert words in str(problems[0])
    assert expanded.text == text  # the author sees what was written, not half a page


def test_a_code_span_inside_a_tag_is_refused_not_printed_as_something_else(book):
    _, problems = book("One.\n\nTwo [[ \"`tick`\" ]].")
    assert [(p.code, p.line) for p in problems] == [("TPL001", 3)]


def test_protect_keeps_line_count():
    text = "a `b` c\n```x\ny\n```\nz"
    assert protect(text)[0].count("\n") == text.count("\n")
