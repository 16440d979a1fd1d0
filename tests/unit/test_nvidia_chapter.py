"""Chapter "NVIDIA GPUs": Xid data under its schema, scripts on their fixtures, figures, worked numbers."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from bookfiles import load_script, plain

BOOK = Path(__file__).resolve().parents[2]
HARDWARE = BOOK / "chapters" / "hardware"
TOOLS = HARDWARE / "fixtures" / "nvidia"
TEXT = (HARDWARE / "nvidia.md").read_text(encoding="utf-8")


def script(name: str, *args: str, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, TOOLS / name, *args], input=text, capture_output=True, text=True, timeout=30
    )


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return plain(yaml.safe_load((BOOK / "data/xid.yaml").read_text()))


@pytest.fixture(scope="module")
def records(data) -> dict[str, Any]:
    return {k: v for k, v in data.items() if k.startswith("xid_")}


# --- data ---


def test_xid_data_follows_its_schema(data):
    folder = BOOK / "data/schema"
    common = json.loads((folder / "accelerators.json").read_text())
    registry = Registry().with_resource("accelerators.json", Resource.from_contents(common))
    schema = json.loads((folder / "xid.json").read_text())
    jsonschema.Draft202012Validator(schema, registry=registry).validate(data)


def test_each_code_stands_once_under_its_own_number(records):
    codes = [c for r in records.values() for c in (r["code"], *r.get("also", ()))]
    assert len(set(codes)) == len(codes)
    assert all(name == f"xid_{r['code']}" for name, r in records.items())


def test_codes_of_the_map_are_there(records):
    codes = {c for r in records.values() for c in (r["code"], *r.get("also", ()))}
    wanted = {13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 92, 94, 95, 109, 119, 120, 121, 136, 137, 140, 154}
    assert wanted | set(range(144, 151)) <= codes


def test_actions_agree_with_the_catalog(records):
    """`bucket` is as NVIDIA prints it; what a script may do must not contradict it."""
    for record in records.values():
        first = record["bucket"].split(" / ")[0]
        expected = {
            "RESTART_APP": "app", "RESET_GPU": "reset", "RESTART_BM": "reboot",
            "CHECK_MECHANICALS": "inspect",
        }.get(first)  # fmt: skip
        assert expected in (None, record["verdict"]), record["code"]
        if first == "IGNORE":
            assert record["verdict"] in ("note", "app", "inspect"), record["code"]


def test_the_scripts_table_is_the_data(records):
    rows = {int(r["code"]): r["verdict"] for r in csv.DictReader((TOOLS / "xids.csv").open())}
    assert rows == {c: r["verdict"] for r in records.values() for c in (r["code"], *r.get("also", ()))}


def test_recovery_branches_are_those_of_the_text(records):
    """The paragraph under the tables lists the codes that a 154 accompanies, by driver branch."""
    said = re.search(r"\*\*A 154 accompanies\*\* (.*?)\. On older", TEXT)[1]
    found: dict[str, set[int]] = {}
    for part, branch in re.findall(r"([\d,–and ]+?) from (R\d+)", said.replace(" on,", ",")):
        codes = found.setdefault(branch, set())
        for one in re.findall(r"\d+(?:–\d+)?", part):
            first, _, last = one.partition("–")
            codes |= set(range(int(first), int(last or first) + 1))
    data: dict[str, set[int]] = {}
    for record in records.values():
        if "recovery" in record:
            data.setdefault(record["recovery"], set()).update((record["code"], *record.get("also", ())))
    assert found == data


# --- xids.py ---


def test_nvidias_own_examples_are_read():
    """Lines of NVIDIA's documents: with and without PCI, with a MIG instance, with a bracketed time."""
    log = """\
[...] NVRM: Xid (0000:03:00): 14, Channel 00000001
[...] NVRM: Xid (PCI:0000:5a:00): 79, GPU has fallen off the bus.
NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No
NVRM: Xid (PCI:0000:02:00): 95, pid=7062, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No
"""
    found = script("xids.py", text=log).stdout
    for row in ("inspect this node0000:03:00", "reboot  this node0000:5a:00", "app     this node0000:01:00",
                "reset   this node0000:02:00"):  # fmt: skip
        assert row.replace("node0", "node 0") in re.sub(r"this node\s*", "this node ", found)


@pytest.mark.parametrize(("text", "verdict"), [
    ("0x1 (GPU Reset Required)", "reset"), ("0x2 (Node Reboot Required)", "reboot"),
    ("0x2 (OS Reboot)", "reboot"), ("0x1 (PF FLR)", "reset"), ("0x3 (Drain P2P)", "inspect"),
    ("0x4 (Drain and Reset)", "reset"), ("0x5 (Recover IMEX Domain)", "inspect"), ("0x0 (None)", "note"),
    ("0x9 (Something new)", "inspect"),
])  # fmt: skip
def test_154_has_the_last_word(text, verdict):
    log = f"n1: NVRM: Xid (PCI:0000:01:00): 119, Timeout\nn1: NVRM: Xid (PCI:0000:01:00): 154, " \
          f"GPU recovery action changed from 0x0 (None) to {text}\n"  # fmt: skip
    assert script("xids.py", text=log).stdout.startswith(verdict)


