"""all_reduce_bench under real launchers: torchrun, Open MPI's mpirun, Slurm's srun on two nodes."""

from __future__ import annotations

import pytest
from conftest import SCRIPTS, free_port

pytestmark = pytest.mark.slow
BENCH = SCRIPTS / "all_reduce_bench.py"
OPTIONS = ("--device", "cpu", "--sizes", "8,64K", "--num-iterations", "3", "--json", "r.json", "--stage-timeout", "60")


def passed(text: str, ranks: str) -> None:
    assert f"all_reduce_bench: {ranks}" in text, text
    assert text.count("RESULT status=ok rc=0") == 1, text


def test_torchrun(run_tool, tmp_path, valid_report):
    done = run_tool("-m", "torch.distributed.run", "--nproc-per-node", "3", "--master-port", str(free_port()), BENCH, *OPTIONS)
    assert done.rc == 0, done.out + done.err
    passed(done.out, "3 ranks on 1 node")
    report = valid_report(tmp_path / "r.json")
    assert (report["world"]["launcher"], len(report["results"])) == ("torchrun", 2)
    assert "Traceback" not in done.err


def test_torchrun_turns_every_code_into_1_but_the_result_line_tells(run_tool, tmp_path, valid_report):
    done = run_tool("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()), BENCH, *OPTIONS,
                    "--fail-below", "1000")
    assert done.rc == 1
    assert "RESULT status=fail rc=3" in done.out
    assert valid_report(tmp_path / "r.json")["rc"] == 3


def test_mpirun(mpirun, torch_python, tmp_path, valid_report):
    done = mpirun("-np", "3", torch_python, str(BENCH), *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    passed(done.stdout, "3 ranks on 1 node")
    assert valid_report(tmp_path / "r.json")["world"]["launcher"] == "openmpi"


def test_srun_on_two_nodes(cluster, torch_python, tmp_path, valid_report):
    line = (f"CLUSTERPROBE_NODE=$SLURMD_NODENAME OMP_NUM_THREADS=1 exec {torch_python} {BENCH} {' '.join(OPTIONS)} "
            "--group world,rail")
    done = cluster.run(["srun", "-N2", "--ntasks-per-node=2", "--overcommit", "--chdir", str(tmp_path), "bash", "-c", line], timeout=200)
    assert done.returncode == 0, done.stdout
    passed(done.stdout, "4 ranks on 2 nodes (node1, node2), launcher slurm")
    report = valid_report(tmp_path / "r.json")
    assert {row["members"] for row in report["results"] if row["group"] == "rail"} == {"ranks 0,2", "ranks 1,3"}
