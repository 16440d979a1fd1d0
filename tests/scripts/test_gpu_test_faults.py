"""Faults injected into real worlds: each ends inside its limit, with the right code, and names the culprit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from conftest import GPU_TEST, clean_environment, free_port
from test_gpu_test_worlds import host_address

pytestmark = pytest.mark.slow

OPTIONS = ("--device", "cpu", "--json", "r.json")

# A rank that misbehaves at a collective: the tool as it is, with one function of torch replaced.
SABOTAGE = """
import os, sys, time
sys.path.insert(0, {scripts!r})
from clusterprobe.device import load_torch
load_torch()
import torch.distributed as dist
from clusterprobe.gpu_test import gpu_test_main
real, calls = dist.all_reduce, [0]
def all_reduce(tensor, *args, **kwargs):
    calls[0] += 1
    if calls[0] == int(os.environ["AT_CALL"]) and os.environ["RANK"] == os.environ["BAD_RANK"]:
        what = os.environ["FAULT"]
        if what == "late": time.sleep(1000)
        if what == "exit": os._exit(9)
        if what == "raise": raise ValueError("bad luck in the tool")
        if what == "flip":
            real(tensor, *args, **kwargs)
            tensor[7 % tensor.numel()] += 1
            return None
        if what == "shape": tensor = tensor[:-1].clone()
    return real(tensor, *args, **kwargs)
dist.all_reduce = all_reduce
sys.argv[0] = "torch-distributed-gpu-test"
sys.exit(gpu_test_main())
"""


@pytest.fixture
def sabotaged(tmp_path):
    path = tmp_path / "sabotaged.py"
    path.write_text(SABOTAGE.format(scripts=str(GPU_TEST.parent)))
    return path


def codes(ended) -> set[int]:
    return {end.rc for end in ended.values()}


def test_three_of_four_started(new_world, tmp_path, valid_report):
    """Ends inside its limit, exit 5 on every rank, names the missing rank and where it was expected."""
    world = new_world(4).start(GPU_TEST, *OPTIONS, "--stage-timeout", "25", only=(0, 1, 3))
    world.wait_for(0, "[2] address")
    start = time.monotonic()
    ended = world.finish(60)
    assert time.monotonic() - start < 25 + 5
    assert codes(ended) == {5}, ended
    assert ended[0].result["rc"] == "5"
    assert (
        f"rank 2 (expected on {socket.gethostname()}) never reached the store; 3 of 4 ranks are here"
        in ended[0].why
    )
    report = valid_report(tmp_path / "r.json")
    assert (report["status"], report["rc"]) == ("fail", 5)


def test_missing_rank_is_expected_on_its_neighbours_host(new_world):
    each = {
        rank: {
            "CLUSTERPROBE_NODE": "left" if rank < 2 else "right",
            "LOCAL_WORLD_SIZE": "2",
            "LOCAL_RANK": str(rank % 2),
        }
        for rank in range(4)
    }
    world = new_world(4, address=socket_address()).start(
        GPU_TEST, *OPTIONS, "--stage-timeout", "20", only=(0, 1, 3), each=each
    )
    ended = world.finish()
    assert codes(ended) == {5}
    assert "waiting for rank 2 (expected on right)" in ended[0].out
    assert "rank 2 (expected on right) never reached the store" in ended[0].why


def socket_address() -> str:
    return host_address()


def test_rank_0_never_started(new_world):
    world = new_world(3).start(GPU_TEST, *OPTIONS, "--stage-timeout", "15", only=(1, 2))
    ended = world.finish()
    assert codes(ended) == {5}, ended
    texts = ended[1].out + ended[2].out + ended[1].err + ended[2].err
    assert "Traceback" not in texts
    assert texts.count("rank 0 did not open 127.0.0.1") == 1  # also without a first local rank


@pytest.mark.parametrize(
    ("signum", "rank"), [("SIGSTOP", 2), ("SIGKILL", 2), ("SIGKILL", 0), ("SIGSTOP", 0)]
)
def test_stopped_or_dead_in_mid_run(signum, rank, new_world, sabotaged, tmp_path):
    """Rank 1 holds the collective up, so that the others wait in it when the signal comes."""
    each = {r: {"AT_CALL": "4", "BAD_RANK": "1", "FAULT": "late"} for r in range(3)}
    world = new_world(3).start(sabotaged, *OPTIONS, "--stage-timeout", "40", each=each)
    world.wait_for(0, "[8] links")
    time.sleep(1)
    start = time.monotonic()
    world.signal(rank, signal.Signals[signum])
    ended = world.finish(90, but=(rank,) if signum == "SIGSTOP" else ())
    ended.pop(rank, None)
    assert time.monotonic() - start < 40 + 20
    assert codes(ended) == {5}, ended
    told = "".join(end.out for end in ended.values())
    assert told.count("RESULT ") == 1, told
    if rank:
        assert f"collectives: rank {rank}@" in told
        assert "did not answer the roll call" in told
    else:
        assert "control store" in told
        assert "rank 0" in told


def test_late_rank_is_named_with_its_stack(new_world, sabotaged, tmp_path, valid_report):
    each = {r: {"AT_CALL": "3", "BAD_RANK": "1", "FAULT": "late"} for r in range(3)}
    world = new_world(3).start(sabotaged, *OPTIONS, "--stage-timeout", "20", each=each)
    ended = world.finish()
    assert codes(ended) == {5}, ended
    report = valid_report(tmp_path / "r.json")
    assert report["rc"] == 5
    assert [stage["stage"] for stage in report["stages"]][-1] == "links"


def test_two_ranks_late_at_once(new_world, sabotaged):
    """Both are named with their hosts, in the log of every rank: nobody has to find rank 0's first."""
    hosts = ("left", "left", "right", "right", "right")
    each = {
        rank: {
            "AT_CALL": "3",
            "BAD_RANK": str(rank) if rank in (1, 3) else "none",
            "FAULT": "late",
            "CLUSTERPROBE_NODE": host,
            "LOCAL_RANK": str(rank - hosts.index(host)),
            "LOCAL_WORLD_SIZE": str(hosts.count(host)),
        }
        for rank, host in enumerate(hosts)
    }
    world = new_world(5, address=host_address())
    world.start(sabotaged, *OPTIONS, "--stage-timeout", "20", each=each)
    world.wait_for(0, "[8] links")
    start = time.monotonic()
    ended = world.finish(60)
    assert time.monotonic() - start < 20 + 10
    assert codes(ended) == {5}, ended
    wanted = "collectives (all_reduce 8 B): rank 1@left, rank 3@right did not come to the collective in which the other 3"
    assert wanted in ended[0].why
    for rank in range(1, 5):
        assert ended[rank].out == ""
        assert f"rank {rank}@{hosts[rank]}: [9] {wanted}" in ended[rank].err
        assert "Traceback" not in ended[rank].err
    # The late ones show where they stand, the others end in one line.
    assert {rank for rank, end in ended.items() if "time.sleep" in end.err or "innermost frame" in end.err} == {1, 3}
    assert ended[2].err.count("\n") == ended[4].err.count("\n") == 1
    assert ended[0].err == ""


