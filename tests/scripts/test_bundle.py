"""The instruments' tarball: generated single files do what the package does; bytes repeat; bad sources are named."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS, clean_environment
from test_core_source import real_interpreter

TOOLS = ("all_reduce_bench", "torch-distributed-gpu-test", "mamf-finder")
LATE = {"torch", "matplotlib", "habana_frameworks"}
QUICK = {
    "all_reduce_bench": ("--sizes", "8,64K", "--num-iterations", "2", "--num-warmup-iterations", "1"),
    "torch-distributed-gpu-test": (),
    "mamf-finder": ("--shape", "64x64x64", "--shape", "128x64x96", "--dtype", "float32", "--budget", "2s"),
}


def press(book: Path, out: Path, prefix: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess:
    command = [*prefix, sys.executable, "-m", "bookpress", "bundle", "--book", str(book), "--out", str(out)]
    paths = {"PYTHONPATH": str(ROOT / "build")}
    return subprocess.run(command, env=clean_environment(**paths, **env), capture_output=True, text=True, timeout=100)


def run(*command: object, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *map(str, command)], env=clean_environment(), cwd=cwd, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def tarball(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "dist"
    done = press(ROOT / "book.toml", out)
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("ml-engineering-scripts-*.tar.gz")
    assert f"{hashlib.sha256(found.read_bytes()).hexdigest()}  {found.name}" in (out / "SHA256SUMS").read_text()
    return found


@pytest.fixture(scope="session")
def bundle(tarball, tmp_path_factory) -> Path:
    """The folder people get."""
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(tarball) as tar:
        tar.extractall(place)  # our own, made a moment ago
    (folder,) = place.iterdir()
    assert folder.name == tarball.name.removesuffix(".tar.gz")
    return folder


@pytest.fixture
def copied_book(tmp_path):
    """A function that copies what a bundle is made of, outside of git."""

    def copy(name: str) -> Path:
        book = tmp_path / name
        ignore = shutil.ignore_patterns("__pycache__", ".ruff_cache")
        shutil.copytree(SCRIPTS, book / "scripts", ignore=ignore)
        shutil.copytree(ROOT / "LICENSES", book / "LICENSES")
        shutil.copy(ROOT / "book.toml", book)
        return book

    return copy


def test_manifest_covers_every_file(bundle):
    lines = (bundle / "MANIFEST").read_text().splitlines()
    listed = {line.split("  ")[1]: line.split("  ")[0] for line in lines}
    there = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in bundle.iterdir() if p.name != "MANIFEST"}
    assert listed == there
    version = (SCRIPTS / "clusterprobe/version.py").read_text().split('PROBE_VERSION = "')[1].split('"')[0]
    assert set(there) == {
        *(f"{tool}.py" for tool in TOOLS), "clusterprobe.pyz", f"clusterprobe-{version}.tar.gz",
        f"clusterprobe-{version}-py3-none-any.whl", "README.md", "LICENSE", "report.schema.json", "pyproject.toml", "carried_wheel.py",
    }  # fmt: skip
    assert all(os.access(bundle / f"{tool}.py", os.X_OK) for tool in TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_single_file_behaves_like_the_package(bundle, tmp_path, tool):
    """Isolated mode and a folder of its own: nothing of the repository can be imported."""
    alone = shutil.copy(bundle / f"{tool}.py", tmp_path)
    for words in (["--help"], ["--version"], ["--dry-run", "--nproc", "2"], ["--dry-run"], ["--no-such-option"]):
        generated = run("-I", alone, *words, cwd=tmp_path)
        assert generated == run(SCRIPTS / f"{tool}.py", *words, cwd=tmp_path)
        assert generated[0] == {"--help": 0, "--version": 0, "--no-such-option": 2}.get(words[0], generated[0])
        assert "".join(generated[1:]).strip()
    assert run("-I", bundle / "clusterprobe.pyz", tool, "--help", cwd=tmp_path) == run("-I", alone, "--help", cwd=tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
def test_single_file_parses_on_every_python(bundle, tool):
    text = (bundle / f"{tool}.py").read_text()
    for minor in range(9, 15):
        ast.parse(text, feature_version=(3, minor))
    head = text.split("\n\n")[0]
    assert '# /// script\n# requires-python = ">=3.9"\n# dependencies = ["torch>=2.2"]\n# ///\n' in head
    assert f"# {tool}.py " in head
    assert "source sha256:" in head
    comments = [line for line in head.splitlines() if line.startswith("#")]
    assert head.splitlines() == comments, "the script block must stand in one run of comments"


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_starts_on_a_real_interpreter(bundle, tmp_path, version):
    """Where such a Python is installed; elsewhere the parse above is all there is."""
    python = real_interpreter(version)
    if python is None:
        pytest.skip(f"python{version} is not installed")
    for command in (*([f"{tool}.py"] for tool in TOOLS), *(["clusterprobe.pyz", tool] for tool in TOOLS)):
        done = subprocess.run(
            [python, "-I", "-W", "error", bundle / command[0], *command[1:], "--version"],
            env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{command[-1].removesuffix('.py')} ")


@pytest.mark.parametrize("version", ["3.9", "3.11"])
def test_zipapp_starts_local_ranks_with_its_own_command(bundle, tmp_path, version):
    """Python 3.9 does not keep the command line; each rank must still get the tool's name."""
    python = real_interpreter(version)
    if python is None:
        pytest.skip(f"python{version} is not installed")
    words = ("torch-distributed-gpu-test", "--nproc", "2", "--device", "cpu", "--json", "none")
    done = subprocess.run(
        [python, "-I", bundle / "clusterprobe.pyz", *words],
        env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 6, done.stdout + done.stderr
    assert "torch can't be imported" in done.stdout
    assert "no tool" not in done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_single_file_imports_only_the_standard_library(bundle, tool):
    tree = ast.parse((bundle / f"{tool}.py").read_text())
    top = set(tree.body)
    inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            roots = {module.split(".")[0] for module in modules}
            assert roots <= sys.stdlib_module_names | (LATE if node in inside else set()), node.lineno
            assert node in top or node in inside


@pytest.mark.parametrize("tool", TOOLS)
def test_top_level_names_are_unique(bundle, tool):
    tree = ast.parse((bundle / f"{tool}.py").read_text())
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [(a.asname or a.name).split(".")[0] for a in node.names]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names += [p.id for p in ast.walk(node) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)]
    assert {name: times for name, times in Counter(names).items() if times > 1} == {}
    assert len(names) > 100


