"""The same tool under real launchers: torchrun, Open MPI's mpirun, Slurm's srun on two nodes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import GPU_TEST, clean_environment, free_port
from test_gpu_test_worlds import host_address

pytestmark = pytest.mark.slow
OPTIONS = ("--device", "cpu", "--json", "r.json", "--stage-timeout", "60")


def passed(text: str, ranks: str) -> None:
    assert f"{ranks} returned right data from every collective" in text, text
    assert text.count("RESULT status=ok rc=0") == 1, text


def test_torchrun(run_tool, tmp_path, valid_report):
    done = run_tool(
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "3",
        "--master-port",
        str(free_port()),
        GPU_TEST,
        *OPTIONS,
    )
    assert done.rc == 0, done.out + done.err
    passed(done.out, "3 ranks on 1 node")
    assert valid_report(tmp_path / "r.json")["world"]["launcher"] == "torchrun"
    assert "Traceback" not in done.err


def test_torchrun_one_rank(run_tool):
    done = run_tool(
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "1",
        "--master-port",
        str(free_port()),
        GPU_TEST,
        *OPTIONS,
    )
    assert done.rc == 0, done.out + done.err
    passed(done.out, "1 rank on 1 node")


def test_torchrun_flattens_codes_but_the_verdict_stays(run_tool, tmp_path, valid_report):
    """torchrun turns every code into 1; the verdict is in the RESULT line and in the report."""
    done = run_tool(
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
        GPU_TEST,
        *OPTIONS,
        "--device",
        "cuda",
    )
    assert done.rc == 1
    assert "RESULT status=skipped rc=6" in done.out
    report = valid_report(tmp_path / "r.json")
    assert (report["rc"], report["status"]) == (6, "skipped")


def test_mpirun(mpirun, torch_python, tmp_path, valid_report):
    done = mpirun("-np", "3", torch_python, str(GPU_TEST), *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    passed(done.stdout, "3 ranks on 1 node")
    report = valid_report(tmp_path / "r.json")
    assert (report["world"]["launcher"], report["world"]["size"]) == ("openmpi", 3)


def test_mpirun_passes_the_exit_code_on(mpirun, torch_python):
    done = mpirun("-np", "2", torch_python, str(GPU_TEST), *OPTIONS, "--device", "cuda")
    assert done.returncode == 6
    assert "RESULT status=skipped rc=6" in done.stdout


def srun(cluster, python: str, folder: Path, *words: str, **options):
    """srun on the login host, from a folder that all nodes share."""
    folder.chmod(0o777)
    env = {
        key: value for key, value in clean_environment().items() if key.startswith(("OMP_", "LANG"))
    }
    for key in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        assert key not in cluster.env
    return cluster.run(
        ["srun", f"--chdir={folder}", *words, python, str(GPU_TEST), *OPTIONS], timeout=300, env=env, **options
    )


def test_srun_on_two_nodes(cluster, torch_python, tmp_path, valid_report):
    done = srun(cluster, torch_python, tmp_path, "-N2", "--ntasks-per-node=2", "--overcommit")
    assert done.returncode == 0, done.stdout
    passed(done.stdout, "4 ranks on 2 nodes")
    report = valid_report(tmp_path / "r.json")
    assert report["world"]["launcher"] == "slurm"
    assert [(node["host"], node["ranks"]) for node in report["world"]["nodes"]] == [
        ("node1", "0-1"),
        ("node2", "2-3"),
    ]


@pytest.mark.parametrize("names", ["all three", "the old name alone"])
def test_srun_in_a_container_without_scontrol(names, cluster, torch_python, tmp_path, valid_report):
    """The step's PATH leads nowhere; who is first is read from the compressed list, node[1-2]."""
    look = (
        "import json, os, shutil; json.dump({'scontrol': shutil.which('scontrol'), 'lists': [v for k, v in "
        "os.environ.items() if 'NODELIST' in k]}, open('seen' + os.environ['SLURM_PROCID'], 'w'))"
    )
    bare = ["env", "PATH=/nonexistent"]
    if names != "all three":
        bare = ["env", "-u", "SLURM_STEP_NODELIST", "-u", "SLURM_JOB_NODELIST", "PATH=/nonexistent"]
    placed = ("-N2", "--ntasks-per-node=2", "--overcommit", "-Q")
    tmp_path.chmod(0o777)
    seen = cluster.run(["srun", f"--chdir={tmp_path}", *placed, *bare, torch_python, "-c", look], timeout=100)
    assert (seen.returncode, seen.stdout) == (0, "")
    for rank in range(4):
        found = json.loads((tmp_path / f"seen{rank}").read_text())
        assert found == {"scontrol": None, "lists": ["node[1-2]"] * (3 if names == "all three" else 1)}
    done = srun(cluster, torch_python, tmp_path, *placed, *bare, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, ""), done
    passed(done.stdout, "4 ranks on 2 nodes")
    assert "node1 is 127.0.0.1 port " in done.stdout
    assert "(node list, " in done.stdout
    nodes = valid_report(tmp_path / "r.json")["world"]["nodes"]
    assert [(node["host"], node["ranks"]) for node in nodes] == [("node1", "0-1"), ("node2", "2-3")]


TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2")


def test_torchrun_inside_an_allocation(cluster, torch_python, tmp_path, valid_report):
    """salloc of two nodes sets SLURM_*; torchrun starts two ranks on this host alone, and that is what counts."""
    tmp_path.chmod(0o777)
    inner = ["bash", "-c", 'env | grep ^SLURM_ > seen; exec "$@"', "job", torch_python, *TORCHRUN]
    done = cluster.run(
        ["salloc", "-Q", "-N2", "--ntasks-per-node=2", "--overcommit", *inner, "--master-port", str(free_port()),
         str(GPU_TEST), *OPTIONS],
        timeout=200,
        cwd=tmp_path,
        env={"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    )
    seen = (tmp_path / "seen").read_text()
    assert "SLURM_NTASKS=4" in seen
    assert "SLURM_JOB_NODELIST=node[1-2]" in seen
    assert (done.returncode, done.stderr) == (0, ""), done
    passed(done.stdout, "2 ranks on 1 node")
    assert "2 ranks, launcher torchrun" in done.stdout
    assert "torchrun: rank 0 of 2, local rank 0 of 2" in done.stdout
    world = valid_report(tmp_path / "r.json")["world"]
    assert (world["launcher"], world["size"], world["node_count"]) == ("torchrun", 2, 1)


def test_torchrun_started_by_srun_on_two_nodes(cluster, torch_python, tmp_path, valid_report):
    """One task a node, each a torchrun of two: srun's SLURM_PROCID counts the torchruns, RANK the ranks.

    The two nodes share this machine and its names lead to loopback, which the tool refuses as an address of two.
    """
    words = [torch_python, *TORCHRUN, "--nnodes", "2", "--node-rank", "$SLURM_NODEID", "--master-addr", host_address()]
    launch = f"exec {' '.join(words)} --master-port {free_port()} {GPU_TEST} {' '.join(OPTIONS)}"
    tmp_path.chmod(0o777)
    done = cluster.run(
        ["salloc", "-Q", "-N2", "--ntasks-per-node=1", "srun", f"--chdir={tmp_path}", "bash", "-c", launch],
        timeout=200,
        cwd=tmp_path,
        env={"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    passed(done.stdout, "4 ranks on 2 nodes")
    assert "4 ranks, launcher torchrun" in done.stdout
    world = valid_report(tmp_path / "r.json")["world"]
    assert world["launcher"] == "torchrun"
    assert [(node["host"], node["ranks"]) for node in world["nodes"]] == [("node1", "0-1"), ("node2", "2-3")]


def test_srun_with_a_rank_that_never_starts(cluster, torch_python, tmp_path):
    """The rank on node2 does something else: named with its node out of Slurm's own list."""
    lazy = ["bash", "-c", '[ "$SLURM_PROCID" = 3 ] && exec sleep 60; exec "$@"', "rank"]
    done = srun(
        cluster,
        torch_python,
        tmp_path,
        "-N2",
        "--ntasks-per-node=2",
        "--overcommit",
        "--kill-on-bad-exit=1",
        *lazy,
    )
    assert (
        "rank 3 (expected on node2) never reached the store; 3 of 4 ranks are here" in done.stdout
    ), done.stdout
    assert "RESULT status=fail rc=5" in done.stdout


def test_batch_script_without_srun_says_so(cluster, torch_python, tmp_path):
    tmp_path.chmod(0o777)
    done = cluster.run(
        [
            "salloc",
            "-N2",
            "--ntasks-per-node=1",
            torch_python,
            str(GPU_TEST),
            "--device",
            "cpu",
            "--json",
            "none",
            "--stop-after",
            "0",
        ],
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    assert "inside a Slurm job but not started by srun" in done.stdout
