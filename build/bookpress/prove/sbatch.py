"""Part of prove: `#SBATCH` lines against the options that sbatch knows.

Slurm reads the lines only up to the first command, and ignores later ones in silence: that too is found.
The list is `sbatch --help` of Slurm 22.05 (a test compares it with the sbatch that is installed) and the
options that its release notes and manual page name since.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ..problems import near

_VALUED = ["account", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint", "clusters", "comment", "constraint", "container", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot", "dependency", "distribution", "error", "exclude", "export-file", "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "input", "job-name", "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "output", "partition", "power", "priority", "profile", "qos", "reservation", "signal", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time", "time-min", "tmp", "uid", "wait-all-nodes", "wckey", "wrap"]
# Since 22.05, from the manual page and the release notes: 23.02 tres-bind, prefer; 23.11 tres-per-task,
# segment 24.11, container-id, extra; 25.05 consolidate-segments, spread-segments.
_VALUED += ["tres-bind", "tres-per-task", "prefer", "extra", "segment", "container-id", "oom-kill-step"]
_FLAGS = ["contiguous", "exclusive", "export", "get-user-env", "help", "hold", "ignore-pbs", "kill-on-invalid-dep", "nice", "no-kill", "no-requeue", "overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue", "spread-job", "test-only", "usage", "use-min-nodes", "verbose", "version", "wait", "consolidate-segments", "spread-segments", "resv-ports", "stepmgr"]
_SHORT_VALUED = set("ABCDFGJLMNSabcdeimnopqtwx")
_SHORT_FLAGS = set("HkOQsvWhV")
_LINE = re.compile(r"^#SBATCH(\s+|$)(.*)")


def options() -> frozenset[str]:
    return frozenset([*_VALUED, *_FLAGS])


_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


def check(text: str) -> Iterator[tuple[int, str]]:
    """Findings of a fence: the batch script that it is, or those that it writes from here-documents."""
    rows = text.split("\n")
    if rows[0].startswith("#!"):
        yield from _script(rows, 0)
        return
    row = 0
    while row < len(rows):
        opened = _HEREDOC.search(rows[row])
        row += 1
        if opened:
            end = next((n for n in range(row, len(rows)) if rows[n].strip() == opened[1]), len(rows))
            if rows[row:end] and rows[row].startswith("#!"):
                yield from _script(rows[row:end], row)
            row = end


def _script(rows: list[str], first: int) -> Iterator[tuple[int, str]]:
    """Findings of one batch script whose first row is row `first` of its fence."""
    commands = False
    for row, line in enumerate(rows, first):
        found = _LINE.match(line)
        if not found:
            text = line.strip()
            commands = commands or bool(text and not text.startswith("#"))
            continue
        if commands:
            yield row, "#SBATCH after the first command is ignored by sbatch: move it up"
        if found[2].strip() not in ("hetjob", "packjob"):  # between the parts of a heterogeneous job
            yield from ((row, message) for message in _options(found[2]))


def _options(text: str) -> Iterator[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        yield f"#SBATCH line cannot be read: {error}"
        return
    at = 0
    while at < len(words):
        word, name = words[at], words[at].lstrip("-").partition("=")[0]
        at += 1
        if word.startswith("--"):
            if name not in options():
                yield f"sbatch has no option --{name} ({near(name, options())})".replace(" ()", "")
            elif name in _VALUED and "=" not in word:
                if at >= len(words):
                    yield f"--{name} needs a value"
                at += 1
        elif word.startswith("-") and len(word) > 1:
            if word[1] in _SHORT_VALUED:
                at += len(word) == 2
            elif word[1] not in _SHORT_FLAGS:
                yield f"sbatch has no option -{word[1]}"
        else:
            yield f"'{word}' is no option: sbatch ignores the line from here"
