"""Part of prove: `parse` fences, each checked by its language's own parser or linter.

Every checker takes a Fence and gives findings (row in the fence from 0, message). A language without a
checker is itself a finding: `parse` must never mean "looked at by nobody".
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator

import yaml

from ..model import Fence
from ..problems import ToolMissing
from . import kubernetes, sbatch

Finding = tuple[int, str]


def _shell(fence: Fence) -> Iterator[Finding]:
    if not shutil.which("shellcheck"):
        raise ToolMissing("shellcheck is needed for shell fences; apt-get install shellcheck")
    dialect = "sh" if fence.lang == "sh" else "bash"
    # SC2148: a fence has no #! line. SC1091, SC2154: files and variables of the reader's own.
    # SC2034: a fence may set what a later one uses.
    command = ["shellcheck", "--format=json", f"--shell={dialect}", "--exclude=SC2148,SC1091,SC2154,SC2034", "-"]
    done = subprocess.run(command, input=fence.text + "\n", capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise ToolMissing(f"shellcheck failed: {done.stderr.strip()}")
    for row in json.loads(done.stdout or "[]"):
        if row["level"] in ("error", "warning"):
            yield row["line"] - 1, f"SC{row['code']} {row['message']}"


def _python(fence: Fence) -> Iterator[Finding]:
    try:
        tree = ast.parse(fence.text)
    except SyntaxError as error:
        yield (error.lineno or 1) - 1, f"not valid Python: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _import(node.lineno - 1, name.name, ())
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from _import(node.lineno - 1, node.module, tuple(n.name for n in node.names))


def _import(row: int, module: str, names: tuple[str, ...]) -> Iterator[Finding]:
    """Check imported names where the library is installed; where it is not, nothing can be said."""
    top = module.partition(".")[0]
    if importlib.util.find_spec(top) is None:
        return
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        yield row, f"cannot import {module}: {error}"
        return
    for name in names:
        if name == "*" or hasattr(loaded, name):
            continue
        try:
            importlib.import_module(f"{module}.{name}")
        except ImportError:
            yield row, f"'{module}' has no '{name}'"


def _yaml(fence: Fence) -> Iterator[Finding]:
    try:
        documents = list(yaml.safe_load_all(fence.text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        yield (mark.line if mark else 0), f"not valid YAML: {getattr(error, 'problem', error)}"
        return
    for document in documents:
        if isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys():
            yield from kubernetes.check(document, fence.text)


def _json(fence: Fence) -> Iterator[Finding]:
    try:
        json.loads(fence.text)
    except json.JSONDecodeError as error:
        yield error.lineno - 1, f"not valid JSON: {error.msg}"


def _toml(fence: Fence) -> Iterator[Finding]:
    try:
        tomllib.loads(fence.text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        row = int(place[1]) - 1 if place else fence.text.count("\n")  # else: at the end of the document
        yield row, f"not valid TOML: {error}"


def _batch_script(fence: Fence) -> Iterator[Finding]:
    yield from _shell(fence)
    yield from sbatch.check(fence.text)


_CHECKERS: dict[str, Callable[[Fence], Iterator[Finding]]] = {
    "bash": _batch_script,
    "sh": _batch_script,
    "shell": _batch_script,
    "python": _python,
    "py": _python,
    "yaml": _yaml,
    "yml": _yaml,
    "json": _json,
    "toml": _toml,
}


def check(fence: Fence) -> list[Finding]:
    """All findings of a fence in its language."""
    checker = _CHECKERS.get(fence.lang)
    if checker is None:
        known = ", ".join(sorted(_CHECKERS))
        return [(0, f"no parser for '{fence.lang or 'no language'}' (parse knows {known})")]
    return list(checker(fence))


def shell_findings(fence: Fence) -> list[Finding]:
    """shellcheck over a fence of any mode: a shell fence that runs is linted as well."""
    return list(_batch_script(fence)) if fence.lang in ("bash", "sh", "shell") else []
