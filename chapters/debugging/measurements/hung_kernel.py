"""Hang a CUDA kernel on purpose and keep what each observer shows.

Usage: python hung_kernel.py OUT. For every case a child launches the kernel and waits for it; the parent
reads nvidia-smi and the thread states, asks the driver for a GPU core dump through its pipe, opens the dump
in cuda-gdb and ends the child. One raw text for each case lands in OUT, the core files in a scratch folder.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

SOURCE = """
extern "C" __global__ void wait_for_flag(volatile int *flag) { while (*flag == 0) {} }
extern "C" __global__ void compute_for_ever(volatile int *flag) {
    float a = threadIdx.x, b = 1.0001f, c = 0.5f, d = blockIdx.x;
    while (true) {
        for (int i = 0; i < 4096; i++) { a = a * b + c; c = c * b + d; d = d * b + a; b = b * c + a; }
        if (a == 12345.678f && *flag) break;
    }
    flag[1] = (int)(a + b + c + d);
}
"""
CASES = {  # kernel, blocks, threads
    "wait_one_block": ("wait_for_flag", 1, 32),
    "wait_one_block_skip_abort": ("wait_for_flag", 1, 32),
    "wait_all_sms": ("wait_for_flag", 1056, 256),
    "compute_all_sms": ("compute_for_ever", 1056, 256),
}
SKIP = "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory"
QUERY = "utilization.gpu,power.draw.instant,clocks.sm"


def child(case: str) -> None:
    import torch

    name, blocks, threads = CASES[case]
    kernel = torch.cuda._compile_kernel(SOURCE, name)
    flag = torch.zeros(2, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    faulthandler.dump_traceback_later(3)
    print("ready", flush=True)
    kernel((blocks, 1, 1), (threads, 1, 1), (flag,))
    done = flag.sum()  # queued behind the kernel
    print(done.item())  # waits for ever


def observe(case: str, out: Path, scratch: Path) -> dict[str, object]:
    environment = os.environ | {
        "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
        "CUDA_COREDUMP_PIPE": str(scratch / "pipe_%p"),
        "CUDA_COREDUMP_FILE": str(scratch / "core_%p"),
        "CUDA_COREDUMP_SHOW_PROGRESS": "1",
        "CUDA_COREDUMP_GENERATION_FLAGS": SKIP + (",skip_abort" if "skip_abort" in case else ""),
    }
    log, text = scratch / "log.txt", out / f"{case}.txt"
    run = subprocess.Popen(
        [sys.executable, __file__, "child", case], stdout=log.open("w"), stderr=subprocess.STDOUT,
        env=environment,
    )  # fmt: skip
    while "ready" not in log.read_text():
        time.sleep(0.2)
    time.sleep(6)
    with text.open("w") as kept:
        keep(kept, f"nvidia-smi --query-gpu={QUERY} --format=csv -lms 500", 3)  # ends by the deadline
        keep(kept, f"ps -L -o tid,stat,wchan:24,pcpu,comm -p {run.pid}", 5)
        begin = time.perf_counter()
        keep(kept, f"dd if=/dev/zero bs=1M count=1 of={next(scratch.glob('pipe_*'))}", 5)
        while "All done" not in log.read_text() and time.perf_counter() - begin < 15:
            time.sleep(0.1)
        took = time.perf_counter() - begin
        time.sleep(5)
        alive = run.poll() is None
        if alive:
            run.send_signal(signal.SIGKILL)
        status = run.wait(timeout=30)
        kept.write(f"\n# the program's own output\n{log.read_text()}")
        core = next(scratch.glob("core_*"))
        gdb = ["-ex", f"'target cudacore {core}'", "-ex", "'info cuda kernels'"]
        keep(kept, " ".join(["cuda-gdb", "-batch", *gdb]), 60)
    return {
        "dump_s": round(took, 1), "alive_5_s_after_dump": alive, "exit_status": status,
        "core_bytes": core.stat().st_size,
    }  # fmt: skip


def keep(kept: TextIO, command: str, limit: float) -> None:
    """The command and all it prints, into the text of the case."""
    kept.write(f"\n$ {command}\n")
    kept.flush()
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["sh", "-c", f"exec {command}"], stdout=kept, stderr=kept, timeout=limit)


def main() -> None:
    if sys.argv[1] == "child":
        return child(sys.argv[2])
    out = Path(sys.argv[1])
    out.mkdir(parents=True)
    results = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            results[case] = observe(case, out, Path(scratch))
        print(case, results[case], flush=True)
    (out / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
