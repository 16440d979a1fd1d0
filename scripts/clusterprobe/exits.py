"""Exit codes and the failure that carries one; every tool ends with a code from this table.

The codes keep apart what a scheduler must treat differently: a fault found (3, 4, 5), a check that
could not run here (6), wrong use (2), and a run that someone ended (130, 143).
"""

from __future__ import annotations

from typing import Dict, Iterable, List

OK = 0
UNEXPECTED = 1
USAGE = 2
TOO_SLOW = 3
WRONG_DATA = 4
MISSING_RANK = 5
CANNOT_RUN = 6
PARTIAL = 7
INTERRUPTED = 130
TERMINATED = 143

EXIT_MEANING: Dict[int, str] = {
    OK: "ran, all gates passed",
    UNEXPECTED: "unexpected error (also what torchrun turns every other code into)",
    USAGE: "wrong use of the command line",
    TOO_SLOW: "a performance gate failed",
    WRONG_DATA: "wrong data: a checked result differs",
    MISSING_RANK: "a rank is missing or late, or a time limit passed",
    CANNOT_RUN: "could not run here (no device, no interface, no shared memory); nothing was judged",
    PARTIAL: "finished in part: something asked for by name was skipped",
    INTERRUPTED: "interrupted (SIGINT)",
    TERMINATED: "terminated (SIGTERM, SIGHUP)",
}

EXIT_STATUS: Dict[int, str] = {
    OK: "ok",
    UNEXPECTED: "error",
    USAGE: "error",
    TOO_SLOW: "fail",
    WRONG_DATA: "fail",
    MISSING_RANK: "fail",
    CANNOT_RUN: "skipped",
    PARTIAL: "partial",
    INTERRUPTED: "interrupted",
    TERMINATED: "interrupted",
}

# When ranks end with different codes the world ends with the first of these that occurred.
EXIT_PRECEDENCE: List[int] = [
    WRONG_DATA,
    MISSING_RANK,
    TOO_SLOW,
    USAGE,
    CANNOT_RUN,
    UNEXPECTED,
    TERMINATED,
    INTERRUPTED,
    PARTIAL,
    OK,
]


class ProbeFailure(Exception):
    """A run that can't go on. `reason` is one sentence for the operator, `hint` the next step.

    `named` says that the reason already names the ranks it is about, so no rank is put in front of it.
    """

    def __init__(self, rc: int, reason: str, hint: str = "", named: bool = False) -> None:
        super().__init__(reason)
        self.rc = rc
        self.reason = reason
        self.hint = hint
        self.named = named


def worst_exit(codes: Iterable[int]) -> int:
    """The one code for several ranks; an unknown code counts as an unexpected error."""
    found = {code if code in EXIT_MEANING else UNEXPECTED for code in codes}
    return next((code for code in EXIT_PRECEDENCE if code in found), OK)


def exit_table() -> str:
    """The table for `--help`."""
    rows = [f"  {code:>3}  {meaning}" for code, meaning in EXIT_MEANING.items()]
    return "\n".join(["exit status:", *rows])
