"""Record planted NCCL hangs on a two-GPU machine: logs, stacks, RAS answers, recorder dumps.

Usage: python nccl_hangs.py OUT_FOLDER. Each case has its own deadline, and the whole run too;
a case that does not fit any more is skipped and said so. On a machine without a GPU the same
steps run on gloo (a rehearsal: no RAS, no dumps).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLANT = HERE.parent / "fixtures" / "hangs" / "plant.py"
RAS = PLANT.with_name("ras_query.py")
BUDGET_S = 205
START = time.monotonic()
PY = sys.executable


def left() -> float:
    return BUDGET_S - (time.monotonic() - START)


def note(line: str) -> None:
    print(f"[{time.monotonic() - START:6.1f} s] {line}", flush=True)


def capture(command: list[str], target: Path, limit: float) -> None:
    """Run one observer with a deadline; its output and its failure both go to the file."""
    with target.open("w") as out:
        begin = time.monotonic()
        try:
            code = subprocess.run(command, stdout=out, stderr=out, timeout=limit).returncode
        except (subprocess.TimeoutExpired, OSError) as error:
            code = repr(error)
        out.write(f"\n# exit {code}, {time.monotonic() - begin:.2f} s: {' '.join(command)}\n")


def ranks_of(root: int) -> dict[int, int]:
    """RANK -> pid of the workers below the torchrun process `root`."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            env = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(stat[1]) == root:
            for item in env:
                if item.startswith(b"RANK="):
                    found[int(item[5:])] = int(entry.name)
    return found


def launch(name: str, arguments: list[str], folder: Path, env: dict[str, str], port: int):
    folder.mkdir(parents=True)
    full = {**os.environ, "OMP_NUM_THREADS": "1", "NCCL_DEBUG": "VERSION",
            "NCCL_RAS_ADDR": f"localhost:{port}", "PYTHONUNBUFFERED": "1", **env}
    command = [PY, "-m", "torch.distributed.run", "--nproc-per-node", "2",
               "--master-port", str(port + 1), str(PLANT), *arguments]
    (folder / "command.txt").write_text(
        " ".join(f"{k}={v}" for k, v in env.items()) + " " + " ".join(command) + "\n")
    log = (folder / "log.txt").open("w")
    note(f"{name}: start")
    return subprocess.Popen(command, env=full, stdout=log, stderr=log, start_new_session=True)


def wait_for_hang(folder: Path, job, limit: float) -> bool:
    """True once both ranks have finished step 3 (the next call is the planted one)."""
    end = time.monotonic() + limit
    while time.monotonic() < end and job.poll() is None:
        if (folder / "log.txt").read_text(errors="replace").count(" step 3 ") == 2:
            return True
        time.sleep(0.2)
    return False


def kill_all(job) -> None:
    """The launcher and its workers, each of which leads a session of its own."""
    for pid in [*ranks_of(job.pid).values(), job.pid]:
        os.kill(pid, signal.SIGKILL)


def finish(name: str, job, limit: float) -> None:
    try:
        code = job.wait(timeout=max(1, min(limit, left())))
    except subprocess.TimeoutExpired:
        kill_all(job)
        code = "killed by the recorder"
    note(f"{name}: exit {code}")


