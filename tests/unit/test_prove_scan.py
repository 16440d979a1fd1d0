"""The reader of fences that needs no library finds what the real parser finds."""

from dataclasses import replace
from pathlib import Path

import pytest
from smallbook import draft_of

from bookpress.build import prepare
from bookpress.config import read_config
from bookpress.prove.scan import chapter_files, scan

ROOT = Path(__file__).resolve().parents[2]


def same(mine, theirs):
    """Equal but for what the scanner has no use for."""
    return [replace(f, attrs=dict(f.attrs)) for f in mine] == [replace(f, attrs=dict(f.attrs)) for f in theirs]


def test_every_chapter_of_the_book(tmp_path):
    config, _ = read_config(ROOT / "book.toml")
    book, _ = prepare(config, tmp_path)
    assert [c.path for c in book.chapters] == chapter_files(config)
    found = 0
    for chapter in book.chapters:
        fences = scan(ROOT / chapter.path)
        found += len(fences)
        assert same(fences, chapter.fences), chapter.path
    assert found > 50


@pytest.mark.parametrize(
    "text",
    [
        "```bash {.run}\necho 1\n```",
        "```{.run}\necho 1\n```",
        "```{.bash .run id=x}\necho 1\n```",
        "```{python}\nprint(1)\n```",
        "```python {.gpu gpus=2 id=y timeout=60}\nprint(1)\n```",
        "```bash {gpus=2}\nnvidia-smi\n```",
        "```bash {.run .hidden #lst-a caption=\"two words\"}\ntrue\n```",
        "````markdown {.shown reason=\"a form\"}\n```bash {.run}\nfalse\n```\n````",
        "~~~sh {.run}\n```\n~~~",
        "- item\n\n  ```bash {.run}\n  if true; then\n    echo deep\n  fi\n  ```\n\n- next\n",
        "1. item\n   - inner\n\n     ```bash {.run id=q}\n     echo a\n\n     echo b\n     ```\n",
        "> ```bash {.run}\n> echo quoted\n>\n> echo more\n> ```\n\nafter\n",
        "> [!NOTE]\n> Text.\n>\n> ```output {of=a}\n> x > y\n> ```\n\n```bash {.run id=a}\necho 'x > y'\n```",
        "text\n\n    ```bash {.run}\n    echo indented code\n    ```\n",
        "<!--\n```bash {.run}\nrm -rf /\n```\n-->\n\n```bash {.run}\ntrue\n```",
        "`` ```bash `` in a line\n\n```text {.shown reason=x}\n> ```\n    ```\n``` still open\n```\n",
        "```bash {.run}\n\techo tab\n```",
        "a `` ` `` b\n\n```json {.parse}\n{\"a\": 1}\n```\n",
    ],
)
def test_forms(tmp_path, text):
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    theirs = [f for f in draft_of(tmp_path, text, proofs=True).fences if f.lang or f.mode]
    mine = scan(tmp_path / "a.md")
    assert [(f.line, f.lang, f.mode, f.id, f.hidden, f.text) for f in mine] == [
        (f.line, f.lang, f.mode, f.id, f.hidden, f.text) for f in theirs
    ]


def test_front_matter_and_included_regions(tmp_path):
    (tmp_path / "a.py").write_text("import os\n# region: one\n    x = 1\n# endregion: one\n")
    head = '---\ntitle: "x"\nsummary: |\n  ```bash\n  not a fence\n  ```\n---\n'
    (tmp_path / "a.md").write_text(head + "\n```python {.gpu include=a.py region=one}\n```\n")
    (fence,) = scan(tmp_path / "a.md")
    assert (fence.line, fence.text, fence.mode) == (9, "x = 1", "gpu")
