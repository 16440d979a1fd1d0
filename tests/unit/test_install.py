"""Installing into the output folder: all or nothing, and nobody else's files."""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from bookpress import build, serve
from bookpress import install as module
from bookpress.__main__ import main
from bookpress.cache import Cache
from bookpress.web import fonts

TOML = '[book]\ntitle = "My book"\nversion = "{}"\n\n[[part]]\ntitle = "One"\nchapters = ["text/a.md"]\n'


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "book/text").mkdir(parents=True)
    (tmp_path / "book/book.toml").write_text(TOML.format("1.0"))
    (tmp_path / "book/text/a.md").write_text("# A\n\nWords.\n")
    return tmp_path / "book"


def made(folder: Path) -> tuple[list[Path], Path]:
    """Outputs as the stages leave them in the cache."""
    (folder / "web/ui-assets").mkdir(parents=True)
    (folder / "web/index.html").write_text("new page")
    (folder / "web/ui-assets/book.css").write_text("css")
    (folder / "my-book-1.1.epub").write_text("new epub")
    return [folder / "my-book-1.1.epub"], folder / "web"


def state(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def test_other_files_in_the_output_folder_stay(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("thesis.epub", "my-book-1.0.epub", "notes.txt"):
        (out / name).write_text(name)
    files, web = made(tmp_path / "cache")
    module.install(files, web, out, "my-book")
    assert {p.name for p in out.iterdir()} == {
        "thesis.epub", "notes.txt", "my-book-1.1.epub", "web", "SHA256SUMS"
    }  # fmt: skip
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest


def test_a_full_disk_leaves_the_last_outputs_whole(tmp_path, monkeypatch):
    out = tmp_path / "out"
    files, web = made(tmp_path / "cache")
    module.install(files, web, out, "my-book")
    before = state(out)
    (web / "index.html").write_text("newer page")
    files[0].write_text("newer epub")
    copy = shutil.copy2

    def full(source, target):
        copy(source, target)
        if Path(source).name == "index.html":
            raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(module.shutil, "copy2", full)
    with pytest.raises(OSError, match="No space"):
        module.install(files, web, out, "my-book")
    assert state(out) == before


def test_what_a_killed_build_left_goes(tmp_path):
    out = tmp_path / "out"
    files, web = made(tmp_path / "cache")
    module.install(files, web, out, "my-book")
    (out / "web/old").mkdir()
    (out / "web/old/.page.html.new").write_text("half")
    module.install(files, web, out, "my-book")
    assert not (out / "web/old").exists()


@pytest.mark.parametrize("out", [".", "text"])
def test_the_folder_of_the_sources_is_no_output_folder(book, out, capsys):
    before = state(book)
    assert main(["web", "--book", str(book), "--out", str(book / out)]) == 2
    assert "text/a.md" in capsys.readouterr().err
    assert state(book) == before


def test_a_web_folder_of_somebody_else_is_refused(book, tmp_path, capsys):
    theirs = tmp_path / "site/web/mine.html"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    assert main(["web", "--book", str(book), "--out", str(tmp_path / "site")]) == 2
    assert "no web edition" in capsys.readouterr().err
    assert state(tmp_path / "site") == {"web/mine.html": b"mine"}


@pytest.mark.parametrize("damage", [b"", b"\x80", b"junk" * 20, None])
def test_a_damaged_cache_entry_is_as_good_as_none(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.put("draft", "key", {"text": "words " * 50})
    (file,) = (tmp_path / "draft").iterdir()
    whole = file.read_bytes()
    assert cache.get("draft", "key") == {"text": "words " * 50}
    # None: one letter of the text differs, which unpickles without complaint
    file.write_bytes(whole.replace(b"words", b"swore", 1) if damage is None else damage)
    assert cache.get("draft", "key") is None


@pytest.mark.parametrize("jobs", ["0", "-1", "two", "1000000", "²"])
def test_jobs_is_a_sensible_number(jobs, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["build", f"--jobs={jobs}"])
    assert stopped.value.code == 2
    assert "whole number" in capsys.readouterr().err


def test_a_port_out_of_range_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "--port", "99999"])
    assert stopped.value.code == 2


def test_serve_without_a_book_ends_at_once(tmp_path, capsys):
    assert main(["serve", "--book", str(tmp_path / "nope.toml"), "--port", "0"]) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["book.toml", "book.toml/x", "/proc/x"])
def test_a_place_that_cannot_be_written_is_one_line(book, place, capsys):
    assert main(["web", "--book", str(book), "--out", str(book / place)]) in (2, 3)
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("epoch", ["0", "4354819199", "32503680000"])
def test_dates_that_zip_does_not_know(book, tmp_path, epoch, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert main(["epub", "--book", str(book), "--out", str(tmp_path / epoch), "--quiet"]) == 0


@pytest.mark.parametrize("epoch", ["abc", "-5", "²", "99999999999999"])
def test_no_number_of_seconds(book, tmp_path, epoch, monkeypatch, capsys):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert main(["web", "--book", str(book), "--out", str(tmp_path / "o")]) == 2
    assert "SOURCE_DATE_EPOCH" in capsys.readouterr().err


def test_a_full_output_disk_is_named(book, tmp_path, capsys, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device", str(source))

    monkeypatch.setattr(module.shutil, "copy2", full)
    out = tmp_path / "out"
    assert main(["epub", "--book", str(book), "--out", str(out)]) == 3
    assert f"No space left on device: {out}" in capsys.readouterr().err
    assert state(out) == {}


def test_a_killed_worker_is_one_line(book, tmp_path, capsys, monkeypatch):
    def killed(*arguments, **named):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(os.abort).result()

    monkeypatch.setattr(build.pdf, "make", killed)
    assert main(["pdf", "--book", str(book), "--out", str(tmp_path / "out")]) == 3
    assert "worker process" in capsys.readouterr().err


def test_serve_outlives_a_book_that_moves_away(book, tmp_path, capsys):
    watched = serve.State(book / "book.toml", tmp_path / "cache")
    (book / "book.toml").rename(book / "other.toml")
    serve._work(watched.rebuild, watched)
    said = capsys.readouterr().err
    assert "cannot read" in said
    assert "Traceback" not in said


def test_another_user_can_read_the_subsets_of_the_fonts(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "FACES", fonts.FACES[:1])
    fonts.make(tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o644
