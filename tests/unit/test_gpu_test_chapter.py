"""Is this cluster able to run a job at all? The chapter's tables are those of the tool."""

from __future__ import annotations

import json
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


def test_sizes_of_the_control_groups() -> None:
    from clusterprobe.gpu_test import CONTROL_GROUP_SIZE, CONTROL_GROUP_WHOLE

    said = f"above {CONTROL_GROUP_WHOLE} ranks in overlapping groups of {CONTROL_GROUP_SIZE},"
    assert said in TEXT


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


def test_numbers_of_two_pairs_of_gpus() -> None:
    records = ROOT / "chapters/debugging/measurements/gpu-test.gpu.json"
    here = json.loads(records.read_text(encoding="utf-8"))["fences"]["node"]["output"]
    other = json.loads(
        (ROOT / "chapters/hardware/measurements/gpu_test_h200_pair.json").read_text("utf-8")
    )
    seconds = float(re.search(r"([\d.]+) ms median", here)[1]) / 1e3
    assert f"{seconds * 1e3:.2f} ms are {2 * 4096**3 / seconds / 1e12:.0f} TFLOPS" in TEXT
    median = [
        round(float(re.search(r"inside nodes ([\d.]+) GB/s", text)[1]))
        for text in (here, other["stages"][8]["detail"])
    ]
    assert "this pair had {} GB/s, another pair of the same kind {}".format(*median) in TEXT


def test_who_is_called_slow() -> None:
    from clusterprobe.gpu_test import MATMUL_SIDE
    from clusterprobe.gpu_test_judges import RANK_ODD_RATIO
    from clusterprobe.ring_links import SLOW_LINK_RATIO

    assert (MATMUL_SIDE["device"], RANK_ODD_RATIO, SLOW_LINK_RATIO) == (4096, 1.5, 2.0)
    assert "takes 1.5 times the median gets a warning" in TEXT
    assert "A link below half of the median is named" in TEXT
