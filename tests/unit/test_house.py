"""The repository itself: what would break silently if someone moved it."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRESS = ROOT / "build" / "bookpress"
LIMIT = 400


def tracked() -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_build_is_a_source_root_and_not_a_package():
    # With build/__init__.py or build.py, `python -m build` would run ours instead of PyPA's.
    assert not (ROOT / "build" / "__init__.py").exists()
    assert not (ROOT / "build.py").exists()
    # Common .gitignore templates hide build/.
    assert "build/bookpress/model.py" in tracked()


def test_modules_stay_readable():
    sizes = sorted((len(f.read_text().splitlines()), f.relative_to(ROOT)) for f in PRESS.rglob("*.py"))
    print("largest:", *[f"{n} {f}" for n, f in sizes[-5:]])
    assert [f"{n} {f}" for n, f in sizes if n > LIMIT] == []


def test_every_code_reported_is_explained():
    sys.path.insert(0, str(ROOT / "build"))
    from bookpress.codes import CODES

    used = set()
    for file in PRESS.rglob("*.py"):
        if file.name != "codes.py":
            used |= set(re.findall(r'"([A-Z]{3}\d{3})"', file.read_text()))
    assert used - set(CODES) == set()
    assert set(CODES) - used == set(), "explained but never reported"


def test_every_module_says_where_it_stands():
    for file in PRESS.rglob("*.py"):
        assert ast.get_docstring(ast.parse(file.read_text())), f"{file} has no docstring"


def test_locks_hold_what_pyproject_asks_for_and_no_host():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        "requirements.lock": project["dependencies"],
        "requirements-test.lock": [*project["dependencies"], *extras["test"], *extras["publish"]],
    }
    for name, names in wanted.items():
        lock = (ROOT / name).read_text()
        pins = {re.sub(r"[-_.]+", "-", p).lower() for p in re.findall(r"^([\w.-]+==[^\s;]+)", lock, re.M)}
        for entry in names:
            assert re.sub(r"[-_.]+", "-", entry).lower() in pins, f"{entry} is not in {name}: make lock"
        assert "://" not in lock, "a lock names packages and hashes, never a host"
        assert not re.search(r"^torch==", lock, re.M)
        assert "--hash=sha256:" in lock


def test_ci_calls_the_readme_command_and_nothing_else():
    script = (ROOT / ".ci" / "run").read_text()
    commands = [
        line for line in script.splitlines()
        if line and not line.startswith(("#", "set ", "cd "))
    ]
    assert commands == ["exec make test"]
    assert "make test" in (ROOT / "README.md").read_text()


def test_bootstrap_reads_on_an_old_python():
    # The first message must be ours even where Python is too old: no syntax newer than 3.6.
    ast.parse((ROOT / "build" / "bootstrap.py").read_text(), feature_version=(3, 6))
