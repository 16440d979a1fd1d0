"""mamf-finder: the maximum achievable matmul FLOPS of every device, burst and sustained apart.

Each rank drives one device. All search at the same time, agree on the finalists, measure them at the same
time (shared power and cooling show), and rank 0 names the slowest.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Dict, List, Optional, Tuple

from clusterprobe.device import choose_kind, count_devices, open_device
from clusterprobe.exits import CANNOT_RUN, OK, PARTIAL, TOO_SLOW, USAGE, WRONG_DATA, ProbeFailure
from clusterprobe.join import join_world
from clusterprobe.launch import RankEnv
from clusterprobe.matmul_dtypes import MATMUL_DTYPES, MatmulDtype, parse_dtypes
from clusterprobe.matmul_measure import DtypeRun
from clusterprobe.matmul_options import mamf_parser
from clusterprobe.matmul_plan import (
    DEFAULT_LAST_CACHE,
    MatmulRequest,
    cache_rule,
    check_sweep_time,
    describe_plan,
    read_request,
)
from clusterprobe.matmul_plot import matmul_plot, screen_rows
from clusterprobe.matmul_results import (
    OTHER_RANK,
    DtypeResult,
    figure_rows,
    keep_so_far,
    missing_figures,
    odd_devices,
    print_devices,
    print_result,
    rates_text,
    slowest_sentence,
    why_skipped,
)
from clusterprobe.matmul_samples import MatmulLook
from clusterprobe.matmul_shapes import MatmulShape
from clusterprobe.matmul_team import MatmulTeam
from clusterprobe.probe import planned_ranks, run_probe
from clusterprobe.session import Session
from clusterprobe.telemetry import Telemetry, open_telemetry
from clusterprobe.version import PROBE_VERSION

SAMPLE_INTERVAL = 0.02
TRACE_POINTS = 600


class LookLog:
    """Every look as a line: to --output-file, and to the screen with --verbose."""

    def __init__(self, session: Session) -> None:
        self._report = session.report
        self._verbose = session.args.verbose
        self._file: Optional[Any] = None
        path = session.args.output_file
        if not path or not session.rank0:
            return
        if os.path.isfile(path) and os.path.getsize(path) and not session.args.force:
            raise ProbeFailure(USAGE, f"the output file {path} exists", "name another or add --force")
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            self._file = open(path, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115 - lives to the end
            print(f"# mamf-finder {PROBE_VERSION}\n# {' '.join(session.report.document['argv'])}\n"
                  f"# notes: {session.args.notes}\n# dtype M N K batch TFLOPS repetitions reason", file=self._file)
        except OSError as error:
            raise ProbeFailure(USAGE, f"cannot write {path}: {error.strerror or error}") from None

    def write(self, dtype: str, look: MatmulLook) -> None:
        shape = look.shape
        rate = "-" if look.tflops is None else f"{look.tflops:.4g}"
        if self._verbose:
            self._report.line(f"{dtype} {shape} {rate} TFLOPS {look.reps} reps {look.reason}".rstrip())
        if self._file is not None:
            try:
                print(dtype, shape.m, shape.n, shape.k, shape.batch, rate, look.reps, look.reason or "-",
                      file=self._file)
            except OSError as error:
                self._file = None
                self._report.warn(f"--output-file: {error.strerror or error}; the report file goes on")


def bind_device(session: Session) -> None:
    """The local rank's device, or the one of --cuda-device."""
    wanted = session.args.cuda_device
    if wanted is None:
        session.open_device()
        return
    if session.env.world_size > 1:
        raise ProbeFailure(USAGE, "--cuda-device is for one process", "leave it out: each rank takes its own device")
    kind = choose_kind(session.args.device)
    if kind == "cpu":
        raise ProbeFailure(CANNOT_RUN, f"--cuda-device {wanted}: no accelerator here", "leave it out to run on the CPU")
    if wanted >= count_devices(kind):
        raise ProbeFailure(CANNOT_RUN, f"--cuda-device {wanted}: {count_devices(kind)} {kind} device(s) visible")
    session.device, _ = open_device(kind, wanted)


