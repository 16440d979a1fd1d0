"""Chapters: addresses come from paths alone, and a wrong path or head is named with its line."""

import pytest

from bookpress.config import read_config
from bookpress.load import load

TOML = '[book]\ntitle = "T"\nversion = "1"\n{features}\n[[part]]\ntitle = "P"\nchapters = [\n{chapters}\n]\n'


def book(tmp_path, files: dict[str, str | bytes], chapters: list[str], features: str = ""):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    rows = ",\n".join(f'"{c}"' for c in chapters)
    (tmp_path / "book.toml").write_text(TOML.format(chapters=rows, features=features))
    config, problems = read_config(tmp_path)
    assert problems == []
    return load(config)


def test_addresses(tmp_path):
    names = {
        "README.md": ("start.html", "start"),
        "chapters/hardware/gpus.md": ("hardware/gpus.html", "hardware-gpus"),
        "net/README.md": ("net/index.html", "net"),
        "odd name (v2) & more.md": ("odd-name-v2-more.html", "odd-name-v2-more"),
        "01-intro.md": ("01-intro.html", "c-01-intro"),
        "简介.md": ("简介.html", None),
        "Net.md": ("Net.html", "net-2"),
    }
    sources, problems = load_all = book(tmp_path, {n: "# x\n" for n in names}, [
        "net" if n == "net/README.md" else n for n in names
    ])
    assert load_all
    assert problems == []
    for source, (name, (url, slug)) in zip(sources, names.items(), strict=True):
        assert (source.path, source.url) == (name, url)
        assert slug in (None, source.slug)
        assert source.slug.isascii()
        assert source.slug[0].isalpha()
    assert len({s.slug for s in sources}) == len(names)


def test_front_matter_is_split_and_lines_counted(tmp_path):
    text = "\ufeff---\r\ntitle: A\r\nverified: 2026-11-30\r\napplies_to: Slurm 22.05\r\n---\r\n# x\r\n"
    (source,), problems = book(tmp_path, {"a.md": text}, ["a.md"])
    assert problems == []
    assert (source.meta.title, source.meta.verified, source.meta.applies_to) == (
        "A", "2026-11-30", ("Slurm 22.05",)
    )
    assert (source.text, source.first_line) == ("# x\n", 6)


@pytest.mark.parametrize(
    ("files", "chapters", "code", "path", "line", "words"),
    [
        ({"setup.md": "x"}, ["setpu.md"], "CFG006", "book.toml", 8, "did you mean 'setup.md'?"),
        ({"a.md": "x"}, ["a.md", "a.md"], "CFG007", "book.toml", 8, "listed twice"),
        ({"a.md": "x"}, ["a.md", "../../etc/passwd"], "CFG006", "book.toml", 9, "no chapter file"),
        ({"a.md": "x"}, ["a.md", "b\\u0000.md"], "CFG006", "book.toml", 1, "no chapter file"),
        ({"a.md": b"ok\ncaf\xe9\n"}, ["a.md"], "CFG008", "a.md", 2, "not UTF-8"),
        ({"a.md": "---\nt: [\n---\nx"}, ["a.md"], "FMT002", "a.md", 3, "not valid YAML"),
        ({"chapters/a.md": "x", "chapters/b.md": "y"}, ["chapters/a.md"], "CFG009", "chapters/b.md", 1,
         "in no part"),
    ],
)
def test_mistakes(tmp_path, files, chapters, code, path, line, words):
    _, problems = book(tmp_path, files, chapters)
    match = [p for p in problems if p.code == code]
    assert match, problems
    assert (match[0].path, match[0].line) == (path, line)
    assert words in str(match[0])


def test_strict_front_matter(tmp_path):
    text = "---\ntitle: A\nsumary: x\nverified: 30 Nov\n---\n"
    _, problems = book(tmp_path, {"a.md": text}, ["a.md"], "[features]\nfront_matter_required = true")
    found = {(p.code, p.line, p.message) for p in problems}
    assert ("FMT003", 3, "unknown front matter key 'sumary'") in found
    assert ("FMT005", 4, "'30 Nov' is no ISO date") in found
    assert ("FMT004", 1, "front matter needs 'summary'") in found