def test_one_rank_dies_and_the_others_know_at_once(new_world, sabotaged):
    """Long before the deadline: the peer's connection closes, the roll call finds who is silent."""
    each = {r: {"AT_CALL": "3", "BAD_RANK": "1", "FAULT": "exit"} for r in range(3)}
    world = new_world(3).start(sabotaged, *OPTIONS, "--stage-timeout", "60", each=each)
    world.wait_for(0, "[8] links")
    start = time.monotonic()
    ended = world.finish()
    assert time.monotonic() - start < 20
    assert ended.pop(1).rc == 9
    assert codes(ended) == {5}
    assert "rank 1@" in ended[0].why


def test_exception_on_one_rank_reaches_the_report(new_world, sabotaged, tmp_path, valid_report):
    each = {r: {"AT_CALL": "3", "BAD_RANK": "2", "FAULT": "raise"} for r in range(3)}
    ended = new_world(3).start(sabotaged, *OPTIONS, "--stage-timeout", "60", each=each).finish()
    assert codes(ended) == {1}
    assert "rank 2@" in ended[0].why
    assert "ValueError: bad luck in the tool" in ended[0].why
    assert "bad luck in the tool" in "".join(valid_report(tmp_path / "r.json")["trace"])


@pytest.mark.parametrize("size", [2, 3])
def test_flipped_value_is_wrong_data(size, new_world, sabotaged, tmp_path, valid_report):
    each = {r: {"AT_CALL": "4", "BAD_RANK": "1", "FAULT": "flip"} for r in range(size)}
    ended = new_world(size).start(sabotaged, *OPTIONS, "--stage-timeout", "60", each=each).finish()
    assert codes(ended) == {4}, ended
    assert "rank 1@" in ended[0].why
    assert "all_reduce of 64 KiB: 1 of 16,384 values are wrong, the first at 7" in ended[0].why
    rows = valid_report(tmp_path / "r.json")["results"]
    assert [row["bytes"] for row in rows if row["wrong"]] == [65536]


