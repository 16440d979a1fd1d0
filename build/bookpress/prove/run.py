"""Part of prove: the whole run. Chapters in, Proofs and Problems out."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ..cache import Cache, digest, file_digest
from ..model import Fence
from ..problems import Problem
from . import environments, languages, records, sandbox
from .compare import compare
from .plan import Session, Step, command, fence_hash, session_hash, sessions
from .proofs import Proof
from .sandbox import Result

Progress = Callable[[str, int, int], None]


def _version(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout + done.stderr).split("\n")[0].strip()


def _tools() -> dict[str, str]:
    """Versions that shape a run, and so its cache key."""
    return {
        "bash": _version(["bash", "--version"]).split(" (")[0].removeprefix("GNU "),
        "python": _version(["/usr/bin/python3", "--version"]),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
        if platform.system() == "Linux" else platform.platform(),
    }  # fmt: skip


def _shaping(session: Session) -> dict[str, str]:
    """What else a session's result depends on: programs it needs, the sandbox, the cluster."""
    programs = [n for n in session.needs if n in environments.PROGRAMS]
    files = [Path(sandbox.__file__), Path(sandbox.__file__).with_name("inside.py")]
    more = {name: _version([name, "--version"]) for name in programs}
    if session.mode == "slurm":
        more["slurm"] = _version(["slurmd", "-V"])
        files += [sandbox.CLUSTER, sandbox.CLUSTER.with_name("slurmconf.py")]
    return {**more, "sandbox": digest(*map(file_digest, files))}


