"""A reader's report becomes a record: real reports of the three tools, and everything that is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from bookpress.__main__ import main
from bookpress.upkeep.records import canonical

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(__file__).parent / "fixtures"
TOOLS = ("all_reduce_bench", "mamf-finder", "torch-distributed-gpu-test")
H200 = ROOT / "tests/scripts/fixtures/gpu-test-one-h200.json"
SECRETS = ("rack7", "acme", "69ed7642", "127.0.0.1", "node12")


@pytest.fixture
def book(tmp_path) -> Path:
    """The book's data and instruments, without its chapters."""
    (tmp_path / "a.md").write_text("# A\n\nText.\n")
    (tmp_path / "book.toml").write_text('[book]\ntitle = "B"\nversion = "1"\n[[part]]\ntitle = ""\nchapters = ["a.md"]\n')
    (tmp_path / "data/schema").mkdir(parents=True)
    shutil.copy(ROOT / "data/accelerators.yaml", tmp_path / "data")
    shutil.copy(ROOT / "data/schema/record.json", tmp_path / "data/schema")
    probe = tmp_path / "scripts/clusterprobe"
    (probe / "schema").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/clusterprobe/matmul_peaks.py", probe)
    shutil.copy(ROOT / "scripts/clusterprobe/schema/report.schema.json", probe / "schema")
    return tmp_path


def report(tool: str) -> dict:
    return json.loads((FIXTURES / f"{tool}.json").read_text())


def contribute(book: Path, content: object, *words: str) -> int:
    file = book / "result.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return main(["contribute-record", str(file), "--book", str(book), *words])


def records(book: Path) -> list[Path]:
    return sorted((book / "data/records").rglob("*.json")) if (book / "data/records").is_dir() else []


@pytest.mark.parametrize("tool", TOOLS)
def test_real_report_is_shown_then_filed(book, capsys, tool):
    assert contribute(book, report(tool)) == 0
    shown = capsys.readouterr().out
    assert "nothing was written; YES=1 writes data/records/" in shown
    assert "left out: argv, boot_id" in shown
    assert records(book) == []
    assert contribute(book, report(tool), "--yes", "--by", "Ada L.") == 0
    (file,) = records(book)
    assert file.parent.name == tool
    assert file.name.startswith("1x-amd-epyc-")
    text = file.read_text()
    assert not [word for word in SECRETS if word in text]
    record = json.loads(text)
    assert record["from"]["by"] == "Ada L."
    assert record["from"]["release"] == f"v{report(tool)['version']}"
    assert record["report"]["env"]["os"] == "Linux 6.8.0, x86_64, glibc2.36"
    # What was measured is all there.
    kept, given = record["report"]["results"], report(tool)["results"]
    assert len(kept) == len(given)
    for row, real in zip(kept, given, strict=True):
        for key in ("op", "bytes", "tflops", "busbw", "algbw", "time_us", "count", "m", "n", "k", "rows"):
            assert row.get(key) == real.get(key)


def test_a_gpu_machine(book, capsys):
    """A real report of an H200: device, driver and counts stay, serial number and host go."""
    given = json.loads(H200.read_text())
    assert contribute(book, given, "--yes") == 0, capsys.readouterr().err
    (file,) = records(book)
    assert file.name.startswith("1x-nvidia-h200-")
    record = json.loads(file.read_text())["report"]
    assert record["world"]["devices"] == {"NVIDIA H200": 1}
    assert record["env"]["driver"] == "580.159.04"
    assert "193ba7d2" not in file.read_text()


def test_the_same_run_twice(book, capsys):
    assert contribute(book, report("all_reduce_bench"), "--yes") == 0
    again = report("all_reduce_bench")
    again["started"] = "2026-01-24T00:00:00Z"
    again["world"]["nodes"][0]["host"] = "another"
    assert contribute(book, again, "--yes") == 1
    assert "REC007 the run is there already: data/records/all_reduce_bench/1x-amd-epyc-" in capsys.readouterr().err
    assert len(records(book)) == 1


def change(tool: str, *path, to):
    data = report(tool)
    node = data
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    return data


def gpu(dtype: str, **row) -> dict:
    """A mamf report that says it comes from an H200."""
    data = report("mamf-finder")
    data["world"]["nodes"][0]["device"] = "NVIDIA H200"
    data["results"][1] |= {"dtype": dtype, **row}
    return data