def print_head(session: Session) -> None:
    args, device = session.args, session.device
    known = device.l2_bytes is not None
    facts = [device.name, f"{device.units} units" if device.units else "", device.uuid or ""]
    report = session.report
    report.line(f"mamf-finder {PROBE_VERSION} on {session.host}: {', '.join(filter(None, facts))}"
                + (f" and {session.env.world_size - 1:,} more ranks" if session.env.world_size > 1 else ""))
    report.line("TFLOPS = 2 x batch x M x N x K / time / 10^12 per visible device; burst: median repetition, "
                "sustained: all work over all time")
    report.line(f"data {args.data}; layout {args.layout}; cache: "
                + cache_rule(args.cache, device.l2_bytes or DEFAULT_LAST_CACHE, known))


def measure(session: Session, request: MatmulRequest, dtype: MatmulDtype, telemetry: Telemetry,
            log: LookLog) -> Tuple[DtypeResult, Optional[Dict[int, Any]]]:
    """One format on all ranks; (own result, all ranks' results on rank 0)."""
    args, report = session.args, session.report
    team = MatmulTeam(session, dtype.name, args.finalists)
    run = DtypeRun(args, request, session.device, dtype, telemetry, report, session.step, session.pulse)
    with session.stage(f"{dtype.name} probe"):
        refusal = run.probe()
        ready = team.gather("ready", not refusal and not run.result.wrong)
        go = session.control.from_rank0(f"{dtype.name}/go", bool(ready and all(ready.values())), session.patience())
    finalists: List[MatmulShape] = []
    report.before_verdict = lambda: keep_so_far(report, run.result, run.watched)
    if go:
        with session.stage(f"{dtype.name} {'search' if request.search else 'sweep'}",
                           max(args.stage_timeout, 6 * args.budget) if request.search else args.timeout):
            finalists = run.find(lambda look: log.write(dtype.name, look))
        # Here ranks wait for each other: three budgets are enough for one that is slow, and soon for one that is gone.
        with session.stage(f"{dtype.name} finals", max(args.stage_timeout, 3 * args.budget)):
            run.finish(finalists, team.agree)
    elif not refusal and not run.result.wrong:
        run.result.reason = OTHER_RANK
    run.close()
    with session.stage(f"{dtype.name} results"):
        records = team.gather("result", run.result.as_json())
    report.before_verdict = list
    return run.result, records


def report_dtype(session: Session, result: DtypeResult, records: Dict[int, Any]) -> None:
    """Rank 0: rows of the document and text for one format."""
    report = session.report
    if not result.finals:
        status = "wrong" if result.wrong else "unsupported"
        report.add("results", {"op": "matmul", "kind": "figure", "dtype": result.dtype, "tflops": None,
                               "status": status, "reason": result.wrong or result.reason})
        report.line(f"{result.dtype}: {result.wrong or result.reason}")
    for row in figure_rows(result):
        report.add("results", row)
    if result.finals:
        print_result(report, result)
    if session.args.plot:
        for text in matmul_plot(result, screen_rows(report.document["results"], result.dtype)):
            report.line(text)
    for rank, record in sorted(records.items()):
        report.add("per_rank", {"rank": rank, "host": session.control.name(rank).partition("@")[2], **record})
    if len(records) > 1:
        print_devices(report, records, session.control.name)
        sentence = slowest_sentence(records, session.control.name)
        if sentence:
            report.line(sentence)
        for rank in odd_devices(records)[:8]:
            report.warn(f"{session.control.name(rank)} stands apart from the other devices in {result.dtype}")
    if result.steady is False:
        report.warn(f"{result.dtype}: the rate still moved by {100 * (result.drift or 0):+.2f}% over the finals")


