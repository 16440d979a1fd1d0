"""One released book and one loopback Hub for all tests of the release: the client reads its address only once."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from loopback import WRITE, LoopbackHub
from releasebook import NEXT, make_book, press

from bookpress.archives import Packed
from bookpress.release.artefacts import Made


@pytest.fixture(scope="session")
def released(tmp_path_factory) -> Path:
    """The repository after `bookpress release NEXT`, made once for all workers. Copy it to change it."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "released"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (place / "done").exists():
            shutil.rmtree(place / "book", ignore_errors=True)
            done = press("release", NEXT, "--book", make_book(place / "book"), cwd=place)
            assert done.returncode == 0, done.stdout + done.stderr
            (place / "output").write_text(done.stdout)
            (place / "done").touch()
    return place / "book"


@pytest.fixture
def book(released, tmp_path) -> Path:
    """A copy of the released repository with its caches."""
    shutil.copytree(released, tmp_path / "book", symlinks=True)
    return tmp_path / "book"


@pytest.fixture(scope="session")
def made(released) -> Made:
    """The release's files: every fault is met with the same bytes."""
    folder = released / "dist/release"
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    packed = [Packed(p.relative_to(folder).as_posix(), p.read_bytes(), os.access(p, os.X_OK)) for p in files]
    return Made(folder, tuple(sorted(packed, key=lambda f: f.name)), f"v{NEXT}")


@pytest.fixture(scope="session")
def hub_process(tmp_path_factory) -> Iterator[LoopbackHub]:
    """The server, and the client's environment set before its first import."""
    assert "huggingface_hub" not in sys.modules, "the client has read its environment already"
    hub = LoopbackHub(tmp_path_factory.mktemp("hub"))
    ours = {
        "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path_factory.mktemp("hf-home")), "HF_TOKEN": WRITE,
        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "30", "HF_HUB_ETAG_TIMEOUT": "30",
    }  # fmt: skip
    before = dict(os.environ)
    os.environ.pop("HF_HUB_DISABLE_XET", None)
    os.environ.update(ours)
    with hub.running():
        yield hub
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def hub(hub_process, tmp_path) -> LoopbackHub:
    """An empty Hub."""
    hub_process.reset(tmp_path / "hub-store")
    return hub_process


@pytest.fixture
def waits(hub, monkeypatch) -> list[float]:
    """No test waits: what publish and the client would sleep is written down."""
    from bookpress.release import hub as ours

    slept: list[float] = []
    monkeypatch.setattr(ours, "sleep", slept.append)
    ours.client(lambda text: None, 30.0)
    import huggingface_hub.utils._http as theirs

    monkeypatch.setattr(theirs, "time", SimpleNamespace(sleep=slept.append))
    return slept
