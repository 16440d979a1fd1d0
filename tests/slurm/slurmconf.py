"""The configuration files of the two-node test cluster.

Comes in: a `Layout` (scratch folder, ports, host name of the submitting machine). Goes out: file names
with their text, written by `cluster.py` before it starts the daemons. The numbers that differ from
Slurm's defaults are there to make a test take seconds instead of minutes; each says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NODES = ("node1", "node2")
CPUS = 2  # per node; both nodes see the same real CPUs, so the machine must have as many
GPUS = 2  # per node: copies of /dev/null that stand for /dev/nvidia0 and /dev/nvidia1
CONTROLLER = "controller"
LOGIN = "login"


@dataclass(frozen=True)
class Layout:
    """Where one cluster lives. Everything it writes is below `root` and `database`."""

    root: Path
    database: Path  # the data folder of MariaDB, in memory where the machine has /dev/shm
    user: str
    ctld_port: int
    node_ports: tuple[int, ...]
    dbd_port: int
    accounting: bool
    version: tuple[int, int]  # of Slurm: (22, 5)

    @property
    def conf(self) -> Path:
        return self.root / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.root / "munge.sock"

    @property
    def db_socket(self) -> Path:
        return self.root / "db.sock"


def files(at: Layout) -> dict[str, str]:
    """File name (relative to the scratch folder) → text."""
    texts = {
        "slurm.conf": _slurm(at),
        "gres.conf": _gres(at),
        # slurmd loads a cgroup plugin even when nothing uses it; v1 does nothing until used
        "cgroup.conf": f"CgroupPlugin={'disabled' if at.version >= (23, 11) else 'cgroup/v1'}\n",
        "hosts": _hosts(),
    }
    if at.accounting:
        texts["slurmdbd.conf"] = _slurmdbd(at)
    return texts


def _slurm(at: Layout) -> str:
    nodes = "\n".join(
        f"NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} CoresPerSocket={CPUS}"
        f" RealMemory=2000 Gres=gpu:h100:{GPUS} State=UNKNOWN"
        for name, port in zip(NODES, at.node_ports, strict=True)
    )
    root = at.root
    return f"""\
ClusterName=lab
SlurmctldHost={CONTROLLER}(127.0.0.1)
SlurmctldPort={at.ctld_port}
SlurmUser={at.user}
SlurmdUser={at.user}
AuthType=auth/munge
AuthInfo=socket={at.munge_socket},cred_expire=5   # default 120 s: a requeued job waits that long
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
SlurmdParameters=config_overrides                 # believe NodeName lines, not the hardware
ProctrackType=proctrack/linuxproc                 # no cgroups: works in any container with root
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2                          # default 30 s: sstat would have nothing to show
JobCompType=jobcomp/filetxt
JobCompLoc={root}/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
MpiDefault=none
ScronParameters=enable
KillWait=3                                        # default 30 s between SIGTERM and SIGKILL
MinJobAge=300
SchedulerParameters=bf_interval=2,sched_interval=2,sched_min_interval=0,batch_sched_delay=0
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightPartition=1000
PriorityWeightJobSize=100
{_accounting(at)}
{nodes}
PartitionName=gpu Nodes={",".join(NODES)} Default=YES MaxTime=60 DefaultTime=10 PriorityTier=10
PartitionName=spot Nodes={",".join(NODES)} MaxTime=60 PriorityTier=1 GraceTime=2
"""


def _accounting(at: Layout) -> str:
    if not at.accounting:
        return "AccountingStorageType=accounting_storage/none"
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={at.dbd_port}
AccountingStoragePass={at.munge_socket}           # for slurmdbd, AuthInfo above is not read
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment,job_script"""


def _gres(at: Layout) -> str:
    return (
        "\n".join(
            f"NodeName={name} Name=gpu Type=h100 File={at.root}/{name}-gpu[0-{GPUS - 1}]"
            for name in NODES
        )
        + "\n"
    )


def _slurmdbd(at: Layout) -> str:
    return f"""\
AuthType=auth/munge
AuthInfo=socket={at.munge_socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={at.dbd_port}
SlurmUser={at.user}
LogFile={at.root}/slurmdbd.log
PidFile={at.root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={at.user}
StorageLoc=slurm
"""


def _hosts() -> str:
    names = " ".join((LOGIN, CONTROLLER, *NODES))
    return f"127.0.0.1 localhost {names}\n::1 localhost\n"
