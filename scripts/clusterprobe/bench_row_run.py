"""One row from start to end on this rank: memory, buffers, first call, timing; equal steps on all ranks.

A row that can't be done ends the same way on every rank: too little memory and an unsupported type are
agreed on before anybody waits for anybody. Any other error ends the run and names the rank.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, List, Optional

from clusterprobe.bench_clock import ClockOffset
from clusterprobe.bench_exchange import BenchExchange
from clusterprobe.bench_groups import Partition
from clusterprobe.bench_measure import Effort, Measured, RowMeasurement
from clusterprobe.bench_rows import pack_numbers
from clusterprobe.case_ring import CaseRing, buffer_sets
from clusterprobe.collective_cases import POINT_TO_POINT, CaseSpec, CollectiveCase, GroupSeat
from clusterprobe.collective_table import COLLECTIVES, Extent, extent_of
from clusterprobe.collective_values import TYPE_TRAITS, type_bytes
from clusterprobe.device import Device
from clusterprobe.exits import CANNOT_RUN, UNEXPECTED, ProbeFailure
from clusterprobe.units import format_size

REFUSALS = ("not support", "unsupported", "not implemented", "invalid scalar type", "cannot use", "unhandled",
            "only support", "does not implement", "unconvertible", "invalid tensor", "invalid argument", "expected scalar type",
            "can't be cast", "numpy is not available", "no backend type")
FINE, REFUSED, NO_MEMORY = 0, 1, 2
CHUNK_MEMORY = 96 << 20  # temporaries of filling and checking
REFUSED_REST = 0.01  # gloo: a barrier fails as long as a worker still holds the call that was refused
BUFFERS = 3  # of a set, each with its own --offset in front


@dataclass
class RowOutcome:
    """What a row came to. `table` holds every rank's numbers when it was measured."""

    status: str  # ok, unsupported, skipped
    reason: Optional[str]
    extents: List[Extent]
    table: Any = None
    own: Optional[Measured] = None


@dataclass(frozen=True)
class OpenRow:
    """A row in the middle of its timed part, for an end that comes before its own."""

    spec: CaseSpec
    partition: Partition
    seat: GroupSeat
    wanted: int
    extent: Extent
    result: Measured