def test_different_options_are_caught_before_any_collective(new_world):
    words = {
        0: [*OPTIONS, "--seed", "1"],
        1: [*OPTIONS, "--seed", "1"],
        2: [*OPTIONS, "--seed", "2"],
    }
    ended = new_world(3).start(GPU_TEST, words=words).finish()
    assert codes(ended) == {2}
    assert "ranks were started with different options: seed: 2 on rank 2@" in ended[0].why
    assert "[5]" not in ended[0].out


def test_different_variables_are_a_warning_that_names_the_odd_rank(new_world):
    each = {2: {"NCCL_IB_HCA": "mlx5_0"}}
    ended = new_world(3).start(GPU_TEST, *OPTIONS, "--stop-after", "4", each=each).finish()
    assert codes(ended) == {0}
    assert "warning: ranks differ in NCCL_IB_HCA: mlx5_0 on rank 2@" in ended[0].out
    assert "unset on the other 2" in ended[0].out


def test_unresolvable_master(new_world):
    start = time.monotonic()
    ended = new_world(2, address="no-such-host.invalid").start(GPU_TEST, *OPTIONS).finish()
    assert time.monotonic() - start < 60
    assert codes(ended) == {6}
    assert "cannot resolve no-such-host.invalid" in ended[0].why
    assert ended[0].err == ended[1].err == ""


@pytest.mark.parametrize("foreign", ["silent", "closing"])
def test_port_in_use(foreign, new_world):
    """Whoever else listens there: rank 0 can't, the others must not wait for ever, and all end with 6."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        world = new_world(3, port=server.getsockname()[1])
        world.start(GPU_TEST, *OPTIONS, "--stage-timeout", "20")
        server.settimeout(1)
        held = []
        end = time.monotonic() + 60
        while (
            any(child.poll() is None for child in world.ranks.values()) and time.monotonic() < end
        ):
            try:
                peer, _ = server.accept()
                peer.close() if foreign == "closing" else held.append(peer)
            except TimeoutError:
                continue
        ended = world.finish(10)
        for peer in held:
            peer.close()
    assert codes(ended) == {6}, ended
    assert "in use" in ended[0].why


def test_a_slow_store_is_not_taken_for_a_stranger(new_world):
    """torch's server stands still while it looks up a peer's name; here a relay keeps still for as long."""
    with socket.create_server(("127.0.0.1", 0)) as relay:
        world = new_world(2)
        each = {1: {"MASTER_PORT": str(relay.getsockname()[1])}}
        threading.Thread(target=relay_late, args=(relay, world.port, 9.0), daemon=True).start()
        options = (*OPTIONS, "--stop-after", "4", "--stage-timeout", "60")
        ended = world.start(GPU_TEST, *options, each=each).finish()
    assert codes(ended) == {0}, ended


def test_slow_connections_count_together(new_world):
    """Two slow connections, each within the limit, end with their own reason inside one stage."""
    with socket.create_server(("127.0.0.1", 0)) as relay:
        world = new_world(2)
        each = {1: {"MASTER_PORT": str(relay.getsockname()[1]), "LOCAL_RANK": "0"}}
        threading.Thread(target=relay_late, args=(relay, world.port, 14.0), daemon=True).start()
        ended = world.start(GPU_TEST, *OPTIONS, "--stage-timeout", "20", each=each).finish()
    assert ended[0].rc == 5, ended
    assert ended[1].rc == 6, ended
    assert "takes connections and says nothing" in ended[1].why


def relay_late(server: socket.socket, port: int, delay: float) -> None:
    """Pass connections on, each one's first bytes after a delay."""

    def pump(source: socket.socket, target: socket.socket, wait: float) -> None:
        time.sleep(wait)
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def join(near: socket.socket) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:  # rank 1 may ask before rank 0's store is open
            with contextlib.suppress(ConnectionRefusedError):
                far = socket.create_connection(("127.0.0.1", port))
                break
            time.sleep(0.1)
        else:
            return near.close()
        threading.Thread(target=pump, args=(near, far, delay), daemon=True).start()
        pump(far, near, 0.0)

    with contextlib.suppress(OSError):
        while True:
            near, _ = server.accept()
            threading.Thread(target=join, args=(near,), daemon=True).start()


def test_a_wrong_interface_on_one_rank_is_told_by_that_rank(new_world):
    each = {2: {"NCCL_SOCKET_IFNAME": "ib7"}}
    ended = new_world(3).start(GPU_TEST, *OPTIONS, "--stage-timeout", "40", each=each).finish()
    assert codes(ended) == {6}, ended
    name = f"rank 2@{socket.gethostname()}"
    assert f"{name}: NCCL_SOCKET_IFNAME=ib7 matches no interface here" in ended[0].why


