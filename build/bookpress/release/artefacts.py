"""The files of a release, as they will lie on the Hub: dist/release/.

In: a book. Out: one folder with book, web edition, instruments, licence, changelog, card, provenance and
SHA256SUMS, written whole or not at all; and what stands against publishing them (size, card). Names do not
carry the version, so that an address with a tag is pinned and one with `main` is the latest.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from .. import build as press
from ..archives import Packed, zip_bytes
from ..bundle import FOLDER as SCRIPTS
from ..bundle import STEM, bundle_bytes
from ..config import HUB_REPO, read_config
from ..install import SUMS, check_place
from ..model import Book, Config
from ..onefile import PACKAGE
from ..problems import Problem, WrongUse, errors
from ..web import Site
from . import card, changelog, provenance, verifier

FOLDER = "release"
WEB = "web.zip"


@dataclass(frozen=True)
class Made:
    """A release on the disk."""

    folder: Path
    files: tuple[Packed, ...]  # in the order of their names, SHA256SUMS among them
    tag: str

    @property
    def sums_sha256(self) -> str:
        return next(f.sha256 for f in self.files if f.name == SUMS)


def with_repo(config: Config, repo: str) -> Config:
    """The configuration with the repository that the command line names, if it does."""
    if repo and not HUB_REPO.fullmatch(repo):
        raise WrongUse(f"'{repo}' names no repository; write REPO=OWNER/NAME")
    config = replace(config, hub_repo=repo) if repo else config
    if not config.hub_repo:
        raise WrongUse("no repository named; set repo under [hub] in book.toml, or give REPO=OWNER/NAME")
    return config


def _instruments(config: Config, epoch: int) -> tuple[list[Packed], list[Problem]]:
    """The tarball under its own and under a lasting name, and each tool's file from it."""
    if not (config.root / SCRIPTS / PACKAGE).is_dir():
        return [], []
    data, problems = bundle_bytes(config, epoch)
    if errors(problems):
        return [], problems
    stem = f"{STEM}-{config.version}"
    files = [Packed(f"{stem}.tar.gz", data), Packed(f"{STEM}.tar.gz", data)]
    with tarfile.open(fileobj=BytesIO(data)) as tar:
        for member in tar.getmembers():
            name = member.name.removeprefix(f"{stem}/")
            if name.endswith(".py") and (config.root / SCRIPTS / name).is_file():
                files.append(Packed(f"{SCRIPTS}/{name}", tar.extractfile(member).read()))
    return files, problems


def _texts(config: Config) -> list[Packed]:
    """Licences and changelog, where the book has them."""
    there = [config.root / "LICENSE", config.root / changelog.FILE, *sorted((config.root / "LICENSES").glob("*.txt"))]
    return [Packed(f.relative_to(config.root).as_posix(), f.read_bytes()) for f in there if f.is_file()]


def sums(files: Sequence[Packed]) -> Packed:
    """SHA256SUMS over the other files."""
    lines = [f"{f.sha256}  {f.name}\n" for f in sorted(files, key=lambda f: f.name)]
    return Packed(SUMS, "".join(lines).encode())


def _assemble(book: Book, built: Sequence[Path], tag: str) -> tuple[list[Packed], list[Problem]]:
    config = book.config
    stable = {file: f"{config.slug}{file.suffix}" for file in built if file.suffix in (".pdf", ".epub")}
    files = [Packed(name, file.read_bytes()) for file, name in stable.items()]
    site = Site(book, list(stable.values()))
    pages = [Packed(f"web/{path}", site.read(path) or b"") for path in sorted(site.paths())]
    files.append(Packed(WEB, zip_bytes(pages, book.stamp.epoch, compressed=True)))
    tools, problems = _instruments(config, book.stamp.epoch)
    files += [*tools, *_texts(config), Packed("verify.py", Path(verifier.__file__).read_bytes(), runs=True)]
    told = next((f.data.decode() for f in files if f.name == changelog.FILE), "")
    scripts = [f.name for f in tools if f.name.endswith(".py")]
    files.append(card.render(book, tag, files, scripts, changelog.of_version(told, config.version)))
    files.append(provenance.record(book, tag, files))
    files.append(sums(files))
    return sorted(files, key=lambda f: f.name), problems


def objections(config: Config, files: Sequence[Packed]) -> list[Problem]:
    """What stands against publishing these files."""
    limit = config.hub_file_budget_mb * 1_000_000
    hint = "make it smaller, or raise file_budget_mb under [hub]"
    found = [
        Problem(f.name, 0, 0, "REL010", f"{len(f.data) / 1e6:.1f} MB, the budget is {limit / 1e6:.0f} MB", hint)
        for f in files if len(f.data) > limit
    ]  # fmt: skip
    return found + [p for f in files if f.name == card.NAME for p in card.problems(f.data.decode())]


def write(files: Sequence[Packed], folder: Path) -> None:
    """Replace the folder by these files; an interruption leaves the old folder or none, never a mixture."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        for file in files:
            place = new / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.data)
            place.chmod(file.mode)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(new, folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def make(
    book_toml: Path, out: Path, cache: Path | None, repo: str = "", jobs: int | None = None,
    progress: press.Progress = press.silent,
) -> tuple[Made | None, list[Problem]]:  # fmt: skip
    """Build what is not built, and lay the release out under `out`. None on an error in the book."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return None, problems
    config = with_repo(config, repo)
    out = out.resolve()
    check_place(out, config)
    cache = (cache or out.parent / ".cache").resolve()
    built, problems = press.build(book_toml, out, press.OUTPUTS, jobs, cache, progress)
    if errors(problems):
        return None, problems
    read, _ = press.prepare(config, cache, jobs or press.default_jobs(), progress)
    tag = f"v{config.version}"
    files, found = _assemble(read, built, tag)
    problems += found + objections(config, files)
    if errors(found):
        return None, problems
    write(files, out / FOLDER)
    return Made(out / FOLDER, tuple(files), tag), problems
