"""GPU records: made with Python and torch alone, stale when the fence changes.

The recording itself runs here for real, on whatever `_device` finds; only that answer is given, since this
machine has no CUDA device.
"""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bookpress.config import read_config
from bookpress.prove import records
from bookpress.prove.run import prove
from bookpress.prove.scan import scan

ROOT = Path(__file__).resolve().parents[2]
PRESS = ROOT / "build" / "bookpress"


def imports(file: Path) -> tuple[set[str], set[Path]]:
    """Names of libraries and files of the press that a module imports at its top level."""
    libraries, own = set(), set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            libraries |= {n.name.split(".")[0] for n in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            libraries.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1]
            parts = (node.module or "").split(".") if node.module else []
            names = [parts, *([*parts, n.name] for n in node.names)]
            for name in names:
                for place in (base.joinpath(*name).with_suffix(".py"), base.joinpath(*name, "__init__.py")):
                    own |= {place} if name and place.is_file() else set()
    return libraries, own


def test_recording_imports_the_standard_library_alone():
    todo = [PRESS / "__main__.py", PRESS / "__init__.py", PRESS / "prove/__init__.py", PRESS / "prove/records.py"]
    seen: set[Path] = set()
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        libraries, own = imports(file)
        assert libraries <= set(sys.stdlib_module_names), file
        todo += own
    assert PRESS / "prove/scan.py" in seen
    assert PRESS / "build.py" not in seen


def test_a_bare_python_gets_as_far_as_torch(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    argv = [tmp_path / "bare/bin/python", "-I", "-c",
            f"import sys; sys.path.insert(0, {str(ROOT / 'build')!r}); "
            f"sys.argv = ['bookpress', 'prove', '--gpu', '--book', {str(ROOT / 'book.toml')!r}]; "
            "import runpy; runpy.run_module('bookpress', run_name='__main__')"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "needs torch" in done.stderr
    assert "Traceback" not in done.stderr


BOOK = "[book]\ntitle = \"T\"\nslug = \"t\"\nversion = \"1\"\n[features]\nproofs = true\n[[part]]\nchapters = [\"c/a.md\"]\n"
CHAPTER = """```bash {.gpu id=one}
ls book.toml; sleep 300 &
```

```bash {.gpu id=first session=s}
echo first > /dev/null; echo 1
```

```python {.gpu id=second session=s}
print(6 * 7)
```

```bash {.gpu gpus=4 id=many}
echo never
```

```bash {.gpu id=broken}
echo why; exit 9
```

```bash {.gpu id=late timeout=1}
sleep 60
```

```bash {.gpu id=tools setup=kit}
cat tool.txt
```

```output {of=second}
42
```
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    (tmp_path / "c/fixtures/kit").mkdir(parents=True)
    (tmp_path / "c/fixtures/kit/tool.txt").write_text("a tool\n")
    (tmp_path / "book.toml").write_text(BOOK)
    (tmp_path / "c/a.md").write_text(CHAPTER)
    monkeypatch.setattr(records, "_device", lambda: ("Test device", 2, {"torch": "2"}))
    return read_config(tmp_path / "book.toml")[0]


def kept(config):
    return json.loads((config.root / "c/measurements/a.gpu.json").read_text())["fences"]


def test_records_are_written_and_held_to(config, tmp_path, capsys):
    assert records.record(config) == 2
    said = capsys.readouterr().out
    assert "c/a.md:13 many: left, needs 4 GPUs" in said
    assert "c/a.md:17 broken: exit 9" in said
    assert "why" in said
    assert "c/a.md:21 late: exit 124" in said
    assert sorted(kept(config)) == ["first", "one", "second", "tools"]
    assert kept(config)["one"]["output"] == "book.toml\n"
    assert kept(config)["tools"]["output"] == "a tool\n"
    assert kept(config)["second"] | {"date": "", "seconds": 0} == {
        "hash": kept(config)["second"]["hash"], "device": "Test device", "gpus": 2, "versions": {"torch": "2"},
        "date": "", "seconds": 0, "exit": 0, "output": "42\n",
    }  # fmt: skip
    proofs, problems, _ = prove([("c/a.md", scan(config.root / "c/a.md"))], config.root, tmp_path / "k", 1)
    assert [p.status for p in proofs] == ["ok", "ok", "ok", "missing", "missing", "missing", "ok"]
    assert {p.line for p in problems if p.code == "PRV004"} == {13, 17, 21}
    assert proofs[0].where == "Test device, torch 2"


def test_a_changed_fence_is_stale_and_only_it_is_run_again(config, tmp_path, capsys):
    records.record(config)
    before = kept(config)
    path = config.root / "c/a.md"
    path.write_text("Moved.\n\n" + CHAPTER.replace("6 * 7", "7 * 7"))
    proofs, problems, _ = prove([("c/a.md", scan(path))], config.root, tmp_path / "k", 1)
    assert {"PRV003"} <= {p.code for p in problems}
    assert [p.status for p in proofs][:3] == ["ok", "ok", "stale"]
    capsys.readouterr()
    records.record(config)
    said = capsys.readouterr().out
    assert "one: left, record is fresh" in said
    assert "second: exit 0" in said
    assert kept(config)["second"]["output"] == "49\n"
    assert kept(config)["one"] == before["one"]


def test_a_failed_run_leaves_the_old_record(config):
    records.record(config)
    before = kept(config)
    path = config.root / "c/a.md"
    path.write_text(CHAPTER.replace("print(6 * 7)", "raise SystemExit(1)"))
    records.record(config)
    assert kept(config) == before


def test_again_runs_what_is_fresh_and_only_narrows(config, capsys):
    records.record(config)
    capsys.readouterr()
    records.record(config, only="elsewhere", again=True)
    assert capsys.readouterr().out == ""
    records.record(config, only="a.md#tools", again=True)
    said = capsys.readouterr().out
    assert "tools: exit 0" in said
    assert "one" not in said
    records.record(config, again=True)
    assert "one: exit 0" in capsys.readouterr().out


def test_hash_sees_what_runs_and_not_where(config):
    fence = scan(config.root / "c/a.md")[0]
    same = replace(fence, line=99, index=7, id="other")
    assert records.fence_hash(same) == records.fence_hash(fence)
    for changed in (replace(fence, text="x"), replace(fence, lang="sh"), replace(fence, attrs={"exit": "1"})):
        assert records.fence_hash(changed) != records.fence_hash(fence)
