#!/usr/bin/env python3
"""Set-up for `make book` and `make test`: system libraries, a virtual environment, pinned packages.

Standard library only, and readable by old Pythons, so that the first message is a clear one. A second run
finds everything in place and installs nothing. Exit status: 0 ready, 3 something is missing and the
message says which command brings it.
"""

import contextlib
import ctypes.util
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)
MISSING = 3

# Debian and Ubuntu packages by goal; a goal includes the ones before it.
DEBIAN = {
    "book": [
        "libfontconfig1",
        "libglib2.0-0",
        "libharfbuzz-subset0",
        "libharfbuzz0b",
        "libpango-1.0-0",
        "libpangoft2-1.0-0",
    ],
    "test": [
        "chromium",
        "chromium-driver",
        "curl",
        "default-jre-headless",
        "ethtool",  # with ip of iproute2: fences that look at links
        "fio",  # fences of the storage chapter
        "gdb",
        "iproute2",
        "iputils-ping",  # fences of network debugging: MTU probes, and nft for planted packet loss
        "mariadb-server",
        "munge",
        "nftables",
        "npm",
        "openmpi-bin",
        "poppler-utils",
        "procps",
        "qpdf",
        "shellcheck",
        "slurm-wlm",
        "slurm-wlm-basic-plugins",
        "slurm-wlm-mysql-plugin",
        "slurmdbd",
        "strace",
    ],
}
# Where the program is there, whoever installed it, its package is not asked for: Node.js from its own
# packages, for one, refuses Debian's npm beside it.
PROGRAM_OF = {"chromium": "chromium", "default-jre-headless": "java", "npm": "npm"}
NODE = ROOT / "tests" / "web"  # checkers of web pages: axe-core and v.Nu, pinned in package-lock.json
LOCKS = {"book": "requirements.lock", "test": "requirements-test.lock"}
# What the press loads at run time, for systems without dpkg.
LIBRARIES = ("gobject-2.0", "pango-1.0", "harfbuzz", "fontconfig", "pangoft2-1.0")
PROGRAMS = {"test": ("chromium", "java", "npm", "pdftotext", "qpdf")}
ELSEWHERE = {
    "Darwin": ("brew install pango", "brew install node poppler qpdf openjdk && brew install --cask chromium"),
    "dnf": ("dnf install pango", "dnf install npm poppler-utils qpdf java-headless chromium chromedriver"),
    "pacman": ("pacman -S pango", "pacman -S npm poppler qpdf jre-openjdk-headless chromium"),
    "apk": ("apk add pango", "apk add npm poppler-utils qpdf openjdk17-jre-headless chromium-chromedriver"),
    "zypper": ("zypper install libpango-1_0-0", "zypper install npm poppler-tools qpdf java chromium"),
}


def say(text):
    print("set-up: " + text, flush=True)


def stop(*lines):
    for line in lines:
        print("set-up: " + line, file=sys.stderr)
    sys.exit(MISSING)


def run(command, **kwargs):
    """Run a set-up command quietly; on failure show the end of its output."""
    say(" ".join(command[:3]) + (" …" if len(command) > 3 else ""))
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, **kwargs
    )
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-15:]), file=sys.stderr)
        stop("'%s' failed with status %d" % (" ".join(command), done.returncode))


def goals_up_to(goal):
    names = list(DEBIAN)
    return names[: names.index(goal) + 1]


def debian_missing(goal):
    """Debian packages of the goal that are not installed."""
    wanted = [p for g in goals_up_to(goal) for p in DEBIAN[g]]
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Abbrev}\n", *wanted],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    rows = (line.split() for line in done.stdout.splitlines())
    there = {row[0].split(":")[0] for row in rows if row[1:2] == ["ii"]}
    # Debian 13 and Ubuntu 24.04 renamed libglib2.0-0; the library itself is what counts.
    if ctypes.util.find_library("glib-2.0"):
        there.add("libglib2.0-0")
    there |= {p for p, program in PROGRAM_OF.items() if shutil.which(program)}
    return [p for p in wanted if p not in there]


