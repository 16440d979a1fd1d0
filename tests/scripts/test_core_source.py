"""Rules of the package's source: it is pasted into single files and runs on Python 3.9 to 3.14."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import SCRIPTS

MODULES = sorted((SCRIPTS / "clusterprobe").glob("*.py"))
SOURCES = [*MODULES, *sorted(SCRIPTS.glob("*.py"))]
HARD_LIMIT = 400


def tree_of(path: Path, minor: int | None = None) -> ast.Module:
    version = {} if minor is None else {"feature_version": (3, minor)}
    return ast.parse(path.read_text(), filename=str(path), **version)


def top_names(tree: ast.Module) -> list[str]:
    names = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [
                part.id
                for target in targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            ]
    return names


def own_imports(tree: ast.Module) -> list[ast.ImportFrom]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.level or (node.module or "").split(".")[0] == "clusterprobe")
    ]


@pytest.mark.parametrize("minor", range(9, 15))
def test_parses_on_every_supported_python(minor):
    for path in SOURCES:
        tree_of(path, minor)


def test_no_newer_syntax_than_39():
    """ast.parse lets some newer syntax pass; these nodes are looked for by name."""
    newer = [
        name for name in ("Match", "TryStar", "TypeAlias", "TemplateStr") if hasattr(ast, name)
    ]
    kinds = tuple(getattr(ast, name) for name in newer)
    found = [
        f"{path.name}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, kinds)
    ]
    assert found == []


def test_annotations_are_not_evaluated():
    for path in MODULES:
        assert "from __future__ import annotations" in path.read_text(), path.name


def test_no_keyword_only_or_slotted_dataclasses():
    """Both came with 3.10."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "dataclass"
        and {word.arg for word in node.keywords} & {"kw_only", "slots"}
    ]
    assert found == []


def test_top_level_names_are_unique():
    count = Counter(name for path in MODULES for name in top_names(tree_of(path)))
    assert {name: times for name, times in count.items() if times > 1} == {}


def test_imports_can_be_stripped():
    """Absolute, unrenamed, at the top: a generator can drop the line and paste the module."""
    for path in SOURCES:
        tree = tree_of(path)
        for node in own_imports(tree):
            assert node.level == 0, f"{path.name}:{node.lineno} is relative"
            assert node in tree.body, f"{path.name}:{node.lineno} is not at the top"
            assert all(name.asname is None and name.name != "*" for name in node.names), (
                f"{path.name}:{node.lineno}"
            )
        renamed = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            and any(name.name.startswith("clusterprobe") for name in node.names)
        ]
        assert renamed == [], path.name


def test_no_cycles():
    uses = {
        path.stem: {(node.module or "").split(".")[-1] for node in own_imports(tree_of(path))}
        for path in MODULES
    }
    done: set[str] = set()
    while ready := {
        name for name in uses if name not in done and uses[name] - {"clusterprobe"} <= done
    }:
        done |= ready
    assert set(uses) - done == set()


def test_standard_library_and_torch_only():
    import sys

    allowed = sys.stdlib_module_names | {"torch", "clusterprobe", "habana_frameworks", "matplotlib"}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            modules = (
                [name.name for name in node.names]
                if isinstance(node, ast.Import)
                else ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            )
            assert {name.split(".")[0] for name in modules} <= allowed, f"{path.name}:{node.lineno}"


def test_torch_is_imported_inside_functions_only():
    for path in SOURCES:
        for node in tree_of(path).body:
            names = (
                [name.name for name in node.names]
                if isinstance(node, ast.Import)
                else ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            )
            assert not any(name.split(".")[0] == "torch" for name in names), path.name


def test_module_size_and_docstring():
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= HARD_LIMIT, path.name
        assert ast.get_docstring(tree_of(path)), path.name


def real_interpreter(version: str) -> str | None:
    """A Python that starts: on PATH, or among pyenv's (whose shims exist without answering)."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, pyenv.glob(f"{version}.*/bin/python")),
    ]
    return next(
        (
            one
            for one in candidates
            if one and subprocess.run([one, "-c", ""], capture_output=True).returncode == 0
        ),
        None,
    )


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_compiles_with_a_real_interpreter(version, tmp_path):
    """Where such a Python is installed; elsewhere the feature-version parse above is all there is."""
    python = real_interpreter(version)
    if python is None:
        pytest.skip(f"python{version} is not installed")
    code = (
        f"import sys; sys.path.insert(0, r'{SCRIPTS}'); import clusterprobe.gpu_test as g; "
        "g.gpu_test_parser().format_help()"
    )
    done = subprocess.run(
        [python, "-W", "error", "-B", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
