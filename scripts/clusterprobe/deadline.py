"""The watchdog: a thread that ends the process when a stage takes longer than its limit.

A collective that waits for a dead peer sits in native code, where neither an exception nor a signal
handler of Python reaches it. So the limit is kept by a thread that never talks to the network: it asks
`on_expire` (which may: find out who is missing, write the report) and, when that does not finish either,
ends the process by itself.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional, TextIO

from clusterprobe.exits import MISSING_RANK
from clusterprobe.streams import say

LOOK_INTERVAL = 1.0  # seconds between two looks at the clock, so that a standstill shows
STANDSTILL = 3.0  # seconds more than that between two looks: the process did not run
STAGE_STRIDE = 1 << 32  # more than the steps of any stage
STREAM_PATIENCE = 2.0  # seconds for text that nobody may be reading
EXPIRY_GRACE = 12.0  # seconds that on_expire has; it asks the other ranks and writes the report


@dataclass
class StagePlace:
    """Where this rank is: the stage, the step inside it, and a counter that only grows.

    The counter starts each stage at the same value on all ranks, however many steps each of them made before.

    `since` and `moved`: when the stage and the last step began, in seconds of time.monotonic(). `stood`: seconds
    of the stage in which the process did not run: stopped by Ctrl-Z, say, or with its whole host.
    """

    stage: str = "start"
    step: str = ""
    count: int = 0
    since: float = 0.0
    steps: int = 0
    moved: float = 0.0
    stood: float = 0.0

    def stood_still(self) -> float:
        """Those seconds when they are most of the stage, so that a limit says nothing about the ranks; else 0."""
        return self.stood if self.stood > (time.monotonic() - self.since) / 2 else 0.0


def main_stack(depth: int = 4) -> List[str]:
    """The innermost frames of the main thread, `file:line function`, outermost first."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return []
    return [
        f"{os.path.basename(entry.filename)}:{entry.lineno} {entry.name}"
        for entry in traceback.extract_stack(frame)[-depth:]
    ]


def bounded(action: Callable[[], Any], limit: float) -> bool:
    """Last words, which may hang, or go to ranks that are gone: at most `limit` seconds; True when it came back."""

    def attempt() -> None:
        try:
            action()
        except RuntimeError:
            pass  # torch's word for a store or a peer that is gone; the verdict is told without it

    worker = threading.Thread(target=attempt, daemon=True)
    worker.start()
    worker.join(limit)
    return not worker.is_alive()


def say_in_time(text: str, stream: TextIO) -> None:
    """For last words: a terminal after Ctrl-S, or a pager that waits, takes nothing, and that must not be the end."""
    bounded(lambda: say(text, stream), STREAM_PATIENCE)


def dump_stack(who: str) -> None:
    """The main thread's stack to stderr, for the rank that is to blame or knows nothing better."""
    lines = [
        f"{who}: main thread, innermost frame last:",
        *(f"  {line}" for line in main_stack(12)),
    ]
    say_in_time("\n".join(lines), sys.stderr)


def catch_native_faults() -> None:
    """A crash in native code prints the Python stack of every thread before the process dies."""
    try:
        faulthandler.enable(file=sys.stderr, all_threads=True)
    except (OSError, ValueError, AttributeError):
        pass  # stderr is not a file descriptor (embedded, captured): nothing to write to


class Watchdog:
    """`with watchdog.stage("census", 30):` - the block must end within 30 s or the process does.

    `on_expire(place)` runs in a thread of its own and normally ends the process with the agreed code;
    after `grace` more seconds the watchdog calls `last_word(place)` and exits with 5.
    """

    def __init__(
        self,
        on_expire: Callable[[StagePlace], None],
        last_word: Callable[[StagePlace], None],
        grace: float = EXPIRY_GRACE,
    ) -> None:
        self.place = StagePlace(since=time.monotonic())
        self._on_expire = on_expire
        self._last_word = last_word
        self._grace = grace
        self._stage_end: Optional[float] = None
        self._run_end: Optional[float] = None
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def limit_run(self, seconds: float) -> None:
        """The limit of the whole run, from now."""
        with self._changed:
            self._run_end = time.monotonic() + seconds
            self._changed.notify()

    @contextmanager
    def stage(self, name: str, limit: float) -> Iterator[StagePlace]:
        """Stages do not nest; the time between two stages counts for the run's limit only."""
        self._enter(name, time.monotonic() + limit)
        yield self.place  # an exception leaves stage and deadline in place: the end must come in time too
        self._enter(f"after {name}", None)

    def _enter(self, name: str, end: Optional[float]) -> None:
        with self._changed:
            self.place.stage, self.place.step = name, ""
            self.place.count += STAGE_STRIDE - self.place.count % STAGE_STRIDE
            self.place.since = self.place.moved = time.monotonic()
            self.place.steps, self.place.stood = 0, 0.0
            self._stage_end = end
            self._changed.notify()

    def step(self, label: str) -> None:
        """Say what comes next inside the stage. Cheap; equal on all ranks, it shows who is behind."""
        self.place.step = label
        self.place.count += 1
        self.pulse()

    def pulse(self) -> None:
        """Work goes on, at this rank's own pace: no place that ranks could be compared by."""
        self.place.steps += 1
        self.place.moved = time.monotonic()

    def remaining(self) -> float:
        """Seconds left for this stage (or the run)."""
        ends = [end for end in (self._stage_end, self._run_end) if end is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else float("inf")

    def passed_limit(self) -> str:
        """The option whose limit ended the run: the stage's own, or the whole run's while the stage had time left."""
        now = time.monotonic()
        stage_over = self._stage_end is not None and now >= self._stage_end
        run_over = self._run_end is not None and now >= self._run_end
        return "--timeout" if run_over and not stage_over else "--stage-timeout"

    def close(self) -> None:
        """No limit any more; for the orderly end."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _watch(self) -> None:
        looked = time.monotonic()
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if now - looked > LOOK_INTERVAL + STANDSTILL:
                    self.place.stood += now - looked
                looked = now
                left = self.remaining()
                if left <= 0:
                    break
                self._changed.wait(min(left, LOOK_INTERVAL))
            if self._closed:
                return
        handler = threading.Thread(target=self._on_expire, args=(self.place,), daemon=True)
        handler.start()
        handler.join(self._grace)
        try:
            bounded(lambda: self._last_word(self.place), self._grace)
        finally:
            os._exit(MISSING_RANK)
