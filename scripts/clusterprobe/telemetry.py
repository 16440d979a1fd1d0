"""Clocks, power, temperature and throttle reasons while something is measured.

A thread samples a source about 20 times a second. The source is NVML through ctypes (torch does not bring
pynvml), found by UUID because indices differ under CUDA_VISIBLE_DEVICES and MIG; or recorded samples, with
which the judgments are tested. Whatever is absent is null, never 0.
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from clusterprobe.stats import median

NVML_LIBRARY = "libnvidia-ml.so.1"
CLOCK_SM, CLOCK_MEMORY = 1, 2
# Bits of nvmlDeviceGetCurrentClocksEventReasons that hold a clock down.
THROTTLE_BITS: Dict[int, str] = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x2: "application clocks",
    0x1: "idle",
    0x100: "display clock",
}


@dataclass(frozen=True)
class Sample:
    """One look at the device. `when` is time.monotonic()."""

    when: float
    sm_mhz: Optional[float] = None
    memory_mhz: Optional[float] = None
    power_w: Optional[float] = None
    temperature_c: Optional[float] = None
    throttle: Optional[int] = None


@dataclass(frozen=True)
class TelemetrySummary:
    """Means over a window; `throttle` names every reason seen with the share of samples that had it."""

    samples: int
    sm_mhz: Optional[float]
    sm_mhz_min: Optional[float]
    sm_mhz_max: Optional[float]
    memory_mhz: Optional[float]
    power_w: Optional[float]
    power_w_max: Optional[float]
    temperature_c: Optional[float]
    throttle: Optional[Dict[str, float]]

    def as_json(self) -> Dict[str, Any]:
        return asdict(self)


class NvmlSource:
    """The counters of one NVIDIA device. `open_nvml` makes it or says why there is none."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    def sample(self) -> Optional[Sample]:
        reasons = ctypes.c_ulonglong()
        call = getattr(self._library, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        throttle = (
            reasons.value if call and call(self._handle, ctypes.byref(reasons)) == 0 else None
        )
        power = self._number("nvmlDeviceGetPowerUsage")
        return Sample(
            time.monotonic(),
            self._number("nvmlDeviceGetClockInfo", CLOCK_SM),
            self._number("nvmlDeviceGetClockInfo", CLOCK_MEMORY),
            None if power is None else power / 1000.0,
            self._number("nvmlDeviceGetTemperature", 0),
            throttle,
        )

    def _number(self, name: str, *args: int) -> Optional[float]:
        value = ctypes.c_uint()
        call = getattr(self._library, name, None)
        if call is None or call(self._handle, *args, ctypes.byref(value)) != 0:
            return None
        return float(value.value)


def load_nvml() -> Any:
    """The initialised library or None."""
    try:
        library = ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def open_nvml(uuid: Optional[str]) -> Optional[NvmlSource]:
    """The source for a device's UUID, with or without its GPU- or MIG- prefix."""
    library = load_nvml() if uuid else None
    if library is None or uuid is None:
        return None
    names = [uuid] if uuid.startswith(("GPU-", "MIG-")) else ["GPU-" + uuid, "MIG-" + uuid]
    for name in names:
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) == 0:
            return NvmlSource(library, handle)
    return None


class RecordedSource:
    """Replays recorded samples: each call gives the next one, stamped with the current time."""

    def __init__(
        self, samples: Sequence[Mapping[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._left = list(samples)
        self._clock = clock

    def sample(self) -> Optional[Sample]:
        if not self._left:
            return None
        values = {key: value for key, value in self._left.pop(0).items() if key != "when"}
        return Sample(when=self._clock(), **values)


class Telemetry:
    """Samples in the background. Without a source every summary is empty and `available` is False."""

    def __init__(self, source: Any, interval: float = 0.05) -> None:
        self.samples: List[Sample] = []
        self.available = source is not None
        self._source = source
        self._interval = interval
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def start(self) -> Telemetry:
        if self._source is not None and self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def _loop(self) -> None:
        while not self._stop.is_set():
            sample = self._source.sample()
            if sample is None:
                return
            self.samples.append(sample)
            self._stop.wait(self._interval)

    def between(self, start: float, end: float) -> TelemetrySummary:
        """What the device did from `start` to `end` (time.monotonic())."""
        return summarize_samples([one for one in list(self.samples) if start <= one.when <= end])


def summarize_samples(samples: Sequence[Sample]) -> TelemetrySummary:
    def known(name: str) -> List[float]:
        return [value for value in (getattr(one, name) for one in samples) if value is not None]

    def mean(name: str) -> Optional[float]:
        values = known(name)
        return sum(values) / len(values) if values else None

    masks = [one.throttle for one in samples if one.throttle is not None]
    shares = (
        {
            name: sum(1 for mask in masks if mask & bit) / len(masks)
            for bit, name in THROTTLE_BITS.items()
            if any(mask & bit for mask in masks)
        }
        if masks
        else None
    )
    clocks, power = known("sm_mhz"), known("power_w")
    return TelemetrySummary(
        len(samples),
        mean("sm_mhz"),
        min(clocks) if clocks else None,
        max(clocks) if clocks else None,
        mean("memory_mhz"),
        mean("power_w"),
        max(power) if power else None,
        median(known("temperature_c")) if known("temperature_c") else None,
        shares,
    )


def throttle_text(summary: TelemetrySummary) -> str:
    """`power cap 87%`, `none`, or `-` when nobody can tell."""
    if summary.throttle is None:
        return "-"
    named = {name: share for name, share in summary.throttle.items() if name != "idle"}
    return ", ".join(f"{name} {share:.0%}" for name, share in named.items()) or "none"


def open_telemetry(
    uuid: Optional[str],
    recorded: Optional[Sequence[Mapping[str, Any]]] = None,
    interval: float = 0.05,
) -> Telemetry:
    """Telemetry for a device, from NVML or from a recording."""
    source = RecordedSource(recorded) if recorded is not None else open_nvml(uuid)
    return Telemetry(source, interval)
