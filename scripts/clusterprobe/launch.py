"""Who started this process and which rank it is, read from the environment of every common launcher.

Order, first complete set wins: torch's own (RANK and WORLD_SIZE, set by torchrun or by hand), Open MPI,
MVAPICH, MPICH and Intel MPI, Slurm's srun, the PET_* variables of Kubernetes operators, nothing at all.
MPI stands before Slurm because mpirun inside an allocation starts its daemons with srun, whose
SLURM_PROCID counts daemons. Inside `sbatch` without `srun` there is no step, so that counts as no launcher.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import List, Mapping, Optional, Tuple

from clusterprobe.exits import CANNOT_RUN, ProbeFailure
from clusterprobe.nodelist import expand_nodelist, expand_task_counts

DERIVED_PORT_BASE = 20000  # below the kernel's ephemeral range (32768 and up), above the services
DERIVED_PORT_SPAN = 10000
MOST_RANKS = 1 << 20  # beyond it a variable is wrong, and lists by rank would fill the memory
SLURM_NODE_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
SPAWNED = "CLUSTERPROBE_SPAWNED"  # the parent's pipe, set for local ranks that the tool started


@dataclass(frozen=True)
class RankEnv:
    """What the launcher says. `tasks_per_node` follows `nodelist`; both are empty when unknown."""

    launcher: str
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: Optional[int] = None
    node_rank: Optional[int] = None
    master_addr: Optional[str] = None
    master_port: Optional[int] = None
    agent_store: bool = False  # torchrun's agent owns the port: every rank is a client of it
    nodelist: Tuple[str, ...] = ()
    tasks_per_node: Tuple[int, ...] = ()
    placement: str = "block"  # or cyclic, plane, arbitrary: how Slurm deals ranks out
    job: str = ""
    notes: Tuple[str, ...] = ()


def read_number(environ: Mapping[str, str], name: str) -> Optional[int]:
    """An integer variable, None when absent or empty, a failure that names it when it is no number."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ProbeFailure(
            CANNOT_RUN, f"{name}={text!r} is not a number", f"mend {name} in the launch script"
        ) from None


def _torch_env(environ: Mapping[str, str]) -> Optional[RankEnv]:
    rank, world = read_number(environ, "RANK"), read_number(environ, "WORLD_SIZE")
    if rank is None or world is None:
        return None
    run_id = environ.get("TORCHELASTIC_RUN_ID")
    notes: List[str] = []
    local = read_number(environ, "LOCAL_RANK")
    if local is None:
        local = next(
            (
                value
                for value in (
                    read_number(environ, name)
                    for name in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
                )
                if value is not None
            ),
            0,
        )
        notes.append(f"LOCAL_RANK is not set; taken as {local}")
    return RankEnv(
        launcher="spawn" if environ.get(SPAWNED) else "torchrun" if run_id is not None else "env",
        rank=rank,
        world_size=world,
        local_rank=local,
        local_world_size=read_number(environ, "LOCAL_WORLD_SIZE"),
        node_rank=read_number(environ, "GROUP_RANK"),
        agent_store=environ.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True",
        job=run_id or "",
        notes=tuple(notes),
    )


def _open_mpi(environ: Mapping[str, str]) -> Optional[RankEnv]:
    rank = read_number(environ, "OMPI_COMM_WORLD_RANK")
    world = read_number(environ, "OMPI_COMM_WORLD_SIZE")
    if rank is None or world is None:
        return None
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid") or "openmpi"
    return RankEnv(
        "openmpi",
        rank,
        world,
        read_number(environ, "OMPI_COMM_WORLD_LOCAL_RANK") or 0,
        read_number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        job=job,
    )


def _mvapich(environ: Mapping[str, str]) -> Optional[RankEnv]:
    rank = read_number(environ, "MV2_COMM_WORLD_RANK")
    world = read_number(environ, "MV2_COMM_WORLD_SIZE")
    if rank is None or world is None:
        return None
    return RankEnv(
        "mvapich",
        rank,
        world,
        read_number(environ, "MV2_COMM_WORLD_LOCAL_RANK") or 0,
        read_number(environ, "MV2_COMM_WORLD_LOCAL_SIZE"),
        job=environ.get("MPIRUN_ID", "mvapich"),
    )


def _mpich(environ: Mapping[str, str]) -> Optional[RankEnv]:
    rank, world = read_number(environ, "PMI_RANK"), read_number(environ, "PMI_SIZE")
    local = read_number(environ, "MPI_LOCALRANKID")
    if (
        rank is None or world is None or local is None
    ):  # srun --mpi=pmi2 sets PMI_* alone: Slurm reads that
        return None
    return RankEnv(
        "mpich", rank, world, local, read_number(environ, "MPI_LOCALNRANKS"), job="mpich"
    )


