"""The plan and the publication, by the real client against the loopback Hub."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from loopback import LARGE, READ, WRITE, Fault
from releasebook import NEXT, PRESS, commit_all, git, press

from bookpress.__main__ import main
from bookpress.release import hub as hub_module
from bookpress.release import publish
from bookpress.release.hub import Hub
from bookpress.release.publish import Order

TAG = f"v{NEXT}"
TITLE = "Small Field Book"


def send(hub, made, yes=True, create=True):
    """The server's half of `make publish`. Out: what it says, and its problems."""
    said: list[str] = []
    problems = publish.send(Hub("alice/book", "dataset", said.append, 30.0), made, TITLE, Order(yes, create), said.append)
    return "\n".join(said), problems


def on_server(hub, revision="main"):
    from hubstore import resolve

    data = hub.store.read("dataset", "alice/book")
    tree = data["trees"][resolve(data, revision)]
    return {path: hub.store.blob(sha).read_bytes() for path, (sha, _) in tree.items() if path != ".gitattributes"}


def commits(hub):
    return [c["title"] for c in hub.store.read("dataset", "alice/book")["commits"]]


def changing(hub):
    """Requests that change something."""
    return [r for r in hub.requests if r.method in ("PUT", "DELETE") or "/commit/" in r.path or "/tag/" in r.path]


def test_dry_run_by_the_command_line(book, hub, monkeypatch):
    """The whole way from the released commit: the plan is shown, nothing is sent, no token is needed."""
    monkeypatch.delenv("HF_HUB_DISABLE_XET", raising=False)  # an earlier test's client may have set it here
    git(book, "checkout", "--quiet", TAG)
    done = press("publish", "--book", book, cwd=book, HF_TOKEN="")
    assert done.returncode == 0, done.stderr
    assert "green: book, checks and tests passed at this commit" in done.stdout
    assert f"{TITLE} {TAG} → {hub.url}/datasets/alice/book" in done.stdout
    assert "new     small-field-book.pdf" in done.stdout
    assert "to do: create the repository, private (CREATE=1)" in done.stdout
    assert f"then tag {TAG}" in done.stdout
    assert done.stdout.rstrip().endswith("nothing was sent; YES=1 CREATE=1 does it")
    assert "large files go by plain LFS" in done.stdout
    assert changing(hub) == []
    assert hub.store.read("dataset", "alice/book") is None
    assert git(book, "status", "--porcelain") == ""


def test_publish_by_the_command_line_then_again(book, hub):
    words = ("publish", "--book", book, "--yes", "--create")
    done = press(*words, cwd=book)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "publishing as alice" in done.stdout
    assert f"published: {hub.url}/datasets/alice/book/tree/{TAG}" in done.stdout
    assert WRITE not in done.stdout + done.stderr
    assert "X-Signature" not in done.stdout + done.stderr
    assert hub.store.read("dataset", "alice/book")["private"] is True
    folder = book / "dist" / "release"
    there = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert on_server(hub, TAG) == there
    assert commits(hub) == ["initial commit", f"{TITLE} {NEXT}"]
    hub.requests.clear()
    again = press(*words, cwd=book)
    assert again.returncode == 0, again.stderr
    assert f"nothing: {TAG} is published with these bytes" in again.stdout
    assert changing(hub) == []
    assert commits(hub) == ["initial commit", f"{TITLE} {NEXT}"]


def test_plan_tells_new_changed_same_and_gone(hub, made, waits):
    hub.store.create("dataset", "alice/book", private=False)
    card, changes = (next(f for f in made.files if f.name == n) for n in ("README.md", "CHANGELOG.md"))
    old = {
        "README.md": b"---\nlicense: mit\n---\n", "CHANGELOG.md": changes.data, "photo.jpg": b"not ours",
        "ml-engineering-scripts-6.0.0.tar.gz": b"old", "SHA256SUMS": b"0" * 64 + b"  ml-engineering-scripts-6.0.0.tar.gz\n",
    }  # fmt: skip
    hub.store.commit("dataset", "alice/book", {n: (hub.store.keep(d), n.endswith(LARGE)) for n, d in old.items()}, (), "6.0.0")
    said, problems = send(hub, made, yes=False)
    assert problems == []
    states = {line.split()[1]: line.split()[0] for line in said.splitlines() if " sha256 " in line}
    assert states["README.md"] == "changed"
    assert states["CHANGELOG.md"] == "same"
    assert states["small-field-book.pdf"] == "new"
    assert states["ml-engineering-scripts-6.0.0.tar.gz"] == "gone"
    assert "photo.jpg" not in states
    assert changing(hub) == []
    said, problems = send(hub, made)
    assert problems == []
    there = on_server(hub)
    assert there == {f.name: f.data for f in made.files} | {"photo.jpg": b"not ours"}
    assert there["README.md"] == card.data
    assert len(commits(hub)) == 3
    uploaded = {r.path.split("?")[0].removeprefix("/_lfs/") for r in hub.requests if r.method == "PUT"}
    assert uploaded == {f.sha256 for f in made.files if f.name.endswith(LARGE)}


