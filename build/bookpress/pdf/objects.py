"""PDF objects as bytes that can move: the small language between `layout` and `assemble`.

A chapter is laid out before anyone knows where in the file it will stand. Its objects therefore name one
another by marks instead of numbers; `place` turns marks into numbers once the block's first number is known.
Objects that the whole book shares have fixed numbers, so that a placed block never changes with its neighbours.
"""

from __future__ import annotations

import re

import pydyf

# The shared objects. Blocks of chapters begin at FIRST.
CATALOG, PAGES, FONTS, STRUCT, DOCUMENT, PARENTS, INFO, XMP, DESTS, OUTLINES = range(1, 11)
FIRST = 16

# Control characters cannot occur in XML text, so no string of a book looks like a mark.
_MARK = re.compile(rb"\x01(\d+)\x02|\x04(\d+)\x02")
_REFERENCE = re.compile(rb"(\d+) 0 R")


def mark(local: int) -> bytes:
    """A reference to object `local` of the same block."""
    return b"\x01%d\x02" % local


def key(local: int) -> bytes:
    """A key of the structure parent tree, counted from the block's first number."""
    return b"\x04%d\x02" % local


def shared(number: int) -> bytes:
    """A reference to an object with a fixed number."""
    return b"%d 0 R" % number


def place(data: bytes, base: int) -> bytes:
    """Marks to numbers, for a block that begins at `base`."""

    def number(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return b"%d 0 R" % (base + int(match[1]))
        return b"%d" % (base + int(match[2]))

    return _MARK.sub(number, data) if b"\x02" in data else data


_ESCAPES = {ord("\\"): "\\\\", ord("("): "\\(", ord(")"): "\\)", 10: "\\n", 13: "\\r"}


def text(value: str) -> bytes:
    """A text string: plain where it is ASCII, UTF-16 otherwise."""
    if value.isascii():
        return b"(" + value.translate(_ESCAPES).encode() + b")"
    return b"<feff" + value.encode("utf-16-be").hex().encode() + b">"


def raw_name(value: str) -> bytes:
    """The bytes of a destination's name, by which the name tree is sorted."""
    return value.encode() if value.isascii() else b"\xfe\xff" + value.encode("utf-16-be")


def number(value: float) -> bytes:
    """A short decimal; a thousandth of a point is far below what anyone sees."""
    if isinstance(value, int) or value == int(value):
        return b"%d" % int(value)
    return f"{value:.3f}".rstrip("0").rstrip(".").encode()


def array(*items: bytes) -> bytes:
    return b"[" + b" ".join(items) + b"]"


def dictionary(entries: dict[str, bytes]) -> bytes:
    return b"<<" + b"".join(b"/%s %s" % (k.encode(), v) for k, v in entries.items()) + b">>"


def movable(value: object) -> bytes:
    """What WeasyPrint built, with its references turned into marks."""
    if isinstance(value, bytes):
        found = _REFERENCE.fullmatch(value)
        return mark(int(found[1])) if found else value
    if isinstance(value, dict):
        return b"<<" + b"".join(
            b"/" + str(k).encode() + b" " + movable(v) for k, v in value.items()
        ) + b">>"  # fmt: skip
    if isinstance(value, list | tuple):
        return b"[" + b" ".join(movable(v) for v in value) + b"]"
    if isinstance(value, pydyf.Object):
        return value.data
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return number(value)
    return str(value).encode()
