"""The programs behind chapter "Hangs": they parse, say what they plant, and read the record right."""

from __future__ import annotations

import ast
import json
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bookfiles import load_script

BOOK = Path(__file__).resolve().parents[2]
CHAPTER = BOOK / "chapters" / "debugging"
HANGS = CHAPTER / "fixtures" / "hangs"
RECORD = CHAPTER / "measurements" / "nccl-hangs"
TEXT = (CHAPTER / "hangs.md").read_text(encoding="utf-8")
TOOLS = {"group_stacks.py", "ras_query.py"}  # they read; the others plant
PROGRAMS = sorted(HANGS.glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_program_parses_and_says_what_it_plants(path):
    source = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source)) or ""
    if path.name == "plant.py":
        for case in re.findall(r'case == "(\w+)"', source):
            assert re.search(rf"^{case} ", said, re.M), case
    elif path.name not in TOOLS:
        assert said.startswith("Plants ")
    assert len(source.splitlines()) <= 48, "a fixture is read in a glance"


@pytest.mark.parametrize("path", sorted(HANGS.glob("*.sh")), ids=lambda p: p.name)
def test_shell_parses(path):
    subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.parametrize("path", [*PROGRAMS, *HANGS.glob("*.sh")], ids=lambda p: p.name)
def test_chapter_uses_every_program(path):
    assert path.name in TEXT


def test_engine_names_the_dead_worker():
    done = subprocess.run(
        [sys.executable, HANGS / "engine.py", "watch"], capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "SHORT\n"
    assert re.search(r"RuntimeError: worker \d+ ended, exit code -9\n$", done.stderr)


def test_group_stacks_puts_the_rare_one_first(tmp_path):
    """Input: the stacks that py-spy took of the recorded NCCL hang, rank 0's three times."""
    for name, rank in (("0-11", 0), ("1-12", 1), ("2-13", 0), ("3-14", 0)):
        (tmp_path / f"{name}.stack").write_text((RECORD / f"branch/stack_{rank}.txt").read_text())
    done = subprocess.run(
        [sys.executable, HANGS / "group_stacks.py", tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "1 × rank 1", "    <module> (plant.py:31)", "3 × rank 0,2,3", "    <module> (plant.py:44)",
    ]


def test_group_stacks_keeps_a_rank_without_stack(tmp_path):
    (tmp_path / "5-99.stack").write_text((RECORD / "stopped/stack_1.txt").read_text())
    done = subprocess.run(
        [sys.executable, HANGS / "group_stacks.py", tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("1 × rank 5\n    no Python stack")


@pytest.mark.parametrize(
    ("greeting", "status", "words"),
    [("SERVER PROTOCOL 2", 0, "Rank 1 has launched up to operation 4"), ("HTTP/1.1 400", 1, "")],
)
def test_ras_query_speaks_the_protocol(greeting, status, words):
    """A loopback server replays what NCCL 2.28.9 answered."""
    heard = []

    def answer(server):
        link, _ = server.accept()
        with link, link.makefile("rw", newline="\n") as stream:
            heard.append(stream.readline())
            stream.write(greeting + "\n")
            stream.flush()
            heard.append(stream.readline())
            if heard[-1]:
                stream.write((RECORD / "branch/ras.txt").read_text())

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        port = str(server.getsockname()[1])
        done = subprocess.run(
            [sys.executable, HANGS / "ras_query.py", "127.0.0.1", port],
            capture_output=True, text=True, timeout=30,
        )
        thread.join(10)
    assert done.returncode == status
    assert words in done.stdout
    assert heard == ["CLIENT PROTOCOL 2\n", "" if status else "VERBOSE STATUS\n"]


def test_record_agrees_with_its_raw_files():
    record = json.loads((CHAPTER / "measurements" / "nccl-hangs.json").read_text())
    results = record["results"]
    for case, ran in results["timeout_reported_ms"].items():
        assert f"ran for {ran} milliseconds" in (RECORD / case / "log.txt").read_text()
        dumps = {int(p.name[5:]) for p in (RECORD / case / "dumps").glob("rank_*")}
        assert dumps == set(results["dump_files"][case])
    rows = (RECORD / "branch/smi.txt").read_text().splitlines()[1:3]
    for row, key in zip(rows, ("gpu_waiting", "gpu_of_the_culprit"), strict=True):
        shown = [float(re.sub(r"[^\d.]", "", cell)) for cell in row.split(",")[1:]]
        assert results[key]["utilization_percent"] == shown[0]
        assert results[key]["power_w"] == pytest.approx(shown[1], abs=0.06)
    versions = (RECORD / "versions.txt").read_text()
    assert f"torch {record['versions']['torch']}" in versions
    assert f"nccl ({record['versions']['nccl'].replace('.', ', ')})" in versions


def test_hung_kernels_agree_with_their_raw_files():
    results = json.loads((CHAPTER / "measurements" / "hung-kernel.json").read_text())["results"]
    for case, watts in results["power_w"].items():
        raw = (CHAPTER / "measurements" / "hung-kernel" / f"{case}.txt").read_text()
        rows = re.findall(r"^(\d+) %, ([\d.]+) W, 1980 MHz$", raw, re.M)
        assert len(rows) >= 5
        assert {int(used) for used, _ in rows} == {results["utilization_percent"]}
        assert sum(float(w) for _, w in rows) / len(rows) == pytest.approx(watts, abs=1)
        kernel = "compute_for_ever" if case.startswith("compute") else "wait_for_flag"
        assert raw.rstrip().endswith(f"{kernel}()")


def test_figures_are_what_their_script_draws():
    drawing = load_script(CHAPTER / "figures/src/hangs.py")
    for name, draw in (("triage", drawing.triage), ("timeline", drawing.timeline)):
        assert (CHAPTER / "figures" / f"hangs-{name}.svg").read_text() == draw()