def test_a_model_repository(hub, made, waits):
    """The other kind: other addresses for everything."""
    said: list[str] = []
    problems = publish.send(Hub("alice/book", "model", said.append, 30.0), made, TITLE, Order(True, True), said.append)
    assert problems == []
    data = hub.store.read("model", "alice/book")
    assert data["tags"] == {TAG: data["commits"][-1]["id"]}
    assert hub.store.read("dataset", "alice/book") is None


def test_two_publish_at_once(hub, made, waits):
    """Both end well, and there is one commit."""
    hub.store.create("dataset", "alice/book", private=False)
    hub.faults = [Fault(r"POST .*/commit/", "drip", times=1, seconds=0.5)]
    # Both made first: a new one closes the session that the client keeps for the whole process.
    hubs = [Hub("alice/book", "dataset", print, 30.0) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda one: publish.send(one, made, TITLE, Order(True, True), print), hubs))
    assert ends == [[], []]
    assert commits(hub) == ["initial commit", f"{TITLE} {NEXT}"]
    assert on_server(hub, TAG) == {f.name: f.data for f in made.files}


def test_published_version_never_changes(hub, made, waits):
    assert send(hub, made)[1] == []
    before = hub.store.read("dataset", "alice/book")
    other = made.__class__(made.folder, tuple(f.__class__(f.name, f.data + b" ") for f in made.files), made.tag)
    _, problems = send(hub, other)
    assert {p.code for p in problems} == {"HUB001"}
    assert len(problems) == len(made.files)
    assert hub.store.read("dataset", "alice/book") == before


def test_older_version_does_not_become_the_latest(hub, made, waits):
    hub.store.create("dataset", "alice/book", private=False)
    data = hub.store.read("dataset", "alice/book")
    data["tags"] |= {"v10.0.0": data["commits"][-1]["id"], "v6.9.9": data["commits"][-1]["id"], "draft": "x"}
    hub.store.write("dataset", "alice/book", data)
    _, problems = send(hub, made)
    assert [p.code for p in problems] == ["HUB002"]
    assert "v10.0.0" in problems[0].message
    assert hub.store.read("dataset", "alice/book") == data


def test_finishes_what_was_cut_off_before_the_tag(hub, made, waits):
    """The commit is there, the tag is not: no second commit."""
    assert send(hub, made)[1] == []
    data = hub.store.read("dataset", "alice/book")
    data["tags"].clear()
    hub.store.write("dataset", "alice/book", data)
    said, problems = send(hub, made)
    assert problems == []
    assert "one commit" not in said
    after = hub.store.read("dataset", "alice/book")
    assert after["commits"] == data["commits"]
    assert after["tags"] == {TAG: data["commits"][-1]["id"]}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "is not there, or the token may not see it; CREATE=1 creates it"),
        (("--repo", "alice"), 2, "names no repository"),
        (("--repo", "alice/x.git"), 2, "names no repository"),
        (("--repo", "alice/a--b"), 2, "names no repository"),
        (("--repo", "bob/other"), 2, "bob/other is not there"),
    ],
)
def test_wrong_use(released, hub, made, waits, monkeypatch, capsys, words, status, message):
    monkeypatch.setattr(publish.artefacts, "make", lambda *args: (made, []))
    assert main(["publish", "--book", str(released), "--yes", *words]) == status
    assert message in capsys.readouterr().err
    assert changing(hub) == []


