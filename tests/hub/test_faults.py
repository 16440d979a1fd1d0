"""Everything that goes wrong between here and the Hub: the exit status, what readers see, and the run after it.

"Nothing half published" is checked after each fault: the tag is there and holds every byte, or it is not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from loopback import WRITE, Fault
from releasebook import NEXT
from test_publish import commits, on_server

from bookpress.__main__ import main
from bookpress.release import publish

TAG = f"v{NEXT}"
COMMIT, TREE, REFS = r"POST .*/commit/", r"GET .*/tree/", r"GET .*/refs$"


@dataclass(frozen=True)
class Case:
    """Faults of one run, and what comes of it."""

    faults: tuple[Fault, ...]
    rc: int
    tagged: bool
    words: str = ""  # in what is printed
    waited: tuple[float, ...] | None = None  # all waits, in seconds
    new_commits: int = 1  # on the server after this run
    timeout: float = 30.0  # seconds; short where the fault is a silent server


def fault(route, kind="status", status=500, times=1, **headers):
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Fault(route, kind, status, named, times, seconds=0.5 if kind == "drip" else 5.0)


CASES = {
    "commit: answer lost": Case((fault(COMMIT, "lost"),), 0, True, "committing", (1.0,)),
    "commit: cut before the server saw it": Case((fault(COMMIT, "cut"),), 0, True, "committing", (1.0,)),
    "commit: 500 once": Case((fault(COMMIT, status=500),), 0, True, "committing: status 500; again in 1 s", (1.0,)),
    "commit: 503 for ever": Case((fault(COMMIT, status=503, times=-1),), 4, False, "5 times", (1, 2, 4, 8), 0),
    "commit: 429, Retry-After 7": Case((fault(COMMIT, status=429, Retry_After="7"),), 0, True, "again in 7 s", (7.0,)),
    "commit: 429, Retry-After an hour": Case(
        (fault(COMMIT, status=429, Retry_After="3600"),), 4, False, "asks to wait 3600 s", (), 0
    ),
    "commit: 412 once": Case((fault(COMMIT, status=412),), 0, True, "main has changed"),
    "commit: 412 for ever": Case((fault(COMMIT, status=412, times=-1),), 1, False, "HUB005", (), 0),
    "commit: 409 once": Case((fault(COMMIT, status=409),), 0, True, "main has changed"),
    "commit: 401": Case((fault(COMMIT, status=401),), 2, False, "token", (), 0),
    "commit: 403": Case((fault(COMMIT, status=403),), 2, False, "refuses the token (status 403)", (), 0),
    "commit: 422": Case((fault(COMMIT, status=422),), 1, False, "HUB004", (), 0),
    "commit: no answer in time": Case((fault(COMMIT, "stall"),), 0, True, "ReadTimeout", timeout=2.0),
    "repository: 500 for ever": Case(
        (fault(r"GET /api/datasets/alice/book$", times=-1),), 4, False, "reading the repository", (1, 2, 4, 8), 0
    ),
    "repository: cut once": Case((fault(r"GET /api/datasets/alice/book$", "cut"),), 0, True, "", (1.0,)),
    "whoami: 401": Case((fault(r"GET /api/whoami", status=401),), 2, False, "refuses the token", (), 0),
    "preupload: 500 twice": Case((fault(r"POST .*/preupload/", times=2),), 0, True, "", (1, 2)),
    "card check: 503 with words": Case((fault(r"POST /api/validate-yaml", status=503),), 0, True, "", (1.0,)),
    "upload: cut once": Case((fault(r"PUT /_lfs/", "cut"),), 0, True),
    "upload: 500 for ever": Case((fault(r"PUT /_lfs/", times=-1),), 4, False, "committing", None, 0),
    "upload: 403": Case((fault(r"PUT /_lfs/", status=403, times=-1),), 2, False, "status 403", None, 0),
    "upload: 413 with its address": Case((fault(r"PUT /_lfs/", "mute", status=413, times=-1),), 1, False, "HUB004", None, 0),
    "hash on the server wrong": Case((fault(TREE + ".{40}", "forge", times=-1),), 1, False, "HUB003", (), 1),
    "list cut once": Case((fault(TREE, "cut"),), 0, True, "", (1.0,)),
    "download forged": Case((fault(r"GET /_lfs/", "forge", times=-1),), 1, False, "HUB003", (), 1),
    "download short": Case((fault(r"GET /_lfs/", "short"),), 0, True),
    "download in drips": Case((fault(r"GET /_lfs/", "drip"),), 0, True, "", ()),
    "download gone": Case((fault(r"(HEAD|GET) .*/resolve/", status=404, times=-1),), 1, False, "", None, 1),
    "tag: answer lost": Case((fault(r"POST .*/tag/", "lost"),), 0, True, "tagging", (1.0,)),
    "tag: 500 for ever": Case((fault(r"POST .*/tag/", times=-1),), 4, False, "tagging", (1, 2, 4, 8)),
    "tag: 409 and not there": Case((fault(r"POST .*/tag/", status=409),), 4, False, "does not show it", ()),
    "refs: 500 after the tag": Case((fault(r"POST .*/tag/", "lost"), fault(REFS, times=2)), 0, True),
}


def run(book, capsys, timeout=30.0):
    rc = main(["publish", "--book", str(book), "--yes", "--timeout", str(timeout)])
    out, err = capsys.readouterr()
    assert WRITE not in out + err, "the token is in the output"
    assert "X-Signature" not in out + err, "an address with a signature is in the output"
    assert "Traceback" not in err
    return rc, out + err


@pytest.mark.parametrize("name", CASES)
def test_fault(released, hub, made, waits, monkeypatch, capsys, name):
    case = CASES[name]
    monkeypatch.setattr(publish.artefacts, "make", lambda *args: (made, []))
    hub.store.create("dataset", "alice/book", private=False)
    hub.faults = [Fault(f.route, f.kind, f.status, f.headers, f.times, f.seconds) for f in case.faults]
    rc, said = run(released, capsys, case.timeout)
    assert all(f.seen for f in hub.faults), "the fault never came up"
    assert (rc, case.words in said) == (case.rc, True), said
    if case.waited is not None:
        assert waits == list(case.waited)
    assert len(commits(hub)) == 1 + case.new_commits
    whole = {f.name: f.data for f in made.files}
    tags = hub.store.read("dataset", "alice/book")["tags"]
    assert (TAG in tags) == case.tagged
    if case.tagged:
        assert on_server(hub, TAG) == whole
    # The next run, with the faults gone, ends the same whatever this one left.
    hub.faults = []
    rc, said = run(released, capsys)
    assert rc == 0, said
    assert on_server(hub, TAG) == whole == on_server(hub)
    assert len(commits(hub)) == 2, "a second commit for the same bytes"


def test_somebody_commits_meanwhile(released, hub, made, waits, monkeypatch, capsys):
    """A real 412: main moves between the look and the commit. Their file stays, ours go on top of it."""
    monkeypatch.setattr(publish.artefacts, "make", lambda *args: (made, []))
    hub.store.create("dataset", "alice/book", private=False)
    sent = publish.Hub.commit
    tries = []

    def commit(self, add, delete, parent, message):
        if not tries:
            hub.store.commit("dataset", "alice/book", {"other.txt": (hub.store.keep(b"theirs"), False)}, (), "theirs")
        tries.append(parent)
        return sent(self, add, delete, parent, message)

    monkeypatch.setattr(publish.Hub, "commit", commit)
    rc, said = run(released, capsys)
    assert rc == 0, said
    assert len(set(tries)) == 2
    assert commits(hub)[1:] == ["theirs", f"Small Field Book {NEXT}"]
    assert on_server(hub, TAG)["other.txt"] == b"theirs"


def test_somebody_tags_other_bytes_meanwhile(released, hub, made, waits, monkeypatch, capsys):
    """The tag appears, on another commit, after we looked: not published, and said so."""
    monkeypatch.setattr(publish.artefacts, "make", lambda *args: (made, []))
    hub.store.create("dataset", "alice/book", private=False)
    first = hub.store.read("dataset", "alice/book")["commits"][0]["id"]
    tagged = publish.Hub.tag

    def tag(self, name, commit, message):
        data = hub.store.read("dataset", "alice/book")
        data["tags"][name] = first
        hub.store.write("dataset", "alice/book", data)
        tagged(self, name, commit, message)

    monkeypatch.setattr(publish.Hub, "tag", tag)
    rc, said = run(released, capsys)
    assert rc == 1
    assert "HUB001" in said


def test_server_that_is_not_there(released, made, hub, waits, monkeypatch, capsys):
    import huggingface_hub

    monkeypatch.setattr(publish.artefacts, "make", lambda *args: (made, []))
    monkeypatch.setattr(huggingface_hub.HfApi, "whoami", lambda self: huggingface_hub.utils.get_session().get("http://127.0.0.1:9"))
    rc, said = run(released, capsys)
    assert rc == 4
    assert "ConnectError" in said
    assert waits == [1, 2, 4, 8]
