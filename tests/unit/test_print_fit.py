"""On paper: no ink beyond the text, and what is copied out of the PDF is what was written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import etree

from bookpress import code, parse
from bookpress.model import Config, Expanded, Fence, FrontMatter, Source
from missing import absent

HERE = Path(__file__).parent
CONFIG = Config(root=Path("/book"), path=Path("/book/book.toml"), title="T", slug="t", version="1")
LONG = ("x" * 30) + "(" + '"' + "y" * 80 + '")'
SHELL = ("kubectl apply -f https://example.org/releases/latest/download/kube-flannel.yml "
         "--namespace=kube-system --wait-for-jobs --timeout=300s --server-side --field-manager=press")
MIXED = "# 漢字のコメント 🚀 " + "漢" * 60 + " end\n\tx = '" + "─" * 100 + "'\n" + "=" * 300
TABLES = {
    "words": ("Longwordnumber" * 2, 8), "longer": ("Longwordnumber" * 6, 9), "numbers": ("12345", 31),
    "prose": ("words of prose " * 9, 9), "code": ("`NCCL_IB_GID_INDEX_LONG_NAME`", 9),
}


def fenced(text: str, lang: str) -> str:
    markup, _ = code.highlight(Fence(0, 1, lang, text, ""), "a.md", CONFIG)
    return f'<figure class="code"><pre><code>{markup}</code></pre></figure>'


def table(cell: str, width: int) -> str:
    text = "".join(f"| {' | '.join(row)} |\n" for row in (
        [f"Head{n}" for n in range(width)], ["---"] * width, *[[cell] * width] * 3))
    expanded = Expanded(Source("a.md", "a", "a.html", 0, FrontMatter(title="A"), text, 1), text,
                        tuple(range(1, text.count("\n") + 2)))
    root = etree.fromstring(parse.parse(expanded, CONFIG).body)
    return etree.tostring(next(root.iter("figure")), encoding="unicode", with_tail=False)


NARROW = (f"<table><tr><td>{'word ' * 60}</td><td>(<code>TORCH_NCCL_ENABLE_MONITORING_AND_MORE</code>)</td>"
          f"<td>see <code>manifests/kube-flannel.yml</code></td><td>{'word ' * 60}</td></tr></table>")
BODIES = {
    "pages": fenced("\n".join("x" + "word " * (10 + 7 * n % 40) for n in range(150)), "text"),
    "three": fenced(f"first\n{LONG}\nlast", "text"),
    "long": fenced(LONG, "python"), "shell": fenced(SHELL, "bash"), "mixed": fenced(MIXED, "python"),
    "lines": fenced("\n".join(f"line {n}" for n in range(300)), "text"),
    "list": f"<ol><li>x<ul><li>{fenced(SHELL, 'bash')}</li></ul></li></ol>",
    "narrow": f'<figure class="table wrap">{NARROW}</figure>',
    "prose": "<p>Set (<code>" + "A_VERY_LONG_NAME_" * 8 + "</code>) and (https://example.org/"
             + "path/" * 30 + ") and " + "z" * 150 + "</p>",
    **{f"table {name}": table(*given) for name, given in TABLES.items()},
}


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "build")}
    done = subprocess.run([sys.executable, HERE / "paper.py", folder], input=json.dumps(list(BODIES.values())),
                          capture_output=True, text=True, env=env, check=True)
    answers = dict(zip(BODIES, json.loads(done.stdout), strict=True))
    return answers, {name: folder / f"{n}.pdf" for n, name in enumerate(BODIES)}


def copied(pdf: Path) -> str:
    tool = shutil.which("pdftotext")
    if tool is None:
        absent("install pdftotext: apt-get install poppler-utils")
    return subprocess.run([tool, pdf, "-"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", BODIES)
def test_no_ink_leaves_the_text(paper, name):  # B01, F03
    answer = paper[0][name]
    assert answer["over"] == []
    assert answer["drawn"] > 0


@pytest.mark.parametrize(("name", "text"), [("long", LONG), ("shell", SHELL), ("list", SHELL), ("mixed", MIXED)])
def test_copied_code_is_the_source(paper, name, text):  # B06: no hyphen vanishes, none appears
    squeezed = "".join(copied(paper[1][name]).split())
    assert "".join(text.split()) in squeezed


def test_every_line_of_a_long_fence_is_there(paper):  # B04
    words = copied(paper[1]["lines"]).split()
    assert [w for w in words if w.isdecimal()] == [str(n) for n in range(300)]


def test_wrapped_lines_do_not_leave_empty_ones(paper):
    first, *rest = paper[0]["three"]["tops"]
    steps = [b - a for a, b in zip([first, *rest], rest, strict=False)]
    assert len(steps) == 3
    assert max(steps) - min(steps) < 0.3


def test_inline_code_is_never_hyphenated(paper):  # B07
    lines = paper[0]["narrow"]["lines"]
    assert not [line for line in lines if line.rstrip().endswith("-")]
    assert "manifests/kube-flannel.yml" in "".join(lines)
    assert "TORCH_NCCL_ENABLE_MONITORING_AND_MORE" in "".join(lines)
    assert len([line for line in lines if "TORCH" in line or "MORE" in line]) == 2  # so it did break


def test_table_words_are_whole(paper):
    assert any("Longwordnumber" * 2 in line for line in paper[0]["table words"]["lines"])
    assert sum(line.strip() == "12345" for line in paper[0]["table numbers"]["lines"]) == 93


def test_a_page_never_starts_in_the_middle_of_a_line(paper):
    assert paper[0]["pages"]["pages"] > 2
    assert [top for top in paper[0]["pages"]["heads"] if not top.startswith("x")] == []
