"""Chapter "AMD GPUs": its scripts on known cases and fixtures, figures, worked numbers."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bookfiles import load_script

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters" / "hardware"
TOOLS = HARDWARE / "fixtures" / "amd"
TEXT = (HARDWARE / "amd.md").read_text(encoding="utf-8")
UUIDS = [f"GPU-{n:016x}" for n in range(8)]


def script(name: str, *args: str, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, TOOLS / name, *args], input=text, capture_output=True, text=True,
        timeout=30, cwd=TOOLS,
    )  # fmt: skip


# --- visible.py ---


@pytest.fixture(scope="module")
def visible():
    return load_script(TOOLS / "visible.py")


def seen(visible, **given: str) -> tuple[int, ...]:
    env = {f"{name}_VISIBLE_DEVICES": value for name, value in given.items()}
    return visible.resolve(env, UUIDS)[-1].kept


@pytest.mark.parametrize(("given", "gpus"), [
    ({}, tuple(range(8))), ({"ROCR": ""}, ()), ({"HIP": ""}, tuple(range(8))),
    ({"HIP": "", "CUDA": "2"}, (2,)), ({"HIP": "3", "CUDA": "2"}, (3,)),
    ({"ROCR": "4,5", "HIP": "1,0"}, (5, 4)), ({"ROCR": "4,5", "HIP": "4"}, ()),
    ({"ROCR": "2,2,3"}, (2,)), ({"HIP": "2,2,3"}, (2, 3)), ({"ROCR": "1,9,2"}, (1,)),
    ({"HIP": "1,9,2"}, (1,)), ({"ROCR": "1, 2"}, (1, 2)), ({"HIP": "1, 2"}, (1,)),
    ({"ROCR": "0x3"}, (3,)), ({"HIP": "0x3"}, ()), ({"HIP": "-1"}, ()), ({"HIP": "01"}, ()),
    ({"ROCR": UUIDS[6]}, (6,)), ({"ROCR": UUIDS[6].lower()}, (6,)), ({"ROCR": "GPU-"}, ()),
    ({"ROCR": f"0,{UUIDS[6]}"}, (0, 6)), ({"HIP": "0,2"}, (0, 2)),  # AMD's documents, 5.4 to 6.1
    ({"ROCR": "0,GPU-4b2c1a9f-8d3e-6f7a-b5c9-2e4d8a1f6c3b"}, (0,)),  # and 7.1 to 10.2
    ({"HIP": UUIDS[6]}, (6,)), ({"ROCR": "6,1", "HIP": UUIDS[1]}, (1,)),
])  # fmt: skip
def test_the_two_filters(visible, given, gpus):
    assert seen(visible, **given) == gpus


def test_known_cases_agree():
    done = script("visible.py", "--gpus", "8", "--cases", "cases.csv")
    assert done.returncode == 0
    assert "NOT" not in done.stdout
    rows = list(csv.DictReader((TOOLS / "cases.csv").open()))
    assert len(rows) == 8 == len(done.stdout.splitlines())
    assert "eight public reports" in TEXT


# --- hostcheck.py ---


@pytest.fixture(scope="module")
def hostcheck():
    return load_script(TOOLS / "hostcheck.py")


@pytest.fixture
def good(hostcheck) -> dict[str, list[str]]:
    text = (TOOLS / "nodes.txt").read_text().splitlines()
    return dict(hostcheck.nodes(text))["mi300-01"]


def test_a_good_node_has_no_finding(hostcheck, good):
    assert [*hostcheck.host_findings(good), *hostcheck.gpu_findings(good, 8)] == []


@pytest.mark.parametrize(("change", "level", "word"), [
    ({"cmdline": ["ro"], "iommu_identity": [], "iommu_DMA-FQ": ["9"]}, "must", "iommu=pt"),
    ({"cmdline": ["ro"]}, "look", "warns all the same"),
    ({"cmdline": ["ro amd_iommu=off"], "cpus": ["384"]}, "must", "255"),
    ({"cmdline": ["ro iommu=off"]}, "look", "pass-through"),
    ({"iommu_DMA-FQ": ["9"]}, "look", "translate"),
    ({"numa_balancing": ["1"]}, "look", "numa_balancing"),
    ({"driver": ["none"]}, "must", "not loaded"),
    ({"gpu": ["90402"] * 7}, "must", "7 of 8"),
    ({"gpu": ["90402"] * 7 + ["90500"]}, "look", "mixed"),
    ({"device": []}, "must", "/dev/kfd"),
    ({"user": ["ana ana video"]}, "must", "group render"),
])  # fmt: skip
def test_each_rule_fires(hostcheck, good, change, level, word):
    facts = {key: values for key, values in (good | change).items() if values or key == "device"}
    found = [*hostcheck.host_findings(facts), *hostcheck.gpu_findings(facts, 8)]
    assert [(got, word in words) for got, words in found] == [(level, True)]


def test_root_needs_no_group(hostcheck, good):
    assert [*hostcheck.gpu_findings(good | {"user": ["root root"]}, 8)] == []


@pytest.mark.parametrize(("number", "name"), [
    ("90402", "gfx942"), ("90010", "gfx90a"), ("90500", "gfx950"), ("110501", "gfx1151"),
])  # fmt: skip
def test_kernel_number_to_target(hostcheck, number, name):
    assert hostcheck.gfx(number) == name


def test_facts_run_here():
    done = subprocess.run(["bash", TOOLS / "facts.sh"], capture_output=True, text=True, timeout=30)
    keys = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"host", "cmdline", "cpus", "numa_balancing", "driver", "user"} <= keys


# --- arch.py ---


@pytest.mark.parametrize(("device", "built", "fits"), [
    ("gfx942:sramecc+:xnack-", "gfx942", True), ("gfx90a:sramecc+:xnack-", "gfx942", False),
    ("gfx942:sramecc+:xnack-", "gfx942:xnack-", True), ("gfx942:sramecc+:xnack-", "gfx942:xnack+", False),
    ("gfx950", "gfx9", False), ("gfx942:sramecc+:xnack-", "gfx9-4-generic", True),
    ("gfx90a:sramecc+:xnack-", "gfx9-4-generic", False), ("gfx90a:xnack-", "amdgcnspirv", True),
])  # fmt: skip
def test_code_object_fits(device, built, fits):
    assert load_script(TOOLS / "arch.py").fits(device, built) is fits


# --- ras.py, ecc.py ---


@pytest.mark.parametrize(("line", "label"), [
    ("amdgpu: no uncorrectable hardware errors detected in umc block", None),
    ("amdgpu: 0 correctable hardware errors detected in umc block", None),
    ("amdgpu: 1 uncorrectable hardware errors detected in umc block", "out "),
    ("amdgpu: socket: 0, die: 0, 2 new correctable hardware errors detected in gfx block", "list"),
    ("amdgpu: RAS records:300 exceed threshold:256", "out "),
    ("amdgpu: RAS records:232 exceeds 90% of threshold:256", "soon"),
    ("amdgpu: device lost from bus!", "out "), ("amdgpu: GPU reset(3) failed", "out "),
    ("amdgpu: GPU reset begin!", "soon"), ("amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=2", "soon"),
    ("amdgpu: ring gfx timeout, but soft recovered", "list"),
    ("amdgpu: amdgpu_device_ip_init succeeded", None),
])  # fmt: skip
def test_kernel_lines(line, label):
    done = script("ras.py", text=f"n1: amdgpu 0000:1b:00.0: {line}\n")
    assert done.stdout[:4] == (label or "0 of")
    assert done.returncode == (label == "out ")


def test_three_programs_accuse_the_gpu():
    one = "amdgpu 0000:06:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0)\n" \
          "amdgpu 0000:06:00.0: amdgpu:  for process python3 pid {} thread python3 pid {})\n"  # fmt: skip
    assert script("ras.py", text=one.format(1, 1) * 3).stdout.startswith("list")
    assert script("ras.py", text="".join(one.format(n, n) for n in (1, 2, 3))).stdout.startswith(
        "out"
    )


def test_counters_read_both_layouts():
    assert isinstance(json.loads((TOOLS / "before.json").read_text()), list)
    assert "gpu_data" in json.loads((TOOLS / "after.json").read_text())
    assert script("ecc.py", "before.json", "after.json").returncode == 1
    assert script("ecc.py", "after.json", "after.json").returncode == 0


@pytest.mark.parametrize(("line", "version"), [
    ("n1:402:402 [0] NCCL INFO RCCL version : 2.22.3-HEAD:271856d", "2.22.3-HEAD:271856d"),
    ("n1:7:7 [0] NCCL INFO NCCL version 2.28.9+cuda12.9", "2.28.9+cuda12.9"),
])  # fmt: skip
def test_the_books_scripts_read_rccls_version(line, version):
    log = load_script(BOOK / "scripts/clusterprobe/transport_log.py", BOOK / "scripts")
    assert log.VERSION_LINE.search(line)[1] == version


# --- mesh, partitions, tuning ---


def links() -> dict:
    return yaml.safe_load((BOOK / "data/interconnects.yaml").read_text())


def number(value) -> float:
    return float(value["value"] if isinstance(value, dict) else value)


def test_mesh_uses_the_books_links():
    drawn = load_script(HARDWARE / "figures/src/amd.py")
    for part, record in (("MI300X", "xgmi_mi300"), ("MI350X", "xgmi_mi350")):
        link = number(links()[record]["pair_one_way_gb_per_s"])
        assert drawn.LINK[part][0] == link
        assert f"{7 * link:g}" in script("mesh.py").stdout
    assert number(links()["xgmi_mi300"]["usable_link_one_way_gb_per_s"]) == drawn.LINK["MI300X"][1]
    assert [
        round(100 * 304 / (7 * 64)),
        round(100 * 350 / (7 * 76.5)),
        round(100 * 304 / (7 * 48)),
    ] == [68, 65, 90]


def test_partition_arithmetic():
    parts = yaml.safe_load((BOOK / "data/accelerators.yaml").read_text())
    for name, args in (("amd_mi300x", "304 192 5.3"), ("amd_mi355x", "256 288 8.0")):
        record, (units, memory, rate) = parts[name], map(float, args.split())
        found = [number(record[k]) for k in ("compute_units", "memory_gb", "hbm_tb_per_s")]
        assert found == [units, memory, rate]
        assert f"python3 parts.py {name[4:].upper()} {args}" in TEXT
    assert "38       24       0.66" in script("parts.py", "MI300X", "304", "192", "5.3").stdout


def test_tuning_time():
    assert round(9309 * 0.030) == 279
    assert "one shape takes 279 s" in TEXT


def test_a_stale_file_is_told():
    fresh = ("PT_VERSION=2.5.0",)
    assert script("tuned.py", "tuned.csv", "--tb", "5.3", "--expect", *fresh).returncode == 0
    stale = script("tuned.py", "tuned.csv", "--tb", "5.3", "--expect", "ROCM_VERSION=7.0.0")
    assert (stale.returncode, "will be refused" in stale.stdout) == (1, True)


def test_printed_arithmetic():
    assert round(1.7e9 * 1024 * 220 / 1e12) == 383  # MI250X, both dies
    assert round(191.5 / 1.6) == 120  # its ridge in the table
    assert round(1307.4 / 100) == 13  # "a thirteenth"
    assert 64 * 3 == 192


# --- fp8 (needs torch), waves (needs numpy) ---


def test_fp8_conversion_is_exact():
    torch = pytest.importorskip("torch")
    fp8 = load_script(TOOLS / "fp8.py")
    codes = torch.arange(256, dtype=torch.uint8).view(fp8.FN)
    bits, scale = fp8.to_fnuz(codes, 3.0)
    want, got = codes.float() * 3.0, bits.float() * scale
    assert bits.dtype == fp8.FNUZ
    assert torch.equal(want.nan_to_num(7.0), got.nan_to_num(7.0))


def test_waves():
    pytest.importorskip("numpy")
    done = script("waves.py").stdout
    assert [int(n) for n in re.findall(r"(\d+) of \d+$", done, re.M)] == [
        256,
        256,
        128,
        512,
        256,
        32,
    ]


# --- figures, files ---


def test_figures_are_what_their_script_draws():
    drawing = load_script(HARDWARE / "figures/src/amd.py")
    for name, draw in drawing.FIGURES.items():
        assert (HARDWARE / f"figures/{name}.svg").read_text() == draw()


@pytest.mark.parametrize(
    "path", sorted(p for p in TOOLS.iterdir() if p.suffix in (".py", ".cu", ".sh"))
)
def test_every_program_is_used(path):
    assert path.name in TEXT


def test_shell_parses():
    subprocess.run(["bash", "-n", TOOLS / "facts.sh"], check=True)
