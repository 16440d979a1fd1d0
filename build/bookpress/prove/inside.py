"""Runs the steps of one session inside its sandbox. Standard library only; started by path, not imported.

    python3 inside.py PLAN.json RESULT.json          closes the sandbox, then runs the steps
    python3 inside.py --steps PLAN.json RESULT.json  runs the steps alone

The plan: {"folder": scratch folder, "steps": [{"id", "command": [...], "timeout", "memory_mb", "exit"}],
"tmp": what /tmp becomes, or null outside a sandbox, "keep": paths under /tmp that stay in sight, "via": a
command that runs another (a cluster's login host), or []}.
Steps run in order in one folder and one process space, so that what an earlier step left running (a hung
pair of ranks, say) is there for the next; all of it ends with this process's namespace. Output goes to
files, because a background process that keeps a pipe open would make the reader wait for it.
"""

import fcntl
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

OUTPUT_LIMIT = 4_000_000  # bytes kept of one step
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}
ADDRESS = "198.51.100.1"  # of a block kept for documentation
FILE_LIMIT = 8 << 30  # bytes of one file that a step may write


def loopback_up():
    """A new network namespace has loopback down; without iproute2 an ioctl lifts it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS
        # One address beside 127.0.0.1: getaddrinfo counts a host with loopback alone as one without IPv4
        # (AI_ADDRCONFIG), and slurmdbd then finds no address to listen on.
        address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(ADDRESS))
        fcntl.ioctl(sock, 0x8916, address)  # SIOCSIFADDR


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def close(tmp, mine, keep):
    """Private /tmp, /dev and /dev/shm, and nothing else that can be written.

    `mine`, and the paths under /tmp that the session needs (the press's own copy, an environment) are bound
    into the new /tmp at their old names; only `mine` stays writable.
    """
    loopback_up()
    for path in [mine, *keep]:
        if path.startswith("/tmp/"):
            place = os.path.join(tmp, os.path.relpath(path, "/tmp"))
            os.makedirs(place, exist_ok=True)
            mount("--bind", path, place)
            if path != mine:
                mount("-o", "remount,bind,ro", place)
    own_devices(os.path.join(mine, "dev"))
    mount("--rbind", tmp, "/tmp")
    for place in ("/proc/sys", "/proc/sysrq-trigger"):
        if os.path.exists(place):
            mount("--bind", place, place)
    read_only()


def own_devices(place):
    """A /dev with what programs need. On the machine's own, `rm` in a fence would reach the machine's disks."""
    os.mkdir(place)
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    for name in DEVICES:
        if os.path.exists("/dev/" + name):
            open(os.path.join(place, name), "w").close()
            mount("--bind", "/dev/" + name, os.path.join(place, name))
    for name in ("pts", "shm"):
        os.mkdir(os.path.join(place, name))
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", os.path.join(place, "pts"))
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", os.path.join(place, "shm"))
    for name, target in LINKS.items():
        os.symlink(target, os.path.join(place, name))
    mount("--rbind", place, "/dev")


def read_only():
    with open("/proc/self/mounts", encoding="utf-8") as stream:
        rows = [row.split(" ") for row in stream]
    for _, place, _, options, *_ in rows:
        flags = options.split(",")
        mine = place == "/proc" or place.split("/")[1] in ("dev", "tmp")
        if not mine and "ro" not in flags:
            # Flags that a user namespace may not drop have to be said again.
            held = [f for f in ("nosuid", "nodev", "noexec") if f in flags]
            mount("-o", ",".join(["remount", "bind", "ro", *held]), place)


def limits(memory_mb):
    def apply():
        os.setsid()
        size = memory_mb * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)

    return apply


def run_step(step, folder, log):
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            step["command"], cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, preexec_fn=limits(step["memory_mb"]),
            env={**os.environ, "PWD": folder},
        )
        try:
            status = process.wait(timeout=step["timeout"])
            timed_out = False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status, timed_out = 124, True
    with open(log, "rb") as output:
        data = output.read(OUTPUT_LIMIT + 1)
    return {
        "id": step["id"],
        # As a shell reports a signal: 128 and its number.
        "status": status if status >= 0 else 128 - status,
        "timed_out": timed_out,
        "seconds": round(time.monotonic() - start, 3),
        "output": data[:OUTPUT_LIMIT].decode("utf-8", "replace"),
        "truncated": len(data) > OUTPUT_LIMIT,
    }


def run_steps(plan, answer):
    results = []
    for number, step in enumerate(plan["steps"]):
        log = os.path.join(os.path.dirname(answer), f"step-{number}.log")
        result = run_step(step, plan["folder"], log)
        results.append(result)
        if result["status"] != step["exit"]:
            break
    temporary = answer + ".new"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(results, stream)
    os.replace(temporary, answer)


def main():
    words = sys.argv[1:]
    only_steps = words[0] == "--steps"
    path, answer = words[-2:]
    with open(path, encoding="utf-8") as stream:
        plan = json.load(stream)
    if only_steps:
        run_steps(plan, answer)
        return 0
    if plan["tmp"]:
        close(plan["tmp"], os.path.dirname(os.path.abspath(path)), plan["keep"])
    if not plan["via"]:
        run_steps(plan, answer)
        return 0
    command = [*plan["via"], sys.executable, os.path.abspath(__file__), "--steps", path, answer]
    return subprocess.run(command, cwd=plan["folder"]).returncode


if __name__ == "__main__":
    sys.exit(main())
