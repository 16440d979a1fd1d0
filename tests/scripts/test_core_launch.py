"""Who launched us: one table of environments, and where a silent rank should be."""

from __future__ import annotations

import pytest

from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.expected import expected_hosts
from clusterprobe.launch import RankEnv, derived_port, detect_launch
from clusterprobe.rendezvous import choose_endpoint

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "j7",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
SALLOC = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_NNODES": "2",
    "SLURM_NTASKS": "8",
}
SRUN = {
    **SALLOC,
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_STEP_ID": "0",
}
BATCH = {**SALLOC, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "123",
}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MVAPICH = {
    "MV2_COMM_WORLD_RANK": "3",
    "MV2_COMM_WORLD_SIZE": "4",
    "MV2_COMM_WORLD_LOCAL_RANK": "1",
    "MV2_COMM_WORLD_LOCAL_SIZE": "2",
}
PET = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "4",
    "PET_MASTER_ADDR": "job-master-0",
    "PET_MASTER_PORT": "23456",
}

CASES = {
    "nothing": ({}, ("single", 0, 1, 0, None)),
    "torchrun": (TORCHRUN, ("torchrun", 5, 8, 1, 4)),
    "torchrun inside srun": ({**SRUN, **TORCHRUN}, ("torchrun", 5, 8, 1, 4)),
    "torchrun inside mpirun": ({**OPENMPI, **TORCHRUN}, ("torchrun", 5, 8, 1, 4)),
    "by hand": ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, ("env", 1, 2, 0, None)),
    "pods without torchrun": ({"RANK": "1", "WORLD_SIZE": "2"}, ("env", 1, 2, 0, None)),
    "by hand under srun": ({**SRUN, "RANK": "5", "WORLD_SIZE": "8"}, ("env", 5, 8, 1, None)),
    "srun": (SRUN, ("slurm", 5, 8, 1, 4)),
    "srun with PMIx": ({**SRUN, "PMIX_RANK": "5"}, ("slurm", 5, 8, 1, 4)),
    "srun with PMI2": ({**SRUN, "PMI_RANK": "5", "PMI_SIZE": "8"}, ("slurm", 5, 8, 1, 4)),
    "uneven srun": ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "5,3"}, ("slurm", 5, 8, 1, 3)),
    "batch script without srun": (BATCH, ("single", 0, 1, 0, None)),
    "salloc shell": (SALLOC, ("single", 0, 1, 0, None)),
    "mpirun": (OPENMPI, ("openmpi", 3, 4, 1, 2)),
    "mpirun inside Slurm": ({**OPENMPI, **SRUN}, ("openmpi", 3, 4, 1, 2)),
    "MPICH or Intel": (MPICH, ("mpich", 3, 4, 1, 2)),
    "MPICH inside Slurm": ({**SRUN, **MPICH}, ("mpich", 3, 4, 1, 2)),
    "MVAPICH": (MVAPICH, ("mvapich", 3, 4, 1, 2)),
    "Kubernetes": (PET, ("kubernetes", 4, 8, 0, 4)),
    "Kubernetes with torchrun": ({**PET, **TORCHRUN}, ("torchrun", 5, 8, 1, 4)),
    "empty variables": (
        {"RANK": "", "WORLD_SIZE": "", "SLURM_PROCID": ""},
        ("single", 0, 1, 0, None),
    ),
    "world size alone is 1": ({"WORLD_SIZE": "1"}, ("single", 0, 1, 0, None)),
}


@pytest.mark.parametrize("name", CASES)
def test_detection(name):
    environ, wanted = CASES[name]
    env = detect_launch(environ)
    assert (env.launcher, env.rank, env.world_size, env.local_rank, env.local_world_size) == wanted


def test_details():
    assert detect_launch(TORCHRUN).agent_store
    assert not detect_launch({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "False"}).agent_store
    assert detect_launch(SRUN).nodelist == ("n1", "n2")
    pet = detect_launch(PET)
    assert (pet.master_addr, pet.master_port) == ("job-master-0", 23456)
    rdzv = detect_launch({"PET_NNODES": "2", "PET_NODE_RANK": "0", "PET_RDZV_ENDPOINT": "m-0:1234"})
    assert (rdzv.master_addr, rdzv.master_port, rdzv.local_world_size) == ("m-0", 1234, 1)
    assert detect_launch({**SRUN, "MASTER_ADDR": "x", "MASTER_PORT": "1"}).master_addr == "x"


