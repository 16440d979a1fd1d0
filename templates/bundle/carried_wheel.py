"""Build backend of this archive (PEP 517): hands out the wheel or the sdist in it, once MANIFEST vouches for it.

So `pip install URL-OF-THE-ARCHIVE` needs Python and pip alone, also on nodes that reach no package index.
"""

import hashlib
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent


def _hand_out(pattern, directory):
    (file,) = HERE.glob(pattern)
    lines = (HERE / "MANIFEST").read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if hashlib.sha256(file.read_bytes()).hexdigest() != listed.get(file.name):
        raise SystemExit(f"{file.name} differs from MANIFEST: download the archive again")
    shutil.copyfile(file, pathlib.Path(directory) / file.name)
    return file.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _hand_out("*.whl", wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    return _hand_out("*.tar.gz", sdist_directory)
