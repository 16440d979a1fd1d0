"""Output fences: elision and tolerance are the only liberties."""

import pytest

from bookpress.prove.compare import compare, shown


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("a\nb", "a\nb\n"),
        ("a\nb", "\na  \nb\r\n\n"),
        ("a\n…\nd", "a\nb\nc\nd"),
        ("a\n…\nd", "a\nd"),
        ("…", "anything\nat all"),
        ("a\n…", "a"),
        ("…\nz", "x\ny\nz"),
        ("…\nb\n…\nd\n…", "a\nb\nc\nd\ne"),
        ("pid … done", "pid 4711 done"),
        ("rate [[~ 100 ±5% ]] MB/s", "rate 104.9 MB/s"),
        ("n [[~ 12,5 ]]", "n [[~ 12,5 ]]"),
        ("t [[~ 3 ±0.5 ]] … [[~ 10 ±10% ]]", "t 3.4 s 9.1"),
        ("big [[~ 10000 ±1% ]]", "big 10,050"),
        ("a\n\nb", "a\n\nb"),
    ],
)
def test_equal(want, got):
    assert compare(want, got) is None


@pytest.mark.parametrize(
    ("want", "got", "row", "printed"),
    [
        ("a\nb", "a\nc", 1, "c"),
        ("a", "a\nb", 0, "b"),
        ("a\nb", "a", 1, ""),
        ("a\n…\nd", "a\nb\nc", 2, "c"),
        ("…\nb\n…", "a\nc", 1, "a"),
        ("rate [[~ 100 ±5% ]] MB/s", "rate 105.2 MB/s", 0, "rate 105.2 MB/s"),
        ("a.c", "abc", 0, "abc"),
        ("…\nz", "z\ny", 1, "y"),
        ("a\n…\nb\nb", "a\nb", 3, ""),
    ],
)
def test_different(want, got, row, printed):
    found = compare(want, got)
    assert found is not None
    assert (found.row, found.got) == (row, printed)


def test_a_reader_sees_the_number():
    assert shown("rate [[~ 100.5 ±5% ]] MB/s, [[ -n $x ]]") == "rate 100.5 MB/s, [[ -n $x ]]"