class Prover:
    """One run over a book: executes, compares and collects."""

    def __init__(self, root: Path, cache_dir: Path, jobs: int, progress: Progress):
        self.root, self.jobs, self.progress = root, jobs, progress
        self.cache = Cache(cache_dir)
        self.cache_dir = cache_dir
        self.tools = _tools()
        self.proofs: list[Proof] = []
        self.problems: list[Problem] = []
        self.outputs: dict[tuple[str, str], str] = {}  # (chapter, fence id) → what it printed
        self.keys: dict[tuple[str, str], str] = {}  # (chapter, fence id) → cache key of its session

    def report(self, chapter: str, line: int, code: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(chapter, line, 1, code, message, hint))

    # --- executed fences ---

    def execute(self, todo: Sequence[Session]) -> None:
        """Run sessions, from the cache where nothing changed."""
        pending: list[tuple[Session, str]] = []
        for session in todo:
            lacking = environments.unknown(self.root, session.needs)
            bad = [s for s in session.steps if command(s.fence, "x") is None]
            for step in bad:
                message = f"no way to run '{step.fence.lang}'"
                self.fail(session, step, "PRV006", message, "use bash or python, or mode parse")
            for name in lacking:
                hint = f"pin it in {environments.PINS}"
                self.fail(session, session.steps[-1], "PRV009", f"needs '{name}', which is not pinned", hint)
            if bad or lacking:
                continue
            pins = environments.versions(self.root, session.needs)
            key = session_hash(session, {**self.tools, **pins, **_shaping(session)})
            self.keys |= {(session.chapter, s.fence.id): key for s in session.steps if s.proves}
            kept = self.cache.get("proof", key)
            if kept is not None:
                self.settle(session, kept[0], kept[1], cached=True)
            else:
                pending.append((session, key))
        done = len(todo) - len(pending)
        self.progress("prove", done, len(todo))
        for session, key, results in self._results(pending):
            date = datetime.now(UTC).isoformat(timespec="seconds")
            if self.settle(session, results, date, cached=False):
                self.cache.put("proof", key, (results, date))
            done += 1
            self.progress("prove", done, len(todo))
        self.cache.trim(["proof"])

    def _results(
        self, pending: Sequence[tuple[Session, str]]
    ) -> Iterable[tuple[Session, str, list[Result]]]:
        if any(session.mode == "slurm" for session, _ in pending):
            sandbox.need_cluster()
        # Environments are made before the parallel part: two threads must not build the same one.
        bins = {s.needs: environments.bin_dir(self.root, self.cache_dir, s.needs) for s, _ in pending}
        # Sessions in Slurm wait most of their time and run beside the others, on workers of their own.
        pools = {"run": ThreadPoolExecutor(self.jobs), "slurm": ThreadPoolExecutor(self.jobs + 1)}
        try:
            waiting = {
                pools[session.mode].submit(sandbox.run, session, bins[session.needs]): (session, key)
                for session, key in sorted(pending, key=lambda item: -len(item[0].steps))
            }
            for future in as_completed(waiting):
                yield *waiting[future], future.result()
        except BaseException:  # also Ctrl-C and SIGTERM: nothing that was started may outlive the answer
            for pool in pools.values():
                pool.shutdown(wait=False, cancel_futures=True)
            sandbox.stop()
            raise
        finally:
            for pool in pools.values():
                pool.shutdown(cancel_futures=True)

    def settle(self, session: Session, results: Sequence[Result], date: str, cached: bool) -> bool:
        """Turn a session's results into proofs. Out: True when every step did what it should."""
        where = self._where(session)
        if results and not results[0].isolated:
            self.problems.append(Problem(
                session.chapter, session.steps[0].fence.line, 1, "PRV010",
                "this run was not cut off from the network", "namespaces need root or user namespaces",
                "warning",
            ))  # fmt: skip
        for number, step in enumerate(session.steps):
            result = results[number] if number < len(results) else None
            if result is None or result.status != step.exit:
                self._step_failed(session, step, result)
                return False
            if step.fence.id:
                self.outputs[session.chapter, step.fence.id] = result.output
            if step.proves:
                proof = self.proof(session.chapter, step.fence, "ok", where=where, date=date)
                self.proofs.append(replace(proof, seconds=round(result.seconds, 2), cached=cached))
        return True

    def _where(self, session: Session) -> str:
        parts = [self.tools["system"]]
        parts += [r.replace("==", " ") for r in environments.versions(self.root, session.needs).values()]
        if session.mode == "slurm":
            parts.append(_version(["slurmd", "-V"]) + ", two nodes")
        langs = {s.fence.lang for s in session.steps}
        # "GNU bash, version 5.2.15(1)-release (…)" and "Python 3.11.2" as name and number.
        shell = re.search(r"\d+(\.\d+)+", self.tools["bash"])
        parts += [self.tools["python"] if "python" in langs else f"bash {shell[0]}" if shell else "bash"]
        return ", ".join(p for p in parts if p)

    def _step_failed(self, session: Session, step: Step, result: Result | None) -> None:
        if result is None:
            self.fail(session, step, "PRV001", "a step before it in its session failed")
        elif result.timed_out:
            tail = _tail(result.output)
            self.fail(session, step, "PRV007", f"did not end within {step.timeout_s} s; it printed: {tail}")
        else:
            message = f"exit status {result.status}, expected {step.exit}; it printed: {_tail(result.output)}"
            self.fail(session, step, "PRV001", message)

    def fail(self, session: Session, step: Step, code: str, message: str, hint: str = "") -> None:
        self.report(session.chapter, step.fence.line, code, message, hint)
        proofs = [s.fence for s in session.steps if s.proves]
        done = {(p.chapter, p.index) for p in self.proofs}
        for fence in proofs:
            if (session.chapter, fence.index) not in done:
                self.proofs.append(self.proof(session.chapter, fence, "failed", message=message))

    def proof(self, chapter: str, fence: Fence, status: str, **more) -> Proof:
        return Proof(
            chapter=chapter, line=fence.line, index=fence.index, id=fence.id, lang=fence.lang,
            mode=fence.mode, status=status, hash=fence_hash(fence), hidden=fence.hidden, **more,
        )  # fmt: skip

    # --- the other modes ---

    def other(self, chapter: str, fence: Fence) -> None:
        """Fences that are not executed here: gpu records, parse, shown, no mode."""
        if fence.mode == "gpu":
            self._record(chapter, fence)
        elif fence.mode == "parse":
            found = languages.check(fence)
            for row, message in found:
                self.report(chapter, fence.line + 1 + row, "PRV005", message)
            status = "failed" if found else "ok"
            self.proofs.append(self.proof(chapter, fence, status, where=f"{fence.lang} parser"))
        elif fence.mode == "shown":
            reason = fence.attrs.get("reason", "")
            self.proofs.append(self.proof(chapter, fence, "shown", reason=reason))
        elif not fence.mode:
            self.proofs.append(self.proof(chapter, fence, "unproven"))

    def _record(self, chapter: str, fence: Fence) -> None:
        kept = records.read_records(self.root, chapter).get(records.key_of(fence))
        if kept is None:
            hint = "run `bookpress prove --gpu` on a CUDA machine"
            self.report(chapter, fence.line, "PRV004", "no record of this gpu fence", hint)
            self.proofs.append(self.proof(chapter, fence, "missing"))
        elif kept["hash"] != fence_hash(fence):
            hint = "run `bookpress prove --gpu` again"
            self.report(chapter, fence.line, "PRV003", "the fence changed after its record was made", hint)
            self.proofs.append(self.proof(chapter, fence, "stale", date=kept["date"]))
        else:
            self.outputs[chapter, fence.id] = kept["output"]
            versions: Mapping[str, str] = kept.get("versions", {})
            where = ", ".join([kept["device"], *(f"{k} {v}" for k, v in versions.items())])
            proof = self.proof(chapter, fence, "ok", where=where, date=kept["date"])
            self.proofs.append(replace(proof, seconds=kept.get("seconds", 0.0)))

    def lint(self, chapter: str, fence: Fence) -> None:
        """shellcheck over shell fences of every mode but parse (checked there) and output."""
        if fence.mode in ("run", "slurm", "gpu"):
            for row, message in languages.shell_findings(fence):
                self.report(chapter, fence.line + 1 + row, "PRV005", message)

    def check_output(self, chapter: str, fence: Fence) -> None:
        """An output fence against what its command printed."""
        name = fence.attrs.get("of", "")
        if not name:
            hint = "name the command's fence: {of=ID}"
            self.report(chapter, fence.line, "PRV008", "this output belongs to no command", hint)
            return
        printed = self.outputs.get((chapter, name))
        if printed is None:
            return  # the command itself failed and is reported, or FEN007 says that it is not there
        wrong = compare(fence.text, printed)
        if wrong is not None:
            # The run may have been the odd one: it is made again next time.
            self.cache.drop("proof", self.keys.get((chapter, name), "none"))
            hint = "if the run is right: bookpress prove --refresh"
            self.report(chapter, fence.line + 1 + wrong.row, "PRV002", str(wrong), hint)


def _tail(output: str, rows: int = 6) -> str:
    lines = [x for x in output.rstrip().splitlines() if x.strip()]
    return " ⏎ ".join(lines[-rows:])[-600:] or "nothing"


def prove(
    chapters: Sequence[tuple[str, Sequence[Fence]]],
    root: Path,
    cache_dir: Path,
    jobs: int,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[list[Proof], list[Problem], dict[tuple[str, str], str]]:
    """Prove every fence of the chapters (path, fences). Out: proofs in order, problems, outputs by id."""
    prover = Prover(root, cache_dir, jobs, progress)
    todo = [s for path, fences in chapters for s in sessions(path, fences, root) if s.mode != "gpu"]
    prover.execute(todo)
    for path, fences in chapters:
        for fence in fences:
            prover.other(path, fence)
            prover.lint(path, fence)
        for fence in fences:
            if fence.mode == "output":
                prover.check_output(path, fence)
    order = {path: n for n, (path, _) in enumerate(chapters)}
    prover.proofs.sort(key=lambda p: (order[p.chapter], p.index))
    return prover.proofs, prover.problems, prover.outputs