@pytest.mark.parametrize("token", ["", READ, "hf_" + "z" * 34])
def test_token_that_will_not_do(released, hub, made, waits, monkeypatch, capsys, token):
    hub.store.create("dataset", "alice/book", private=False)
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setattr(publish.artefacts, "make", lambda *args: (made, []))
    assert main(["publish", "--book", str(released), "--yes"]) == 2
    out, err = capsys.readouterr()
    assert "token" in err
    assert not token or token not in out + err
    assert len(commits(hub)) == 1


def test_a_token_that_may_only_read_is_refused_before_the_steps(book, hub):
    hub.store.create("dataset", "alice/book", private=False)
    (book / ".cache/green.json").unlink()
    done = press("publish", "--yes", "--book", book, cwd=book, HF_TOKEN=READ)
    assert done.returncode == 2
    assert "the token of alice may only read" in done.stderr
    assert "make book" not in done.stdout


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"HF_ENDPOINT": "http://me:hunter2@127.0.0.1:9"}, "HF_ENDPOINT holds a user name or a password"),
        ({"HF_ENDPOINT": "127.0.0.1:9"}, "HF_ENDPOINT is '127.0.0.1:9'; it starts with https://"),
    ],
)
def test_settings_that_no_try_can_mend(book, hub, env, message):
    done = press("publish", "--book", book, cwd=book, **env)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "again in" not in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_an_address_that_is_no_hub(book, hub):
    done = press("publish", "--book", book, cwd=book, HF_ENDPOINT=f"{hub.url}/elsewhere")
    assert done.returncode == 1
    assert "HUB004 reading the repository: status 404" in done.stderr
    assert "Traceback" not in done.stderr


def test_green_alone_notes_the_commit_and_hands_on_no_token(book, hub):
    """What CI runs before the step that has the token, so that no test ever sees it."""
    (book / ".cache/green.json").unlink()
    makefile = (book / "Makefile").read_text()
    text = makefile.replace("test: ; @test", "test: ; @test -z '$(HF_TOKEN)$(OUT)$(BOOK)' && test")
    (book / "Makefile").write_text(text)
    commit_all(book, "Tests that look for the token")
    done = press("green", "--book", book, cwd=book, OUT="/nowhere", BOOK="/nowhere")
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(book, "rev-parse", "HEAD") in (book / ".cache/green.json").read_text()
    (book / "chapters/start.md").write_text("# Other\n")
    done = press("green", "--book", book, cwd=book)
    assert (done.returncode, "REL001" in done.stderr) == (1, True)


def test_refuses_what_no_release_made(book, hub, capsys, monkeypatch):
    """A dirty tree, a commit that is not the tag's, a tree that is both; nothing reaches the server."""
    (book / "chapters/start.md").write_text("# Other\n")
    assert main(["publish", "--book", str(book), "--yes"]) == 1
    assert "chapters/start.md:0:0 REL001" in capsys.readouterr().err
    commit_all(book, "Another word")
    assert main(["publish", "--book", str(book), "--yes"]) == 1
    assert "REL008" in capsys.readouterr().err
    assert hub.requests == []


def test_runs_the_checks_when_nothing_says_green(book, hub, monkeypatch, capsys):
    (book / ".cache/green.json").unlink()
    done = press("publish", "--book", book, cwd=book)
    assert "green: not known for this commit; YES=1 runs book, checks and tests first" in done.stdout
    (book / "tests-are-red").touch()
    (book / ".git/info/exclude").write_text("/tests-are-red\n")
    assert main(["publish", "--book", str(book), "--yes", "--create"]) == 1
    out, err = capsys.readouterr()
    assert "one test failed" in out
    assert "make test ended with" in err
    assert "REL007" in err
    assert hub.store.read("dataset", "alice/book") is None
    (book / "tests-are-red").unlink()
    assert main(["publish", "--book", str(book), "--yes", "--create"]) == 0
    assert "make test passed" in capsys.readouterr().out
    assert on_server(hub, TAG)


def test_bytes_that_the_tag_does_not_vouch_for(book, hub, capsys):
    """Another zlib, another font: said, not refused, since the server has no such version yet."""
    git(book, "tag", "--delete", TAG)
    git(book, "tag", "--annotate", "--message", f"Small\n\nSHA256SUMS has the SHA-256 {'0' * 64}", TAG)
    assert main(["publish", "--book", str(book)]) == 0
    assert "SHA256SUMS:0:0 REL012 warning: v7.0.0 vouches for other bytes" in capsys.readouterr().err


