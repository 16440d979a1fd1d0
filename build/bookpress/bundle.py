"""Stage: bundle. The instruments as one tarball that works where nothing but Python and torch is.

In: scripts/ beside book.toml: the package, an entry per tool, pyproject.toml and README.md. Out:
dist/ml-engineering-scripts-VERSION.tar.gz with a self-contained file per tool, sdist, wheel, zipapp, the
reports' schema, README, LICENSE, and MANIFEST with the SHA-256 of each. pip installs it as it is, also by its
address: its pyproject.toml names a backend that hands out the wheel. Same sources and date, same bytes.
"""

from __future__ import annotations

import ast
import fcntl
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import templates
from .archives import Packed, Project, sdist, tar_gz, wheel, zipapp
from .config import read_config
from .install import check_place, install
from .model import Config
from .onefile import (
    PACKAGE,
    Head,
    Source,
    import_problems,
    in_order,
    name_problems,
    one_file,
    read_source,
)
from .problems import Problem, WrongUse, errors
from .stamp import stamp

FOLDER = "scripts"
STEM = "ml-engineering-scripts"
MANIFEST = "MANIFEST"
LICENCE_FILE = "LICENSES/Apache-2.0.txt"
_VERSION = ("clusterprobe.version", "PROBE_VERSION")
_EVERY_TOOL = ("clusterprobe.__main__", "clusterprobe_main")


def _read_all(config: Config) -> tuple[list[Source], dict[str, Source], list[Problem]]:
    """(entries, modules by dotted name, problems)."""
    home = config.root / FOLDER
    entries, modules, problems = [], {}, []
    for file in sorted(home.glob("*.py")):
        source, found = read_source(file, file.name, f"{FOLDER}/{file.name}")
        entries += [source] if source else []
        problems += found
    for file in sorted((home / PACKAGE).glob("*.py")):
        name = PACKAGE if file.stem == "__init__" else f"{PACKAGE}.{file.stem}"
        source, found = read_source(file, name, f"{FOLDER}/{PACKAGE}/{file.name}")
        modules |= {name: source} if source else {}
        problems += found
    if not problems and not (entries and modules):
        raise WrongUse(f"{home} holds no tools; a bundle needs {PACKAGE}/ and an entry script per tool")
    return entries, modules, problems