def observe(name: str, out: Path, port: int, native: bool) -> None:
    folder = out / name
    dumps = folder / "dumps"
    env = {"TORCH_FR_BUFFER_SIZE": "2000", "HANG_LIMIT": "20",
           "TORCH_FR_DUMP_TEMP_FILE": str(dumps / "rank_"),
           "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(folder / "pipe_")}
    job = launch(name, [name], folder, env, port)
    dumps.mkdir()
    reached = wait_for_hang(folder, job, min(60, left()))
    note(f"{name}: hang reached {reached}")
    time.sleep(4)
    pids = ranks_of(job.pid)
    for rank, pid in sorted(pids.items()):
        capture(["py-spy", "dump", "--pid", str(pid)], folder / f"stack_{rank}.txt", 8)
        if name == "stopped":
            capture(["py-spy", "dump", "--nonblocking", "--pid", str(pid)],
                    folder / f"stack_nonblocking_{rank}.txt", 8)
        capture(["ps", "-L", "-o", "tid,stat,wchan:24,pcpu,comm", "-p", str(pid)],
                folder / f"threads_{rank}.txt", 3)
    capture([PY, str(RAS), "localhost", str(port)], folder / "ras.txt", 15)
    if name == "stopped":
        capture([PY, str(RAS), "localhost", str(port)], folder / "ras_again.txt", 15)
    capture([PY, str(RAS), "localhost", str(port), "json"], folder / "ras.json.txt", 15)
    capture(["nvidia-smi", "--format=csv", "--query-gpu=index,utilization.gpu,power.draw,"
             "clocks.sm,memory.used"], folder / "smi.txt", 6)
    if native and 0 in pids:  # on-demand dump through the pipe, then the C++ stack
        for pipe in sorted(folder.glob("pipe_*")):
            capture(["timeout", "2", "sh", "-c", f"echo 1 > {pipe}"], folder / "pipe.txt", 3)
        time.sleep(2)
        capture(["ls", "-la", "--time-style=full-iso", str(folder), str(dumps)],
                folder / "ls_on_demand.txt", 3)
        for path in dumps.glob("rank_*"):
            shutil.copy(path, folder / f"on_demand_{path.name}")
    if name == "stopped":  # let torchrun end it: a stopped process ignores SIGTERM
        end = time.monotonic() + 45
        while time.monotonic() < end and ranks_of(job.pid).get(0):
            time.sleep(0.3)
        note(f"{name}: rank 0 gone")
        for pid in [pids[1]] if 1 in pids else []:
            os.kill(pid, signal.SIGCONT)
    finish(name, job, 60)
    capture(["ls", "-la", "--time-style=full-iso", str(folder), str(dumps)], folder / "ls.txt", 3)


def together(out: Path) -> None:
    """Cases where the log alone is wanted; defaults of the recorder, HOME apart for each."""
    jobs = []
    for index, (name, arguments, extra) in enumerate([
        ("p2p-small", ["p2p", "1024"], {}),
        ("p2p-large", ["p2p", str(1 << 26)], {}),
        ("sizes", ["sizes"], {}),
        ("detail", ["mismatch"], {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
        ("attach", ["branch"], {"HANG_LIMIT": "600"}),
    ]):
        home = out / name / "home"
        env = {"HANG_LIMIT": "15", "HOME": str(home), **extra}
        jobs.append((name, launch(name, arguments, out / name, env, 28100 + 10 * index)))
        home.mkdir()
    attached = jobs.pop()[1]
    pids = {}
    if wait_for_hang(out / "attach", attached, min(60, left())):
        pids = ranks_of(attached.pid)
        for rank, pid in sorted(pids.items()):
            capture(["py-spy", "dump", "--native", "--pid", str(pid)],
                    out / "attach" / f"native_{rank}.txt", max(1, min(25, left())))
    for name, job in jobs:
        finish(name, job, 60)
        capture(["find", str(out / name), "-type", "f", "-size", "+0"], out / name / "ls.txt", 3)
    if pids and left() > 8:
        capture(["cuda-gdb", "-p", str(pids[0]), "-batch", "-ex", "info cuda kernels", "-ex",
                 "bt 12"], out / "attach" / "cuda_gdb_0.txt", min(25, left()))
    kill_all(attached)


def torch_folder() -> str:
    import importlib.util

    spec = importlib.util.find_spec("torch")
    return str(Path(spec.origin).parent)


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    versions = ("import torch, sys; print('python', sys.version.split()[0], 'torch', "
                "torch.__version__, 'nccl', torch.cuda.is_available() and torch.cuda.nccl.version()"
                ", [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])")
    capture([PY, "-c", versions], out / "versions.txt", 60)
    capture(["nvidia-smi"], out / "nvidia-smi.txt", 10)
    libraries = str(Path(torch_folder()) / "lib" / "libtorch_c")
    names = (out / "names.txt").open("w")
    scan = subprocess.Popen(
        ["sh", "-c", "LC_ALL=C grep -aohE 'TORCH_(FR|NCCL)_[A-Z_]+|[a-z/_.]*_trace_rank_' "
         f"{libraries}*.so | sort -u"], stdout=names, stderr=names)
    print((out / "versions.txt").read_text())
    observe("branch", out, 28028, native=True)
    observe("mismatch", out, 28040, native=False)
    observe("stopped", out, 28060, native=False)
    if left() > 35:
        together(out)
    else:
        note("p2p, sizes, detail: skipped, no time left")
    scan.kill()
    note("end")


if __name__ == "__main__":
    main()
