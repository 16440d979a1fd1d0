"""The instruments' shared core: what every cluster probe needs besides its own measurement.

A tool is a parser and a body; `run_probe` does the rest (see probe.py):

    from clusterprobe.options import make_parser
    from clusterprobe.probe import run_probe

    def body(session):
        with session.stage("device"):
            session.open_device()
        join_world(session)                      # store, census, consistency
        with session.stage("backend"):
            open_group(session)                  # torch.distributed through our store
        with session.stage("measure", 600):      # own deadline; ends the process and names the late rank
            session.step("all_reduce 8 B")       # same steps on all ranks: shows who is behind
            session.report.row(...)              # prints on rank 0 only
            session.report.add("results", {...})
        return 0, "12 rows measured"             # (exit code, one sentence); all ranks end with one code

Modules, bottom up (standard library only, except where torch is named; torch is imported inside functions):

    version     PROBE_VERSION, SCHEMA_VERSION
    exits       exit codes, ProbeFailure(rc, reason, hint), worst_exit
    units       parse_size/parse_duration, format_size/format_rate/format_time, rank_ranges, shorten_list
    stats       median, percentile, summary_of, median_interval, bootstrap_interval, robust_scores, odd_ones
    topology    node_identity, node_groups, rail_groups, stride_groups, pair_rounds (circle method)
    nodelist    expand_nodelist, expand_task_counts (Slurm)
    launch      RankEnv, detect_launch
    expected    expected_hosts: where a silent rank should be
    rendezvous  Endpoint, choose_endpoint, resolve_host, source_address, owns_address
    interfaces  parse_ifname, judge_ifname, list_interfaces
    options     ProbeParser, make_parser (shared options), size_option, duration_option
    streams     settle_streams, say: closed streams, encodings without our letters
    strictjson  strict_json, replace_file, claim_file
    report      Report: line, heading, row, add, put, warn, finish; last line RESULT …
    deadline    Watchdog: stage(), step(); ends the process when a limit passes; bounded, say_in_time: what may hang
    hold        hold_signals: SIGINT, SIGTERM and SIGHUP wait for a watch; a tool's first line, before its imports
    interrupt   InterruptWatch: the one watch of a process for them, also while native code waits
    cgroup_memory  cgroup_room: what a container or a Slurm job still allows
    device      load_torch, open_device, Device, count_devices, free_memory, wait_for_device   (torch)
    telemetry   open_telemetry(uuid).between(start, end): clocks, power, temperature, throttle reasons
    listener    ask_listener: who holds the store's port when torch does not get through
    store       StoreClient, report_in, collect_records, present_ranks: the control plane      (torch)
    census      Census.name(rank) → rank 5@node2; facts by content hash; find_differences
    control     Control: gather, gather_all, share/receive, from_rank0, all_together, places   (torch)
    verdict     Monitor: roll call, one verdict for all ranks
    software    describe_software, nccl_version, driver_version                                (torch)
    spawn       local ranks without a launcher
    session     Session: one run of one tool on one rank
    probe       run_probe: parse, find the rank, start local ranks or be one
    join        join_world, collect_facts
    stages      StageTable: numbered stages with one line for all ranks
    backend     open_group, close_group, gather_into, scatter_reduced                          (torch)

Rules for this package: every module is also pasted into one generated file per tool, so top-level names are
unique over all modules (private ones too), imports are absolute (`from clusterprobe.x import name`), at the
top, and without renaming, and nothing reads files of the package at run time. Python 3.9 and later.
"""

from __future__ import annotations