def test_45_never_decides():
    line = "n1: NVRM: Xid (PCI:0000:01:00): 45, pid=1, name=python3, Ch 00000008\n"
    assert script("xids.py", text=line * 5).stdout.startswith("follow")


def test_same_fault_of_three_processes_accuses_the_gpu():
    line = "n1: NVRM: Xid (PCI:0000:01:00): 31, pid={}, name=a, MMU Fault\n"
    assert script("xids.py", text=line.format(1) * 9).stdout.startswith("app")
    assert script("xids.py", text="".join(map(line.format, (1, 2, 3)))).stdout.startswith("inspect")


@pytest.mark.parametrize("prefix", [
    "2026-11-30T10:00:00+0000 n7 kernel: ", "Nov 30 10:00:00 n7 kernel: [   43.3] ", "n7: [   43.3] ",
])  # fmt: skip
def test_node_is_found_in_every_form(prefix):
    done = script("xids.py", text=f"{prefix}NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n")
    assert done.stdout.startswith("reboot  n7      0000:01:00")
    assert done.returncode == 1


def test_quiet_log_is_quiet():
    done = script("xids.py", text="n1: NVRM: loading NVIDIA UNIX Open Kernel Module\n")
    assert (done.returncode, done.stdout) == (0, "0 of 0 devices in this log have to leave service\n")


# --- nvlink5.py ---


@pytest.mark.parametrize(("word", "reason", "words"), [
    ("0x004505c6", 4, "signal quality"), ("0x021425c6", 33, "the other end"), ("0x026001c6", 38, "software"),
    ("0x025001c6", 37, "the other end"), ("0x000625c6", 0, "none given"),
])  # fmt: skip
def test_reason_of_a_link_event(word, reason, words):
    line = f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 ({word} 0x0 0x0)\n"
    done = script("nvlink5.py", text=line)
    assert done.stdout.startswith(f"GPU 0009:01:00 link 8: reason {reason}, {words}")


def test_an_error_rate_event_is_no_link_that_went_down():
    line = "NVRM: Xid (PCI:0009:01:00): 149, NETIR_BER_EVENT  Nonfatal XC0 i0 Link 08 (0x000004c6 0x0)\n"
    assert script("nvlink5.py", text=line).stdout == ""


def test_worked_example_of_the_link_event():
    assert 0x021425C6 >> 20 == 0x21
    assert 0x21 & 0x3F == 33
    assert "0x021425c6 shifted right by 20 bits is 0x21, and 0x21 & 0x3f = 33" in TEXT


# --- health.py ---


@pytest.fixture(scope="module")
def health():
    return load_script(TOOLS / "health.py")


@pytest.fixture
def good(health) -> dict[str, str]:
    return health.read((TOOLS / "gpus.csv").read_text())[0]


def test_a_good_gpu_has_no_finding(health, good):
    assert health.judge(good) == []


