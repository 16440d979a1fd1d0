"""What tests of chapters and data share: a script beside a chapter as a module, YAML as a JSON schema sees it."""

from __future__ import annotations

import datetime
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def load_script(path: Path, *folders: Path) -> ModuleType:
    """The script at `path` as a module that finds its neighbours (and those in `folders`) while it is loaded."""
    name = f"book_{path.parent.name}_{path.stem}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    found = [str(folder) for folder in (path.parent, *folders)]
    sys.path[:0] = found
    try:
        spec.loader.exec_module(module)
    finally:
        for folder in found:
            sys.path.remove(folder)
    return module


def plain(node: Any) -> Any:
    """Dates as text, all the way down."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(value) for value in node]
    return node.isoformat() if isinstance(node, datetime.date) else node
