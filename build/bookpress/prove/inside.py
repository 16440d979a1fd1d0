"""Runs the steps of one session inside its sandbox. Standard library only; started by path, not imported.

    python3 inside.py PLAN.json RESULT.json

The plan: {"folder": scratch folder, "steps": [{"id", "command": [...], "timeout", "memory_mb"}], "lo": bool}.
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


def loopback_up():
    """A new network namespace has loopback down; without iproute2 an ioctl lifts it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def limits(memory_mb):
    def apply():
        os.setsid()
        size = memory_mb * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)

    return apply


def run_step(step, folder, number):
    log = os.path.join(os.path.dirname(folder), "step-%d.log" % number)
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            step["command"], cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, preexec_fn=limits(step["memory_mb"]),
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
        "status": status,
        "timed_out": timed_out,
        "seconds": round(time.monotonic() - start, 3),
        "output": data[:OUTPUT_LIMIT].decode("utf-8", "replace"),
        "truncated": len(data) > OUTPUT_LIMIT,
    }


def main():
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    if plan.get("lo"):
        loopback_up()
    results = []
    for number, step in enumerate(plan["steps"]):
        result = run_step(step, plan["folder"], number)
        results.append(result)
        if result["status"] != step.get("exit", 0):
            break
    with open(sys.argv[2], "w", encoding="utf-8") as stream:
        json.dump(results, stream)


if __name__ == "__main__":
    main()