class RowRunner:
    """Knows the world; runs row after row."""

    def __init__(self, torch: Any, session: Any, exchange: BenchExchange, effort: Effort,
                 clock: Optional[ClockOffset], memory: int) -> None:
        self._torch, self._session, self._exchange = torch, session, exchange
        self._effort, self._clock = effort, clock
        self.memory = memory
        self._device: Device = session.device
        self._pool: Any = None
        self.rows = 0
        self.open_row: Optional[OpenRow] = None

    def run(self, spec: CaseSpec, partition: Partition, seat: GroupSeat, wanted: int) -> RowOutcome:
        extents = [extent_of(spec.op, wanted, type_bytes(spec.dtype), len(group), spec.place == "in")
                   for group in partition.measured]
        self.rows += 1
        refused = self._impossible(spec, extents)
        if refused:
            return refused
        try:
            return self._measure(spec, partition, seat, wanted, extents)
        finally:
            self._release()

    def _impossible(self, spec: CaseSpec, extents: List[Extent]) -> Optional[RowOutcome]:
        """What is known without trying, equally on every rank."""
        if not hasattr(self._torch, spec.dtype):
            return RowOutcome("unsupported", f"this torch has no {spec.dtype}", extents)
        backend = self._session.args.backend or self._device.backend
        if backend == "gloo" and spec.redop == "avg" and TYPE_TRAITS[spec.dtype][0] in ("int", "bool"):
            return RowOutcome("unsupported", "gloo averages floats only, and fails on the root alone", extents)
        if backend == "gloo" and self._device.kind != "cpu" and spec.op in POINT_TO_POINT:
            return RowOutcome("unsupported", "gloo sends between CPUs only; with device tensors it crashes", extents)
        if self._device.vendor == "nvidia" and spec.dtype.endswith("fnuz") and COLLECTIVES[spec.op].reduces:
            return RowOutcome("unsupported", "NCCL has no fnuz types; torch's reduce hands them over as bytes, with wrong sums", extents)
        if spec.mode == "graph" and self._device.kind != "cuda":
            return RowOutcome("unsupported", f"CUDA graphs need a CUDA device, this is {self._device.kind}", extents)
        if spec.mode == "graph" and not COLLECTIVES[spec.op].capturable:
            return RowOutcome("unsupported", f"{spec.op} can't be recorded into a graph", extents)
        need = max(row_memory(spec, extent, self._sets(spec, extent)) for extent in extents)
        if need > self.memory:
            return RowOutcome("skipped", f"needs {format_size(need)} a rank, {format_size(self.memory)} are free "
                              "on the rank with the least", extents)
        return None

    def _sets(self, spec: CaseSpec, extent: Extent) -> int:
        """One set where nothing is in device memory to begin with."""
        if not extent.size or spec.op == "all_gather_object":
            return 1
        return buffer_sets(self._effort.sets, extent.size, self._device.l2_bytes, self._effort.calls(spec.mode))

    def _memory_pool(self) -> Any:
        """NCCL's memory for the whole run, None for torch's own.

        It must not go back between rows: NCCL keeps what a graph registered by its address for a while, and
        would write to a row's memory that is gone instead of that of the next row at the same address.
        """
        if self._session.args.allocator == "torch" or self._pool is not None:
            return self._pool
        backend = self._session.args.backend or self._device.backend
        allocator = None
        if backend == "nccl":
            group = self._torch.distributed.distributed_c10d._get_default_group()
            allocator = getattr(group._get_backend(self._torch.device(self._device.label)), "mem_allocator", None)
        if allocator is None or not hasattr(self._torch.cuda, "MemPool"):
            raise ProbeFailure(CANNOT_RUN, f"--allocator nccl: {backend} in torch {self._torch.__version__} hands out no memory",
                               "use torch 2.6 or later with NCCL", named=True)
        self._pool = self._torch.cuda.MemPool(allocator)
        return self._pool

    def _measure(self, spec: CaseSpec, partition: Partition, seat: GroupSeat, wanted: int,
                 extents: List[Extent]) -> RowOutcome:
        mine = next((at for at, group in enumerate(partition.measured) if self._session.env.rank in group), None)
        case, flag, reason = None, FINE, ""
        try:
            if mine is not None:
                extent, pool = extents[mine], self._memory_pool()
                case = CaseRing(lambda: CollectiveCase(self._torch, spec, extent, seat, self._device.label, pool),
                                self._sets(spec, extent))
        except self._torch.cuda.OutOfMemoryError:  # every device's; torch 2.2 has no shorter name
            flag, reason = NO_MEMORY, "a rank ran out of memory"
        except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            flag, reason = REFUSED, self._refusal(error)
        row = RowMeasurement(case, self._exchange, self._effort, self._clock, self._session.step,
                             self._session.watchdog.place, spec.mode)
        outcome = self._agreed(flag, reason, extents, partition.idle)
        for attempt in (row.first_call, row.capture if spec.mode == "graph" else None):
            if outcome is None and attempt is not None:
                flag, reason = self._try(attempt)
                outcome = self._agreed(flag, reason, extents, partition.idle)
        if outcome is None:
            if mine is not None:
                self.open_row = OpenRow(spec, partition, seat, wanted, extents[mine], row.result)
            row.run()
            self.open_row = None
            if row.result.wrong:  # only these ranks write, so that rank 0 can quote them
                self._session.control.client.put(f"wrong/{self.rows}/{self._session.env.rank}", row.result.first_wrong)
            outcome = RowOutcome("ok", None, extents, self._exchange.table(pack_numbers(row.result)), row.result)
        row.drop_graph()
        return outcome

    def _try(self, attempt: Any) -> Any:
        try:
            attempt()
            return FINE, ""
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            refusal = self._refusal(error)
            time.sleep(REFUSED_REST)
            return REFUSED, refusal

    def _refusal(self, error: Exception) -> str:
        """The backend's words; anything that is no refusal goes on as what it is."""
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        text = "".join(sign if sign.isprintable() else " " for sign in text)
        if isinstance(error, RuntimeError) and not any(word in text.lower() for word in REFUSALS):
            raise error
        return text

    def _agreed(self, flag: int, reason: str, extents: List[Extent], idle: int) -> Optional[RowOutcome]:
        """None when every rank can go on."""
        self._session.step("agreement")
        flags = self._exchange.table([flag])[:, 0].tolist()
        if not any(flags):
            return None
        if NO_MEMORY in flags:
            return RowOutcome("skipped", f"{self._session.control.name(flags.index(NO_MEMORY))} ran out of memory", extents)
        refusing = [rank for rank, value in enumerate(flags) if value]
        if len(refusing) < len(flags) - idle:
            names = ", ".join(self._session.control.name(rank) for rank in refusing[:4])
            raise ProbeFailure(UNEXPECTED, f"only {names} of {len(flags)} ranks can't do this: "
                               f"{reason or 'its log says why'}", named=True)
        return RowOutcome("unsupported", reason or "refused on other ranks", extents)

    def _release(self) -> None:
        module = getattr(self._torch, self._device.kind, None)
        if self._device.kind != "cpu" and hasattr(module, "empty_cache"):
            module.empty_cache()


def row_memory(spec: CaseSpec, extent: Extent, sets: int) -> int:
    """Bytes that a row takes on the rank with the most, with what filling and checking take for a while."""
    return (extent.memory + BUFFERS * spec.offset * type_bytes(spec.dtype)) * sets + CHUNK_MEMORY
