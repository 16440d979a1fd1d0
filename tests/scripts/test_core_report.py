"""The report file: there from the start, whole at any time, strict, and never lost."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from clusterprobe.exits import OK, PARTIAL, USAGE, ProbeFailure
from clusterprobe.report import Report, exit_code
from clusterprobe.strictjson import claim_file, replace_file, strict_json


def new_report(target: Path | str | None, **more) -> Report:
    return Report(
        "probe",
        ["--json", str(target)],
        {"seed": 0},
        None if target is None else str(target),
        **more,
    )


def test_stub_comes_first_and_is_valid(tmp_path, valid_report):
    path = tmp_path / "r.json"
    new_report(path)
    document = valid_report(path)
    assert (document["status"], document["rc"], document["ended"]) == ("running", None, None)


def test_finish_counts_once(tmp_path, valid_report, capsys):
    path = tmp_path / "r.json"
    report = new_report(path)
    report.add("results", {"op": "x", "time": math.inf, "other": math.nan})
    assert report.finish(5, "rank 2@b is missing", "look there") == 5
    assert report.finish(0, "fine") == 5
    document = valid_report(path)
    assert (document["status"], document["rc"], document["reason"]) == (
        "fail",
        5,
        "rank 2@b is missing",
    )
    assert document["results"] == [{"op": "x", "time": None, "other": None}]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [
        "why: rank 2@b is missing",
        "next: look there",
        f"RESULT status=fail rc=5 tool=probe json={path}",
    ]


def test_unknown_fields_are_refused(tmp_path):
    report = new_report("none")
    with pytest.raises(KeyError):
        report.put("colour", 1)
    with pytest.raises(TypeError, match="no place in a report"):
        strict_json({"x": object()})


def test_existing_report_is_not_overwritten(tmp_path):
    path = tmp_path / "r.json"
    path.write_text("{}")
    with pytest.raises(ProbeFailure, match="exists") as caught:
        new_report(path)
    assert caught.value.rc == USAGE
    assert path.read_text() == "{}"
    new_report(path, force=True)
    assert json.loads(path.read_text())["status"] == "running"


def test_default_name_is_new_each_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert new_report(None).path.startswith("probe-2")
    assert list(tmp_path.glob("probe-*.json"))


def test_unwritable_folder_falls_back(tmp_path, capsys):
    report = new_report(tmp_path / "absent/r.json")
    assert Path(report.path).parent == Path(tempfile.gettempdir())
    assert Path(report.path).name == f"r-{os.getpid()}.json"
    assert report.finish(OK, "fine") == OK
    out = capsys.readouterr().out
    assert "warning: cannot write" in out
    assert f"warning: the report is in {report.path} instead" in out
    assert f"json={report.path}" in out
    os.unlink(report.path)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="/dev/full is no device here")
def test_no_space_at_all_is_partial(tmp_path, monkeypatch, capsys):
    """/dev/full accepts opening and refuses every byte, like a full disk."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "absent"))
    report = new_report("/dev/full")
    assert report.path is None
    assert report.finish(OK, "fine") == PARTIAL
    assert "No space left on device" in capsys.readouterr().out


def fill_up(path: Path) -> None:
    """Write until the disk has no byte left."""
    with path.open("wb", buffering=0) as file:
        while os.statvfs(path.parent).f_bavail:
            file.write(b"x" * 4096)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_disk_full_during_the_run(tmp_path, valid_report, capsys):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    try:
        report = new_report(disk / "r.json")
        fill_up(disk / "filler")
        report.add("results", {"op": "y" * 20000})
        assert report.finish(OK, "fine") == OK
        stub = json.loads((disk / "r.json").read_text())
        assert stub["status"] == "running"
        document = valid_report(Path(report.path))
        assert document["rc"] == 0
        assert [
            entry.name for entry in disk.iterdir() if entry.name.startswith(".clusterprobe")
        ] == []
        os.unlink(report.path)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert "cannot write" in capsys.readouterr().out


def test_replacement_is_whole(tmp_path):
    path = tmp_path / "r.json"
    replace_file(str(path), "old")
    with pytest.raises(OSError, match="directory"):
        replace_file(str(tmp_path / "no/such/r.json"), "x")
    assert path.read_text() == "old"
    assert claim_file(str(path), "new") == (str(path), [])
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_stdout_carries_the_document_alone(capsys):
    report = new_report("-")
    report.line("a row")
    report.finish(OK, "fine")
    out, err = capsys.readouterr()
    assert json.loads(out)["rc"] == 0
    assert err.splitlines() == ["a row", "why: fine", "RESULT status=ok rc=0 tool=probe json=-"]


def test_recorded_report_of_an_h200(valid_report):
    """A real run with NCCL: the schema holds for what a GPU writes, and nothing is unknown that NVML knows."""
    document = valid_report(Path(__file__).parent / "fixtures/gpu-test-one-h200.json")
    assert document["rc"] == 0
    assert document["world"]["nodes"][0]["uuids"][0]
    assert document["env"]["nccl"]
    assert document["env"]["driver"]


def test_silent_rank_writes_nothing(tmp_path, capsys):
    report = new_report(tmp_path / "r.json", prints=False)
    report.line("x")
    report.add("results", {})
    report.finish(OK, "fine")
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_exit_zero_hides_verdicts_only():
    assert [exit_code(rc, True) for rc in (0, 1, 2, 3, 4, 5, 6, 7, 130, 143)] == [
        0,
        1,
        2,
        0,
        0,
        0,
        0,
        0,
        130,
        143,
    ]
    assert exit_code(5, False) == 5