@contextlib.contextmanager
def no_services(policy=Path("/usr/sbin/policy-rc.d")):
    """Debian starts what it installs. The tests bring up their own daemons: the machine's stay stopped.

    It is also what lets a chroot install them: starting munge there fails, and the package with it.
    """
    if policy.exists():  # a container's or an administrator's own policy stays
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def munge_key(folder=Path("/etc/munge")):
    """Give munge its key, as its package would, before the package is set up.

    The package makes the key as user munge, and fails where the root folder is closed to other users, as it is
    in a chroot made by mktemp. With a key in place it only sets the owner.
    """
    if not (folder / "munge.key").exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        with open(os.open(folder / "munge.key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as key:
            key.write(os.urandom(128))


def system_debian(goal):
    missing = debian_missing(goal)
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        missing.append("python3-venv")
    if not missing:
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        stop("missing: " + " ".join(missing), "run: sudo apt-get update && sudo " + " ".join(install))
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    run(["apt-get", "update"], env=environment)
    if "munge" in missing:
        munge_key()
    with no_services():
        run(install, env=environment)


def system_other(goal):
    """Elsewhere the libraries and programs are looked for; nothing is installed on its own."""
    missing = [name for name in LIBRARIES if not ctypes.util.find_library(name)]
    programs = [p for g in goals_up_to(goal) for p in PROGRAMS.get(g, ()) if not shutil.which(p)]
    if not missing and not programs:
        return
    system = platform.system()
    manager = system if system in ELSEWHERE else next((m for m in ELSEWHERE if shutil.which(m)), None)
    lines = ["missing: " + ", ".join([*missing, *programs])]
    if manager:
        lines.append("run: " + " && ".join(ELSEWHERE[manager][: 2 if programs else 1]))
    else:
        lines.append("install Pango, HarfBuzz and Fontconfig with your package manager")
    stop(*lines)


def lock_digest(goal):
    raw = (ROOT / LOCKS[goal]).read_bytes()
    return goal + " " + hashlib.sha256(raw + platform.python_version().encode()).hexdigest()


def environment(goal):
    """The virtual environment with exactly the lock's packages."""
    mark = VENV / ".installed"
    # The test set holds the book set, so a test environment serves both goals.
    ready = [lock_digest(g) for g in LOCKS if list(DEBIAN).index(g) >= list(DEBIAN).index(goal)]
    if mark.is_file() and mark.read_text() in ready and (VENV / "bin" / "python").exists():
        return
    if not (VENV / "bin" / "python").exists():
        run([sys.executable, "-m", "venv", "--clear", str(VENV)])
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
    run([*pip, "--disable-pip-version-check", "-r", str(ROOT / LOCKS[goal])])
    mark.write_text(lock_digest(goal))
    say("ready for 'make %s'" % goal)


def node_packages():
    """The checkers of the web edition. Scripts of packages are not run: they would download browsers."""
    lock, mark = NODE / "package-lock.json", NODE / "node_modules" / ".installed"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text() == digest:
        return
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(NODE)])
    mark.write_text(digest)


def main():
    goal = sys.argv[1] if len(sys.argv) > 1 else "book"
    if goal not in DEBIAN:
        print("usage: bootstrap.py [%s]" % "|".join(DEBIAN), file=sys.stderr)
        sys.exit(2)
    if sys.version_info < OLDEST:
        stop(
            "Python %d.%d or newer is needed; this is %s" % (*OLDEST, platform.python_version()),
            "install it, then: make %s PYTHON=python3.11" % goal,
        )
    (system_debian if shutil.which("dpkg-query") else system_other)(goal)
    environment(goal)
    if goal == "test":
        node_packages()


if __name__ == "__main__":
    main()
