"""The way that data takes: NCCL's log of real pairs and of networks, the judgment, and what ranks do for it."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS

from clusterprobe import transport_log, transport_watch
from clusterprobe.exits import CANNOT_RUN, OK, TOO_SLOW

LOGS = ROOT / "chapters/hardware/measurements/nccl_logs_h200_pair"
BENCH = SCRIPTS / "all_reduce_bench.py"


def logged(name: str) -> transport_log.TransportView:
    with open(LOGS / f"{name}.log", encoding="utf-8") as file:
        return transport_log.read_transport_log(file)


def spoken(*lines: str) -> transport_log.TransportView:
    return transport_log.read_transport_log(f"node1:77:91 [0] NCCL INFO {line}\n" for line in lines)


IB_RANK = spoken(
    "NCCL version 2.27.3+cuda12.9", "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>", "Using network IB",
    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA", "Channel 01/0 : 9[1] -> 0[0] [receive] via NET/IB/1(2)/GDRDMA/Shared",
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "16 coll channels, 16 collnet channels, 8 nvls channels, 16 p2p channels, 2 p2p channels per peer")
BOUNCED_RANK = spoken("Using network IB", "Channel 00/0 : 1[1] -> 9[1] [send] via NET/IB/0", "Channel 00/0 : 1[1] -> 0[0] via P2P/IPC")
SOCKET_RANK = spoken("NET/IB : No device found.", "Using network Socket", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
                     "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct")
OFI_RANK = spoken("Using network AWS Libfabric", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA")


@pytest.mark.parametrize(("name", "kinds", "channels"), [
    ("p2p", {"p2p": 56}, 24), ("shm", {"shm": 6}, 4), ("socket", {"net": 8, "socket": 8}, 2)])
def test_logs_of_a_real_pair(name, kinds, channels):
    for rank in (0, 1):
        view = logged(f"{name}_rank{rank}")
        assert (view.kinds, view.channels) == (kinds, channels)
        assert view.version == "2.28.9+cuda13.0"
        assert view.network == "Socket"
        assert view.interfaces == ["Socket: [0]eth0:192.0.2.2<0>"]
        assert view.settings["NCCL_NVLS_ENABLE"] == "0"
        assert view.nvls_channels == 0
    assert ("IB" in logged(f"{name}_rank0").absent) == (name != "socket")  # NCCL_IB_DISABLE: it is not looked for


def test_algorithms_where_the_tuner_speaks():
    """Only rank 0 logs them. The choice by size, with the channels used."""
    choices = {size: (algorithm, protocol, channels) for _, size, algorithm, protocol, channels in logged("p2p_rank0").choices}
    assert choices == {8: ("RING", "LL", 1), 4096: ("RING", "LL", 1), 65536: ("RING", "LL", 8), 1 << 20: ("RING", "LL", 24),
                       1 << 24: ("RING", "SIMPLE", 24), 1 << 28: ("RING", "SIMPLE", 24)}
    assert logged("p2p_rank1").choices == []


@pytest.mark.parametrize(("view", "kinds"), [
    (IB_RANK, {"p2p": 1, "net": 2, "ib": 2, "gdr": 2, "nvls": 8}), (BOUNCED_RANK, {"p2p": 1, "net": 1, "ib": 1}),
    (SOCKET_RANK, {"shm": 1, "net": 1, "socket": 1}), (OFI_RANK, {"net": 1, "ofi": 1, "gdr": 1})])
def test_ways_over_a_network(view, kinds):
    assert view.kinds == kinds


def test_equal_ways_have_equal_names():
    assert IB_RANK.edges == {"NET/IB/GDRDMA": 1, "NET/IB/GDRDMA/Shared": 1, "P2P/CUMEM": 1}
    assert transport_log.plain_via("P2P/indirect/3[3] comm 0x55 nRanks 08") == "P2P/indirect"
    assert transport_log.plain_via("P2P/direct pointer/read") == "P2P/direct pointer/read"


def test_sentences():
    assert transport_log.transport_sentence(logged("shm_rank0")) == "4 channels; 6 x SHM/direct/direct; network Socket (IB: no device)"
    assert "NVLS on 8 channels" in transport_log.transport_sentence(IB_RANK)
    assert transport_log.transport_sentence(spoken("hello")) == "no channel count in the log; no connection in the log"


@pytest.mark.parametrize(("required", "views", "places", "met", "words"), [
    ("p2p", ["p2p_rank0", "p2p_rank1"], [0, 0], True, "p2p is used by ranks 0-1"),
    ("p2p", ["shm_rank0", "shm_rank1"], [0, 0], False, "no rank uses p2p: SHM/direct/direct"),
    ("ib", ["p2p_rank0", "p2p_rank1"], [0, 0], False, "all ranks are on one node, whose connections need no network"),
    ("ib", [IB_RANK, IB_RANK], [0, 1], True, "ib is used by ranks 0-1"),
    ("ib", [IB_RANK, SOCKET_RANK], [0, 1], False, "not only ib: ranks 1 use NET/Socket"),
    ("gdr", [IB_RANK, BOUNCED_RANK], [0, 1], False, "not only gdr: ranks 1 use NET/IB"),
    ("gdr", [OFI_RANK, OFI_RANK], [0, 1], True, "gdr is used by ranks 0-1"),
    ("ofi", [IB_RANK, OFI_RANK], [0, 1], False, "not only ofi: ranks 0 use"),
    ("p2p", [IB_RANK, SOCKET_RANK], [0, 0], False, "not only p2p: ranks 1 use"),
    ("nvls", [IB_RANK, BOUNCED_RANK], [0, 0], False, "NVLS is not used by ranks 1"),
    ("nvls", [IB_RANK, IB_RANK], [0, 0], True, "NVLS is used by all"),
    ("socket", [SOCKET_RANK, SOCKET_RANK], [0, 1], True, "socket is used by ranks 0-1"),
    ("net", [IB_RANK, None], [0, 1], False, "no NCCL log from ranks 1"),
    ("net", [IB_RANK], [0], False, "one rank has no connection")])
def test_judgment_of_a_required_transport(required, views, places, met, words):
    known = {rank: logged(view) if isinstance(view, str) else view for rank, view in enumerate(views)}
    found, sentence = transport_log.judge_transport(required, known, places)
    assert (found, words in sentence) == (met, True), sentence


def test_exit_codes():
    both = {0: logged("socket_rank0"), 1: logged("socket_rank1")}
    assert transport_watch.judge_required(["socket"], both, [0, 0]) == (OK, "")
    rc, sentence = transport_watch.judge_required(["socket", "ib"], both, [0, 0])
    assert rc == TOO_SLOW
    assert sentence.startswith("--require-transport ib: no rank uses ib: NET/Socket")
    assert transport_watch.judge_required(["ib"], {0: None, 1: None}, [0, 0])[0] == CANNOT_RUN
    assert transport_watch.judge_required([], {0: None}, [0]) == (OK, "")


def test_what_the_user_set_stays(tmp_path):
    environ = {"NCCL_DEBUG": "TRACE", "NCCL_DEBUG_FILE": str(tmp_path / "own.%p.log")}
    before = dict(environ)
    watch = transport_watch.TransportWatch(True)
    watch.ask(environ)
    assert environ == before
    (tmp_path / f"own.{os.getpid()}.log").write_text((LOGS / "shm_rank1.log").read_text())
    assert watch.read() == logged("shm_rank1")
    assert list(tmp_path.iterdir()), "a log of the user's own is not removed"


def test_asked_for_and_removed_again(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environ = {"NCCL_DEBUG": "WARN"}
    watch = transport_watch.TransportWatch(True)
    watch.ask(environ)
    assert (environ["NCCL_DEBUG"], environ["NCCL_DEBUG_SUBSYS"]) == ("INFO", "INIT,ENV,NET")
    assert len(list(tmp_path.iterdir())) == 1
    assert watch.read() is None
    assert list(tmp_path.iterdir()) == []
    quiet: dict[str, str] = {}
    transport_watch.TransportWatch(False).ask(quiet)
    assert quiet == {}


def test_a_large_world_is_a_few_lines():
    views = {rank: (SOCKET_RANK if rank == 9000 else IB_RANK) for rank in range(16_384)}
    groups = transport_watch.equal_views(views)
    assert [len(ranks) for ranks, _ in groups] == [16_383, 1]
    assert groups[1][0] == [9000]


@pytest.mark.slow
def test_gloo_has_no_nccl_log(run_tool, tmp_path, valid_report):
    done = run_tool(BENCH, "--nproc", "2", "--device", "cpu", "--sizes", "4K", "--num-iterations", "3", "--transports",
                    "--json", "r.json")
    assert (done.rc, done.err) == (0, "")
    assert "transport of ranks 0-1: no NCCL log" in done.out
    report = valid_report(tmp_path / "r.json")
    assert report["warnings"] == [], "a log file of its own for every rank is no difference between them"
    assert [stage["status"] for stage in report["stages"] if stage["stage"] == "transport"] == ["warn"]
    done = run_tool(BENCH, "--nproc", "2", "--device", "cpu", "--sizes", "4K", "--num-iterations", "3",
                    "--require-transport", "p2p,ib", "--json", "none")
    assert (done.rc, done.err) == (6, "")
    assert "no rank wrote an NCCL log" in done.why
    assert not glob.glob(str(Path(tempfile.gettempdir()) / f"nccl-log-*/nccl-*-{os.getpid()}.log"))


def test_a_log_folder_that_cannot_be_written_ends_the_run_before_it_starts(run_tool, valid_report, tmp_path):
    (tmp_path / "file").write_text("")
    ended = run_tool(BENCH, "--nproc", "2", "--device", "cpu", "--sizes", "1K", "--transports", "file/logs", "--json", "out.json")
    assert ended.rc == CANNOT_RUN
    assert "--transports file/logs can't be written: Not a directory" in ended.out
    assert "next: name a folder that every rank can write" in ended.out
    # Before the ranks have met each says its own reason; rank 0's is the verdict, rank 1's goes to its log.
    assert re.fullmatch(r"(rank 1@\S+: --transports file/logs can't be written: Not a directory\n)?", ended.err)
    assert valid_report(tmp_path / "out.json")["rc"] == CANNOT_RUN
