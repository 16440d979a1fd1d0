"""Folders that should be equal, and are not."""

from __future__ import annotations

import zipfile

from bookpress.checks import double


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def archive(path, *entries, when=(2026, 1, 1, 0, 0, 0)):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as target:
        for name, data in entries:
            target.writestr(zipfile.ZipInfo(name, when), data)


def test_equal(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, "x.pdf", b"same")
    assert double.compare(tmp_path / "a", tmp_path / "b") == []


def test_differences_are_named(tmp_path):
    one, two = tmp_path / "a", tmp_path / "b"
    write(one, "x.pdf", b"same then A")
    write(two, "x.pdf", b"same then B")
    write(one, "only.html", b"")
    archive(one / "e.epub", ("mimetype", "m"), ("opf", "1"))
    archive(two / "e.epub", ("mimetype", "m"), ("opf", "2"))
    archive(one / "t.epub", ("mimetype", "m"))
    archive(two / "t.epub", ("mimetype", "m"), when=(2027, 1, 1, 0, 0, 0))
    problems = {p.path: p.message for p in double.compare(one, two)}
    assert set(problems) == {"x.pdf", "only.html", "e.epub", "t.epub"}
    assert "from byte 10" in problems["x.pdf"]
    assert "entry opf" in problems["e.epub"]
    assert "times or modes" in problems["t.epub"]
