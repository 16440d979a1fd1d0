"""Each generated file, alone in a folder, under real launchers: torchrun, Open MPI's mpirun, Slurm's srun.

Three ranks, so that two nodes hold unequal numbers; a path with a space and an umlaut; of what people have
beside torch (numpy, packaging …) nothing can be imported.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import clean_environment, free_port
from test_bundle import QUICK, TOOLS, bundle, tarball  # noqa: F401 - fixtures

pytestmark = pytest.mark.slow
HIDDEN = ("numpy", "packaging", "matplotlib", "psutil", "pynvml", "clusterprobe")


@pytest.fixture
def alone(bundle, tmp_path):  # noqa: F811
    """A function: the command line of one tool, in a folder that holds nothing else."""

    def place(tool: str) -> list[str]:
        folder = tmp_path / "neuer Ordner, ü"
        folder.mkdir()
        return [shutil.copy(bundle / f"{tool}.py", folder), "--device", "cpu", "--json", "r.json", *QUICK[tool]]

    return place


@pytest.fixture
def bare(tmp_path) -> dict[str, str]:
    """An environment in which the HIDDEN packages are absent."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({HIDDEN!r}))\n")
    return clean_environment(PYTHONPATH=str(tmp_path / "bare"))


def passed(done: subprocess.CompletedProcess, report: dict, launcher: str, nodes: int) -> None:
    text = done.stdout + (done.stderr or "")
    assert done.returncode == 0, text
    assert done.stdout.count("RESULT status=ok rc=0") == 1, text
    assert "Traceback" not in text
    world = report["world"]
    assert (world["launcher"], world["size"], world["node_count"]) == (launcher, 3, nodes)
    assert report["status"] == "ok"


@pytest.mark.parametrize("tool", TOOLS)
def test_torchrun(torch_python, tmp_path, valid_report, alone, bare, tool):
    words = [torch_python, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--master-port", str(free_port()), *alone(tool)]
    done = subprocess.run(words, env=bare, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    passed(done, valid_report(tmp_path / "r.json"), "torchrun", 1)


@pytest.mark.parametrize("tool", TOOLS)
def test_mpirun(mpirun, torch_python, tmp_path, valid_report, alone, bare, tool):
    done = mpirun("-np", "3", torch_python, *alone(tool), env=bare)
    passed(done, valid_report(tmp_path / "r.json"), "openmpi", 1)


@pytest.mark.parametrize("tool", TOOLS)
def test_srun_with_unequal_nodes(cluster, torch_python, tmp_path, valid_report, alone, bare, tool):
    line = f'export CLUSTERPROBE_NODE=$SLURMD_NODENAME OMP_NUM_THREADS=1 PYTHONPATH={bare["PYTHONPATH"]}; exec "$@"'
    words = ["srun", "-N2", "-n3", "--overcommit", "--chdir", str(tmp_path), "bash", "-c", line, "sh", torch_python]
    done = cluster.run([*words, *alone(tool)], timeout=200)
    passed(done, valid_report(tmp_path / "r.json"), "slurm", 2)
