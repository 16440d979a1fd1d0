"""The command line: aliases, no abbreviations, help without torch, exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import SCRIPTS

from clusterprobe.exits import EXIT_MEANING, EXIT_PRECEDENCE, EXIT_STATUS, worst_exit
from clusterprobe.options import make_parser

TOOLS = sorted(path.name for path in SCRIPTS.glob("*.py"))


def parser():
    made = make_parser("probe", "sure", gate=("GB/s", "lowest rate"))
    made.add_argument("--m_range", nargs=3, type=int, help="100%% sure")
    return made


def test_underscores_and_dashes_mean_the_same():
    for words in (["--stage-timeout", "5"], ["--stage_timeout", "5"], ["--stage_timeout=5s"]):
        assert parser().parse_args(words).stage_timeout == 5
    for words in (["--m_range", "1", "2", "3"], ["--m-range", "1", "2", "3"]):
        assert parser().parse_args(words).m_range == [1, 2, 3]


@pytest.mark.parametrize(
    "words",
    [
        ["--stage", "5"],
        ["--timeout", "x"],
        ["--nproc", "0"],
        ["--nproc", "some"],
        ["--nproc", "1000000"],
        ["--nproc", "٣"],
        ["--timeout", "0"],
        ["--stage-timeout", "0s"],
        ["extra"],
        ["--fail-below", "fast"],
        ["--json", ""],
        ["--init="],
    ],
)
def test_wrong_use_is_2_with_a_result_line(words, capsys):
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(words)
    assert caught.value.code == 2
    assert (
        capsys.readouterr().err.splitlines()[-1] == "RESULT status=error rc=2 tool=probe json=none"
    )


def test_defaults_are_parsed_values():
    args = parser().parse_args([])
    assert (args.timeout, args.stage_timeout, args.nproc, args.json) == (1800, 60, "auto", None)


def test_help_formats():
    assert "100% sure" in parser().format_help()
    for code in EXIT_MEANING:
        assert f"\n  {code:>3}  " in parser().format_help()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_need_no_torch(tool, option):
    """A torch that raises stands in the way; python -W error makes warnings fail too."""
    code = (
        f"import sys, runpy; sys.modules['torch'] = None; sys.argv = ['{tool}', '{option}']; "
        f"sys.path.insert(0, r'{SCRIPTS}'); runpy.run_path(r'{SCRIPTS / tool}', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert tool.removesuffix(".py").split("_")[0] in done.stdout


def test_exit_tables_agree():
    assert set(EXIT_MEANING) == set(EXIT_STATUS) == set(EXIT_PRECEDENCE)


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 7], 7),
        ([7, 3], 3),
        ([3, 5], 5),
        ([5, 4], 4),
        ([6, 1], 6),
        ([143, 0], 143),
        ([-9, 0], 1),
        ([130, 1], 1),
    ],
)
def test_worst_exit(codes, worst):
    assert worst_exit(codes) == worst