@pytest.mark.parametrize(("change", "level"), [
    ({"remapped_rows.failure": "Yes"}, "out"), ({"remapped_rows.pending": "Yes"}, "reset"),
    ({"ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "Yes"}, "out"),
    ({"ecc.errors.uncorrected.volatile.total": "1"}, "reset"),
    ({"ecc.errors.corrected.volatile.total": "20000"}, "watch"),
    ({"gpu_recovery_action": "Node Reboot Required"}, "out"), ({"ecc.mode.current": "Disabled"}, "out"),
    ({"clocks_event_reasons.active": "0x0000000000000008"}, "out"),
    ({"clocks_event_reasons.active": "0x0000000000000020"}, "watch"),
    ({"temperature.gpu.tlimit": "-1"}, "watch"), ({"pcie.link.width.current": "4"}, "out"),
    ({"pcie.link.gen.current": "4"}, "out"), ({"persistence_mode": "Disabled"}, "watch"),
    ({"memory.used": "5000"}, "watch"), ({"ecc.mode.current": "[GPU is lost]"}, "out"),
    ({"pstate": "[Unknown Error]"}, "out"),
])  # fmt: skip
def test_each_rule_fires_alone(health, good, change, level):
    assert [found for found, _ in health.judge(good | change)] == [level]


@pytest.mark.parametrize("change", [
    {"clocks_event_reasons.active": "0x0000000000000004"}, {"temperature.gpu.tlimit": "[N/A]"},
    {"ecc.errors.corrected.volatile.total": "10"}, {"gpu_recovery_action": "[N/A]"},
    {"pstate": "P8", "pcie.link.gen.current": "1"}, {"remapped_rows.uncorrectable": "40"},
    {"ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "[N/A]"},
])  # fmt: skip
def test_what_is_no_fault_stays_silent(health, good, change):
    assert health.judge(good | change) == []


def test_a_hung_or_missing_tool_is_an_answer(health, monkeypatch, capsys):
    def hang(*args, **kwargs):
        raise subprocess.TimeoutExpired("nvidia-smi", health.LIMIT_S)

    monkeypatch.setattr(health.subprocess, "run", hang)
    monkeypatch.setattr(sys, "argv", ["health.py", "--expect", "8"])
    assert health.main() == 1
    assert "did not answer within 30 s" in capsys.readouterr().out


def test_an_unknown_field_is_left_out_and_said(health, monkeypatch, capsys):
    asked = []

    def answer(command, **kwargs):
        fields = command[1].partition("=")[2].split(",")
        asked.append(fields)
        if "gpu_recovery_action" in fields:
            said = 'Field "gpu_recovery_action" is not a valid field to query.\n'
            return subprocess.CompletedProcess(command, 2, said, "")
        return subprocess.CompletedProcess(command, 0, ", ".join(fields) + "\n", "")

    monkeypatch.setattr(health.subprocess, "run", answer)
    health.ask("gpu", health.GPU)
    assert len(asked) == 2
    assert "gpu_recovery_action" not in asked[1]
    assert "has no gpu_recovery_action" in capsys.readouterr().out


# --- worked numbers ---


def test_pcie_rates():
    rate = 32 * 16 * 128 / 130 / 8
    assert rate == pytest.approx(63.0, abs=0.05)
    links = yaml.safe_load((BOOK / "data/interconnects.yaml").read_text())
    assert links["pcie5_x16"]["one_way_gb_per_s"]["value"] == 63.0
    nvlink = links["nvlink4"]
    assert nvlink["links"]["value"] * nvlink["link_one_way_gb_per_s"]["value"] == nvlink["one_way_gb_per_s"]


def test_how_often():
    gpu_days = 16_384 * 54
    assert (round(gpu_days / 419), round(gpu_days / (148 + 72 + 19 + 17))) == (2112, 3456)
    assert round(100 * 148 / 419, 1) == 35.3


def test_trace_is_the_stored_one():
    rows = list(csv.DictReader((TOOLS / "trace.csv").open()))
    changes = [r for before, r in zip([None, *rows], rows, strict=False)
               if before is None or before["reasons"] != r["reasons"]]  # fmt: skip
    assert [r["reasons"] for r in changes] == ["0", "4"]
    assert f"{float(changes[1]['seconds']):.2f} s  {changes[1]['sm_mhz']} MHz" in TEXT


def test_lines_that_the_text_names_are_there():
    source = (TOOLS / "bounds.py").read_text().splitlines()
    assert "table(ids)" in source[9]
    assert ".item()" in source[11]
    assert "id 100 of a table of 100 on line 10, and reads the loss on line 12" in TEXT


# --- figures, files ---


def test_figures_are_what_their_script_draws():
    drawing = load_script(HARDWARE / "figures/src/nvidia_faults.py")
    for name, draw in (("triage", drawing.triage), ("memory", drawing.memory)):
        assert (HARDWARE / f"figures/nvidia-{name}.svg").read_text() == draw()


@pytest.mark.parametrize("path", sorted(p for p in TOOLS.iterdir() if p.suffix in (".py", ".cu", ".sh")))
def test_every_program_is_used(path):
    assert path.stem in TEXT


def test_shell_parses():
    subprocess.run(["bash", "-n", TOOLS / "evidence.sh"], check=True)


def test_what_is_said_of_the_gpu_blocks_is_in_their_record():
    record = json.loads((HARDWARE / "measurements/nvidia.gpu.json").read_text())
    shown = {name: fence["output"] for name, fence in record["fences"].items()}
    lines = re.findall(r"blocking=(\d): bounds.py\", line (\d+)", shown["assert"])
    assert lines == [("0", "11"), ("1", "10")]
    assert "names line 11" in TEXT
    assert "names line 10" in TEXT
    sizes = re.findall(r"([\d.]+) GiB", shown["oom"])
    asked, total, free, used, allocated = (float(size) for size in sizes)
    assert asked <= allocated
    assert f"({total:.2f} ≈ {free:.2f} + 0 + {used:.2f})" in TEXT
    assert f"({used:.2f} = {allocated:.2f} + 0 + {used - allocated:.2f} GiB)" in TEXT
    assert total == pytest.approx(free + used, abs=0.02)
    poke = (TOOLS / "wild.cu").read_text().splitlines()
    assert "x[1 << 30] = 1;" in poke[5]  # line 6 of the core; 4 bytes each: 4 GiB
    assert "wild.cu:6" in shown["core"]
    state = [row.split()[-1] for row in re.findall(r"State .*|Status .*", shown["fabric"])]
    assert state == ["Completed", "Success"]
    assert int(re.search(r"^100%  SW power cap .* to (\d+) W$", shown["reasons"], re.M)[1]) < 700
