"""Boot a small virtual machine with 16 CPUs, two NUMA nodes and cgroup v2, and run host_vm_guest.py in it.

    python3 host_vm.py --kernel vmlinuz --modules lib/modules/VERSION --torch SITE_PACKAGES --work DIR

Out: host-vm/*.txt beside this script, one file a section. Emulated, so times mean nothing; counts, limits, messages and
exit statuses do. Needs qemu-system-x86,
busybox-static, numactl, procps, util-linux, cpio, e2fsprogs. The machine has no network and no disk but a
read-only image with torch; limits and kills stay inside it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ["/usr/bin/python3.11", "/usr/bin/numactl", "/usr/bin/numastat", "/usr/bin/lscpu", "/usr/bin/nproc",
            "/usr/bin/free", "/usr/bin/dmesg", "/bin/bash"]
MODULES = ["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"]
INIT = """#!/bin/busybox sh
busybox mkdir -p /proc /sys /dev /tmp /torch
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mkdir -p /dev/shm
busybox mount -t tmpfs -o size=1g shm /dev/shm
busybox mount -t cgroup2 cg /sys/fs/cgroup
for m in %s; do busybox insmod /modules/$m.ko; done
busybox mount -o ro /dev/vda /torch
export PATH=/usr/bin:/bin PYTHONPATH=/torch LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
python3.11 -W ignore /guest.py
busybox poweroff -f
"""


def libraries(program: str) -> set[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return set(re.findall(r"(/\S+\.so\S*)", said))


def root(work: Path, modules: Path, site: Path) -> Path:
    """The initial file system: Python, a few tools, the modules for the disk."""
    tree = work / "root"
    shutil.rmtree(tree, ignore_errors=True)
    needed = set(PROGRAMS)
    for program in PROGRAMS:
        needed |= libraries(program)
    for library in [*Path("/usr/lib/python3.11/lib-dynload").glob("*.so"), *site.glob("torch/lib/*.so*"),
                    *site.glob("numpy.libs/*")]:
        needed |= {x for x in libraries(str(library)) if not x.startswith(str(site))}
    for name in needed:
        target = tree / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, target)
    shutil.copytree("/usr/lib/python3.11", tree / "usr/lib/python3.11",
                    ignore=shutil.ignore_patterns("__pycache__", "test", "dist-packages"))
    (tree / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    for name in ("sh", "uname", "df", "dd", "cat"):
        (tree / "bin" / name).symlink_to("busybox")
    (tree / "modules").mkdir()
    for name in MODULES:
        found = list(modules.rglob(f"{name}.ko"))
        if found:
            shutil.copy(found[0], tree / "modules")
    shutil.copy(HERE / "host_vm_guest.py", tree / "guest.py")
    present = [m for m in MODULES if (tree / "modules" / f"{m}.ko").exists()]
    (tree / "init").write_text(INIT % " ".join(present))
    (tree / "init").chmod(0o755)
    image = work / "initrd"
    subprocess.run(f"find . | cpio -o -H newc --quiet > {image}", shell=True, cwd=tree, check=True)
    return image


def disk(work: Path, site: Path) -> Path:
    """A read-only image: torch's packages and a file of 512 MiB to map."""
    image = work / "torch.img"
    if not image.exists():
        blob = site / "blob"
        if not blob.exists():
            with blob.open("wb") as out:
                out.write(b"\1" * (512 << 20))
        subprocess.run(["mkfs.ext4", "-q", "-d", site, image, "2600m"], check=True)
    return image


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("kernel", "modules", "torch", "work"):
        ask.add_argument("--" + name, type=Path, required=True)
    given = argparse.Namespace(**{k: v.resolve() for k, v in vars(ask.parse_args()).items()})
    given.work.mkdir(parents=True, exist_ok=True)
    initrd, image = root(given.work, given.modules, given.torch), disk(given.work, given.torch)
    argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "3G", "-nographic", "-no-reboot",
            "-nic", "none", "-smp", "16,sockets=2,cores=4,threads=2",
            "-object", "memory-backend-ram,id=m0,size=1536M", "-object", "memory-backend-ram,id=m1,size=1536M",
            "-numa", "node,nodeid=0,cpus=0-7,memdev=m0", "-numa", "node,nodeid=1,cpus=8-15,memdev=m1",
            "-numa", "dist,src=0,dst=1,val=21",
            "-kernel", str(given.kernel), "-initrd", str(initrd),
            "-drive", f"file={image},format=raw,if=virtio,readonly=on",
            "-append", "console=ttyS0 quiet panic=-1 loglevel=1"]
    log = given.work / "console.log"
    with log.open("wb") as out:
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=1500)
    return 0 if store(log.read_text(errors="replace")) else 1


def store(console: str) -> bool:
    """One file a section, without what the kernel wrote to the console beside the programs."""
    text = re.sub(r"^\[ *\d+\.\d{6}\] .*\n", "", console.replace("\r", ""), flags=re.M)
    text = re.sub(r"\[ *\d+\.\d{6}\] .*$", "", text, flags=re.M)
    folder = HERE / "host-vm"
    folder.mkdir(exist_ok=True)
    for name, body in re.findall(r"^=== (\S+)\n(.*?)(?=^=== )", text, re.M | re.S):
        (folder / f"{name}.txt").write_text(body.strip() + "\n")
        print(name, len(body.splitlines()), "lines")
    return "=== end" in text


if __name__ == "__main__":
    sys.exit(main())