@pytest.mark.parametrize(
    ("backend", "rc", "words"),
    [("foo", 2, "backend foo: 'foo' is none of"), ("nccl", 6, "backend nccl")],
)
def test_a_backend_that_is_not_there(backend, rc, words, new_world):
    ended = new_world(2).start(GPU_TEST, *OPTIONS, "--backend", backend).finish()
    assert codes(ended) == {rc}, ended
    assert words in ended[0].why
    assert ended[0].err == ended[1].err == ""


def test_a_store_that_may_not_open_enough_files(torch_python, tmp_path):
    """Whom the store can't accept would be called missing."""
    env = clean_environment(
        RANK="0", WORLD_SIZE="64", LOCAL_RANK="0", LOCAL_WORLD_SIZE="64", MASTER_ADDR="127.0.0.1"
    )
    command = 'ulimit -n 100; exec "$0" "$1" --device cpu --json none'
    done = subprocess.run(
        ["bash", "-c", command, torch_python, str(GPU_TEST)],
        env={**env, "MASTER_PORT": str(free_port())},
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=90,
    )
    assert done.returncode == 6, done
    assert "rank 0 may hold 100 open files, the control store of 64 ranks needs 232" in done.stdout


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_ipv6_master(address, new_world):
    if (
        not Path("/proc/net/if_inet6").exists()
        or "lo" not in Path("/proc/net/if_inet6").read_text()
    ):
        pytest.skip("no IPv6 loopback here")
    ended = (
        new_world(2, address=address).start(GPU_TEST, *OPTIONS, "--stage-timeout", "60").finish()
    )
    assert codes(ended) == {0}, ended
    assert "IPv6" in ended[0].out or "loopback" in ended[0].out


def test_address_in_ifname(new_world):
    each = {rank: {"GLOO_SOCKET_IFNAME": "127.0.0.1"} for rank in range(2)}
    ended = new_world(2).start(GPU_TEST, *OPTIONS, each=each).finish()
    assert codes(ended) == {6}
    assert "holds an address, its interface is lo" in ended[0].why