def _slurm(environ: Mapping[str, str]) -> Optional[RankEnv]:
    rank = read_number(environ, "SLURM_PROCID")
    world = read_number(environ, "SLURM_STEP_NUM_TASKS")
    if rank is None or world is None:
        return None
    try:
        lists = (environ.get(name) for name in SLURM_NODE_LISTS)
        hosts = expand_nodelist(next(filter(None, lists), ""))
        counts = expand_task_counts(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    except ValueError as error:
        raise ProbeFailure(
            CANNOT_RUN,
            f"Slurm's node list can't be read: {error}",
            "set MASTER_ADDR and MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK",
        ) from None
    node = read_number(environ, "SLURM_NODEID")
    local_world = counts[node] if node is not None and node < len(counts) else None
    placement = environ.get("SLURM_DISTRIBUTION", "block").partition(":")[0] or "block"
    job = f"{environ.get('SLURM_JOB_ID', '0')}.{environ.get('SLURM_STEP_ID', '0')}"
    return RankEnv(
        "slurm",
        rank,
        world,
        read_number(environ, "SLURM_LOCALID") or 0,
        local_world,
        node,
        nodelist=tuple(hosts),
        tasks_per_node=tuple(counts),
        placement=placement,
        job=job,
    )


def _kubernetes(environ: Mapping[str, str]) -> Optional[RankEnv]:
    """PET_* without torchrun: one process a pod, or `nproc` local ranks that the tool starts itself."""
    nodes, node = read_number(environ, "PET_NNODES"), read_number(environ, "PET_NODE_RANK")
    if nodes is None or node is None:
        return None
    each_text = environ.get("PET_NPROC_PER_NODE", "1").strip() or "1"
    each = int(each_text) if each_text.isdigit() else 1
    notes = (
        ()
        if each_text.isdigit()
        else (f"PET_NPROC_PER_NODE={each_text} counts as 1 without torchrun",)
    )
    endpoint = environ.get("PET_RDZV_ENDPOINT", "")
    host, _, port = endpoint.rpartition(":")
    port_number = read_number(environ, "PET_MASTER_PORT") or (int(port) if port.isdigit() else None)
    return RankEnv(
        "kubernetes",
        node * each,
        nodes * each,
        0,
        each,
        node,
        notes=notes,
        master_addr=environ.get("PET_MASTER_ADDR") or host or None,
        master_port=port_number,
        job=environ.get("PET_RDZV_ID", "kubernetes"),
    )


DETECTORS = (_torch_env, _open_mpi, _mvapich, _mpich, _slurm, _kubernetes)


def detect_launch(environ: Mapping[str, str]) -> RankEnv:
    """The rank of this process, or launcher `single` when nobody launched it."""
    found = next(
        (env for env in (detect(environ) for detect in DETECTORS) if env is not None), None
    )
    if found is None:
        _refuse_half_sets(environ)
        found = RankEnv("single", notes=_why_single(environ))
    addr, port = environ.get("MASTER_ADDR", "").strip(), read_number(environ, "MASTER_PORT")
    found = replace(
        found,
        master_addr=addr or found.master_addr,
        master_port=found.master_port if port is None else port,
    )
    if found.world_size > MOST_RANKS:
        raise ProbeFailure(
            CANNOT_RUN,
            f"a world of {found.world_size:,} ranks (launcher {found.launcher}) is no real one",
            "check WORLD_SIZE in the launch script",
        )
    if found.world_size < 1 or not 0 <= found.rank < found.world_size:
        raise ProbeFailure(
            CANNOT_RUN,
            f"rank {found.rank} does not fit a world of {found.world_size} "
            f"(launcher {found.launcher})",
            "check RANK and WORLD_SIZE in the launch script",
        )
    return found


def _refuse_half_sets(environ: Mapping[str, str]) -> None:
    for have, lack in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):
        if environ.get(have, "").strip() and (have == "RANK" or environ[have].strip() != "1"):
            raise ProbeFailure(
                CANNOT_RUN,
                f"{have} is set but {lack} is not",
                "set RANK, WORLD_SIZE and LOCAL_RANK together, or none of them",
            )
    if environ.get("PMIX_RANK", "").strip():
        raise ProbeFailure(
            CANNOT_RUN,
            "PMIX_RANK is set but nothing tells the size of the world",
            "start with srun, torchrun or Open MPI's mpirun, or set RANK, WORLD_SIZE, LOCAL_RANK",
        )


def _why_single(environ: Mapping[str, str]) -> Tuple[str, ...]:
    tasks = environ.get("SLURM_NTASKS") or environ.get("SLURM_NNODES") or "1"
    if environ.get("SLURM_JOB_ID") and tasks != "1":
        return (
            "inside a Slurm job but not started by srun: only this host takes part; "
            "put `srun` before the command for the whole job",
        )
    return ()


def derived_port(job: str) -> int:
    """One port for every rank of a job without MASTER_PORT: from the job's identity."""
    return DERIVED_PORT_BASE + zlib.crc32(job.encode()) % DERIVED_PORT_SPAN
