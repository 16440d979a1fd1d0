"""The checked data of the collective benchmark against brute force in the types themselves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import clean_environment


@pytest.fixture(scope="module", params=["1,2,3,7,64", pytest.param("341,1024,4096", marks=pytest.mark.slow)])
def found(request, torch_python) -> dict:
    script = Path(__file__).with_name("bench_values_check.py")
    done = subprocess.run([torch_python, str(script), request.param], env=clean_environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_results_are_exact_in_every_type_op_and_order(found):
    assert found["checked"] > 200
    assert found["wrong"] == []


def test_every_rank_shows_in_the_data(found):
    assert found["blind"] == []


def test_poison_fill_and_one_flipped_bit(found):
    assert found["buffers"] == []


def test_swapped_shares_are_found(found):
    assert found["shares"] == []