def test_a_tag_that_vouches_for_nothing_is_told(book, hub):
    """A lightweight tag in the place of the release's own, as some checkouts leave it."""
    git(book, "tag", "--force", TAG, f"{TAG}^{{commit}}")
    done = press("publish", "--book", book, cwd=book)
    assert done.returncode == 0
    assert f"REL012 warning: {TAG} vouches for no files" in done.stderr


def test_file_over_budget_and_bad_card_are_refused(book, hub, capsys):
    """Checked on this machine: both before a request is made."""
    text = (book / "book.toml").read_text()
    (book / "book.toml").write_text(
        text.replace("file_budget_mb = 5", "file_budget_mb = 1").replace('"CC-BY-SA-4.0"', '"CC-BY-SA-4.0-or-later"')
    )
    (book / "chapters/big.png").write_bytes(_noise())
    with (book / "chapters/start.md").open("a") as page:
        page.write("\n![Noise, which says nothing.](big.png)\n")
    commit_all(book, "Heavier")
    git(book, "tag", "--delete", TAG)
    git(book, "tag", TAG)
    assert main(["publish", "--book", str(book), "--yes", "--create"]) == 1
    err = capsys.readouterr().err
    assert "web.zip:0:0 REL010" in err
    assert "the budget is 1 MB" in err
    assert "README.md:1:1 REL011 the Hub knows no licence 'cc-by-sa-4.0-or-later' (did you mean 'cc-by-sa-4.0'?)" in err
    assert [r.path for r in hub.requests] == ["/api/whoami-v2"]


def _noise() -> bytes:
    import io
    import random

    from PIL import Image

    out = io.BytesIO()
    Image.frombytes("RGB", (700, 700), random.Random(0).randbytes(700 * 700 * 3)).save(out, "PNG")
    return out.getvalue()


def test_card_the_hub_refuses(hub, made, waits):
    """Ours lets a licence pass that this server does not know: the server's word counts, before any upload."""
    card = next(f for f in made.files if f.name == "README.md")
    other = card.__class__("README.md", card.data.replace(b"license: cc-by-sa-4.0", b"license: gfdl"))
    files = tuple(other if f.name == "README.md" else f for f in made.files)
    hub.store.create("dataset", "alice/book", private=False)
    _, problems = send(hub, made.__class__(made.folder, files, made.tag))
    assert [p.code for p in problems] == ["HUB004"]
    assert "must be one of" in problems[0].message
    assert changing(hub) == []


def test_a_refused_upload_shows_no_signature(hub, made, waits):
    """The whole message, as --json has it: the client quotes the address with its signature."""
    hub.store.create("dataset", "alice/book", private=False)
    hub.faults = [Fault(r"PUT /_lfs/", "mute", 413, times=-1)]
    (problem,) = send(hub, made)[1]
    assert problem.code == "HUB004"
    assert "/_lfs/" in problem.message
    assert "secret-" not in problem.message
    assert hub_module._bare(f"token {WRITE} at https://h.example/a?token={WRITE}") == "token hf_… at https://h.example/a?…"


def test_xet_stays_on_where_the_server_has_it(tmp_path):
    """Only an endpoint that may lack Xet switches it off, and says so."""
    ask = "import os; from bookpress.release.hub import client; client(print, 1.0); print(os.environ.get('HF_HUB_DISABLE_XET'))"
    ends = []
    for place in ("", "http://127.0.0.1:9"):
        env = {**os.environ, "PYTHONPATH": str(PRESS), "HF_ENDPOINT": place, "HF_HOME": str(tmp_path)}
        env.pop("HF_HUB_DISABLE_XET", None)
        done = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, timeout=60)
        ends.append(done.stdout.splitlines())
    assert ends[0] == ["None"]
    assert ends[1][-1] == "1"
    assert "may lack Xet storage" in ends[1][0]


def test_without_the_client(book, tmp_path):
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow/huggingface_hub.py").write_text("raise ImportError('No module named huggingface_hub')\n")
    git(book, "checkout", "--quiet", TAG)
    done = press("publish", "--book", book, cwd=book, PYTHONPATH=f"{tmp_path / 'shadow'}:{PRESS}")
    assert done.returncode == 3
    assert "`make publish` installs huggingface_hub" in done.stderr
