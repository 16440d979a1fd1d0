"""`bookpress check` over an output folder."""

from __future__ import annotations

import pytest

from bookpress import build, checks

TOML = '[book]\ntitle = "Small"\nversion = "1"\nslug = "small"\n\n[[part]]\nchapters = ["a.md"]\n'


@pytest.fixture
def book(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\nSee [below](#below).\n\n```bash\nls  -l\n```\n\n## Below\n\nText.\n")
    (tmp_path / "book.toml").write_text(TOML)
    return tmp_path


def test_nothing_built(book):
    (problem,) = checks.run(book / "book.toml", book / "dist", None)
    assert (problem.code, problem.path) == ("CHK005", "book.toml")


def test_built_and_then_damaged(book):
    files, problems = build.build(book / "book.toml", book / "dist", ("web",), jobs=1)
    assert files
    assert problems == []
    page = book / "dist" / "web" / "a.html"
    page.write_text(page.read_text().replace("ls  -l", "ls -l").replace('id="below"', 'id="bellow"'))
    found = checks.run(book / "book.toml", book / "dist", None)
    codes = {(p.code, p.path, p.line) for p in found if p.path == "a.md"}
    assert codes == {("CHK001", "a.md", 5), ("CHK002", "a.md", 0)}
