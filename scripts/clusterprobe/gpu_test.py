"""torch-distributed-gpu-test: can these ranks work together, and if not, who is to blame?

Ten stages from the launcher's variables to every collective with checked results. The first one that
fails ends the run on all ranks with one verdict that names the rank and its host.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.backend import close_group, open_group
from clusterprobe.checked_collectives import COLLECTIVE_NAMES, Checked, CheckedCollectives
from clusterprobe.device import (
    load_torch,
    shared_devices,
    wait_for_device,
)
from clusterprobe.exits import CANNOT_RUN, OK, WRONG_DATA, ProbeFailure
from clusterprobe.gpu_test_judges import (
    CONTROL_GROUP_SIZE,
    CONTROL_GROUP_WHOLE,
    judge_backend,
    judge_collectives,
    judge_control_group,
    judge_links,
    judge_matmul,
    judge_preflight,
)
from clusterprobe.gpu_test_local import (
    find_endpoint,
    look_at_address,
    look_at_devices,
    look_at_launcher,
)
from clusterprobe.join import check_consistency, collect_facts, findings_here, take_census
from clusterprobe.launch import RankEnv
from clusterprobe.options import ProbeParser, filled_option, make_parser
from clusterprobe.probe import planned_ranks, run_probe
from clusterprobe.ring_links import ring_members, send_around
from clusterprobe.session import Session
from clusterprobe.stages import Outcome, StageTable
from clusterprobe.topology import linked_groups
from clusterprobe.units import counted, format_size

GPU_TEST_NAME = "torch-distributed-gpu-test"
STAGE_NAMES = (
    "launcher",
    "devices",
    "address",
    "census",
    "consistency",
    "control group",
    "matmul",
    "backend",
    "links",
    "collectives",
)
CHECK_SIZES = {"cpu": (8, 64 << 10, 1 << 20), "device": (8, 1 << 20, 64 << 20)}
LINK_BYTES = {"cpu": 1 << 20, "device": 16 << 20}
MATMUL_SIDE = {"cpu": 256, "device": 4096}


def gpu_test_parser() -> ProbeParser:
    parser = make_parser(
        GPU_TEST_NAME,
        "Tests in ten stages whether all ranks of a job can work together: launcher, devices, names and "
        "ports, who is missing, what differs, and every collective with checked results.",
        "Start it like the job it stands for:\n"
        "  torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint node1:29500 --rdzv-backend c10d \\\n"
        "      torch-distributed-gpu-test.py\n"
        "  srun -N2 --ntasks-per-node=8 --gpus-per-node=8 python torch-distributed-gpu-test.py\n"
        "  python torch-distributed-gpu-test.py            (one rank per device of this host)",
    )
    parser.add_argument(
        "--stop-after",
        type=int,
        choices=range(10),
        default=9,
        metavar="STAGE",
        help="end after this stage, 0 to 9; 4 ends before any product or transport (default %(default)s)",
    )
    parser.add_argument(
        "--backend",
        type=filled_option("name"),
        metavar="NAME",
        help="backend of stages 7 to 9 (default: nccl, xccl or hccl by device, gloo on cpu)",
    )
    return parser


def gpu_test_plan(args: argparse.Namespace, env: RankEnv) -> List[str]:
    lines = [f"{GPU_TEST_NAME}: {planned_ranks(args, env)}"]
    lines += [
        f"  [{number}] {name}, limit {args.stage_timeout:g} s"
        for number, name in enumerate(STAGE_NAMES)
        if number <= args.stop_after
    ]
    return [*lines, f"  whole run: limit {args.timeout:g} s"]


def gpu_test_body(session: Session) -> Tuple[int, str]:
    return GpuTest(session).run()


def gpu_test_main(argv: Optional[Sequence[str]] = None) -> int:
    return run_probe(gpu_test_parser(), gpu_test_body, argv, gpu_test_plan)


class GpuTest:
    """The stages in order; each method is one stage's work on one rank."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.env = session.env
        self.table = StageTable(session)

    def run(self) -> Tuple[int, str]:
        table, last = self.table, self.session.args.stop_after
        self.session.report.line(
            f"{GPU_TEST_NAME}: {counted(self.env.world_size, 'rank')}, launcher {self.env.launcher}"
        )
        local = ((0, look_at_launcher), (1, look_at_devices), (2, look_at_address))
        for number, work in local[: last + 1]:
            table.local(number, STAGE_NAMES[number], lambda work=work: work(self.session))
        if table.local_failure and (last < 3 or self.lost_without_address()):
            table.local_failure.named = True  # most likely the whole node has it: its first rank tells it
            raise table.local_failure
        if last < 3:
            return (
                OK,
                f"stages 0 to {last} passed on rank {self.env.rank}; the others were not asked",
            )
        table.shared(3, STAGE_NAMES[3], self.census)
        steps = (
            (4, self.consistency, judge_preflight),
            (5, self.control_group, judge_control_group),
            (6, self.matmul, judge_matmul),
            (7, self.backend, judge_backend),
            (8, self.links, judge_links),
            (
                9,
                self.collectives,
                lambda session, values: judge_collectives(session, values, self.checked_rows()),
            ),
        )
        for number, work, judge in steps[: max(0, last - 3)]:
            merge = (
                None if judge is None else (lambda values, judge=judge: judge(self.session, values))
            )
            table.shared(number, STAGE_NAMES[number], work, merge)
        if self.session.group_open:
            close_group(self.session)
        return OK, self.good_verdict(last)

    @property
    def size_class(self) -> str:
        return "cpu" if self.session.device.kind == "cpu" else "device"

    def lost_without_address(self) -> bool:
        """Without a usable address this rank can't tell anybody; any other failure goes to the census."""
        if self.session.report.document["stages"][-1]["status"] != "fail":
            return False
        try:
            find_endpoint(self.session)
            return False  # a wrong interface name: the store is not opened by it
        except ProbeFailure:
            return True

    def good_verdict(self, last: int) -> str:
        if not self.session.rank0:
            return ""
        nodes = len(set(self.session.control.places))
        ranks = f"{counted(self.env.world_size, 'rank')} on {counted(nodes, 'node')}"
        what = (
            "returned right data from every collective"
            if last == 9
            else f"passed stages 0 to {last}"
        )
        note = f"; {counted(self.table.warned, 'warning')}" if self.table.warned else ""
        if self.session.device.kind == "cpu":
            note += "; no accelerator took part"
        return f"{ranks} {what}{note}"

    def census(self) -> Outcome:
        self.session.connect()
        facts = collect_facts(os.environ, self.session.device)
        late = take_census(self.session, facts)
        failure = self.table.local_failure
        if failure:
            return Outcome("", None, failure.rc, failure.reason, failure.hint)
        if self.session.rank0:
            self.refuse_shared_devices()
            nodes = len(set(self.session.control.places))
            return Outcome(
                f"{counted(self.env.world_size, 'rank')} on {counted(nodes, 'node')}, nobody missing"
                + (f"; {late}" if late else "")
            )
        return Outcome()

    def refuse_shared_devices(self) -> None:
        records = self.session.control.census.records
        shared = shared_devices(
            [{"rank": rank, **record} for rank, record in sorted(records.items())]
        )
        if shared:
            more = f" and {len(shared) - 4} more" if len(shared) > 4 else ""
            raise ProbeFailure(
                CANNOT_RUN,
                "; ".join(shared[:4]) + more,
                "give each rank its own device: check CUDA_VISIBLE_DEVICES and the ranks per node",
                named=True,
            )

    def consistency(self) -> Outcome:
        check_consistency(self.session)
        return Outcome("", findings_here(self.session))

    def control_group(self) -> Outcome:
        """gloo on CPU tensors: tests host networking alone, whatever the accelerators do.

        Each of n ranks reads n addresses of 154 + 8n bytes from rank 0's store, 35 TB in all for 16,384
        ranks. A big world opens small groups that overlap instead.
        """
        world, rank = self.env.world_size, self.env.rank
        whole = world <= CONTROL_GROUP_WHOLE
        groups = (
            [("", list(range(world)))] if whole else linked_groups(world, rank, CONTROL_GROUP_SIZE)
        )
        seconds = sum(self.add_up(name, members) for name, members in groups)
        return Outcome("", [seconds, os.environ.get("GLOO_SOCKET_IFNAME")])

    def add_up(self, name: str, members: List[int]) -> float:
        """One checked sum over the members; returns the seconds that the group took to open."""
        torch = load_torch()
        import torch.distributed as dist

        start = time.monotonic()
        open_group(self.session, "gloo", f"control{name}", members)
        opened = time.monotonic() - start
        self.session.step("all_reduce")
        value = torch.full((4,), float(self.env.rank % 8))
        dist.all_reduce(value)
        wanted = float(sum(rank % 8 for rank in members))
        self.session.step("close")
        close_group(self.session)
        if not bool((value == wanted).all()):
            raise ProbeFailure(
                WRONG_DATA, f"gloo all_reduce gave {value[0].item():g} instead of {wanted:g}"
            )
        return opened

    def matmul(self) -> Outcome:
        """Small integers: the product is exact in float32, and in TF32 as well."""
        torch, device, side = load_torch(), self.session.device, MATMUL_SIDE[self.size_class]
        try:
            left = (
                (torch.arange(side * side, device=device.label) % 5)
                .to(torch.float32)
                .reshape(side, side)
            )
            right = torch.eye(side, device=device.label) * 3.0
            seconds = []
            for _ in range(5):
                wait_for_device(device.kind)
                start = time.perf_counter()
                product = left @ right
                wait_for_device(device.kind)
                seconds.append(time.perf_counter() - start)
        except RuntimeError as error:  # out of memory, no kernel image, device in error state
            raise ProbeFailure(
                CANNOT_RUN,
                f"{device.label}: {str(error).strip().splitlines()[0]}",
                "is another process on this device? nvidia-smi",
            ) from None
        wrong = int((~(product == left * 3.0)).sum().item())
        if wrong:
            raise ProbeFailure(
                WRONG_DATA,
                f"{device.label} ({device.uuid or device.name}): {wrong:,} of {side * side:,} "
                "products are wrong",
                "take this device out of service and run its vendor's diagnosis",
            )
        return Outcome("", min(seconds))

    def backend(self) -> Outcome:
        name = self.session.args.backend or self.session.device.backend
        torch = load_torch()
        import torch.distributed as dist

        opened = open_group(self.session, name, "measured")
        self.session.step("first all_reduce")
        start = time.monotonic()
        value = torch.ones(1, device=self.session.device.label)
        dist.all_reduce(value)
        wait_for_device(self.session.device.kind)
        first = time.monotonic() - start
        if value.item() != self.env.world_size:
            raise ProbeFailure(
                WRONG_DATA,
                f"{name} all_reduce of ones gave {value.item():g} in a world of {self.env.world_size}",
            )
        return Outcome("", [name, opened, first])

    def links(self) -> Outcome:
        torch, count = load_torch(), LINK_BYTES[self.size_class] // 4
        looks: Dict[str, Any] = {}
        rings = ring_members(self.session.control.places, self.env.rank)
        for kind in ("node", "across"):
            self.session.step(f"{kind} ring")  # also without one: the steps are counted on all ranks alike
            if kind not in rings:
                continue
            ring = rings[kind]
            look = send_around(torch, self.session.device, kind, ring, self.env.rank, count)
            if look.wrong:
                raise ProbeFailure(
                    WRONG_DATA,
                    f"received {look.wrong:,} wrong values of {count:,} from "
                    f"{self.session.control.name(look.sender)}",
                )
            looks[kind] = [look.sender, look.bytes, look.seconds]
        return Outcome("", looks)

    def collectives(self) -> Outcome:
        checks = CheckedCollectives(
            load_torch(), self.session.device, self.env.rank, self.env.world_size
        )
        micros: List[float] = []
        wrong: Dict[int, str] = {}
        refused: Dict[int, str] = {}
        for place, (op, size) in enumerate(self.checked_rows()):
            self.session.step(f"{op} {format_size(size)}")
            done = checks.run(op, max(1, size // 4))
            micros.append(round(done.seconds * 1e6, 1))
            if done.wrong:
                wrong[place] = self.wrong_text(done, size)
            if done.unsupported:
                refused[place] = done.unsupported
        return Outcome("", {"us": micros, "wrong": wrong, "no": refused})

    def checked_rows(self) -> List[Tuple[str, int]]:
        return [(op, size) for size in CHECK_SIZES[self.size_class] for op in COLLECTIVE_NAMES]

    def wrong_text(self, done: Checked, size: int) -> str:
        return f"{done.op} of {format_size(size)}: {done.first}"