BENCH, MAMF = "all_reduce_bench", "mamf-finder"
REFUSED = {
    "not a report": ([], "REC001", "$: [] is not of type 'object'"),
    "a field more": (report(BENCH) | {"extra": 1}, "REC001", "extra"),
    "another schema": (change(BENCH, "schema_version", to=2), "REC001", "$.schema_version"),
    "tomorrow's tomorrow": (change(BENCH, "started", to="2999-01-01T00:00:00Z"), "REC002", "on 2999-01-01, after today"),
    "a sentence as version": (change(BENCH, "version", to="1.2.0 of /home/ada"), "REC001", "is no version"),
    "a path as device": (change(BENCH, "world", "nodes", 0, "device", to="../../../tmp/x"), "REC001", "is no device's name"),
    "markup as device": (change(BENCH, "world", "nodes", 0, "device", to="<script>"), "REC001", "is no device's name"),
    "two lines as device": (change(BENCH, "world", "nodes", 0, "device", to="A\n\x1b[31mB"), "REC001", "is no device's name"),
    "a host as device": (change(BENCH, "world", "nodes", 0, "device", to="gpu7.acme.example"), "REC006", "gpu7.acme.example"),
    "another tool": (change(BENCH, "tool", to="nccl-tests"), "REC001", "no tool of this book"),
    "failed": (change(BENCH, "status", to="fail") | {"rc": 4}, "REC002", "status fail, rc 4"),
    "interrupted": (change(BENCH, "status", to="interrupted") | {"rc": 130}, "REC002", "interrupted"),
    "dry run": (change(BENCH, "config", "dry_run", to=True), "REC002", "dry run"),
    "missing ranks": (change(BENCH, "world", "missing", to="1"), "REC002", "ranks are missing"),
    "no results": (change(BENCH, "results", to=[]), "REC002", "no results"),
    "not checked": (change(BENCH, "results", 0, "checked", to=0), "REC003", "results[0] (all_reduce): the result was not checked"),
    "wrong values": (change(BENCH, "results", 1, "wrong", to=3), "REC003", "3 wrong values"),
    "skipped row": (change(MAMF, "results", 1, "status", to="skipped"), "REC003", "status skipped"),
    "edited rate": (change(BENCH, "results", 0, "algbw", to=9e11), "REC004", "algbw 9e+11 is not 65536 bytes"),
    "edited busbw": (change(BENCH, "results", 0, "busbw", to=9e8), "REC004", "busbw 9e+08"),
    "above the peak": (gpu("bf16", tflops=1979.0), "REC005", "1979 TFLOPS, the peak of nvidia_h200_sxm in bf16 is 989"),
    "above the peak in fp8": (gpu("fp8_e4m3fn", tflops=2100.0), "REC005", "in fp8_e4m3fn is 1978"),
    "above the line": (change(BENCH, "results", 0, "above_line_rate", to=True), "REC005", "line rate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(book, capsys, name):
    content, code, words = REFUSED[name]
    assert contribute(book, content, "--yes") == 1
    err = capsys.readouterr().err
    assert f"result.json:0:0 {code} " in err, err
    assert words in err
    assert records(book) == []


def test_faster_than_memory(book, capsys):
    """6 TB/s of bus bandwidth from a part whose memory does 4.8."""
    data = report(BENCH)
    data["world"]["nodes"][0]["device"] = "NVIDIA H200"
    row = data["results"][1]
    row["time_us"]["median"] = row["bytes"] / 6e12 * 1e6
    row |= {"algbw": 6e12, "busbw": 6e12}
    assert contribute(book, data, "--yes") == 1
    assert "REC005 results[1]: busbw 6000 GB/s, the memory does 4800" in capsys.readouterr().err


def test_true_figures_of_the_same_part_pass(book, capsys):
    assert contribute(book, gpu("bf16", tflops=794.0), "--yes") == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "value"),
    [(("results", 0, "mode"), "rack7-node12.acme.example"), (("config", "mode"), ["block on 10.1.2.3"])],
)
def test_names_that_came_through_are_found(book, capsys, path, value):
    """A machine's name where the list of kept fields trusts a word: no record."""
    assert contribute(book, change(BENCH, *path, to=value), "--yes") == 1
    assert "REC006" in capsys.readouterr().err
    assert records(book) == []


def test_words_that_are_no_words_are_dropped(book):
    assert contribute(book, change(BENCH, "results", 0, "group", to="mail ada@acme.example"), "--yes") == 0
    (file,) = records(book)
    assert "ada@" not in file.read_text()


def test_unknown_fields_stay_out(book):
    data = change(BENCH, "results", 0, "operator_login", to="ada")
    data["config"]["workdir"] = "/home/ada/secret"
    data["per_rank"][0]["fqdn"] = "x.acme.example"
    assert contribute(book, data, "--yes") == 0
    text = records(book)[0].read_text()
    assert not [word for word in ("ada", "secret", "acme", "fqdn", "workdir") if word in text]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--by", "<script>"), "is no name"), (("--by", ""), "is no name")],
)
def test_wrong_use(book, capsys, words, message):
    assert contribute(book, report(BENCH), "--yes", *words) == 2
    assert message in capsys.readouterr().err


def test_files_that_cannot_be_read(book, capsys):
    assert contribute(book, "no json") == 2
    assert contribute(book, report(BENCH) | {"rc": float("nan")}) == 2
    assert contribute(book, json.dumps(report(BENCH)).replace("803.161", "1e999")) == 2
    assert contribute(book, "[" * 200_000) == 2
    assert main(["contribute-record", str(book / "nowhere.json"), "--book", str(book)]) == 2
    assert main(["contribute-record", "--book", str(book)]) == 2
    assert "which report?" in capsys.readouterr().err


def test_records_of_this_book_are_valid():
    """Every file under data/records: schema, hash over its own content, no address, its place."""
    schema = json.loads((ROOT / "data/schema/record.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    import hashlib

    for file in sorted((ROOT / "data/records").rglob("*.json")):
        record = json.loads(file.read_text())
        validator.validate(record)
        assert hashlib.sha256(canonical(record["report"])).hexdigest() == record["sha256"]
        assert file.parent.name == record["report"]["tool"]
        assert file.stem.endswith(record["sha256"][:12])
