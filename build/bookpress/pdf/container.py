"""The file itself: blocks of objects placed at their numbers, one cross-reference stream, the trailer.

In: bodies (see `fragment`) and the objects that the assembly made. Out: bytes that any reader opens, the same for
the same input. A placed block is kept in the cache, so an unchanged chapter is copied into the file, not rebuilt.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence

from .fragment import Block, Body
from .objects import CATALOG, INFO, place

_PER_STREAM = 400  # objects in one object stream
_GRAIN = 512  # blocks start at multiples: a few objects more or less move nobody
_HEADER = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"


def room(count: int) -> int:
    """Numbers to reserve for a piece with `count` objects, its object streams included."""
    needed = count + count // _PER_STREAM + 2
    return -(-needed // _GRAIN) * _GRAIN


def place_body(body: Body, count: int, base: int) -> Block:
    """Number a piece's objects from `base` on and serialise them."""
    objects = [(base + local, place(data, base)) for local, data in body.objects]
    streams = [(base + local, place(entries, base), data) for local, entries, data in body.streams]
    return serialise(objects, streams, base, base + count)


def serialise(
    objects: Sequence[tuple[int, bytes]],
    streams: Iterable[tuple[int, bytes, bytes]],
    base: int,
    spare: int,
) -> Block:
    """Bytes of numbered objects; object streams take numbers from `spare` on."""
    out: list[bytes] = []
    direct: list[tuple[int, int]] = []
    packed: list[tuple[int, int, int]] = []
    at = 0

    def write(number: int, entries: bytes, data: bytes) -> None:
        nonlocal at
        chunk = b"%d 0 obj\n%s\nstream\n%s\nendstream\nendobj\n" % (number, entries, data)
        direct.append((number, at))
        out.append(chunk)
        at += len(chunk)

    for number, entries, data in streams:
        write(number, entries, data)
    for start in range(0, len(objects), _PER_STREAM):
        group = objects[start : start + _PER_STREAM]
        heads, offset = [], 0
        for n, (number, data) in enumerate(group):
            heads.append(b"%d %d" % (number, offset))
            packed.append((number, spare, n))
            offset += len(data) + 1
        head = b" ".join(heads) + b"\n"
        data = zlib.compress(head + b"\n".join(d for _, d in group), 6)
        entries = b"<</Type/ObjStm/N %d/First %d/Filter/FlateDecode/Length %d>>" % (
            len(group), len(head), len(data),
        )  # fmt: skip
        write(spare, entries, data)
        spare += 1
    return Block(base, b"".join(out), tuple(direct), tuple(packed))


def write_file(blocks: Sequence[Block], size: int) -> bytes:
    """The whole file: blocks in order, then the cross-reference stream with number `size`."""
    table = bytearray(7 * (size + 1))
    table[5:7] = b"\xff\xff"  # object 0 heads the list of free numbers; gaps between blocks are free too
    out, at = [_HEADER], len(_HEADER)
    for block in blocks:
        for number, offset in block.direct:
            struct.pack_into(">BIH", table, 7 * number, 1, at + offset, 0)
        for number, stream, index in block.packed:
            struct.pack_into(">BIH", table, 7 * number, 2, stream, index)
        out.append(block.data)
        at += len(block.data)
    struct.pack_into(">BIH", table, 7 * size, 1, at, 0)
    digest = hashlib.sha256()
    for part in out:
        digest.update(part)
    ident = digest.hexdigest()[:32].encode()
    data = zlib.compress(bytes(table), 6)
    out.append(
        b"%d 0 obj\n<</Type/XRef/Size %d/W[1 4 2]/Root %d 0 R/Info %d 0 R/ID[<%s><%s>]"
        b"/Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n"
        % (size, size + 1, CATALOG, INFO, ident, ident, len(data), data, at)
    )
    return b"".join(out)
