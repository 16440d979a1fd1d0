"""What the instruments' tests share: a Python with torch, and worlds of real processes.

torch is looked for in FIELDBOOK_TORCH_PYTHON, then in `.venv-torch` (made by `make setup-torch`). Without
it the tests that need it are skipped with the reason; FIELDBOOK_REQUIRE_TORCH=1 makes them fail instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

GPU_TEST = SCRIPTS / "torch-distributed-gpu-test.py"
# Launchers' variables of the machine that runs the tests must not leak into the worlds under test.
LEAKY = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "MASTER_",
    "SLURM_",
    "OMPI_",
    "PMI",
    "MPI_",
    "MV2_",
    "PET_",
    "TORCHELASTIC_",
    "GROUP_RANK",
    "GLOO_",
    "NCCL_",
    "CLUSTERPROBE_",
)


def clean_environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(LEAKY)}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def find_torch_python() -> tuple[str | None, str]:
    """(interpreter, why not)."""
    wanted = os.environ.get("FIELDBOOK_TORCH_PYTHON") or str(ROOT / ".venv-torch/bin/python")
    if not Path(wanted).exists():
        return None, f"no Python with torch: {wanted} does not exist (make setup-torch)"
    probe = subprocess.run([wanted, "-c", "import torch"], capture_output=True, text=True)
    return (wanted, "") if probe.returncode == 0 else (None, f"{wanted} can't import torch")


@pytest.fixture(scope="session")
def torch_python() -> str:
    python, why_not = find_torch_python()
    if python is None:
        stop = pytest.fail if os.environ.get("FIELDBOOK_REQUIRE_TORCH") == "1" else pytest.skip
        stop(why_not)
    return python


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Ended:
    """How one rank ended."""

    rc: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, str]:
        """The RESULT line as a dictionary; an empty one when the rank printed none."""
        lines = [line for line in self.out.splitlines() if line.startswith("RESULT ")]
        return dict(word.split("=", 1) for word in lines[-1].split()[1:]) if lines else {}

    @property
    def why(self) -> str:
        return next((line[5:] for line in self.out.splitlines() if line.startswith("why: ")), "")


@dataclass
class World:
    """Real ranks of one command, started by their environment as a site's own script would."""

    python: str
    folder: Path
    size: int
    port: int = field(default_factory=free_port)
    address: str = "127.0.0.1"
    ranks: dict[int, subprocess.Popen] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def start(
        self,
        script: Path,
        *options: str,
        only: Sequence[int] | None = None,
        each: Mapping[int, Mapping[str, str]] | None = None,
        words: Mapping[int, Sequence[str]] | None = None,
        local_size: int | None = None,
        before: Mapping[int, Sequence[str]] | None = None,
    ) -> World:
        """`each` are variables of one rank, `words` its own options, `before` what its command is put behind."""
        for rank in only if only is not None else range(self.size):
            env = clean_environment(
                RANK=str(rank),
                WORLD_SIZE=str(self.size),
                LOCAL_RANK=str(rank % (local_size or self.size)),
                LOCAL_WORLD_SIZE=str(local_size or self.size),
                MASTER_ADDR=self.address,
                MASTER_PORT=str(self.port),
            )
            env.update((each or {}).get(rank, {}))
            command = [*(before or {}).get(rank, ()), self.python, str(script)]
            command += (words or {}).get(rank) or options
            self.ranks[rank] = subprocess.Popen(
                command,
                env=env,
                cwd=self.folder,
                text=True,
                start_new_session=True,
                stdout=(self.folder / f"out{rank}").open("w"),
                stderr=(self.folder / f"err{rank}").open("w"),
            )
        return self

    def text(self, rank: int) -> str:
        return (self.folder / f"out{rank}").read_text()

    def wait_for(self, rank: int, words: str, limit: float = 90) -> None:
        """Until the rank printed something."""
        end = time.monotonic() + limit
        while words not in self.text(rank):
            assert time.monotonic() < end, (
                f"rank {rank} never printed {words!r}:\n{self.text(rank)}"
            )
            assert self.ranks[rank].poll() is None, (
                f"rank {rank} ended:\n{self.text(rank)}\n{self.errors(rank)}"
            )
            time.sleep(0.1)

    def errors(self, rank: int) -> str:
        return (self.folder / f"err{rank}").read_text()

    def signal(self, rank: int, signum: signal.Signals) -> None:
        self.ranks[rank].send_signal(signum)

    def finish(self, limit: float = 120, but: Sequence[int] = ()) -> dict[int, Ended]:
        """Wait for all ranks (except `but`) and return how they ended."""
        end = time.monotonic() + limit
        ended = {}
        for rank, child in self.ranks.items():
            if rank in but:
                continue
            try:
                rc = child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pytest.fail(
                    f"rank {rank} still runs after {limit} s:\n{self.text(rank)}\n{self.errors(rank)}"
                )
            ended[rank] = Ended(rc, self.text(rank), self.errors(rank))
        return ended

    def close(self) -> None:
        for child in self.ranks.values():
            if child.poll() is None:
                child.kill()
                child.wait()


@pytest.fixture
def new_world(torch_python: str, tmp_path: Path) -> Iterator:
    """`new_world(4)` is a world of four; whatever still runs at the end of the test is killed."""
    made: list[World] = []

    def make(size: int, **options) -> World:
        made.append(World(torch_python, tmp_path, size, **options))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def run_tool(torch_python: str, tmp_path: Path):
    """Run a tool to its end in a clean environment; returns `Ended`."""

    def run(*command: str, limit: float = 120, **env: str) -> Ended:
        done = subprocess.run(
            [torch_python, *map(str, command)],
            env=clean_environment(**env),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def stop_without(what: str) -> None:
    """Skip the test, or fail it where everything should be installed."""
    stop = pytest.fail if os.environ.get("CI") else pytest.skip
    stop(what)


@pytest.fixture
def mpirun(tmp_path: Path):
    """Run words under Open MPI's mpirun."""
    program = shutil.which("mpirun")
    if program is None or "Open MPI" not in os.popen(f"{program} --version").read():
        stop_without("Open MPI's mpirun is not installed (apt-get install openmpi-bin)")

    def run(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [program, "--allow-run-as-root", "--oversubscribe", *words],
            env=env or clean_environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
        )

    return run


@pytest.fixture(scope="module")
def cluster() -> Iterator:
    """A real two-node Slurm on this machine."""
    sys.path.append(str(ROOT / "tests/slurm"))
    from cluster import missing, running

    if reasons := missing():
        stop_without("no Slurm here: " + "; ".join(reasons))
    with running(accounting=False) as found:
        yield found


def load_report(path: Path) -> dict:
    """A report, read strictly: NaN and infinities are refused."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} in {path}")

    return json.loads(path.read_text(), parse_constant=refuse)


@pytest.fixture
def valid_report():
    """Reads a report and holds it against the schema."""
    import jsonschema

    schema = json.loads((SCRIPTS / "clusterprobe/schema/report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)

    def read(path: Path) -> dict:
        document = load_report(path)
        jsonschema.validate(document, schema)
        return document

    return read
