"""For tests that need a program: without it they are left out at home and fail in continuous integration."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def absent(what: str) -> NoReturn:
    """Say what to install. Under CI nothing may be missing: a skipped test would look like a green one."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
