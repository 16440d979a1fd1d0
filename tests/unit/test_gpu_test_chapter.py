"""Is this cluster able to run a job at all? The chapter's tables are those of the tool."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "chapters/debugging/gpu-test.md").read_text(encoding="utf-8")
FIXTURES = ROOT / "chapters/debugging/fixtures/gpu-test"


@pytest.fixture(scope="module", autouse=True)
def tool():
    sys.path.insert(0, str(ROOT / "scripts"))
    yield
    sys.path.pop(0)


def rows(label: str) -> list[list[str]]:
    """Cells of the table with this id, without head."""
    lines = TEXT.split(f"{{#{label}")[1].split("\n\n")[1].splitlines()
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


def test_stages_are_the_tools_in_its_order() -> None:
    from clusterprobe.gpu_test import STAGE_NAMES

    told = [row[0] for row in rows("tbl-gputest-stages")]
    assert told == [f"{number} {name}" for number, name in enumerate(STAGE_NAMES)]


def test_every_status_of_the_test_is_told() -> None:
    from clusterprobe.exits import EXIT_MEANING, PARTIAL, TOO_SLOW

    told = {int(n) for row in rows("tbl-gputest-exit") for n in re.findall(r"\d+", row[0])}
    assert told == set(EXIT_MEANING) - {TOO_SLOW, PARTIAL}  # no gate, nothing optional in this tool


def test_sizes_of_the_links_and_collectives() -> None:
    from clusterprobe.checked_collectives import COLLECTIVE_NAMES
    from clusterprobe.gpu_test import CHECK_SIZES, LINK_BYTES

    assert LINK_BYTES == {"cpu": 1 << 20, "device": 16 << 20}
    assert "of 1 MiB here (16 MiB on a GPU)" in TEXT
    assert len(COLLECTIVE_NAMES) == 9
    assert max(CHECK_SIZES["device"]) == 64 << 20
    assert "Nothing larger than 64 MiB moves" in TEXT


def test_default_limit_of_a_stage() -> None:
    from clusterprobe.gpu_test import gpu_test_parser

    assert gpu_test_parser().parse_args([]).stage_timeout == 60
    assert "its own limit (60 s)" in TEXT


def test_prefix_and_exact_interface_names() -> None:
    from clusterprobe.interfaces import judge_ifname

    here = {name: ["10.0.0.1"] for name in ("bond0", "bond0.2973", "docker0", "lo")}
    taken = {
        pattern: judge_ifname("NCCL_SOCKET_IFNAME", pattern, here)[0]
        for pattern in ("bond0", "=bond0", "^docker,lo")
    }
    assert set(taken["bond0"]) == {"bond0", "bond0.2973"}
    assert taken["=bond0"] == ["bond0"]
    assert set(taken["^docker,lo"]) == {"bond0", "bond0.2973"}


def test_tool_in_the_fixture_is_the_books_own() -> None:
    for name in ("torch-distributed-gpu-test.py", "clusterprobe"):
        assert (FIXTURES / name).resolve() == (ROOT / "scripts" / name).resolve()
