#!/usr/bin/env python3
"""Run a command with a root folder that is a mount of its own: `ownroot.py COMMAND …`.

Proofs and the Slurm tests use mount namespaces, and the kernel makes those only where `/` is a mount point.
In a plain chroot it is not. There this program binds the root folder to a scratch place in a namespace of its
own and runs the command with that as root: same files, same paths. Everywhere else, and without root rights,
it only starts the command. Standard library only. Exit status: the command's.
"""

import os
import subprocess
import sys
import tempfile

_ENTER = (
    'mount --rbind / "$0" && mount --make-rprivate "$0" && here=$1 && shift'
    ' && exec chroot "$0" sh -c \'cd "$0" && exec "$@"\' "$here" "$@"'
)


def mount_points():
    """Mount points this process sees, or None where the system does not tell."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as stream:
            return [line.split()[4] for line in stream]
    except OSError:
        return None


def main():
    if len(sys.argv) < 2:
        print("usage: ownroot.py COMMAND …", file=sys.stderr)
        sys.exit(2)
    command, places = sys.argv[1:], mount_points()
    if places is None or "/" in places or os.geteuid() != 0:
        os.execvp(command[0], command)
    root = tempfile.mkdtemp(prefix="ownroot-")
    argv = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", _ENTER, root, os.getcwd(), *command]
    try:
        status = subprocess.call(argv)
    finally:
        # Where the chroot lies on a shared mount, the binding shows up outside as well: take it back.
        if any(place == root for place in mount_points() or ()):
            subprocess.call(["umount", "--recursive", "--lazy", root])
        os.rmdir(root)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