def _constant(source: Source, name: str) -> str:
    """The string that the module assigns to a name; "" where it assigns none."""
    for node in source.tree.body:
        names = [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
        if name in names and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return ""


def _version_problems(config: Config, modules: Mapping[str, Source]) -> list[Problem]:
    """The release has one version: readers of a report must find the release that made it."""
    module, name = _VERSION
    source = modules.get(module)
    found = _constant(source, name) if source else ""
    if found == config.version:
        return []
    path = source.path if source else f"{FOLDER}/{PACKAGE}/version.py"
    text = f"{name} is '{found}', the book's version is '{config.version}'"
    return [Problem(path, 1, 1, "BND006", text)]


def _text(config: Config, name: str) -> str:
    try:
        return (config.root / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"the bundle needs {config.root / name}: {error}") from None


def _project(config: Config) -> Project:
    """The tools' own pyproject.toml, with the keys that metadata cannot do without."""
    path = f"{FOLDER}/pyproject.toml"
    try:
        project = Project.read(_text(config, path), config.version, _text(config, f"{FOLDER}/README.md"))
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise WrongUse(f"{path}: {error}; it needs a [project] table") from None
    lacks = [k for k in ("name", "description", "license", "requires-python") if k not in project.table]
    if lacks:
        raise WrongUse(f"{path}: [project] needs {', '.join(lacks)}")
    return project


def _command_problems(entries: Sequence[Source], project: Project) -> list[Problem]:
    """Each tool is there under its name, as a file and as a console command."""
    text = "there is no console command of its name"
    return [
        entry.problem(None, "BND007", text, f"add it to [project.scripts] in {FOLDER}/pyproject.toml")
        for entry in entries
        if entry.name.removesuffix(".py") not in project.commands
    ]


def single_files(config: Config, project: Project) -> tuple[list[Packed], dict[str, Source], list[Problem]]:
    """One generated file per tool, and the modules they were made from."""
    entries, modules, problems = _read_all(config)
    problems += _version_problems(config, modules) + _command_problems(entries, project)
    problems += [p for source in (*entries, *modules.values()) for p in import_problems(source)]
    made = []
    for entry in entries:
        sources, found = in_order(entry, modules)
        problems += found + name_problems(sources)
        authors = project.table.get("authors") or [{"name": ", ".join(config.authors)}]
        head = Head(
            entry.name, config.version, str(project.table["requires-python"]), project.extras.get("torch", ()),
            str(project.table["license"]), ", ".join(author["name"] for author in authors),
        )  # fmt: skip
        made.append(Packed(entry.name, one_file(sources, head).encode(), runs=True))
    return made, modules, problems


def _package(config: Config, modules: Mapping[str, Source]) -> list[Packed]:
    """The package as it is installed: its modules and the schema of their reports."""
    home = config.root / FOLDER
    python = [Packed(m.path.removeprefix(f"{FOLDER}/"), m.text.encode()) for m in modules.values()]
    schemas = sorted((home / PACKAGE / "schema").glob("*.json"))
    return [*python, *(Packed(s.relative_to(home).as_posix(), s.read_bytes()) for s in schemas)]


def manifest(files: Sequence[Packed]) -> Packed:
    """As `sha256sum --check` reads it."""
    lines = [f"{file.sha256}  {file.name}\n" for file in sorted(files, key=lambda f: f.name)]
    return Packed(MANIFEST, "".join(lines).encode())


def _installable() -> list[Packed]:
    """What makes the tarball a project that pip installs."""
    return [Packed(n, templates.text(f"bundle/{n}").encode()) for n in ("pyproject.toml", "carried_wheel.py")]


def bundle_bytes(config: Config, epoch: int) -> tuple[bytes, list[Problem]]:
    """The whole tarball in memory; empty on an error."""
    project = _project(config)
    files, modules, problems = single_files(config, project)
    if errors(problems):
        return b"", problems
    licence = _text(config, LICENCE_FILE).encode()
    package = _package(config, modules)
    beside = [Packed("README.md", project.readme.encode()), Packed("LICENSE", licence)]
    pyproject = Packed("pyproject.toml", _text(config, f"{FOLDER}/pyproject.toml").encode())
    files += [
        sdist(project, package, [*beside, pyproject], epoch),
        wheel(project, package, licence, epoch),
        zipapp(f"{PACKAGE}.pyz", package, *_EVERY_TOOL, epoch),
        *beside,
        *_installable(),
        *(Packed(p.name.rpartition("/")[2], p.data) for p in package if p.name.endswith(".json")),
    ]
    return tar_gz([*files, manifest(files)], f"{STEM}-{config.version}", epoch), problems


def bundle(book_toml: Path, out: Path, cache_dir: Path | None = None) -> tuple[list[Path], list[Problem]]:
    """Write the tarball into `out`, over SHA256SUMS too. Out: the files in place and all problems."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return [], problems
    out = out.resolve()
    check_place(out, config)
    data, found = bundle_bytes(config, stamp(config).epoch)
    problems += found
    if errors(problems):
        return [], problems
    stage = (cache_dir or out.parent / ".cache").resolve()
    stage.mkdir(parents=True, exist_ok=True)
    with (stage / "lock").open("w") as turn:  # the build's own lock: both write SHA256SUMS
        fcntl.flock(turn, fcntl.LOCK_EX)
        made = stage / f"{STEM}-{config.version}.tar.gz"
        made.write_bytes(data)
        try:
            files = install([made], None, out, STEM)
        finally:
            os.unlink(made)
    return files, problems
