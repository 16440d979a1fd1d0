"""The `slurm_cluster` fixture: one cluster for the whole test session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cluster import Cluster, accounting_missing, missing, running


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """A running two-node cluster with accounting.

    Where the machine can't hold one, tests are skipped with the reason; under CI (the variable that
    every common service sets) they fail, so that a lost package never looks like a passed test.
    """
    reasons = missing() + [f"Debian package not installed: {p}" for p in accounting_missing()]
    if reasons:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop("no Slurm here: " + "; ".join(reasons))
    with running(accounting=True) as cluster:
        yield cluster
