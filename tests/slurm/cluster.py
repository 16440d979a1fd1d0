"""A real two-node Slurm on one machine, for tests and for the `slurm` fences of the book.

Comes in: a machine with the packages in `PACKAGES`, root, and a command. Goes out: that command's exit
status, after it ran on a login host of a cluster with two idle nodes. Controller, nodes and login host
each have a host name and process space of their own (`unshare`), so `hostname` answers `node1`, names
resolve between the nodes, and nothing a job leaves behind outlives the cluster. All files lie in one
scratch folder; the machine's own Slurm, munge and MariaDB are neither used nor touched.

    python tests/slurm/cluster.py check
    python tests/slurm/cluster.py run -- bash -c 'sinfo; srun -N2 hostname'
"""

from __future__ import annotations

import argparse
import fcntl
import getpass
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parent))
from slurmconf import CONTROLLER, CPUS, GPUS, LOGIN, NODES, Layout, files

# program → Debian package
PACKAGES: dict[str, str] = {
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
ACCOUNTING_PACKAGES: dict[str, str] = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
START_LIMIT = 30.0  # seconds for each daemon to answer
ALIVE = "alive"  # in the scratch folder, locked by the process that made it
DATABASE = "slurm-db-"  # begins the name of a database's folder; the name of its scratch folder follows


class ClusterError(RuntimeError):
    """The cluster can't start or did not answer; the text says which part and shows its log."""


def _path() -> str:
    """PATH with the folders of daemons, which ordinary users often lack."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def _absent(programs: Mapping[str, str]) -> list[str]:
    return sorted({pkg for prog, pkg in programs.items() if not shutil.which(prog, path=_path())})


def missing() -> list[str]:
    """What keeps the cluster from starting here, one clear sentence each; empty when it can start."""
    reasons = []
    if packages := _absent(PACKAGES):
        reasons.append("Debian packages not installed: " + " ".join(packages))
    if (os.cpu_count() or 1) < CPUS:
        reasons.append(f"{CPUS} CPUs are needed, this machine has {os.cpu_count()}")
    probe = ["unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    if os.geteuid() != 0:
        reasons.append("root is needed: slurmd starts jobs, and each node gets its own host name")
    elif shutil.which("unshare") and subprocess.run(probe, capture_output=True).returncode != 0:
        reasons.append("`unshare --uts --mount --pid` is refused here (container without SYS_ADMIN?)")
    return reasons


def slurm_version() -> tuple[int, int]:
    """(22, 5) for `slurm-wlm 22.05.8`."""
    words = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True,
                           env={"PATH": _path()}).stdout.split()
    major, minor = words[-1].split(".")[:2]
    return int(major), int(minor)


def accounting_missing() -> list[str]:
    """Packages without which the cluster runs, but sacct, sshare, sprio and QOS have nothing to show."""
    return _absent(ACCOUNTING_PACKAGES)


@dataclass
class Cluster:
    """A running cluster. Made by `running()`; use `run` and `popen`."""

    layout: Layout
    env: dict[str, str]
    daemons: list[subprocess.Popen] = field(default_factory=list)
    clients: list[subprocess.Popen] = field(default_factory=list)  # commands on the login host
    last: str = ""  # what the last probe said, for error messages

    @property
    def accounting(self) -> bool:
        return self.layout.accounting

    def popen(self, command: Sequence[str], **options) -> subprocess.Popen:
        """Start a command on the login host; its environment is clean of the caller's SLURM_*."""
        env = {**self.env, **options.pop("env", {})}
        self.clients = [one for one in self.clients if one.poll() is None]
        child = subprocess.Popen(self._on(LOGIN, command), env=env, **options)
        self.clients.append(child)
        return child

    def run(
        self, command: Sequence[str], timeout: float = 60, **options
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login host to its end and return its text output and status."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
        with self.popen(command, **pipes) as child:
            try:
                out, err = child.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                _end(child)
                raise
        return subprocess.CompletedProcess(list(command), child.returncode, out, err)

    def _on(self, host: str, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` as if on `host`; it dies with its parent."""
        setup = f'mount --bind {shlex.quote(str(self.layout.root / "hosts"))} /etc/hosts; '
        # The shell stays as first process of the space: it collects orphans, which slurmd would not.
        setup += f'hostname {host}; "$@"; exit $?'
        isolate = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return ["setpriv", "--pdeathsig", "KILL", *isolate, "sh", "-c", setup, host, *command]

    def _daemon(self, host: str, command: Sequence[str], ready: Callable[[], bool], log: str) -> None:
        child = subprocess.Popen(
            self._on(host, command),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=(self.layout.root / f"{log}.out").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us; we stop the daemons in order
        )
        self.daemons.append(child)
        end = time.monotonic() + START_LIMIT
        while not ready():
            if child.poll() is not None or time.monotonic() > end:
                raise ClusterError(f"{command[0]} on {host} did not come up\n{self._logs(log)}\n{self.last}")
            time.sleep(0.1)

    def _logs(self, name: str) -> str:
        texts = [p.read_text(errors="replace") for p in self.layout.root.glob(f"{name}*.*")
                 if p.suffix in (".log", ".out")]
        return "\n".join("\n".join(text.splitlines()[-15:]) for text in texts)

    def _ok(self, *command: str) -> bool:
        done = self.run(command, timeout=20)
        self.last = done.stdout
        return done.returncode == 0

    def start(self) -> None:
        """Bring up munge, the database, the controller and the nodes, in this order."""
        at = self.layout
        for name, text in files(at).items():
            (at.root / name).write_text(text)
            (at.root / name).chmod(0o600 if name == "slurmdbd.conf" else 0o644)
        for folder in ("state", *(f"spool-{n}" for n in NODES)):
            (at.root / folder).mkdir()
        for device in (f"{n}-gpu{i}" for n in NODES for i in range(GPUS)):
            os.mknod(at.root / device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # another /dev/null
        self._start_munge()
        if at.accounting:
            self._start_database()
        self._daemon(CONTROLLER, ["slurmctld", "-D", "-i"], lambda: self._ok("scontrol", "ping"),
                     "slurmctld")
        for node in NODES:
            self._daemon(node, ["slurmd", "-D", "-N", node], lambda: True, f"slurmd-{node}")
        self._wait_idle()

    def _start_munge(self) -> None:
        root, socket_ = self.layout.root, self.layout.munge_socket
        key = root / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        where = [f"--{n}-file={root}/munge.{n}" for n in ("key", "log", "pid", "seed")]
        # munged refuses a root folder that other users cannot pass (a chroot made by mktemp). All daemons and
        # jobs of this cluster run as root, so nobody is shut out: --force turns the refusal into a warning.
        force = [] if os.stat("/").st_mode & 0o001 else ["--force"]
        self._daemon(CONTROLLER, ["munged", *force, "--foreground", f"--socket={socket_}", *where],
                     socket_.exists, "munge")

    def _start_database(self) -> None:
        at = self.layout
        common = ["--no-defaults", f"--user={at.user}", f"--datadir={at.database}",
                  "--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0"]
        made = self.run(["mariadb-install-db", *common, "--skip-test-db",
                         "--auth-root-authentication-method=normal"])
        if made.returncode != 0:
            raise ClusterError(f"mariadb-install-db failed\n{made.stdout}")
        # No network and no grant tables: a database that only this socket's owner reaches.
        self._daemon(
            CONTROLLER,
            ["mariadbd", *common, f"--socket={at.db_socket}", f"--pid-file={at.root}/db.pid",
             "--skip-networking", "--skip-grant-tables", "--innodb-lock-wait-timeout=900"],
            at.db_socket.exists, "db")
        self._daemon(CONTROLLER, ["slurmdbd", "-D"],
                     lambda: self._ok("sacctmgr", "-n", "show", "cluster"), "slurmdbd")
        for words in (["cluster", "lab", "qos=normal", "defaultqos=normal"], ["account", "ml", "cluster=lab", "fairshare=10"],
                      ["account", "vision", "cluster=lab", "fairshare=10"],
                      ["user", at.user, "account=ml", "defaultaccount=ml"], ["user", "nobody", "account=vision"]):
            if not self._ok("sacctmgr", "-i", "add", *words):
                raise ClusterError(f"sacctmgr add {' '.join(words)} failed\n{self.last}")

    def _wait_idle(self) -> None:
        end = time.monotonic() + START_LIMIT
        states = ""
        while time.monotonic() < end:
            states = self.run(["sinfo", "-h", "-N", "-p", "gpu", "-o", "%T"]).stdout
            if states.split() == ["idle"] * len(NODES):
                return
            time.sleep(0.2)
        raise ClusterError(f"nodes are not idle but: {states}\n{self._logs('slurm')}")

    def stop(self) -> None:
        """Stop in reverse order. A node's process space dies with its slurmd, jobs included."""
        for child in reversed([*self.daemons, *self.clients]):
            _end(child)
        self.daemons.clear()
        self.clients.clear()


def _end(child: subprocess.Popen) -> None:
    """Kill what `unshare` started, the first process of its space, and let unshare collect it."""
    inner = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    for pid in inner.read_text().split() if child.poll() is None else ():
        os.kill(int(pid), signal.SIGKILL)
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def _held(path: Path) -> IO[str]:
    """A file locked as long as this process lives, so that a folder left behind can be told from one in use."""
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def abandoned() -> set[Path]:
    """Folders of clusters whose process has gone without taking them along."""
    roots = {root for root in Path("/tmp").glob("slurm-*") if not _is_held(root / ALIVE)}
    databases = {folder: folder.name.removeprefix(DATABASE).rpartition("-")[0] for folder in Path("/dev/shm").glob(f"{DATABASE}*")}
    return roots | {folder for folder, root in databases.items() if not _is_held(Path("/tmp", root, ALIVE))}


def _is_held(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


@contextmanager
def running(accounting: bool | None = None, keep: bool = False) -> Iterator[Cluster]:
    """A cluster for the length of a `with` block.

    `accounting`: True needs the accounting packages, False goes without, None takes them if present
    (`Cluster.accounting` tells). `keep` leaves the scratch folder with its logs.
    """
    if reasons := missing():
        raise ClusterError("; ".join(reasons))
    absent = accounting_missing()
    if accounting and absent:
        raise ClusterError("Debian packages not installed: " + " ".join(absent))
    root = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # socket paths must stay short
    root.chmod(0o755)
    alive = _held(root / ALIVE)
    ctld, dbd, *nodes = _free_ports(2 + len(NODES))
    use = accounting if accounting is not None else not absent
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else root
    database = Path(tempfile.mkdtemp(prefix=f"{DATABASE}{root.name}-", dir=shm))
    layout = Layout(root, database, getpass.getuser(), ctld, tuple(nodes), dbd, use, slurm_version())
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "SQUEUE_"))}
    env |= {"PATH": _path(), "SLURM_CONF": str(layout.conf), "MYSQL_UNIX_PORT": str(layout.db_socket)}
    cluster = Cluster(layout, env)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(database)
        if keep:
            print(f"kept {root}", file=sys.stderr)
        else:
            shutil.rmtree(root)
        alive.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check", help="say what is missing; exit 3 if the cluster can't start")
    run = verbs.add_parser("run", help="start a cluster, run a command on its login host, stop it")
    run.add_argument("--no-accounting", action="store_true", help="without slurmdbd and MariaDB")
    run.add_argument("--keep", action="store_true", help="leave the scratch folder with the logs")
    run.add_argument("command", nargs="+", help="after --: the command and its arguments")
    args = parser.parse_args(argv)
    reasons = missing()
    if args.verb == "check":
        reasons += [f"no accounting (sacct): {p} not installed" for p in accounting_missing()]
    for reason in reasons:
        print(reason, file=sys.stderr)
    if reasons or args.verb == "check":
        return 3 if missing() else 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster is taken down
    with running(accounting=False if args.no_accounting else None, keep=args.keep) as cluster:
        return cluster.popen(args.command).wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClusterError as problem:
        print(problem, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
