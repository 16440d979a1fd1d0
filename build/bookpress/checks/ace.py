"""Ace by DAISY over the finished EPUB: does anything bar readers who do not read by eye?

Stands after the outputs, optional and slow: Ace opens every page in Chromium. It comes from npm
(`npm install --ignore-scripts @daisy/ace-cli`; its own install script would download a browser).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..epub.pages import name_of
from ..model import Book
from ..problems import Problem, ToolMissing

DEADLINE_S = 1800
REPOSITORY = Path(__file__).parents[3]


def command() -> str:
    own = REPOSITORY / "node_modules" / ".bin" / "ace-cli"
    found = shutil.which("ace-cli") or (str(own) if own.is_file() else None)
    if found is None:
        raise ToolMissing("Ace is not installed: npm install --ignore-scripts @daisy/ace-cli")
    return found


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise ToolMissing("Ace needs Chromium: apt-get install chromium")
    return found


def check(file: Path, book: Book) -> list[Problem]:
    """A problem for each violation; the report itself is thrown away."""
    with tempfile.TemporaryDirectory(prefix="bookpress-ace-") as folder:
        run = subprocess.run(
            [command(), "--force", "--silent", "--doNotReportMedia", "--outdir", folder, str(file)],
            env=os.environ | {"PUPPETEER_EXECUTABLE_PATH": browser()},
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        report = Path(folder) / "report.json"
        if not report.is_file():
            raise ToolMissing(f"Ace gave no report: {run.stderr.decode(errors='replace')[-500:]}")
        return list(problems(json.loads(report.read_text(encoding="utf-8")), book, file.name))


def problems(report: dict, book: Book, file: str) -> Iterator[Problem]:
    paths = {name_of(chapter.slug): chapter.path for chapter in book.chapters}
    for page in report["assertions"]:
        name = page["earl:testSubject"]["url"].removeprefix("EPUB/")
        for finding in page["assertions"]:
            test, result = finding["earl:test"], finding["earl:result"]
            if result["earl:outcome"] != "fail":
                continue
            markup = " ".join((result.get("html") or "").split())[:80]
            said = " ".join(result["dct:description"].split())[:200]
            text = f"{test['dct:title']} ({test['earl:impact']}): {said} in {name} {markup}".strip()
            yield Problem(paths.get(name, file), 0, 0, "EPB002", text)