@pytest.mark.parametrize("tool", TOOLS)
def test_signals_are_held_back_before_other_modules_are_imported(bundle, tool):
    """Ctrl-C in an import is a traceback, and on a cold network file system imports take seconds."""
    words = [ast.unparse(node) for node in ast.parse((bundle / f"{tool}.py").read_text()).body]
    others = [word for word in words if word.startswith(("import ", "from ")) and "__future__" not in word]
    assert others[0] == "import _signal"
    assert words.index("import _signal") < words.index("hold_signals(True)") < words.index(others[1])
    assert words.count("hold_signals(True)") == 1


def test_a_tool_gets_the_modules_it_needs_only(bundle):
    assert "# clusterprobe.bench_pairs\n" in (bundle / "all_reduce_bench.py").read_text()
    assert "clusterprobe.bench" not in (bundle / "mamf-finder.py").read_text()
    assert "# clusterprobe.matmul_" not in (bundle / "torch-distributed-gpu-test.py").read_text()


def test_same_bytes_in_other_circumstances(copied_book, tmp_path):
    """Another folder, umask, time zone, hash seed and locale; files with other times and rights."""
    first, second = copied_book("one"), copied_book("somewhere else/two")
    for file in second.rglob("*"):
        os.utime(file, (1, 1))
        file.chmod(0o700)
    date = {"SOURCE_DATE_EPOCH": "1700000000"}
    done = press(first, tmp_path / "a", **date, PYTHONHASHSEED="1", TZ="UTC")
    other = press(
        second, tmp_path / "b", ("sh", "-c", 'umask 077; exec "$@"', "sh"),
        **date, PYTHONHASHSEED="2", TZ="Pacific/Kiritimati", LC_ALL="C",
    )  # fmt: skip
    assert (done.returncode, other.returncode) == (0, 0), done.stderr + other.stderr
    (one,), (two,) = (tuple((tmp_path / name).glob("*.tar.gz")) for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    third = press(first, tmp_path / "c", SOURCE_DATE_EPOCH="1800000000")
    assert third.returncode == 0
    assert next((tmp_path / "c").glob("*.tar.gz")).read_bytes() != one.read_bytes()


def test_installs_with_pip_and_its_commands_run(bundle, tmp_path):
    """A fresh environment, no index; console commands answer as the package's entries do."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=60)
    (built,) = bundle.glob("*.whl")
    place = tmp_path / "venv/bin"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", place / "python", "install", "--no-index", "--no-compile",
         "--disable-pip-version-check", built],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for tool in TOOLS:
        for word in ("--help", "--version"):
            asked = subprocess.run(
                [place / tool, word], env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60
            )
            assert asked.stderr == ""
            assert (0, asked.stdout, "") == run(SCRIPTS / f"{tool}.py", word, cwd=tmp_path)
    asked = subprocess.run([place / "clusterprobe", "--help"], capture_output=True, text=True, timeout=60)
    assert asked.returncode == 0
    assert all(tool in asked.stdout for tool in TOOLS)


def test_wheel_and_sdist_hold_the_package(bundle):
    (built,), (source,) = bundle.glob("*.whl"), bundle.glob("clusterprobe-*.tar.gz")
    package = {
        p.relative_to(SCRIPTS).as_posix(): p.read_bytes()
        for pattern in ("*.py", "schema/*.json")
        for p in (SCRIPTS / "clusterprobe").glob(pattern)
    }
    with zipfile.ZipFile(built) as archive:
        assert archive.testzip() is None
        wheel = {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(source) as tar:
        sdist = {m.name.split("/", 1)[1]: tar.extractfile(m).read() for m in tar.getmembers()}
    for files in (wheel, sdist):
        assert {name: data for name, data in files.items() if name.startswith("clusterprobe/")} == package
    (info,) = {name.split("/")[0] for name in wheel if ".dist-info/" in name}
    assert sdist["PKG-INFO"] == wheel[f"{info}/METADATA"]
    assert sdist["pyproject.toml"] == (SCRIPTS / "pyproject.toml").read_bytes()
    assert b"\nLicense-Expression: Apache-2.0\n" in sdist["PKG-INFO"]
    rows = wheel[f"{info}/RECORD"].decode().splitlines()
    assert sorted(row.split(",")[0] for row in rows) == sorted(wheel)


def test_readme_names_the_exit_codes_and_tools(bundle):
    from clusterprobe.exits import exit_table

    text = (bundle / "README.md").read_text()
    rows = text.split("| Exit | Meaning |")[1].split("\n\n")[0]
    told = set(re.findall(r"\d+", " ".join(row.split("|")[1] for row in rows.splitlines()[2:])))
    assert told == set(re.findall(r"(?<![\w.])\d+(?![\w.])", exit_table()))
    assert all(f"`{tool}.py`" in text for tool in TOOLS)


def test_zipapp_without_a_tool_is_wrong_use(bundle, tmp_path):
    for words, rc in (((), 2), (("no-such-tool",), 2), (("--help",), 0), (("--version",), 0)):
        code, out, err = run("-I", bundle / "clusterprobe.pyz", *words, cwd=tmp_path)
        assert code == rc
        assert ("RESULT status=error rc=2" in err) == (rc == 2)
        assert "clusterprobe" in out + err


# What is wrong → (file, what is added to it, code, words of the message).
UNPARSED = {
    "syntax of 3.10": ("units.py", "match 1:\n    case 1:\n        pass\n", "BND001", "not Python 3.9"),
    "no syntax at all": ("stats.py", "def (:\n", "BND001", "not Python 3.9"),
}
BROKEN = {
    "module that is not there": ("units.py", "from clusterprobe.unit import parse_size\n", "BND002", "no module"),
    "name that is not there": ("options.py", "from clusterprobe.units import parse_sizes\n", "BND002", "parse_sizes"),
    "circle": ("units.py", "from clusterprobe.options import make_parser\n", "BND002", "import each other"),
    "relative import": ("units.py", "from .exits import OK\n", "BND003", "relative"),
    "renamed import": ("options.py", "from clusterprobe.exits import OK as FINE\n", "BND003", "renames"),
    "import in a function": ("options.py", "def late():\n    from clusterprobe.exits import OK\n", "BND003", "no top-level"),
    "whole module": ("options.py", "import clusterprobe.exits\n", "BND003", "no top-level"),
    "shared line": ("units.py", "import json; UNITS_EXTRA = 1\n", "BND003", "shares its line"),
    "own file": ("units.py", "UNITS_HOME = __file__\n", "BND003", "__file__"),
    "foreign package": ("units.py", "def late_one():\n    import numpy\n", "BND004", "numpy"),
    "torch at the top": ("units.py", "import torch\n", "BND004", "torch"),
    "name of another module": ("units.py", "USAGE = 3\n", "BND005", "'USAGE' is also"),
    "name of Python": ("units.py", "def format(x):\n    return x\n", "BND005", "Python itself"),
    "name of an import": ("units.py", "contextmanager = 1\n", "BND005", "'contextmanager' is also"),
    "two meanings": ("units.py", "from posixpath import join as replace\n", "BND005", "'replace' is imported from two"),
}
# Found at the other of the two places that disagree.
ELSEWHERE = {"circle", "name of another module", "two meanings"}


@pytest.mark.parametrize("cases", [UNPARSED, BROKEN], ids=["unparsed", "broken"])
def test_bad_sources_are_named_and_nothing_is_written(copied_book, cases):
    """Each fault at its line, all in one run."""
    from bookpress.bundle import bundle_bytes
    from bookpress.config import read_config

    book = copied_book("book")
    lines = {}
    for case, (file, addition, _, _) in cases.items():
        path = book / "scripts/clusterprobe" / file
        text = path.read_text() + "\n" + addition
        path.write_text(text)
        lines[case] = range(len(text.splitlines()) - len(addition.splitlines()) + 1, len(text.splitlines()) + 1)
    config, _ = read_config(book / "book.toml")
    data, problems = bundle_bytes(config, 0)
    assert data == b""
    for case, (file, _, code, words) in cases.items():
        fits = [p for p in problems if p.code == code and words in p.message]
        assert fits, f"{case}: {problems}"
        at = [p for p in fits if p.path == f"scripts/clusterprobe/{file}" and p.line in lines[case]]
        assert at or case in ELSEWHERE, f"{case}: {fits}"


def test_untouched_copy_has_no_problems(copied_book):
    from bookpress.bundle import bundle_bytes
    from bookpress.config import read_config

    config, _ = read_config(copied_book("book") / "book.toml")
    data, problems = bundle_bytes(config, 0)
    assert data
    assert problems == []


def test_other_version_and_missing_command_are_problems(copied_book, tmp_path):
    book = copied_book("book")
    (book / "scripts/clusterprobe/version.py").write_text('"""V."""\nPROBE_VERSION = "9"\nSCHEMA_VERSION = 1\n')
    shutil.copy(book / "scripts/mamf-finder.py", book / "scripts/new-tool.py")
    done = press(book, tmp_path / "out")
    assert done.returncode == 1
    assert "scripts/clusterprobe/version.py:1:1 BND006" in done.stderr
    assert "scripts/new-tool.py:1:1 BND007" in done.stderr
    assert not (tmp_path / "out").exists()


def test_book_without_tools_is_wrong_use(tmp_path):
    (tmp_path / "book.toml").write_text('[book]\ntitle = "t"\nversion = "1"\n[[part]]\ntitle = ""\nchapters = ["a.md"]\n')
    done = press(tmp_path, tmp_path / "out")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_world_of_two(bundle, new_world, tmp_path, valid_report, tool):
    """Two ranks over gloo, each started with the generated file alone."""
    alone = Path(shutil.copy(bundle / f"{tool}.py", tmp_path))
    options = ("--device", "cpu", "--json", "r.json", "--stage-timeout", "90", *QUICK[tool])
    ends = new_world(2).start(alone, *options).finish(200)
    assert [end.rc for end in ends.values()] == [0, 0], ends[0].out + ends[0].err
    assert ends[0].result["status"] == "ok"
    assert not any("Traceback" in end.err for end in ends.values())
    assert valid_report(tmp_path / "r.json")["world"]["size"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_same_plan_where_torch_is(bundle, run_tool, tool):
    words = ("--dry-run", "--nproc", "2", "--device", "cpu", *QUICK[tool])
    generated, package = run_tool(bundle / f"{tool}.py", *words), run_tool(SCRIPTS / f"{tool}.py", *words)
    assert (generated.rc, generated.out, generated.err) == (package.rc, package.out, package.err)
    assert generated.rc == 0, generated.out + generated.err
    assert generated.out.strip()


@pytest.mark.slow
def test_zipapp_starts_its_own_ranks(bundle, run_tool, tmp_path):
    tool = "torch-distributed-gpu-test"
    done = run_tool(bundle / "clusterprobe.pyz", tool, "--nproc", "2", "--device", "cpu", "--json", "none", limit=200)
    assert done.rc == 0, done.out + done.err
    assert "2 ranks on 1 node" in done.out
