"""NCCL's debug log of every rank: asked for before the group opens, read at the end, judged on rank 0."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from typing import Any, Dict, List, Optional, Tuple

from clusterprobe.exits import CANNOT_RUN, OK, TOO_SLOW, ProbeFailure
from clusterprobe.transport_log import (
    TransportView,
    judge_transport,
    read_transport_log,
    transport_sentence,
)
from clusterprobe.units import rank_ranges, shorten_list

LOUD = ("INFO", "TRACE")
WAYS_SHOWN = 8


def own_log_path(pattern: str) -> str:
    """NCCL_DEBUG_FILE as NCCL fills it in: %h is the host, %p the process."""
    host = socket.gethostname().split(".")[0]
    return pattern.replace("%h", host).replace("%p", str(os.getpid()))


def open_log_folder(folder: str) -> None:
    """Make the folder and see that it can be written: NCCL itself says nothing when it can't."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ProbeFailure(CANNOT_RUN, f"--transports {folder} can't be written: {error.strerror or error}",
                           "name a folder that every rank can write, or leave it out") from None


class TransportWatch:
    """One rank's log. Without a wish for it nothing is changed and nothing is read."""

    def __init__(self, wanted: bool, folder: Optional[str] = None) -> None:
        self.wanted = wanted
        self._folder = folder
        self._made: Optional[str] = None
        self._pattern = ""

    def ask(self, environ: Any = None) -> None:
        """Before NCCL reads its environment. What the user set stays as it is, if it is loud enough."""
        target = os.environ if environ is None else environ
        if not self.wanted:
            return
        if target.get("NCCL_DEBUG", "").upper() not in LOUD:
            target["NCCL_DEBUG"] = "INFO"
            target.setdefault("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET")  # nothing that is written per call
        if not target.get("NCCL_DEBUG_FILE"):
            if self._folder:
                open_log_folder(self._folder)
            else:
                self._made = tempfile.mkdtemp(prefix="nccl-log-")
            target["NCCL_DEBUG_FILE"] = os.path.join(self._folder or self._made or "", "nccl-%h-%p.log")
        self._pattern = target["NCCL_DEBUG_FILE"]

    def read(self) -> Optional[TransportView]:
        """None without a log: another backend, or a library that does not write one."""
        try:
            with open(own_log_path(self._pattern), encoding="utf-8", errors="replace") as file:
                return read_transport_log(file)
        except OSError:
            return None
        finally:
            if self._made:
                shutil.rmtree(self._made, ignore_errors=True)


def equal_views(views: Dict[int, Optional[TransportView]]) -> List[Tuple[List[int], Optional[TransportView]]]:
    """Ranks by what their logs say, so that a large world is a few lines. Most ranks first."""
    found: Dict[str, Tuple[List[int], Optional[TransportView]]] = {}
    for rank, view in sorted(views.items()):
        found.setdefault(repr(view), ([], view))[0].append(rank)
    return sorted(found.values(), key=lambda entry: -len(entry[0]))


def report_transport(session: Any, watch: TransportWatch, places: List[int]) -> Tuple[int, str]:
    """(exit code, sentence) of --require-transport; text and JSON of what was found. Every rank must call it."""
    if not watch.wanted:
        return OK, ""
    view = watch.read()
    records = session.control.gather_all("transport", view.as_json() if view else None, session.patience())
    if records is None:
        return OK, ""
    views = {rank: TransportView(**record) if record else None for rank, record in records.items()}
    groups = equal_views(views)
    session.report.line()
    for ranks, seen in groups[:WAYS_SHOWN]:
        session.report.line(f"transport of ranks {shorten_list(rank_ranges(ranks).split(','), 8)}: "
                            + (transport_sentence(seen) if seen else "no NCCL log"))
    if len(groups) > WAYS_SHOWN:
        session.report.line(f"… and {len(groups) - WAYS_SHOWN} more kinds of logs, in the report file")
    for ranks, seen in groups:
        session.report.add("stages", {
            "stage": "transport", "status": "ok" if seen else "warn", "seconds": 0.0,
            "detail": transport_sentence(seen) if seen else "no NCCL log", "ranks": rank_ranges(ranks),
            "transport": seen.as_json() if seen else None, "kinds": seen.kinds if seen else None})
    return judge_required(session.args.require_transport or [], views, places)


def judge_required(required: List[str], views: Dict[int, Optional[TransportView]], places: List[int]) -> Tuple[int, str]:
    """The first wish that is not met. Without any log there is nothing to judge: could not run."""
    if required and not any(views.values()):
        return CANNOT_RUN, "--require-transport: no rank wrote an NCCL log (another backend than NCCL?)"
    for kind in required:
        met, sentence = judge_transport(kind, views, places)
        if not met:
            return TOO_SLOW, f"--require-transport {kind}: {sentence}"
    return OK, ""