@pytest.mark.parametrize(("signum", "rc"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_interrupted_while_native_code_waits(
    signum, rc, new_world, sabotaged, tmp_path, valid_report
):
    """The signal goes to every rank, as from a launcher; what was found is kept, and it ends within 5 s."""
    each = {r: {"AT_CALL": "3", "BAD_RANK": "1", "FAULT": "late"} for r in range(3)}
    world = new_world(3).start(sabotaged, *OPTIONS, "--stage-timeout", "90", each=each)
    world.wait_for(0, "[8] links")
    time.sleep(0.5)
    start = time.monotonic()
    for rank in range(3):
        world.signal(rank, signal.Signals[signum])
    ended = world.finish(20)
    assert time.monotonic() - start < 8
    assert codes(ended) == {rc}, ended
    report = valid_report(tmp_path / "r.json")
    assert (report["status"], report["rc"], len(report["stages"])) == ("interrupted", rc, 9)
    assert all(end.err == "" for end in ended.values())


def test_no_device_although_asked_for(new_world):
    ended = (
        new_world(2)
        .start(GPU_TEST, "--device", "cuda", "--json", "none", "--stage-timeout", "60")
        .finish()
    )
    assert codes(ended) == {6}
    assert "no cuda device" in ended[0].why
    assert ended[0].result["status"] == "skipped"


def test_unwritable_report_folder(new_world):
    ended = (
        new_world(2)
        .start(GPU_TEST, "--device", "cpu", "--json", "/proc/none/r.json", "--stop-after", "3")
        .finish()
    )
    assert codes(ended) == {0}
    assert "warning: cannot write /proc/none/r.json" in ended[0].out
    path = Path(ended[0].result["json"])
    assert json.loads(path.read_text())["rc"] == 0
    os.unlink(path)


def test_two_runs_do_not_mix(new_world, run_tool, tmp_path):
    first = run_tool(GPU_TEST, "--device", "cpu", "--json", "r.json", "--stop-after", "2")
    assert first.rc == 0
    before = (tmp_path / "r.json").read_text()
    second = run_tool(GPU_TEST, "--device", "cpu", "--json", "r.json", "--stop-after", "2")
    assert second.rc == 2
    assert (tmp_path / "r.json").read_text() == before


def test_late_rank_is_told(new_world):
    """Rank 2 comes seconds after the others: the run goes on and says who was last."""
    world = new_world(3).start(
        GPU_TEST, *OPTIONS, "--stop-after", "3", "--stage-timeout", "90", only=(0, 1)
    )
    world.wait_for(0, "[2] address")
    time.sleep(8)
    ended = world.start(
        GPU_TEST, *OPTIONS, "--stop-after", "3", "--stage-timeout", "90", only=(2,)
    ).finish()
    assert codes(ended) == {0}, ended
    assert "last came rank 2@" in ended[0].out
    assert "s after rank 0" in ended[0].out


@pytest.fixture
def stuck_parent(torch_python, tmp_path, sabotaged):
    """A function: the parent of local ranks, the last of which stands still after stage 3."""
    started: list[subprocess.Popen] = []

    def start(count: int, *words: str) -> subprocess.Popen:
        env = clean_environment(AT_CALL="1", BAD_RANK=str(count - 1), FAULT="late")
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            parent = subprocess.Popen(
                [torch_python, str(sabotaged), "--nproc", str(count), *OPTIONS, *words],
                env=env,
                cwd=tmp_path,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
            )
        started.append(parent)
        end = time.monotonic() + 90
        while "[4] consistency" not in (tmp_path / "out").read_text():
            assert parent.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        return parent

    yield start
    for parent in started:
        parent.kill()
        parent.wait()


def children_of(parent: subprocess.Popen) -> list[int]:
    return list(
        map(int, Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split())
    )


def test_signal_to_the_parent_of_local_ranks(stuck_parent, tmp_path):
    """All of its ranks end, the code is the signal's, nobody is left behind."""
    parent = stuck_parent(3, "--stage-timeout", "120")
    children = children_of(parent)
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(15) == 143
    assert len(children) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert (tmp_path / "out").read_text().count("RESULT status=interrupted rc=143") == 1


@pytest.mark.parametrize(
    ("signum", "victims", "limit"),
    [("SIGKILL", (0, 1), 60), ("SIGKILL", (0,), 60), ("SIGKILL", (2,), 60), ("SIGSTOP", (0,), 20 + 20)],
)
def test_one_verdict_whatever_happens_to_local_ranks(signum, victims, limit, stuck_parent, tmp_path):
    """The ranks that would tell it may be the dead ones; then their parent does. A stopped one holds up nobody."""
    parent = stuck_parent(4, "--stage-timeout", "20")
    pids = children_of(parent)
    by_rank = {}
    for pid in pids:
        words = Path(f"/proc/{pid}/environ").read_text().split("\0")
        by_rank[next(int(word[5:]) for word in words if word.startswith("RANK="))] = pid
    for rank in victims:
        os.kill(by_rank[rank], signal.Signals[signum])
    assert parent.wait(limit) == 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    text = (tmp_path / "out").read_text()
    assert text.count("RESULT status=fail rc=5") == 1, text
    assert text.count("why: ") == 1
    assert "Traceback" not in text + (tmp_path / "err").read_text()


def test_loopback_master_of_two_hosts(new_world):
    """Each of two hosts takes 127.0.0.1 for rank 0's: both say so at once, none waits for the other."""
    world = new_world(2)
    ended = world.start(GPU_TEST, *OPTIONS, "--stage-timeout", "60", local_size=1).finish(60)
    assert codes(ended) == {6}, ended
    for end in ended.values():
        assert "127.0.0.1 is loopback" in end.why
        assert "set MASTER_ADDR to an address of rank 0 that other nodes reach" in end.out
        assert end.err == ""


def test_rank_0_on_another_host_than_the_address(new_world):
    """192.0.2.1 is nobody's: rank 0 does not own it, and where nothing routes to it that comes first."""
    world = new_world(2, address="192.0.2.1")
    ended = world.start(GPU_TEST, *OPTIONS, "--stage-timeout", "60", local_size=1, only=(0,)).finish(60)
    assert ended[0].rc == 6, ended
    assert "does not own 192.0.2.1; it owns" in ended[0].why or "no route" in ended[0].why
    assert ended[0].err == ""


def test_a_host_with_loopback_alone(torch_python, tmp_path):
    env = clean_environment(
        RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="10.7.0.1"
    )
    done = subprocess.run(
        ["unshare", "--net", torch_python, str(GPU_TEST), "--device", "cpu", "--json", "none"],
        env={**env, "MASTER_PORT": str(free_port())},
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=90,
    )
    if "unshare:" in done.stderr:
        pytest.skip(f"no network namespace here: {done.stderr.strip()}")
    assert done.returncode == 6, done
    assert "why: no interface of this host has an address but loopback" in done.stdout
    assert done.stderr == ""
