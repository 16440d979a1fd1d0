"""A reader's way: download by the `hf` command, curl or Python, verify, install the instruments by address, run one.

The commands are those of the card, with the loopback Hub in the place of the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest
from loopback import Fault
from releasebook import NEXT, ROOT
from test_publish import send

TAG = f"v{NEXT}"
HUB = "https://huggingface.co"


@pytest.fixture
def site(hub, made, waits) -> str:
    """A public repository with the release; the address of the server."""
    hub.store.create("dataset", "alice/book", private=False)
    assert send(hub, made)[1] == []
    return hub.url


@pytest.fixture
def card(made, site) -> str:
    return next(f.data.decode() for f in made.files if f.name == "README.md").replace(HUB, site)


def shell(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """As a reader: no token, the environment's own programs first."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k != "PYTHONPATH"}
    kept |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HF_HOME": str(cwd / "hf-home"), **env}
    return subprocess.run(["bash", "-ec", script], cwd=cwd, env=kept, capture_output=True, text=True, timeout=120)


def blocks(card: str, heading: str) -> list[str]:
    """Shell blocks of a section of the card."""
    section = card.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```bash\n(.*?)```", section, re.S)


def test_hf_command_then_verify(card, site, made, tmp_path):
    (download,) = blocks(card, "Latest, or pinned")
    done = shell(download, tmp_path, HF_ENDPOINT=site, HF_HUB_DISABLE_UPDATE_CHECK="1", HF_HUB_DISABLE_TELEMETRY="1")
    assert done.returncode == 0, done.stderr
    by_curl, folder = tmp_path / "small-field-book.pdf", tmp_path / "small-field-book"
    assert by_curl.read_bytes() == (folder / "small-field-book.pdf").read_bytes()
    (verify,) = blocks(card, "Verify")
    done = shell(verify, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": OK") == len(made.files) - 1
    assert f"{len(made.files) - 1} files are as released" in done.stdout
    assert f"Small Field Book {NEXT}, commit " in done.stdout
    with zipfile.ZipFile(folder / "web.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    page = (tmp_path / "unpacked/web/index.html").read_text()
    assert 'href="../small-field-book.pdf"' in page or "../small-field-book.pdf" in page
    with (folder / "small-field-book.epub").open("ab") as book:
        book.write(b" ")
    done = shell(verify.replace("sha256sum", "! sha256sum"), folder)
    assert done.returncode == 1
    assert "small-field-book.epub: " in done.stdout


def test_curl_resumes_and_urllib_reads(site, made, tmp_path):
    pdf = next(f for f in made.files if f.name.endswith(".pdf"))
    address = f"{site}/datasets/alice/book/resolve/{TAG}/{pdf.name}"
    (tmp_path / pdf.name).write_bytes(pdf.data[:1000])
    done = shell(f"curl --silent --show-error --fail -L -O -C - {address}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / pdf.name).read_bytes() == pdf.data
    with urlopen(address) as answer:
        assert hashlib.sha256(answer.read()).hexdigest() == pdf.sha256


def test_pip_installs_by_address_and_the_tool_runs(card, site, tmp_path):
    """A fresh environment without an index; console commands, and one file alone from its address."""
    install, single = blocks(card, "Install the instruments")
    assert install.strip().endswith(f"ml-engineering-scripts-{NEXT}.tar.gz")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    quiet = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull}
    path = f"{tmp_path / 'venv/bin'}:{os.environ['PATH']}"
    done = shell(install, tmp_path, PATH=path, **quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Successfully installed clusterprobe-{NEXT}" in done.stdout
    for tool in ("all_reduce_bench", "torch-distributed-gpu-test", "mamf-finder"):
        done = shell(f"{tool} --version && {tool} --help | head -3", tmp_path, PATH=path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{tool} {NEXT}\n")
    done = shell(single + "python3 mamf-finder.py --version", tmp_path)
    assert done.stdout.strip().endswith(f"mamf-finder {NEXT}"), done.stderr
    torch = ROOT / ".venv-torch/bin/python"
    if torch.exists():
        run = f"{torch} all_reduce_bench.py --nproc 2 --device cpu --sizes 64K --num-iterations 2 --json none"
        done = shell(run, tmp_path, OMP_NUM_THREADS="1")
        assert "RESULT status=ok rc=0 tool=all_reduce_bench" in done.stdout, done.stdout + done.stderr


def test_pip_refuses_a_damaged_archive(site, hub, made, tmp_path):
    """By the hash in the address, and by the archive's own MANIFEST."""
    archive = next(f for f in made.files if f.name == f"ml-engineering-scripts-{NEXT}.tar.gz")
    address = f"{site}/datasets/alice/book/resolve/{TAG}/{archive.name}"
    pip = f"pip install --no-index --disable-pip-version-check --target {tmp_path / 'there'}"
    done = shell(f"{pip} '{address}#sha256={archive.sha256}'", tmp_path)
    assert done.returncode == 0, done.stderr
    done = shell(f"{pip} '{address}#sha256={'0' * 64}'", tmp_path)
    assert done.returncode == 1
    (tmp_path / "a.tar.gz").write_bytes(archive.data)
    script = f"""tar xzf a.tar.gz && cd ml-engineering-scripts-{NEXT}
        printf x >> clusterprobe-{NEXT}-py3-none-any.whl && {pip} ."""
    done = shell(script, tmp_path)
    assert done.returncode == 1
    assert "differs from MANIFEST: download the archive again" in done.stdout + done.stderr


def test_verify_by_address(site, hub, made, tmp_path, capsys):
    """The press's verb and the release's own verify.py, on the server's files."""
    from bookpress.__main__ import main

    address = f"{site}/datasets/alice/book/resolve/{TAG}"
    assert main(["verify-release", address, "--sums-sha256", made.sums_sha256]) == 0
    assert "files are as released" in capsys.readouterr().out
    assert main(["verify-release", address, "--sums-sha256", "0" * 64]) == 1
    assert "SHA256SUMS:0:0 VER001 its own SHA-256 is not the one given" in capsys.readouterr().err
    hub.faults = [Fault(r"GET /_lfs/", "forge", times=1)]
    assert main(["verify-release", address]) == 1
    assert "VER003" in capsys.readouterr().err
    (tmp_path / "verify.py").write_bytes(next(f.data for f in made.files if f.name == "verify.py"))
    hub.faults = [Fault(r"GET .*/resolve/.*/README.md", status=404, times=-1)]
    done = shell(f"python3 -I verify.py {address}", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "README.md: it is not there")
    hub.faults = [Fault(r"GET .*/resolve/", status=403, times=-1)]
    done = shell(f"python3 -I verify.py {address}", tmp_path)
    assert done.returncode == 4
    assert "status 403" in done.stderr


@pytest.mark.parametrize("fault", [Fault(r"GET /_lfs/", "cut"), Fault(r"GET /_lfs/", "short"), Fault(r"/resolve/", status=503)])
def test_verify_goes_on_after_a_short_fault(site, hub, monkeypatch, fault):
    from bookpress.release import verifier

    slept = []
    monkeypatch.setattr(verifier.time, "sleep", slept.append)
    hub.faults = [Fault(fault.route, fault.kind, fault.status)]
    findings, notes = verifier.verify(verifier.place_of(f"{site}/datasets/alice/book/resolve/{TAG}"))
    assert findings == []
    assert "as released" in notes[-1]
    assert slept == [2]
