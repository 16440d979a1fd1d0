"""The disk of the loopback Hub: blobs by SHA-256, commits as JSON. A server started again on it goes on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Store:
    """The repositories of one folder."""

    def __init__(self, folder: Path):
        self.folder, self.lock = folder, threading.RLock()
        (folder / "blobs").mkdir(parents=True, exist_ok=True)

    def blob(self, sha256: str) -> Path:
        return self.folder / "blobs" / sha256

    def keep(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blob(sha256).write_bytes(data)
        return sha256

    def file(self, kind: str, repo: str) -> Path:
        return self.folder / kind / f"{repo}.json"

    def read(self, kind: str, repo: str) -> dict[str, Any] | None:
        file = self.file(kind, repo)
        return json.loads(file.read_text()) if file.is_file() else None

    def write(self, kind: str, repo: str, data: dict[str, Any]) -> None:
        file = self.file(kind, repo)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(data))

    def create(self, kind: str, repo: str, private: bool) -> None:
        data: dict[str, Any] = {"private": private, "tags": {}, "commits": [], "trees": {}}
        self.write(kind, repo, data)
        self.commit(kind, repo, {".gitattributes": (self.keep(b"*.pdf filter=lfs\n"), False)}, (), "initial commit")

    def commit(
        self, kind: str, repo: str, files: Mapping[str, tuple[str, bool]], gone: Sequence[str], title: str
    ) -> str:
        """A commit with these files (path → (sha256, large)) added and those paths removed."""
        data = self.read(kind, repo) or {}
        tree = dict(data["trees"].get(data["commits"][-1]["id"], {})) if data["commits"] else {}
        tree |= {path: list(entry) for path, entry in files.items()}
        for path in gone:
            tree.pop(path, None)
        parent = data["commits"][-1]["id"] if data["commits"] else ""
        new = hashlib.sha1(json.dumps([parent, sorted(tree.items()), title]).encode()).hexdigest()
        data["commits"].append({"id": new, "title": title})
        data["trees"][new] = tree
        self.write(kind, repo, data)
        return new


def resolve(data: dict[str, Any], revision: str) -> str | None:
    """The commit that main, a tag or a commit id stands for."""
    revision = unquote(revision)
    ids = [c["id"] for c in data["commits"]]
    commit = ids[-1] if revision == "main" else data["tags"].get(revision, revision)
    return commit if commit in ids else None
