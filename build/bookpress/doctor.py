"""`bookpress doctor`: every part of the press, its version, and what brings a missing one."""

from __future__ import annotations

import ctypes.util
import json
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata

from . import __version__
from .problems import OK, TOOL

_LIBRARIES = ("gobject-2.0", "pango-1.0", "harfbuzz", "harfbuzz-subset", "fontconfig", "pangoft2-1.0")
# program: arguments that print a version, what needs it
_PROGRAMS = {
    "git": (("--version",), "the commit in the colophon"),
    "java": (("-version",), "EPUBCheck and v.Nu"),
    "chromium": (("--version",), "browser tests and the benchmark"),
    "chromedriver": (("--version",), "browser tests"),
    "pdftotext": (("-v",), "tests of the PDF's text"),
    "qpdf": (("--version",), "tests of the PDF's structure"),
    "shellcheck": (("--version",), "checks of shell code in the book"),
    "sinfo": (("--version",), "the Slurm tests"),
}


@dataclass(frozen=True)
class Part:
    """One thing the press uses."""

    kind: str  # python | package | library | font | program
    name: str
    version: str  # "" when missing
    needed: bool  # the book cannot be built without it
    use: str = ""


def _packages() -> list[Part]:
    names = sorted(
        {r.split("==")[0].split(";")[0].strip() for r in _requirements()}, key=str.lower
    )
    parts = []
    for name in names:
        try:
            parts.append(Part("package", name, metadata.version(name), True))
        except metadata.PackageNotFoundError:
            parts.append(Part("package", name, "", True))
    return parts


def _requirements() -> list[str]:
    """The press's own dependencies, as pyproject.toml states them."""
    import tomllib
    from pathlib import Path

    file = Path(__file__).resolve().parents[2] / "pyproject.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))["project"]["dependencies"]


def _libraries() -> list[Part]:
    found = [(n, ctypes.util.find_library(n)) for n in _LIBRARIES]
    return [Part("library", n, f or "", n != "harfbuzz-subset") for n, f in found]


def _programs() -> list[Part]:
    parts = []
    for name, (args, use) in _PROGRAMS.items():
        version = ""
        if shutil.which(name):
            done = subprocess.run([name, *args], capture_output=True, text=True, check=False)
            lines = [x for x in (done.stdout + done.stderr).splitlines() if any(c.isdigit() for c in x)]
            version = lines[0].strip() if lines else "present"
        parts.append(Part("program", name, version, False, use))
    return parts


def _fonts() -> list[Part]:
    from fontTools.ttLib import TTFont

    from . import fonts

    parts = []
    for face in fonts.faces():
        with TTFont(face.file, lazy=True) as font:
            version = (font["name"].getDebugName(5) or "").split(";")[0]
        parts.append(Part("font", f"{face.family} {face.weight} {face.style}", version, True))
    return parts


def parts() -> list[Part]:
    """Everything, in the order a reader looks for it."""
    from .stamp import pandoc_version

    python = Part("python", "python", f"{platform.python_version()} ({sys.executable})", True)
    press = Part("python", "bookpress", __version__, True)
    found = [python, press, *_packages(), *_libraries()]
    try:
        found.append(Part("program", "pandoc", pandoc_version(), True, "carried by pypandoc_binary"))
        found += _fonts()
    except (ImportError, OSError):
        found.append(Part("program", "pandoc", "", True, "carried by pypandoc_binary"))
    return found + _programs()


def run(as_json: bool = False) -> int:
    """Print the list. Exit 3 when a part is missing that the book cannot be built without."""
    found = parts()
    if as_json:
        print(json.dumps([asdict(p) for p in found], indent=1))
    else:
        for part in found:
            state = part.version or ("MISSING" if part.needed else "not there")
            use = f"  [{part.use}]" if part.use else ""
            print(f"{part.kind:8} {part.name:32} {state}{use}")
    lacking = [p.name for p in found if p.needed and not p.version]
    if lacking and not as_json:
        print(f"missing: {', '.join(lacking)}; `make book` installs them or prints the command")
    return TOOL if lacking else OK
