"""Strict JSON and files that are whole or absent: no NaN, no half-written report, no stale one.

A report is a stub with status `running` before anything is measured, so an old file never looks new, and
each later write goes to a temporary file that replaces it.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from typing import Any, List, Optional, Tuple, Union


def strict_value(value: Any) -> Any:
    """The value with everything JSON can't hold replaced: NaN and infinities become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): strict_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict_value(item) for item in value]
    if isinstance(value, str):  # bytes of a path or note that Python could not decode
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if value is None or isinstance(value, (bool, int)):
        return value
    raise TypeError(f"{type(value).__name__} has no place in a report")


def strict_json(value: Any, indent: Optional[int] = 1, ascii_only: bool = False) -> str:
    return json.dumps(strict_value(value), allow_nan=False, indent=indent, ensure_ascii=ascii_only)


def is_plain_target(path: str) -> bool:
    """Whether the path is, or would be, a regular file; devices and pipes are written in place."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def replace_file(path: str, content: Union[str, bytes]) -> None:
    """Write all of it or leave what was there. OSError says why it failed."""
    whole = content.encode("utf-8") if isinstance(content, str) else content
    if not is_plain_target(path):
        with open(path, "wb") as file:
            file.write(whole)
        return
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=".clusterprobe-", suffix=".json", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(whole)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def claim_file(wanted: str, text: str) -> Tuple[Optional[str], List[str]]:
    """Write the stub where wanted, else in the temporary folder. Returns (path or None, warnings)."""
    warnings: List[str] = []
    stem = os.path.splitext(os.path.basename(wanted))[0] or "report"
    fallback = os.path.join(tempfile.gettempdir(), f"{stem}-{os.getpid()}.json")
    for path in (wanted, fallback):
        try:
            replace_file(path, text)
            if path == fallback:
                warnings.append(f"the report is in {path} instead")
            return path, warnings
        except OSError as error:
            warnings.append(f"cannot write {path}: {error.strerror or error}")
    return None, warnings