def verdict(session: Session, named: bool, ends: List[Tuple[DtypeResult, Dict[int, Any]]]) -> Tuple[int, str]:
    """Rank 0's exit code and sentence: wrong data, gate, nothing, part, all."""
    gate = session.args.fail_below
    wrong = [f"{session.control.name(rank)}: {one['wrong']}" for _, records in ends
             for rank, one in sorted(records.items()) if one["wrong"]]
    if wrong:
        return WRONG_DATA, "the product is wrong on " + "; ".join(wrong[:3])
    skipped = [why_skipped(result, records, session.control.name) for result, records in ends if result.reason]
    if len(skipped) == len(ends):
        return CANNOT_RUN, "nothing could be measured; " + "; ".join(skipped[:3])
    slow = [(one["sustained"], rank, result.dtype) for result, records in ends
            for rank, one in sorted(records.items()) if gate and one["sustained"] and one["sustained"] < gate]
    if slow:
        rate, rank, dtype = min(slow)
        return TOO_SLOW, (f"{session.control.name(rank)} sustains {rate:.4g} TFLOPS in {dtype}, below {gate:g}"
                          + (f", and {len(slow) - 1} more" if len(slow) > 1 else ""))
    done = "; ".join(filter(None, (rates_text(result) for result, _ in ends)))
    failed = sum(result.failed_shapes for result, _ in ends)
    lost = [text for result, records in ends for text in missing_figures(result, records, session.control.name)]
    if failed or lost or (skipped and named):
        parts = lost[:3] + skipped[:2] + ([f"{failed:,} shapes could not be measured"] if failed else [])
        return PARTIAL, "; ".join(filter(None, (done, f"skipped: {'; '.join(parts)}")))
    return OK, done


def trace_rows(telemetry: Telemetry) -> List[Dict[str, Any]]:
    """The run's clocks and power, thinned."""
    samples = list(telemetry.samples)
    step = max(1, -(-len(samples) // TRACE_POINTS))
    return [{"seconds": round(one.when - samples[0].when, 3), "sm_mhz": one.sm_mhz, "power_w": one.power_w,
             "temperature_c": one.temperature_c, "throttle": one.throttle} for one in samples[::step]]


def mamf_body(session: Session) -> Tuple[int, str]:
    args = session.args
    request, dtypes = read_mamf(args)
    log = LookLog(session)
    with session.stage("device"):
        bind_device(session)
    join_world(session)
    print_head(session)
    wanted = args.telemetry == "on"
    telemetry = open_telemetry(session.device.uuid if wanted else None, interval=SAMPLE_INTERVAL).start()
    if not telemetry.available:
        why = "no NVML for this device" if wanted else "--telemetry off"
        session.report.line(f"{why}: clocks, power and throttle reasons are unknown")
    ends = []
    for dtype in dtypes:
        result, records = measure(session, request, dtype, telemetry, log)
        if records is not None:
            report_dtype(session, result, records)
            ends.append((result, records))
    telemetry.stop()
    session.report.put("telemetry", trace_rows(telemetry))
    named = len(dtypes) < len(MATMUL_DTYPES)
    return verdict(session, named, ends) if session.rank0 else (OK, "")


def read_mamf(args: argparse.Namespace) -> Tuple[MatmulRequest, List[MatmulDtype]]:
    """Usage errors before torch is imported and before a report is opened: --force must not replace a good one."""
    request, dtypes = read_request(args), parse_dtypes(args.dtype)
    if args.fail_below is not None and len(dtypes) > 1:
        raise ProbeFailure(USAGE, "--fail-below compares one dtype", "give one --dtype")
    if args.budget <= 0:
        raise ProbeFailure(USAGE, "--budget must be above zero")
    check_sweep_time(args, request, dtypes)
    return request, dtypes


def mamf_plan(args: argparse.Namespace, env: RankEnv) -> List[str]:
    request, dtypes = read_mamf(args)
    return [planned_ranks(args, env), *describe_plan(args, request, dtypes)]


def mamf_main(argv: Optional[List[str]] = None) -> int:
    return run_probe(mamf_parser(), mamf_body, argv, mamf_plan, check=read_mamf)
