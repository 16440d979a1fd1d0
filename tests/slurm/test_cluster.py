"""The test cluster behaves like a cluster, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import cluster as cluster_module
import pytest
from cluster import Cluster

CLI = Path(cluster_module.__file__)


def bash(on: Cluster, script: str, folder: Path, timeout: float = 40) -> str:
    done = on.run(["bash", "-euc", script], timeout=timeout, cwd=folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


def state(on: Cluster, job: str) -> str:
    return on.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]).stdout.strip()


def wait_for(on: Cluster, job: str, wanted: str, limit: float = 20) -> None:
    end = time.monotonic() + limit
    while (seen := state(on, job)) != wanted:
        assert time.monotonic() < end, f"job {job} is {seen}, not {wanted}"
        time.sleep(0.3)


def test_two_nodes_are_idle(slurm_cluster: Cluster) -> None:
    shown = slurm_cluster.run(["sinfo", "-h", "-p", "gpu", "-o", "%D %T %N"]).stdout
    assert shown.split() == ["2", "idle", "node[1-2]"]


def test_srun_reaches_both_nodes_under_their_own_names(slurm_cluster: Cluster) -> None:
    done = slurm_cluster.run(["srun", "-N2", "bash", "-c", "echo $(hostname) $SLURM_PROCID"])
    assert sorted(done.stdout.split("\n")) == ["", "node1 0", "node2 1"]


def test_nodes_resolve_each_other(slurm_cluster: Cluster) -> None:
    done = slurm_cluster.run(["srun", "-w", "node1", "getent", "hosts", "node2"])
    assert done.returncode == 0, done.stdout


def test_gpus_are_handed_out(slurm_cluster: Cluster) -> None:
    command = ["srun", "-N1", "--gpus-per-node=2", "printenv", "CUDA_VISIBLE_DEVICES"]
    assert slurm_cluster.run(command).stdout.strip() == "0,1"
    refused = slurm_cluster.run(["srun", "-N1", "--gpus-per-node=3", "true"])
    assert "Requested node configuration is not available" in refused.stdout


def test_array_with_throttle_runs_one_element_at_a_time(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    bash(
        slurm_cluster,
        """sbatch --wait --array=1-3%1 --output=a.log --open-mode=append --wrap \
             'echo "in $SLURM_ARRAY_TASK_ID"; sleep 0.5; echo "out $SLURM_ARRAY_TASK_ID"'""",
        tmp_path,
    )
    lines = (tmp_path / "a.log").read_text().split("\n")[:-1]
    assert lines == [f"{word} {i}" for i in (1, 2, 3) for word in ("in", "out")]


def test_dependency_follows_the_exit_status(slurm_cluster: Cluster, tmp_path: Path) -> None:
    jobs = bash(
        slurm_cluster,
        """first=$(sbatch --parsable --output=/dev/null --wrap 'exit 3')
           never=$(sbatch --parsable --dependency=afterok:$first --output=/dev/null --wrap true)
           after=$(sbatch --parsable --dependency=afterany:$first --output=/dev/null --wrap true)
           echo $first $never $after""",
        tmp_path,
    ).split()
    wait_for(slurm_cluster, jobs[2], "COMPLETED")
    assert state(slurm_cluster, jobs[0]) == "FAILED"
    reason = slurm_cluster.run(["squeue", "-h", "-j", jobs[1], "-o", "%r"]).stdout.strip()
    assert reason in ("DependencyNeverSatisfied", "Dependency")
    slurm_cluster.run(["scancel", jobs[1]])


REQUEUE = """#!/bin/bash
#SBATCH --nodes=2 --requeue --open-mode=append --output=r.log
trap 'kill -USR1 $pid' USR1
echo "start ${SLURM_RESTART_COUNT:-0}"
[ -n "$SLURM_RESTART_COUNT" ] && exit 0
srun python3 -c '
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: (print("saved", flush=True), sys.exit(85)))
print("ready", flush=True)
time.sleep(60)' &
pid=$!
while kill -0 $pid 2>/dev/null; do wait $pid; status=$?; done
[ $status -eq 85 ] && scontrol requeue $SLURM_JOB_ID && sleep 60
exit $status
"""


def test_signal_saves_and_requeues(slurm_cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "r.slurm").write_text(REQUEUE)
    log = tmp_path / "r.log"
    job = bash(slurm_cluster, "sbatch --parsable r.slurm", tmp_path).strip()
    end = time.monotonic() + 20
    while not log.exists() or log.read_text().count("ready") < 2:
        assert time.monotonic() < end, "ranks did not start"
        time.sleep(0.2)
    slurm_cluster.run(["scancel", "--batch", "--signal=USR1", job])
    wait_for(slurm_cluster, job, "COMPLETED", limit=30)
    words = [line for line in log.read_text().split("\n") if not line.startswith(("s", "[")) or
             line in ("saved", "start 0", "start 1")]
    assert words.count("saved") == 2
    assert words.index("start 0") < words.index("saved") < words.index("start 1")


def test_scancel_ends_a_job_and_its_processes(slurm_cluster: Cluster, tmp_path: Path) -> None:
    mark = "987.25"
    job = bash(
        slurm_cluster, f"sbatch --parsable -N2 -o /dev/null --wrap 'srun sleep {mark}'", tmp_path
    ).strip()
    wait_for(slurm_cluster, job, "RUNNING")
    slurm_cluster.run(["scancel", job])
    wait_for(slurm_cluster, job, "CANCELLED")
    end = time.monotonic() + 10
    while subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True).returncode == 0:
        assert time.monotonic() < end, "the job's processes are still there"
        time.sleep(0.2)


def test_accounting_remembers(slurm_cluster: Cluster) -> None:
    slurm_cluster.run(["srun", "-J", "marked", "bash", "-c", "exit 9"])
    end = time.monotonic() + 15
    while "FAILED|9:0" not in (
        shown := slurm_cluster.run(
            ["sacct", "-nXP", "--name", "marked", "-o", "State,ExitCode"]
        ).stdout
    ):
        assert time.monotonic() < end, shown
        time.sleep(0.5)


@pytest.mark.parametrize("status", [0, 5])
def test_command_line_returns_the_commands_status_and_leaves_nothing(status: int) -> None:
    if reasons := cluster_module.missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("; ".join(reasons))
    script = f"echo root=$(dirname $SLURM_CONF); srun -N2 hostname; sleep 300 & exit {status}"
    done = subprocess.run(
        [sys.executable, CLI, "run", "--no-accounting", "--", "bash", "-c", script],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == status, done.stderr
    root, *hosts = done.stdout.split()
    assert sorted(hosts) == ["node1", "node2"]
    assert not Path(root.removeprefix("root=")).exists()
    assert processes_of(root.removeprefix("root=")) == []


def test_interrupted_command_line_leaves_nothing() -> None:
    if reasons := cluster_module.missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("; ".join(reasons))
    script = "dirname $SLURM_CONF; srun -N2 sleep 300"
    with subprocess.Popen(
        [sys.executable, CLI, "run", "--no-accounting", "--", "bash", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as child:
        root = child.stdout.readline().strip()
        time.sleep(1.5)
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=20) == 143
    assert not Path(root).exists()
    assert processes_of(root) == []


def test_the_folder_of_a_killed_process_is_told_from_one_in_use(slurm_cluster: Cluster) -> None:
    assert slurm_cluster.layout.root not in cluster_module.abandoned()
    assert slurm_cluster.layout.database not in cluster_module.abandoned()
    with subprocess.Popen(
        [sys.executable, CLI, "run", "--", "bash", "-c", "dirname $SLURM_CONF; sleep 300"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as child:
        root = Path(child.stdout.readline().strip())
        mine = {root, *Path("/dev/shm").glob(f"slurm-db-{root.name}-*")}
        assert not mine & cluster_module.abandoned()
        child.kill()
        child.wait(20)
    try:
        assert mine <= cluster_module.abandoned()
    finally:
        end = time.monotonic() + 10
        while processes_of(str(root)):
            assert time.monotonic() < end, "the cluster outlives its process"
            time.sleep(0.2)
        for folder in mine:
            shutil.rmtree(folder)


def processes_of(root: str) -> list[str]:
    """Command lines of live processes that mention a cluster's folder in argv or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            if root.encode() in words and int(folder.name) != os.getpid():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended while we looked
    return found
