"""The pair rounds on real links: one way at a time, timed by the receiver, then the suspects alone.

The receiver asks for the data and measures until it is there, since on a one-sided slow link both ends of
a sender look slow; the fastest of a few counts, because a slow link is slow each time. It tells the sender the rate, so that each member knows both directions.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from clusterprobe.bench_exchange import BenchExchange
from clusterprobe.bench_pairs import (
    BINS,
    MOST_SUSPECTS,
    Excuse,
    MemberRates,
    Suspect,
    binned,
    chosen_rounds,
    find_suspects,
    member_rates,
    pair_partner,
    sound_turns,
    still_slow,
    summary_numbers,
    witness_of,
)
from clusterprobe.collective_buffers import CheckedBuffers, Region
from clusterprobe.core_wait import CoreWait
from clusterprobe.device import Device, wait_for_device
from clusterprobe.stats import median

PAIR_REPEATS = 3
LOOKS = 3  # at a suspect
WANT_OF_CORE = 0.2  # of the time; with so much waiting a rate says more about the host's load than about a link


class PairRun:
    """All pairs of `members` (world ranks) for this rank; ranks outside only keep step."""

    def __init__(self, torch: Any, session: Any, exchange: BenchExchange, members: Sequence[int], size: int,
                 check: bool) -> None:
        import torch.distributed as dist
        self._torch, self._dist = torch, dist
        self._session, self._exchange = session, exchange
        self._device: Device = session.device
        self.members = list(members)
        rank = session.env.rank
        self.seat: Optional[int] = self.members.index(rank) if rank in self.members else None
        self._count = max(1, size // 4)
        self._check = check
        self._buffers = CheckedBuffers(torch, "float32", self._device.label, None)
        self._out = self._buffers.empty(self._count)
        self._in = self._buffers.empty(self._count)
        self._word = torch.zeros(1, dtype=torch.int64, device=self._device.label)
        self._buffers.sources = [Region(self._out, "moved", rank)]
        self._buffers.fill()
        self.out: Dict[int, float] = {}
        self.into: Dict[int, float] = {}
        self.wrong = 0
        self.first_wrong = ""

    @property
    def bytes(self) -> int:
        return self._count * 4

    def run(self, most_rounds: int) -> List[int]:
        """The rounds; returns which were taken."""
        turns = chosen_rounds(len(self.members), most_rounds)
        for number, turn in enumerate(turns):
            with self._session.stage(f"pairs, round {number + 1} of {len(turns)}"):
                self._round(turn)
        return turns

    def _round(self, turn: int) -> None:
        """All pairs of one turn, first the lower seats send, then the higher ones."""
        partner = pair_partner(len(self.members), turn, self.seat) if self.seat is not None else None
        for lower_sends in (True, False):
            self._session.step("lower seats send" if lower_sends else "higher seats send")
            self._exchange.align()
            if partner is None:
                continue
            sends = (self.seat < partner) == lower_sends
            rate = self.one_way(partner, sends)
            (self.out if sends else self.into)[partner] = rate

    def one_way(self, partner: int, sends: bool) -> float:
        """Bytes/s from the receiver's clock, equal on both."""
        peer = self.members[partner]
        times = []
        for number in range(PAIR_REPEATS + 1):  # the first one sets the connection up
            if sends:
                self._transfer(self._word, peer, False)
                self._transfer(self._out, peer, True)
                continue
            checked = self._check and number == 0
            self._buffers.targets = [Region(self._in, "moved", peer)]
            if checked:
                self._buffers.poison()
            wait_for_device(self._device.kind)
            start = time.perf_counter_ns()
            self._transfer(self._word, peer, True)
            self._transfer(self._in, peer, False)
            wait_for_device(self._device.kind)
            times.append(time.perf_counter_ns() - start)
            if checked:
                wrong, first = self._buffers.wrong()
                self.wrong += wrong
                self.first_wrong = self.first_wrong or first
        if not sends:
            self._word.fill_(int(self.bytes / (min(times[1:]) / 1e9)))
        self._transfer(self._word, peer, not sends)
        wait_for_device(self._device.kind)
        return float(self._word.item())

    def _transfer(self, tensor: Any, peer: int, sends: bool) -> None:
        call = self._dist.isend if sends else self._dist.irecv
        for work in self._dist.batch_isend_irecv([self._dist.P2POp(call, tensor, peer)]):
            work.wait()

    def gather(self) -> Tuple[List[MemberRates], List[List[int]]]:
        """Every member's summary and its binned row, in the order of members."""
        numbers = summary_numbers(self.out, self.into, self.wrong)
        cells = binned(self.out, len(self.members)) if self.seat is not None else []
        width = min(len(self.members), BINS)
        with self._session.stage("pairs, results"):
            table = self._exchange.table(numbers + (cells or [0] * width))
        rows = [table[rank].tolist() for rank in self.members]
        return [member_rates(row[:len(numbers)]) for row in rows], [row[len(numbers):] for row in rows]

    def look_again(self, members: Sequence[MemberRates]) -> Tuple[List[Tuple[Suspect, Optional[float]]], List[Excuse]]:
        """(suspects, each with its rate alone; those whose link is not to blame). Same on all ranks."""
        suspects = find_suspects(members)[:MOST_SUSPECTS]
        looked: List[Tuple[Suspect, Optional[float]]] = []
        excused: List[Excuse] = []
        for suspect in suspects:
            with self._session.stage(f"pairs, suspect {suspect.seat} alone"):
                known, waited = self._alone(suspect, witness_of(suspect.seat, members, suspects))
            if known and still_slow(suspect, known) and waited >= WANT_OF_CORE:
                excused.append(Excuse(suspect, known, waited))
                continue
            if known and not still_slow(suspect, known):
                with self._session.stage(f"pairs, suspect {suspect.seat} in the crowd again"):
                    again, waited = self._in_the_crowd(suspect, suspects)
                if not still_slow(suspect, again) or waited >= WANT_OF_CORE:
                    excused.append(Excuse(suspect, again, waited))
                    continue
            looked.append((suspect, float(known) if known else None))
        return looked, excused

    def _alone(self, suspect: Suspect, witness: Optional[int]) -> Tuple[int, float]:
        """(the suspect's best rate against a healthy partner while all others are quiet, share of it that one of the
        two waited for a core); zeros without a partner.

        A slow link is slow each time, a host with other work is not, and while the link is slow nobody wants a core.
        """
        best, waited = 0, 0
        for _ in range(LOOKS if witness is not None else 0):
            self._exchange.align()
            mine = [0, 0]
            if self.seat in (suspect.seat, witness):
                sends = (self.seat == suspect.seat) == (suspect.side == "out")
                wait = CoreWait()
                rate = self.one_way(witness if self.seat == suspect.seat else suspect.seat, sends)
                mine = [int(rate), int(1e6 * wait.share())]
            rate, share = self._exchange.highest(mine)
            if rate > best:
                best, waited = rate, share
            if not still_slow(suspect, best):
                break
        return best, waited / 1e6

    def _in_the_crowd(self, suspect: Suspect, suspects: Sequence[Suspect]) -> Tuple[int, float]:
        """(the suspect's median rate in a few rounds of all members once more, share of them that it or its partner
        waited for a core)."""
        looks = []
        for turn in sound_turns(len(self.members), suspect.seat, suspects, LOOKS):
            partner = pair_partner(len(self.members), turn, suspect.seat)
            wait = CoreWait()
            self._round(turn)
            mine = [0, 0]
            if self.seat in (suspect.seat, partner):
                rates = self.out if (self.seat == suspect.seat) == (suspect.side == "out") else self.into
                other = partner if self.seat == suspect.seat else suspect.seat
                mine = [int(rates[other]), int(1e6 * wait.share())]
            looks.append(self._exchange.highest(mine))
        return int(median([rate for rate, _ in looks])), median([share for _, share in looks]) / 1e6
