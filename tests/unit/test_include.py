"""Code from files: regions in any comment syntax, and every way to miss."""

import pytest
from smallbook import codes, draft_of

SOURCE = """import os


class A:
    # region: outer
    def f(self):
        # region: inner
        return os.getpid()
        # endregion: inner

    x = 1
    # endregion: outer
"""


def fence(tmp_path, attrs: str, body: str = ""):
    return draft_of(tmp_path, f"# T\n\n```python {{{attrs}}}\n{body}```\n")


def test_region_is_dedented_and_inner_marks_are_dropped(tmp_path):
    (tmp_path / "a.py").write_text(SOURCE)
    draft = fence(tmp_path, "include=a.py region=outer")
    assert codes(draft.problems) == []
    assert draft.fences[0].text == "def f(self):\n    return os.getpid()\n\nx = 1"
    assert fence(tmp_path, "include=a.py region=inner").fences[0].text == "return os.getpid()"


def test_whole_file_without_its_marks(tmp_path):
    (tmp_path / "a.py").write_text(SOURCE)
    text = fence(tmp_path, "include=a.py").fences[0].text
    assert text.startswith("import os\n\n\nclass A:\n    def f(self):\n        return os.getpid()\n\n    x = 1")
    assert "region" not in text


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("# region: r", "# endregion: r"), ("#region: r", "#endregion: r"), ("// region: r", "// endregion: r"),
        ("-- region: r", "-- endregion: r"), ("; region: r", "; endregion: r"), ("% region: r", "% endregion: r"),
        ("<!-- region: r -->", "<!-- endregion: r -->"), ("/* region: r */", "/* endregion: r */"),
        ("\t# region: r  ", "\t# endregion: r"),
    ],
)  # fmt: skip
def test_any_comment_sign(tmp_path, start, end):
    (tmp_path / "f").write_text(f"a\n{start}\nb\n{end}\nc\n")
    assert fence(tmp_path, "include=f region=r").fences[0].text == "b"


@pytest.mark.parametrize(
    ("attrs", "code", "hint"),
    [
        ("include=a.py region=outr", "INC002", "did you mean 'outer'?"),
        ("include=b.py", "INC001", "did you mean 'a.py'?"),
        ("include=../secret.txt", "INC003", ""),
        ("include=/etc/passwd", "INC003", ""),
        ("include=link.py", "INC003", ""),
    ],
)
def test_what_is_not_there_is_a_problem_with_the_nearest_name(tmp_path, attrs, code, hint):
    book = tmp_path / "book"
    book.mkdir()
    (book / "a.py").write_text(SOURCE)
    (tmp_path / "secret.txt").write_text("outside")
    (book / "link.py").symlink_to(tmp_path / "secret.txt")  # inside by name, outside by nature
    draft = fence(book, attrs)
    assert [(p.code, p.line, p.hint) for p in draft.problems] == [(code, 3, hint)]
    assert draft.fences[0].text == ""
    assert "outside" not in draft.body


def test_marks_that_do_not_pair(tmp_path):
    (tmp_path / "a.py").write_text("# region: r\nx\n# region: s\n# region: s\ny\n# endregion: s\n")
    assert codes(fence(tmp_path, "include=a.py region=r").problems) == ["INC004"]
    assert codes(fence(tmp_path, "include=a.py region=s").problems) == ["INC004"]


def test_a_fence_that_includes_is_empty(tmp_path):
    (tmp_path / "a.py").write_text("x\n")
    assert codes(fence(tmp_path, "include=a.py", "own\n").problems) == ["INC005"]
