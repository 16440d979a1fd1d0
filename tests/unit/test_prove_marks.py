"""data/proofs.json: what it keeps, and that nothing is said of a fence that changed since."""

import dataclasses
import json

import pytest

from bookpress.build import prepare
from bookpress.config import read_config
from bookpress.prove import marks
from bookpress.prove.run import prove

BOOK = '[book]\ntitle = "T"\nslug = "t"\nversion = "1"\n[features]\nproofs = true\n[[part]]\nchapters = ["a.md", "b.md"]\n'
TEXT = """# A

```bash {.run id=a}
echo 1
```

```json {.parse}
[1]
```

```bash {.run id=b}
exit 3
```

```text {.shown reason="no"}
x
```
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "book.toml").write_text(BOOK)
    (tmp_path / "a.md").write_text(TEXT)
    (tmp_path / "b.md").write_text("# B\n\n```bash {.run}\ntrue\n```\n")
    return read_config(tmp_path / "book.toml")[0]


def book_of(config):
    book, problems = prepare(config, config.root / ".cache")
    return book, problems


def record(config, only=""):
    book, _ = book_of(config)
    chapters = [(c.path, c.fences) for c in book.chapters if only in c.path]
    marks.write(prove(chapters, config.root, config.root / ".cache", 1)[0], config)


def test_the_book_knows_what_was_proven(config):
    assert book_of(config)[0].proofs == {}
    record(config)
    book, problems = book_of(config)
    assert problems == []
    assert {path: sorted(found) for path, found in book.proofs.items()} == {"a.md": [0, 1], "b.md": [0]}
    proof = book.proofs["a.md"][0]
    assert proof.mode == "run"
    assert "bash" in proof.where
    assert len(proof.date) == 10
    assert book.proofs["a.md"][1].mode == "parse"


def test_a_changed_fence_loses_its_mark_and_a_moved_one_keeps_it(config):
    record(config)
    (config.root / "a.md").write_text(TEXT.replace("# A\n", "# A\n\nMore.\n").replace("[1]", "[2]"))
    assert sorted(book_of(config)[0].proofs["a.md"]) == [0]


def test_a_partial_run_keeps_other_chapters_and_their_order(config):
    record(config)
    before = marks.file_of(config).read_text()
    (config.root / "b.md").write_text("# B\n\n```bash {.run}\ntrue\n:\n```\n")
    record(config, only="b.md")
    after = json.loads(marks.file_of(config).read_text())["chapters"]
    assert list(after) == ["a.md", "b.md"]
    assert after["a.md"] == json.loads(before)["chapters"]["a.md"]
    assert after["b.md"] != json.loads(before)["chapters"]["b.md"]
    record(config)
    first = marks.file_of(config).read_bytes()
    record(config)
    assert marks.file_of(config).read_bytes() == first


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2, "chapters": {}}', "null"])
def test_a_damaged_file_is_a_problem_and_is_written_anew(config, text):
    record(config)
    good = marks.file_of(config).read_text()
    marks.file_of(config).write_text(text)
    book, problems = book_of(config)
    assert [(p.code, p.path) for p in problems] == [("PRV011", "data/proofs.json")]
    assert book.proofs == {}
    record(config)
    assert marks.file_of(config).read_text() == good


def test_books_without_proofs_read_nothing(config):
    record(config)
    plain = dataclasses.replace(config, features=dataclasses.replace(config.features, proofs=False))
    assert book_of(plain)[0].proofs == {}