def test_notes_say_what_was_guessed():
    assert "LOCAL_RANK is not set" in detect_launch({"RANK": "1", "WORLD_SIZE": "2"}).notes[0]
    assert "srun" in detect_launch(BATCH).notes[0]
    assert detect_launch({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "1"}).notes == ()
    assert "PET_NPROC_PER_NODE=gpu" in detect_launch({**PET, "PET_NPROC_PER_NODE": "gpu"}).notes[0]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x' is not a number"),
        ({"RANK": "0"}, "RANK is set but WORLD_SIZE is not"),
        ({"WORLD_SIZE": "4"}, "WORLD_SIZE is set but RANK is not"),
        ({"RANK": "4", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}, "rank 4 does not fit a world of 4"),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "does not fit"),
        ({"PMIX_RANK": "1"}, "PMIX_RANK is set"),
        ({**SRUN, "SLURM_STEP_NODELIST": "n[1-"}, "node list"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT='http'"),
    ],
)
def test_refused(environ, words):
    with pytest.raises(ProbeFailure, match=words.replace("[", r"\[")) as caught:
        detect_launch(environ)
    assert caught.value.rc == CANNOT_RUN


def where(env, rank, seen=None):
    """`seen` maps ranks to (host, local rank)."""
    records = {r: {"host": host, "local": local} for r, (host, local) in (seen or {}).items()}
    return expected_hosts(env, [rank], records).get(rank)


def test_where_a_silent_rank_should_be():
    slurm = detect_launch({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "5,3"})
    assert [where(slurm, rank) for rank in (0, 4, 5, 7, 8)] == ["n1", "n1", "n2", "n2", None]
    cyclic = detect_launch({**SRUN, "SLURM_DISTRIBUTION": "cyclic:block"})
    assert [where(cyclic, rank) for rank in range(4)] == ["n1", "n2", "n1", "n2"]
    torchrun = RankEnv("torchrun", 0, 8, local_world_size=4)
    assert where(torchrun, 6, {0: ("a", 0), 4: ("b", 0), 5: ("b", 1)}) == "b"
    assert where(torchrun, 6, {0: ("a", 0)}) is None
    assert where(RankEnv("env", 0, 8), 6, {5: ("b", 5)}) is None


@pytest.mark.parametrize("words", ["plane", "arbitrary"])
def test_a_distribution_without_a_known_rule_names_no_host(words):
    """Slurm deals planes of tasks out, or follows a file: the node list in order would be a guess."""
    other = detect_launch({**SRUN, "SLURM_DISTRIBUTION": words})
    assert where(other, 5) is None
    seen = {0: ("n1", 0), 1: ("n1", 1), 2: ("n2", 0), 3: ("n2", 1), 4: ("n1", 2), 6: ("n2", 2)}
    assert where(other, 5, seen) is None
    blocks = {0: ("n1", 0), 1: ("n1", 1), 2: ("n1", 2), 6: ("n2", 2)}
    assert where(other, 5, blocks) == "n2"  # all that reported sit as in blocks


def test_ranks_dealt_out_in_turn_are_not_taken_for_blocks():
    """mpirun --map-by node: ranks 0 and 2 on a, 1 and 3 on b. Rank 3's host is not that of rank 2."""
    turns = RankEnv("openmpi", 0, 4, local_world_size=2)
    assert where(turns, 3, {0: ("a", 0), 1: ("b", 0), 2: ("a", 1)}) == "b"
    blocks = {0: ("a", 0), 1: ("a", 1), 2: ("b", 0)}
    assert where(turns, 3, blocks) == "b"
    assert where(turns, 1, {0: ("a", 0)}) is None  # both are possible and disagree
    assert where(RankEnv("torchrun", 0, 4, local_world_size=2), 1, {0: ("a", 0)}) == "a"
    assert where(RankEnv("env", 0, 4, local_world_size=4), 3, {0: ("a", 0)}) == "a"


@pytest.mark.parametrize("port", ["70000", "-5", "0"])
def test_ports_that_do_not_exist(port):
    env = detect_launch({**TORCHRUN, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
    with pytest.raises(ProbeFailure) as caught:
        choose_endpoint(env)
    assert caught.value.rc == CANNOT_RUN
    assert f"MASTER_PORT gives port {port}" in caught.value.reason
    with pytest.raises(ProbeFailure, match="--init gives port 99999"):
        choose_endpoint(RankEnv("env", 0, 2), "localhost:99999")


def test_a_world_beyond_reason():
    with pytest.raises(ProbeFailure, match="1,000,000,000 ranks"):
        detect_launch({**TORCHRUN, "WORLD_SIZE": "1000000000"})


def test_derived_ports_differ_by_job_and_stay_clear():
    ports = {derived_port(f"{job}.0") for job in range(500)}
    assert len(ports) > 470
    assert all(20000 <= port < 30000 for port in ports)
    assert derived_port("7.0") == derived_port("7.0")
