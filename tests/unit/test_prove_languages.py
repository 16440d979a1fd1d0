"""`parse` fences: each language's own checker finds the mistake and its row."""

import re
import shutil
import subprocess

import pytest

from bookpress.model import Fence
from bookpress.prove import languages, sbatch

needs_shellcheck = pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")


def check(lang, text):
    return languages.check(Fence(0, 1, lang, text, "parse"))


@needs_shellcheck
@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ("echo one\nif true; then echo two", 1, "SC10"),
        ("files=$(ls)\nrm $files/*\nfor f in $(ls *.txt); do cp $f x; done; read x\ncd /x; [ $a == ]", 3, "SC"),
        ("x=1\nrm -rf \"$y/\"*\necho $(( x ", 2, "SC"),
    ],
)
def test_shell_mistakes(text, row, words):
    assert any(r == row and words in m for r, m in check("bash", text)), check("bash", text)


@needs_shellcheck
def test_good_shell():
    assert check("bash", 'set -eu\nfor n in 1 2; do\n  echo "$n"\ndone | sort -n') == []


@pytest.mark.parametrize(
    ("lang", "text", "row", "words"),
    [
        ("python", "x = 1\nif x\n  pass", 1, "not valid Python"),
        ("python", "import json\nfrom json import dump, dunp", 1, "'json' has no 'dunp'"),
        ("python", "import xml.etree.NoSuch", 0, "cannot import xml.etree.NoSuch"),
        ("json", '{\n "a": 1,\n}', 2, "not valid JSON"),
        ("toml", "a = 1\nb = ", 1, "not valid TOML"),
        ("yaml", "a: 1\nb: [1, 2\nc: 3", 2, "not valid YAML"),
        ("brainfuck", "+", 0, "no parser for 'brainfuck'"),
    ],
)
def test_mistakes(lang, text, row, words):
    assert any(r == row and words in m for r, m in check(lang, text)), check(lang, text)


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("python", "from os import path\nimport a_library_that_is_not_here\nfrom . import near"),
        ("json", "[1]"), ("toml", "a = 1"), ("yaml", "a: 1\n---\nb: 2"),
    ],
)  # fmt: skip
def test_nothing_to_say(lang, text):
    assert check(lang, text) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#SBATCH --gpu-per-node=8", "no option --gpu-per-node (did you mean 'gpus-per-node'?)"),
        ("#SBATCH --nodes", "--nodes needs a value"),
        ("#SBATCH -Z 3", "no option -Z"),
        ("#SBATCH nodes=2", "'nodes=2' is no option"),
        ('#SBATCH --job-name="x', "cannot be read"),
        ("hostname\n#SBATCH --nodes=2", "after the first command is ignored"),
    ],
)
def test_batch_lines(line, words):
    for text in (f"#!/bin/bash\n{line}", f"cat > a.sbatch <<'EOF'\n#!/bin/bash\n{line}\nEOF"):
        assert any(words in m for _, m in sbatch.check(text)), list(sbatch.check(text))


def test_good_batch_script():
    text = """#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node 8 # both
#SBATCH -J name -t 1:00:00 -N2 --exclusive
#SBATCH hetjob
#SBATCH --ntasks=1

# a comment
srun hostname"""
    assert list(sbatch.check(text)) == []


@pytest.mark.skipif(not shutil.which("sbatch"), reason="Slurm is not installed")
def test_every_option_of_the_installed_sbatch_is_known(tmp_path):
    conf = tmp_path / "slurm.conf"  # sbatch prints no help without one
    conf.write_text("ClusterName=c\nSlurmctldHost=localhost\nNodeName=localhost\n")
    env = {"SLURM_CONF": str(conf), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sbatch", "--help"], env=env, capture_output=True, text=True, check=True)
    shown = set(re.findall(r"--([a-z][a-z0-9-]+)", done.stdout))
    assert len(shown) > 80
    assert shown - sbatch.options() == set()
    short = set(re.findall(r"^\s+-([A-Za-z]),", done.stdout, re.M))
    assert short - sbatch._SHORT_VALUED - sbatch._SHORT_FLAGS == set()
    valued = set(re.findall(r"--([a-z][a-z0-9-]+)=[<\[a-z]", done.stdout)) - {"nice", "exclusive", "propagate"}
    assert valued & set(sbatch._FLAGS) <= {"get-user-env", "kill-on-invalid-dep", "no-kill", "help"}, valued & set(sbatch._FLAGS)
