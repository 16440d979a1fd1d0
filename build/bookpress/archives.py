"""Archives whose bytes depend on their files and one date alone: tar.gz, zip, wheel, sdist, zipapp.

In: names and contents. Out: bytes. Zips inside a tarball are stored, not compressed, so that they do not depend
on the zlib at hand; the tarball around them is compressed once.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

# Zip can say 1980 to 2107.
_FIRST, _LAST = 315_532_800, 4_354_819_198


@dataclass(frozen=True)
class Packed:
    """One file of an archive."""

    name: str
    data: bytes
    runs: bool = False  # may be executed

    @property
    def mode(self) -> int:
        return 0o755 if self.runs else 0o644

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def _second(epoch: int) -> int:
    return min(max(epoch, _FIRST), _LAST)


def tar_gz(files: Iterable[Packed], folder: str, epoch: int) -> bytes:
    """A tarball whose files lie in one folder, owned by nobody in particular."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(files, key=lambda f: f.name):
            info = tarfile.TarInfo(f"{folder}/{file.name}")
            info.size, info.mode, info.mtime = len(file.data), file.mode, _second(epoch)
            tar.addfile(info, io.BytesIO(file.data))
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=_second(epoch)) as packed:
        packed.write(inner.getvalue())
    return out.getvalue()


def zip_bytes(files: Iterable[Packed], epoch: int, compressed: bool = False) -> bytes:
    """A zip of regular files in the order given, times in UTC."""
    moment = datetime.fromtimestamp(_second(epoch), UTC).timetuple()[:6]
    out = io.BytesIO()
    way = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w") as archive:
        for file in files:
            info = zipfile.ZipInfo(file.name, moment)
            info.create_system = 3  # Unix, whatever machine packs
            info.external_attr = (0o100000 | file.mode) << 16
            archive.writestr(info, file.data, way, 9)
    return out.getvalue()


@dataclass(frozen=True)
class Project:
    """What a distribution's metadata says, read from its pyproject.toml."""

    table: Mapping[str, object]
    version: str
    readme: str

    @classmethod
    def read(cls, pyproject: str, version: str, readme: str) -> Project:
        return cls(tomllib.loads(pyproject)["project"], version, readme)

    @property
    def name(self) -> str:
        return str(self.table["name"])

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def commands(self) -> dict[str, str]:
        return dict(self.table.get("scripts", {}))

    @property
    def extras(self) -> dict[str, list[str]]:
        return dict(self.table.get("optional-dependencies", {}))

    def metadata(self) -> bytes:
        """Core metadata 2.4, for METADATA in a wheel and PKG-INFO in an sdist."""
        table = self.table
        lines = ["Metadata-Version: 2.4", f"Name: {self.name}", f"Version: {self.version}"]
        lines.append(f"Summary: {table['description']}")
        lines += [f"Author: {author['name']}" for author in table.get("authors", ())]
        lines.append(f"License-Expression: {table['license']}")
        lines += [f"Classifier: {line}" for line in table.get("classifiers", ())]
        lines.append(f"Requires-Python: {table['requires-python']}")
        lines += ["Description-Content-Type: text/markdown", "License-File: LICENSE"]
        lines += [f"Requires-Dist: {need}" for need in table.get("dependencies", ())]
        for extra, needs in self.extras.items():
            lines.append(f"Provides-Extra: {extra}")
            lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
        return ("\n".join(lines) + "\n\n" + self.readme).encode()


def wheel(project: Project, package: Iterable[Packed], licence: bytes, epoch: int) -> Packed:
    """A pure wheel: the package, its metadata, console commands, and RECORD over all of it."""
    info = f"{project.stem}.dist-info"
    commands = "".join(f"{name} = {target}\n" for name, target in project.commands.items())
    files = [
        *sorted(package, key=lambda f: f.name),
        Packed(f"{info}/licenses/LICENSE", licence),
        Packed(f"{info}/METADATA", project.metadata()),
        Packed(f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: bookpress\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        Packed(f"{info}/entry_points.txt", f"[console_scripts]\n{commands}".encode()),
        Packed(f"{info}/top_level.txt", f"{project.name}\n".encode()),
    ]
    rows = [
        f"{f.name},sha256={base64.urlsafe_b64encode(hashlib.sha256(f.data).digest()).rstrip(b'=').decode()},{len(f.data)}\n"
        for f in files
    ]
    files.append(Packed(f"{info}/RECORD", ("".join(rows) + f"{info}/RECORD,,\n").encode()))
    return Packed(f"{project.stem}-py3-none-any.whl", zip_bytes(files, epoch))


def sdist(project: Project, package: Iterable[Packed], others: Iterable[Packed], epoch: int) -> Packed:
    """A source distribution: the package, pyproject.toml, README, LICENSE and PKG-INFO."""
    files = [*package, *others, Packed("PKG-INFO", project.metadata())]
    return Packed(f"{project.stem}.tar.gz", tar_gz(files, project.stem, epoch))


def zipapp(name: str, package: Iterable[Packed], module: str, function: str, epoch: int) -> Packed:
    """One executable file with every tool: `python NAME.pyz TOOL …`."""
    start = f"import sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
    files = [Packed("__main__.py", start.encode()), *sorted(package, key=lambda f: f.name)]
    return Packed(name, b"#!/usr/bin/env python3\n" + zip_bytes(files, epoch), runs=True)
