"""Links to other sites, asked for on a server of our own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bookpress.__main__ import main
from bookpress.upkeep import outlinks

ANSWERS = {
    "/good": [200], "/moved": [301], "/gone": [404], "/gone-for-good": [410], "/no-head": [405, 200], "/liar": [404, 200],
    "/busy": [429, 200], "/down": [503], "/private": [403],
}  # fmt: skip


@pytest.fixture
def server():
    """Out: (port, requests). A path's answers come in turn, the last one for ever."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words):
            pass

        def do_HEAD(self):
            path = self.path.split("?")[0]
            turn = sum(p.split("?")[0] == path for _, p in asked)
            asked.append((self.command, self.path))
            if path == "/cut":
                self.connection.shutdown(2)
                return
            answers = ANSWERS.get(path, [200])
            self.send_response(answers[min(turn, len(answers) - 1)])
            if path == "/moved":
                self.send_header("Location", "/good")
            if path == "/busy":
                self.send_header("Retry-After", "3")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD  # noqa: N815

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield httpd.server_port, asked
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def slept(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(outlinks.ask, "__defaults__", (waits.append,))
    return waits


def make_book(root, text, data=""):
    (root / "a.md").write_text("# A\n\n" + text)
    (root / "data").mkdir(exist_ok=True)
    (root / "data/facts.yaml").write_text(data)
    (root / "book.toml").write_text('[book]\ntitle = "B"\nversion = "1"\n[[part]]\ntitle = ""\nchapters = ["a.md"]\n')
    return root


def check(root, capsys, *words):
    rc = main(["outlinks", "--book", str(root), "--cache", str(root / "cache"), *words])
    out, err = capsys.readouterr()
    return rc, out, err


def test_each_answer(tmp_path, server, slept, capsys):
    port, asked = server
    base = f"http://127.0.0.1:{port}"
    links = "\n\n".join(f"See [here]({base}{path})." for path in ANSWERS)
    book = make_book(tmp_path, f"{links}\n\n`{base}/code`\n\n[again]({base}/good#part)\n", f"x: {{source: '{base}/gone?from=data'}}\n")
    rc, out, err = check(book, capsys)
    assert rc == 1
    found = {line.split(" ", 2)[0]: line.split(" ", 2)[1:] for line in err.splitlines() if "EXT" in line}
    assert found[f"a.md:{3 + 2 * 2}:1"][0] == "EXT001"
    assert found[f"a.md:{3 + 2 * 3}:1"][0] == "EXT001"
    assert found["data/facts.yaml:1:1"][0] == "EXT001"
    warned = [line for line in err.splitlines() if "EXT002 warning" in line]
    assert [("/down: status 503" in w, "/private: status 403" in w) for w in sorted(warned)] == [(True, False), (False, True)]
    assert len(found) == 5
    assert out == "10 addresses: 5 answered, 3 are gone\n"
    assert 3.0 in slept, "Retry-After was not honoured"
    paths = Counter(path for _, path in asked)
    assert paths["/good"] == 2, "once for itself, once for the page that moved there"
    assert "/code" not in paths
    assert paths["/down"] == outlinks.TRIES + 1


def test_cut_connections_are_tried_again_and_warned_of(tmp_path, server, slept, capsys):
    port, asked = server
    book = make_book(tmp_path, f"[a](http://127.0.0.1:{port}/cut) [b](http://127.0.0.1:{port}/good)\n")
    rc, _, err = check(book, capsys)
    assert rc == 0
    assert "EXT002 warning" in err
    assert sum(path == "/cut" for _, path in asked) == outlinks.TRIES + 1


def test_budget_ends_it(tmp_path, server, capsys):
    """What was not looked at is said; it takes no longer than the budget."""
    port, _ = server
    book = make_book(tmp_path, "\n\n".join(f"[{n}](http://127.0.0.1:{port}/down?{n})" for n in range(9)) + f"\n\n[g](http://127.0.0.1:{port}/good)\n")
    start = time.monotonic()
    _, _, err = check(book, capsys, "--budget", "1.5")
    assert time.monotonic() - start < 20
    assert "no time was left" in err
    assert "no time was left, status 503" in err


def test_no_network_is_no_verdict_on_the_links(tmp_path, slept, capsys):
    """Nothing listens: exit status 4, and not one link is called dead."""
    book = make_book(tmp_path, "[a](http://127.0.0.1:9/x) [b](http://127.0.0.1:9/y)\n")
    rc, _, err = check(book, capsys)
    assert rc == 4
    assert "none of 2 addresses answered" in err
    assert "EXT" not in err


def test_book_without_links(tmp_path, capsys):
    assert check(make_book(tmp_path, "Text.\n"), capsys)[:2] == (0, "0 addresses: 0 answered, 0 are gone\n")
