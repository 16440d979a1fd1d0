#!/usr/bin/env python3
"""Verify a release: `python verify.py FOLDER` for a download, `python verify.py URL` for the files on a server.

Stands behind publish, on the reader's side: standard library only, one file, which every release carries as
verify.py. In: a folder or an address that holds SHA256SUMS. Out: what differs, and an exit status: 0 all is
as released, 1 something differs, 2 wrong use, 4 network.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import namedtuple
from pathlib import Path

SUMS, PROVENANCE = "SHA256SUMS", "provenance.json"
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_TRIES, _TIMEOUT = 4, 60  # tries of a download; seconds without a byte
_AGAIN = (408, 429, 500, 502, 503, 504)

Finding = namedtuple("Finding", "code path message")  # code: as `bookpress codes` explains it


class Unreachable(Exception):
    """The server did not answer, or not with the file."""


class Folder:
    """A downloaded release."""

    def __init__(self, path):
        self.path = Path(path)

    def read(self, name):
        """The file in chunks; FileNotFoundError when it is not there."""
        with (self.path / name).open("rb") as stream:
            while chunk := stream.read(1 << 20):
                yield chunk

    def others(self, listed):
        """Files that the release does not have; hidden ones belong to whoever downloaded."""
        there = (p.relative_to(self.path) for p in self.path.rglob("*") if p.is_file())
        names = (p.as_posix() for p in there if not any(part.startswith(".") for part in p.parts))
        return sorted(set(names) - set(listed) - {SUMS})


class Address:
    """A release on a server, https://…/resolve/v1.2.0 for one."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def read(self, name):
        yield self._whole(f"{self.url}/{urllib.parse.quote(name)}")

    def others(self, listed):
        return []

    def _whole(self, url):
        """The file's bytes. One that was cut short is fetched again, whole."""
        reason = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(2**attempt)
            try:
                with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                    data, length = answer.read(), answer.headers.get("Content-Length")
                    if length is None or len(data) == int(length):
                        return data
                    reason = f"{len(data)} of {length} bytes arrived"
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    raise FileNotFoundError(url) from None
                reason = f"status {error.code}"
                if error.code in (401, 403):
                    reason += ": the files are private or not there; download them with `hf download` and give the folder"
                if error.code not in _AGAIN:
                    break
            except (OSError, http.client.HTTPException) as error:
                reason = str(getattr(error, "reason", "") or error or type(error).__name__)
        raise Unreachable(f"{url}: {reason}")


def parse_sums(text):
    """({name: sha256}, findings). A name may not lead out of the folder."""
    listed, findings = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        name = match[2] if match else ""
        if not match or name.startswith("/") or "\\" in name or ".." in name.split("/"):
            findings.append(Finding("VER001", SUMS, f"line {number} cannot be read: {line[:80]!r}"))
        else:
            listed[name] = match[1]
    if not listed and not findings:
        findings.append(Finding("VER001", SUMS, "it lists no files"))
    return listed, findings


def _digest(chunks):
    total, size = hashlib.sha256(), 0
    for chunk in chunks:
        total.update(chunk)
        size += len(chunk)
    return total.hexdigest(), size


def _unlike(digest, want):
    """Both hashes, as far as they must be seen to differ."""
    length = 16 if digest[:16] != want[:16] else 64
    mark = "…" if length == 16 else ""
    return f"{digest[:length]}{mark}, released was {want[:length]}{mark}"


def _contradictions(record, listed):
    """Where provenance.json and SHA256SUMS tell different stories."""
    try:
        told = {entry["path"]: entry["sha256"] for entry in record["files"]}
        if record["tag"] != f"v{record['version']}":
            yield Finding("VER004", PROVENANCE, f"tag {record['tag']}, version {record['version']}")
    except (KeyError, TypeError) as error:
        yield Finding("VER004", PROVENANCE, f"it lacks {error}")
        return
    for name in sorted(set(told) | set(listed) - {PROVENANCE}):
        if told.get(name) != listed.get(name):
            yield Finding("VER004", name, f"{PROVENANCE} and {SUMS} disagree about it")


def verify(place, sums_sha256="", ignore_missing=False):
    """(findings, notes) of a Folder or an Address."""
    try:
        raw = b"".join(place.read(SUMS))
    except FileNotFoundError:
        return [Finding("VER001", SUMS, "it is not there; nothing can be compared")], []
    findings, notes = [], []
    if sums_sha256 and hashlib.sha256(raw).hexdigest() != sums_sha256.lower():
        findings.append(Finding("VER001", SUMS, "its own SHA-256 is not the one given: another release, or a forged one"))
    listed, bad = parse_sums(raw.decode("utf-8", "replace"))
    findings += bad
    record = None
    for name, want in sorted(listed.items()):
        try:
            if name == PROVENANCE:
                kept = b"".join(place.read(name))
                digest, size = _digest([kept])
                record = json.loads(kept) if digest == want else None
            else:
                digest, size = _digest(place.read(name))
        except FileNotFoundError:
            if not ignore_missing:
                findings.append(Finding("VER002", name, "it is not there"))
            continue
        if digest != want:
            findings.append(Finding("VER003", name, f"{size} bytes with SHA-256 {_unlike(digest, want)}"))
    if PROVENANCE not in listed:
        findings.append(Finding("VER004", PROVENANCE, f"{SUMS} does not list it"))
    elif record is not None:
        findings += _contradictions(record, listed)
        notes.append(f"{record.get('title')} {record.get('version')}, commit {record.get('commit')}, {record.get('date')}")
    notes += [f"not part of the release: {name}" for name in place.others(listed)]
    if not findings:
        notes.append(f"{len(listed)} files are as released")
    return findings, notes


def place_of(words):
    """The Folder or Address that a command line names; None when it is neither."""
    if re.match(r"https?://", words):
        return Address(words)
    return Folder(words) if words and Path(words).is_dir() else None


def main(argv=None):
    parser = argparse.ArgumentParser(
        "verify.py", description=__doc__.splitlines()[0],
        epilog="exit status: 0 all is as released, 1 something differs, 2 wrong use, 4 network",
    )  # fmt: skip
    parser.add_argument("place", help="folder, or the address under which the files lie")
    parser.add_argument("--sums-sha256", default="", metavar="HASH", help="what SHA256SUMS itself must hash to")
    parser.add_argument("--ignore-missing", action="store_true", help="check the files that are there")
    args = parser.parse_args(argv)
    place = place_of(args.place)
    if place is None:
        print(f"verify.py: no folder and no http address: {args.place}", file=sys.stderr)
        return 2
    try:
        findings, notes = verify(place, args.sums_sha256, args.ignore_missing)
    except Unreachable as error:
        print(f"verify.py: {error}", file=sys.stderr)
        return 4
    for finding in findings:
        print(f"{finding.path}: {finding.message}")
    for note in notes:
        print(note)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
