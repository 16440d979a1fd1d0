"""The routes of the loopback Hub, as the client, `hf`, curl and pip ask for them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from hubplumbing import Plumbing
from hubstore import git_oid, resolve

LARGE = (".pdf", ".epub", ".zip", ".gz")
LICENCES = {"cc-by-sa-4.0", "apache-2.0", "mit", "other"}
_REPO = r"(?P<kind>models|datasets)/(?P<repo>[^/]+/[^/]+)"
_SITE = r"(?:(?P<kind>datasets)/)?(?P<repo>[^/]+/[^/]+?)"
ROUTES = (
    (r"GET /api/agent-harnesses", "harnesses"),
    (r"GET /api/whoami-v2", "whoami"),
    (r"POST /api/validate-yaml", "validate_yaml"),
    (r"POST /api/repos/create", "create"),
    (rf"GET /api/{_REPO}", "info"),
    (rf"GET /api/{_REPO}/revision/(?P<revision>[^/]+)", "info"),
    (rf"GET /api/{_REPO}/refs", "refs"),
    (rf"GET /api/{_REPO}/tree/(?P<revision>[^/]+)", "tree"),
    (rf"POST /api/{_REPO}/paths-info/(?P<revision>[^/]+)", "paths_info"),
    (rf"POST /api/{_REPO}/preupload/(?P<revision>[^/]+)", "preupload"),
    (rf"POST /api/{_REPO}/commit/(?P<revision>[^/]+)", "commit"),
    (rf"(?:POST|DELETE) /api/{_REPO}/tag/(?P<revision>[^/]+)", "tag"),
    (rf"POST /{_SITE}\.git/info/lfs/objects/batch", "lfs_batch"),
    (r"PUT /_lfs/(?P<sha256>[0-9a-f]{64})", "lfs_put"),
    (r"(?:GET|HEAD) /_lfs/(?P<sha256>[0-9a-f]{64})", "lfs_get"),
    (r"POST /_lfs-verify", "lfs_verify"),
    (rf"(?:GET|HEAD) /{_SITE}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "download"),
)


class Handler(Plumbing):
    """What the Hub answers."""

    routes = ROUTES

    # --- the repository of a route, or the refusal that the Hub gives ---

    def repository(self, kind: str, repo: str, write: bool = False) -> dict[str, Any] | None:
        data = self.server.hub.store.read(kind.removesuffix("s") or "model", repo)
        if data is None or (data["private"] and not self.role()):
            self.error(404 if self.role() else 401, "Repository not found", "RepoNotFound")
            return None
        if write and self.role() != "write":
            self.error(403, "this token may not write")
            return None
        return data

    def commit_of(self, data: dict[str, Any], revision: str) -> str | None:
        commit = resolve(data, revision)
        if commit is None:
            self.error(404, "Invalid rev id", "RevisionNotFound")
        return commit

    # --- routes ---

    def harnesses(self, raw: bytes) -> None:
        self.answer(200, {"harnesses": []})

    def whoami(self, raw: bytes) -> None:
        if not self.role():
            return self.error(401, "no token")
        self.answer(200, {"type": "user", "name": "alice", "orgs": [], "auth": {"accessToken": {"role": self.role()}}})

    def validate_yaml(self, raw: bytes) -> None:
        card = json.loads(raw)["content"]
        match = re.match(r"---\r?\n(.*?)\r?\n---", card, re.S)
        head = yaml.safe_load(match[1]) if match else {}
        if head.get("license") in LICENCES:
            return self.answer(200, {"errors": [], "warnings": []})
        self.answer(400, {"errors": [{"message": f'"license" must be one of {sorted(LICENCES)}'}], "warnings": []})

    def create(self, raw: bytes) -> None:
        asked = json.loads(raw)
        kind, repo = asked.get("type", "model"), f"{asked.get('organization') or 'alice'}/{asked['name']}"
        url = f"{self.base}/{'datasets/' if kind == 'dataset' else ''}{repo}"
        if self.role() != "write":
            return self.error(403, "this token may not create")
        if self.server.hub.store.read(kind, repo):
            return self.answer(409, {"error": "You already created this repo", "url": url})
        private = bool(asked.get("private")) or asked.get("visibility") == "private"
        self.server.hub.store.create(kind, repo, private)
        self.answer(200, {"url": url})

    def info(self, raw: bytes, kind: str, repo: str, revision: str = "main") -> None:
        data = self.repository(kind, repo)
        commit = self.commit_of(data, revision) if data else None
        if commit:
            files = [{"rfilename": path} for path in data["trees"][commit]]
            self.answer(200, {"id": repo, "sha": commit, "private": data["private"], "tags": [], "siblings": files})

    def refs(self, raw: bytes, kind: str, repo: str) -> None:
        data = self.repository(kind, repo)
        if data:
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": data["commits"][-1]["id"]}
            tags = [{"name": t, "ref": f"refs/tags/{t}", "targetCommit": c} for t, c in data["tags"].items()]
            self.answer(200, {"branches": [main], "converts": [], "tags": tags})

    def _entry(self, path: str, sha256: str, large: bool) -> dict[str, Any]:
        content = self.server.hub.store.blob(sha256).read_bytes()
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (sha256.encode(), len(content))
        entry = {"type": "file", "path": path, "oid": git_oid(pointer if large else content), "size": len(content)}
        return entry | ({"lfs": {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}} if large else {})

    def tree(self, raw: bytes, kind: str, repo: str, revision: str) -> None:
        """In pages of three files, as long lists come on the Hub."""
        data = self.repository(kind, repo)
        commit = self.commit_of(data, revision) if data else None
        if not commit:
            return
        tree = sorted(data["trees"][commit].items())
        start = int(self.query.get("cursor", ["0"])[0])
        headers = {}
        if start + 3 < len(tree):
            headers["Link"] = f'<{self.base}{urlsplit(self.path).path}?recursive=true&cursor={start + 3}>; rel="next"'
        self.answer(200, [self._entry(path, *entry) for path, entry in tree[start : start + 3]], headers)

    def paths_info(self, raw: bytes, kind: str, repo: str, revision: str) -> None:
        data = self.repository(kind, repo)
        commit = self.commit_of(data, revision) if data else None
        if commit:
            form = parse_qs(raw.decode()) if not raw.startswith(b"{") else json.loads(raw)
            tree = data["trees"][commit]
            self.answer(200, [self._entry(p, *tree[p]) for p in form.get("paths", []) if p in tree])

    def preupload(self, raw: bytes, kind: str, repo: str, revision: str) -> None:
        data = self.repository(kind, repo, write=True)
        commit = self.commit_of(data, revision) if data else None
        if not commit:
            return
        out = []
        for file in json.loads(raw)["files"]:
            entry = data["trees"][commit].get(file["path"])
            oid = None
            if entry:
                oid = entry[0] if entry[1] else git_oid(self.server.hub.store.blob(entry[0]).read_bytes())
            mode = "lfs" if file["path"].endswith(LARGE) else "regular"
            out.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self.answer(200, {"files": out, "commitOid": commit})

    def commit(self, raw: bytes, kind: str, repo: str, revision: str) -> None:
        data = self.repository(kind, repo, write=True)
        if not data:
            return
        head, *items = [json.loads(line) for line in raw.splitlines() if line.strip()]
        parent = head["value"].get("parentCommit")
        if parent and parent != data["commits"][-1]["id"]:
            return self.error(412, "A commit has happened since. Please refresh and try again.")
        files: dict[str, tuple[str, bool]] = {}
        for item in items:
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = (self.server.hub.store.keep(base64.b64decode(value["content"])), False)
            elif item["key"] == "lfsFile":
                if not self.server.hub.store.blob(value["oid"]).is_file():
                    return self.error(422, "LFS object missing")
                files[value["path"]] = (value["oid"], True)
        gone = [item["value"]["path"] for item in items if item["key"] == "deletedFile"]
        store = self.server.hub.store
        new = store.commit(kind.removesuffix("s"), repo, files, gone, head["value"]["summary"])
        self.answer(200, {"success": True, "commitOid": new, "commitUrl": f"{self.base}/{kind}/{repo}/commit/{new}"})

    def tag(self, raw: bytes, kind: str, repo: str, revision: str) -> None:
        data = self.repository(kind, repo, write=True)
        if not data:
            return
        if self.command == "DELETE":
            data["tags"].pop(unquote(revision), None)
        else:
            name, commit = json.loads(raw)["tag"], self.commit_of(data, revision)
            if commit is None:
                return
            if name in data["tags"]:
                return self.error(409, "Tag reference exists already")
            data["tags"][name] = commit
        self.server.hub.store.write(kind.removesuffix("s"), repo, data)
        self.answer(200, {})

    def lfs_batch(self, raw: bytes, repo: str, kind: str = "models") -> None:
        if self.repository(kind or "models", repo, write=True) is None:
            return
        out = []
        for asked in json.loads(raw)["objects"]:
            entry = {"oid": asked["oid"], "size": asked["size"]}
            if not self.server.hub.store.blob(asked["oid"]).is_file():
                upload = {"href": f"{self.base}/_lfs/{asked['oid']}?X-Signature=secret-{asked['oid'][:6]}"}
                entry["actions"] = {"upload": upload, "verify": {"href": f"{self.base}/_lfs-verify"}}
            out.append(entry)
        self.answer(200, {"transfer": "basic", "objects": out})

    def lfs_put(self, raw: bytes, sha256: str) -> None:
        if hashlib.sha256(raw).hexdigest() != sha256:
            return self.error(400, "other bytes than announced")
        self.server.hub.store.keep(raw)
        self.answer(200, {})

    def lfs_verify(self, raw: bytes) -> None:
        asked = json.loads(raw)
        there = self.server.hub.store.blob(asked["oid"])
        ok = there.is_file() and there.stat().st_size == asked["size"]
        self.answer(200 if ok else 404, {})

    def lfs_get(self, raw: bytes, sha256: str) -> None:
        self._content(self.server.hub.store.blob(sha256).read_bytes(), {"Content-Type": "application/octet-stream"})

    def _content(self, data: bytes, headers: dict[str, str]) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked or int(asked[1]) >= len(data):
            return self.answer(200, data, headers)
        first, last = int(asked[1]), min(int(asked[2] or len(data) - 1), len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self.answer(206, data[first : last + 1], headers)

    def download(self, raw: bytes, repo: str, revision: str, path: str, kind: str = "models") -> None:
        data = self.repository(kind or "models", repo)
        commit = self.commit_of(data, revision) if data else None
        if not commit:
            return
        path = unquote(path)
        entry = data["trees"][commit].get(path)
        if entry is None:
            return self.answer(404, {}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        content = self.server.hub.store.blob(entry[0]).read_bytes()
        if not entry[1]:
            return self._content(content, {"X-Repo-Commit": commit, "ETag": f'"{git_oid(content)}"'})
        # Another origin: the client follows a redirect within one and then misses the headers of the first.
        elsewhere = f"http://localhost:{self.server.server_port}/_lfs/{entry[0]}"
        self.answer(302, b"", {
            "Location": elsewhere, "X-Repo-Commit": commit, "X-Linked-Etag": f'"{entry[0]}"',
            "X-Linked-Size": str(len(content)),
        })  # fmt: skip
