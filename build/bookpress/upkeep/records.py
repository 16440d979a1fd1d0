"""`make contribute-record FILE=result.json`: a reader's measurement becomes a file of data/records/.

In: the JSON report of one of the instruments. Out: what is kept of it and what is not, for the reader to see;
with YES=1 the file data/records/TOOL/HARDWARE-HASH.json with its origin. Refused is what the tool's schema
refuses, what cannot be true, what would name a machine or a person, and what is there already.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ..config import read_config
from ..model import Config
from ..problems import Problem, ToolMissing, WrongUse, errors
from . import anonymous, plausible

FOLDER, SCHEMA = "records", 1
REPORT_SCHEMA = Path("scripts/clusterprobe/schema/report.schema.json")
RECORD_SCHEMA = "schema/record.json"
TOOLS = ("all_reduce_bench", "mamf-finder", "torch-distributed-gpu-test")
_LARGEST = 50_000_000  # bytes of a report
_NAME = re.compile(r"[^\W\d_][\w .,'@-]{0,59}")


def _no_number(word: str) -> float:
    """Python reads NaN and Infinity, which JSON does not have and no measurement gives."""
    raise ValueError(f"{word} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits)


def _read(file: Path) -> Any:
    try:
        if file.stat().st_size > _LARGEST:
            raise WrongUse(f"{file} has more than {_LARGEST / 1e6:.0f} MB; a report has less")
        return json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_number, parse_float=_finite)
    except OSError as error:
        raise WrongUse(f"cannot read {file}: {error.strerror}; give FILE=result.json") from None
    except ValueError as error:
        raise WrongUse(f"{file} is not JSON: {error}") from None
    except RecursionError:
        raise WrongUse(f"{file} is nested deeper than a report ever is") from None


def _validator(schema: Path):
    try:
        import jsonschema
    except ImportError:
        raise ToolMissing("jsonschema is not installed; `make contribute-record` installs it") from None
    return jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def _invalid(report: Any, path: str, config: Config) -> list[Problem]:
    """Where the file is no report of a known tool."""
    schema = config.root / REPORT_SCHEMA
    if not schema.is_file():
        raise WrongUse(f"{config.root} has no {REPORT_SCHEMA}; records belong to a book with instruments")
    faults = sorted(_validator(schema).iter_errors(report), key=lambda e: e.json_path)
    hint = "send the file as the tool wrote it"
    found = [Problem(path, 0, 0, "REC001", f"{e.json_path}: {e.message}", hint) for e in faults[:10]]
    if not found and report["tool"] not in TOOLS:
        found.append(Problem(path, 0, 0, "REC001", f"no tool of this book: '{report['tool']}'", f"known: {', '.join(TOOLS)}"))
    return found or [Problem(path, 0, 0, "REC001", message, hint) for message in _odd_words(report)]


def _odd_words(report: Mapping[str, Any]) -> Iterator[str]:
    """Words that the schema leaves free and a record prints: they must look like what they name."""
    if not anonymous.VERSION.fullmatch(report["version"]):
        yield f"$.version: {report['version'][:60]!r} is no version"
    for number, node in enumerate(report["world"]["nodes"] if report["world"] else ()):
        name = str(node["device"] or "")
        if name and (".." in name or not anonymous.DEVICE.fullmatch(name)):
            yield f"$.world.nodes[{number}].device: {name[:60]!r} is no device's name"


def canonical(kept: Mapping[str, Any]) -> bytes:
    """The one way to write a record, over which its hash goes."""
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def hardware(report: Mapping[str, Any]) -> str:
    """The file's name for the hardware: `8x-nvidia-h200`."""
    parts = [f"{number}x {name}" for name, number in anonymous.devices(report).items()]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[:60]


def record_of(report: Mapping[str, Any], by: str, today: date) -> tuple[str, dict[str, Any]]:
    """(path below data/records, the record)."""
    kept = anonymous.publishable(report)
    digest = hashlib.sha256(canonical(kept)).hexdigest()
    record = {
        "schema": SCHEMA,
        "sha256": digest,
        "from": {"by": by, "added": today.isoformat(), "measured": kept["day"], "release": f"v{report['version']}"},
        "licence": "CC-BY-SA-4.0",
        "report": kept,
    }
    return f"{report['tool']}/{hardware(report)}-{digest[:12]}.json", record


def _same(folder: Path, record: Mapping[str, Any]) -> Path | None:
    """A record of the same run that is there already. A run is known by its results: nobody measures twice alike."""
    results = canonical({"results": record["report"]["results"]})
    for file in sorted(folder.rglob("*.json")):
        there = json.loads(file.read_text(encoding="utf-8"))
        if canonical({"results": there["report"]["results"]}) == results:
            return file
    return None


def contribute(book_toml: Path, file: Path, by: str, yes: bool, today: date) -> tuple[list[str], list[Problem]]:
    """(what a person reads, problems)."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return [], problems
    if not _NAME.fullmatch(by):
        raise WrongUse(f"BY='{by}' is no name; letters, digits, spaces and . , ' @ - up to 60")
    report = _read(file)
    problems = _invalid(report, file.name, config)
    problems = problems or plausible.problems(report, file.name, config)
    # A day of grace: it may be tomorrow where the run was.
    if not problems and report["started"][:10] > (today + timedelta(days=1)).isoformat():
        message = f"the run started on {report['started'][:10]}, after today"
        problems = [Problem(file.name, 0, 0, "REC002", message, "set the clock of the machine and run it again")]
    if problems:
        return [], problems
    path, record = record_of(report, by, today)
    found = anonymous.leaks(record["report"], anonymous.personal(report))
    if found:
        message = f"names of machines or people would be published: {', '.join(found)[:120]}"
        return [], [Problem(file.name, 0, 0, "REC006", message, "open an issue; the list of kept fields needs a mend")]
    folder = config.root / config.data / FOLDER
    there = _same(folder, record)
    if there:
        message = f"the run is there already: {there.relative_to(config.root).as_posix()}"
        return [], [Problem(file.name, 0, 0, "REC007", message, "send a new run")]
    fault = next(iter(_validator(config.root / config.data / RECORD_SCHEMA).iter_errors(record)), None)
    if fault:
        return [], [Problem(file.name, 0, 0, "REC001", f"the record is not valid: {fault.json_path}: {fault.message}")]
    return _file(folder / path, f"{config.data}/{FOLDER}/{path}", report, record, yes), []


def _file(place: Path, name: str, report: Mapping[str, Any], record: Mapping[str, Any], yes: bool) -> list[str]:
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    gone = anonymous.left_out(report, record["report"])
    lines = [*text.splitlines(), "", f"left out: {', '.join(gone)}", f"by: {record['from']['by']} (BY=… changes it)"]
    if not yes:
        return [*lines, f"nothing was written; YES=1 writes {name}, to be published under {record['licence']}"]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return [*lines, f"written: {name}; commit it and open a pull request"]
