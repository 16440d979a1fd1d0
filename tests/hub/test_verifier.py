"""What verify.py says of a folder that was damaged in every way."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from bookpress.__main__ import main
from bookpress.release import verifier


@pytest.fixture
def folder(made, tmp_path) -> Path:
    shutil.copytree(made.folder, tmp_path / "release")
    return tmp_path / "release"


def rewrite_sums(folder: Path) -> None:
    """What somebody does who forges a file and its line."""
    lines = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    text = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in lines)
    (folder / "SHA256SUMS").write_text(text)


def forge(folder: Path) -> None:
    (folder / "README.md").write_text("forged")
    rewrite_sums(folder)


def other_tag(folder: Path) -> None:
    record = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps(record | {"tag": "v1.0.0"}))
    rewrite_sums(folder)


def no_provenance(folder: Path) -> None:
    text = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text("\n".join(x for x in text.splitlines() if "provenance" not in x) + "\n")


def add(line: str):
    def change(folder: Path) -> None:
        with (folder / "SHA256SUMS").open("a") as sums:
            sums.write(line + "\n")

    return change


DAMAGE = {
    "nothing": (lambda f: None, set()),
    "a byte more": (lambda f: (f / "web.zip").open("ab").write(b"x"), {("VER003", "web.zip")}),
    "a file less": (lambda f: (f / "LICENSE").unlink(), {("VER002", "LICENSE")}),
    "no sums": (lambda f: (f / "SHA256SUMS").unlink(), {("VER001", "SHA256SUMS")}),
    "empty sums": (lambda f: (f / "SHA256SUMS").write_text(""), {("VER001", "SHA256SUMS"), ("VER004", "provenance.json")}),
    "a file and its line": (forge, {("VER004", "README.md")}),
    "another tag": (other_tag, {("VER004", "provenance.json")}),
    "no provenance": (no_provenance, {("VER004", "provenance.json")}),
    "a path out": (add("0" * 64 + "  ../../etc/passwd"), {("VER001", "SHA256SUMS")}),
    "an absolute path": (add("0" * 64 + "  /etc/passwd"), {("VER001", "SHA256SUMS")}),
    "no line": (add("hello"), {("VER001", "SHA256SUMS")}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(folder, name):
    change, want = DAMAGE[name]
    change(folder)
    findings, notes = verifier.verify(verifier.Folder(folder))
    assert {(f.code, f.path) for f in findings} == want
    assert any("as released" in note for note in notes) == (not want)


def test_parts_and_strangers(folder, capsys):
    """A reader who took the PDF alone; files of other people are named and no fault."""
    for file in folder.iterdir():
        if file.is_file() and file.suffix not in (".pdf",) and file.name not in ("SHA256SUMS", "provenance.json"):
            file.unlink()
    (folder / "notes.txt").write_text("mine")
    (folder / ".cache").mkdir()
    (folder / ".cache/x").write_text("the client's")
    assert main(["verify-release", str(folder)]) == 1
    assert main(["verify-release", str(folder), "--ignore-missing"]) == 0
    out = capsys.readouterr().out
    assert "not part of the release: notes.txt" in out
    assert ".cache" not in out


def test_nothing_to_verify_is_wrong_use(tmp_path, capsys):
    assert main(["verify-release", str(tmp_path / "nowhere")]) == 2
    assert main(["verify-release"]) == 2
    assert verifier.main([str(tmp_path / "nowhere")]) == 2


def test_reader_needs_python_alone():
    text = Path(verifier.__file__).read_text()
    tree = ast.parse(text, feature_version=(3, 8))
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {a.name.split(".")[0] for n in imports if isinstance(n, ast.Import) for a in n.names}
    names |= {(n.module or ".").split(".")[0] for n in imports if isinstance(n, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names


def test_hashes_that_begin_alike_are_told_whole():
    assert verifier._unlike("a" * 64, "a" * 63 + "b") == f"{'a' * 64}, released was {'a' * 63}b"
    assert verifier._unlike("b" * 64, "a" * 64) == f"{'b' * 16}…, released was {'a' * 16}…"
