"""Runs inside the virtual machine of host_vm.py: real cgroup v2 limits, two NUMA nodes, kills on purpose.

Prints sections that start with `=== NAME`; host_vm.py stores each as a file. Standard library and torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

CG = Path("/sys/fs/cgroup")
MIB = 1 << 20
SAY = """
import os, torch
print("os.cpu_count()            ", os.cpu_count())
print("len(sched_getaffinity(0)) ", len(os.sched_getaffinity(0)))
print("torch.get_num_threads()   ", torch.get_num_threads())
print("torch                     ", torch.__version__)
"""
GROW = """
import os, sys, time
name, step, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for _ in range(stop // step):
    held.append(bytearray(os.urandom(4096) * (step << 8)))
    time.sleep(0.02)
time.sleep(60)
"""


def section(name: str) -> None:
    print(f"=== {name}", flush=True)


def group(name: str, **limits: str) -> Path:
    """A new cgroup; `memory_max="256M"` writes memory.max."""
    folder = CG / name
    folder.mkdir()
    for key, text in limits.items():
        (folder / key.replace("_", ".", 1)).write_text(text)
    return folder


def start(folder: Path | None, *argv: str, **kwargs) -> subprocess.Popen:
    """Start a program inside a cgroup."""
    def enter() -> None:
        if folder:
            (folder / "cgroup.procs").write_text(str(os.getpid()))
    return subprocess.Popen(argv, preexec_fn=enter, **kwargs)


def show(*argv: str, folder: Path | None = None) -> None:
    print("$ " + " ".join(a if "\n" not in a else "…" for a in argv), flush=True)
    start(folder, *argv).wait()
    sys.stdout.flush()


def cat(folder: Path, *names: str) -> None:
    for name in names:
        for line in (folder / name).read_text().splitlines():
            print(f"{name}: {line}")
    sys.stdout.flush()


def kernel_log() -> None:
    """The kernel's report without call trace, registers and zone lists, which say nothing about the cause."""
    log = subprocess.run(["dmesg", "-c"], capture_output=True, text=True).stdout
    noise = ("Call Trace", "TASK>", "+0x", "RIP:", "Code:", "RSP:", "RAX:", "RDX:", "RBP:", "R10:", "R13:",
             "lowmem_reserve", "Hardware name", "hugepages_", "*4kB")
    for line in log.splitlines():
        if not any(n in line for n in noise):
            print("kernel: " + line.split("] ", 1)[-1])
    sys.stdout.flush()


def cpus() -> None:
    section("cpu-views")
    for name, limits in {
        "none": {}, "quota": {"cpu_max": "200000 100000"}, "cpuset": {"cpuset_cpus": "0-3"},
    }.items():
        folder = group("view-" + name, **limits)
        print(f"# limit: {name} {limits}")
        if name == "quota":
            cat(folder, "cpu.max")
        show("nproc", folder=folder)
        show(sys.executable, "-c", SAY, folder=folder)


def cgroup_oom() -> None:
    for label, together in (("oom-one", "0"), ("oom-group", "1")):
        section(label)
        subprocess.run(["dmesg", "-c"], stdout=subprocess.DEVNULL)
        folder = group(label, memory_max="256M")
        (folder / "memory.oom.group").write_text(together)
        cat(folder, "memory.max", "memory.oom.group")
        calm = start(folder, sys.executable, "-c", GROW, "trainer", "8", "8")
        grows = [start(folder, sys.executable, "-c", GROW, f"worker-{n}", "8", "400") for n in range(2)]
        time.sleep(0.3)
        deadline = time.time() + 30
        while time.time() < deadline and all(p.poll() is None for p in grows):
            time.sleep(0.1)
        time.sleep(2)
        for label_, p in [("trainer", calm), *[(f"worker {n}", p) for n, p in enumerate(grows)]]:
            print(f"{label_}: exit status {p.poll()}")
        cat(folder, "memory.events", "memory.peak" if (folder / "memory.peak").exists() else "memory.current")
        for p in (calm, *grows):
            p.kill()
            p.wait()
        kernel_log()


def shm_and_cache() -> None:
    section("shm-counts")
    folder = group("shm", memory_max="256M")
    subprocess.run(["dmesg", "-c"], stdout=subprocess.DEVNULL)
    show("df", "-m", "/dev/shm")
    writer = start(folder, "dd", "if=/dev/zero", "of=/dev/shm/big", "bs=1M", "count=400")
    print("dd: exit status", writer.wait())
    cat(folder, "memory.events", "memory.current")
    print("\n".join(x for x in (folder / "memory.stat").read_text().splitlines()
                    if x.split()[0] in ("anon", "file", "shmem", "file_mapped", "inactive_file", "active_file")))
    show("df", "-m", "/dev/shm")
    os.unlink("/dev/shm/big")
    cat(folder, "memory.current")
    kernel_log()
    section("cache-reclaims")
    folder = group("cache", memory_max="256M")
    read = "import mmap\nf=open('/torch/blob','rb')\nm=mmap.mmap(f.fileno(),0,access=mmap.ACCESS_READ)\n" \
           "n=sum(m[i] for i in range(0,len(m),4096))\nprint('read', len(m)>>20, 'MiB')\n" \
           "print(open('/proc/self/smaps_rollup').read())"
    show(sys.executable, "-c", read, folder=folder)
    cat(folder, "memory.current", "memory.events")
    print("\n".join(x for x in (folder / "memory.stat").read_text().splitlines()
                    if x.split()[0] in ("anon", "file", "shmem", "file_mapped", "inactive_file", "active_file")))


def numa() -> None:
    section("numa")
    show("numactl", "-H")
    show("numactl", "--cpunodebind=1", "--membind=1", "numactl", "--show")
    section("membind-oom")
    subprocess.run(["dmesg", "-c"], stdout=subprocess.DEVNULL)
    show("free", "-m")
    run = start(None, "numactl", "--membind=0", sys.executable, "-c", GROW, "bound", "32", "4000")
    print("bound to node 0: exit status", run.wait())
    kernel_log()
    section("host-oom")
    subprocess.run(["dmesg", "-c"], stdout=subprocess.DEVNULL)
    run = start(None, sys.executable, "-c", GROW, "host", "64", "64000")
    print("exit status", run.wait())
    kernel_log()


def main() -> None:
    section("machine")
    subprocess.run(["dmesg", "-n", "1"], check=True)  # the kernel's messages go to the log alone
    show("uname", "-r")
    show("lscpu", "-e=CPU,NODE,SOCKET,CORE")
    (CG / "cgroup.subtree_control").write_text("+cpu +cpuset +memory")
    cpus()
    cgroup_oom()
    shm_and_cache()
    numa()
    section("end")


if __name__ == "__main__":
    main()
