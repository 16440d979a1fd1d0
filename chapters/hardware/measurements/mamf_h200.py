"""Record mamf-finder on one accelerator: the runs behind the book's matmul figures and the search's tests.

    python3 chapters/hardware/measurements/mamf_h200.py --out DIR [--public PATH] [--dry]

Runs, one after another on the same card: the default search, an exhaustive sweep of a fixed grid, the
default search again with another seed (other candidates, other order), the winners of all three
interleaved, fp8 and tf32, and one small list of shapes by this tool and, where its file is given, by the
public finder. Writes mamf_h200.json (summary of every run) and mamf_h200_reports.json (whole reports).
`--dry` takes small sizes and budgets, for a machine without an accelerator.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "scripts" / "mamf-finder.py"
STEP = 1024
GRID_K = (1024, 2048, 3072, 4096, 6144, 8192, 10240, 12288)
SMALL_LIST = {"m": (2048, 4096, 8192), "n": (2048, 4096, 8192), "k": (4096, 8192, 12288)}


class Recorder:
    """Runs commands, keeps reports and texts."""

    def __init__(self, out: Path, dry: bool) -> None:
        self.out, self.dry = out, dry
        self.began = time.monotonic()
        self.reports: dict[str, dict] = {}
        self.runs: list[dict] = []

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def tool(self, name: str, *options: str) -> dict:
        path = self.out / f"{name}.json"
        words = [sys.executable, str(TOOL), "--nproc", "1", "--json", str(path), "--force", *options]
        seconds, rc, text, errors = self.command(words, 150)
        report = json.loads(path.read_text()) if path.exists() else {}
        path.unlink(missing_ok=True)
        self.reports[name] = report
        self.runs.append({"name": name, "options": list(options), "wall_s": round(seconds, 2), "rc": rc,
                          "stderr": errors[-2000:], "figures": brief(report), "text": text.splitlines()})
        print(f"== {name}: {seconds:.1f} s, rc {rc}", *text.splitlines()[-6:], errors[-600:], sep="\n", flush=True)
        self.save()
        return report

    def command(self, words: list[str], limit: float) -> tuple[float, int | None, str, str]:
        start = time.monotonic()
        try:
            ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=limit)
            return time.monotonic() - start, ended.returncode, ended.stdout, ended.stderr
        except subprocess.TimeoutExpired as late:
            texts = [part.decode() if isinstance(part, bytes) else part or "" for part in (late.stdout, late.stderr)]
            return time.monotonic() - start, None, *texts

    def public(self, path: str) -> None:
        """The public finder on the small list, as published; only its figures are kept."""
        words = [sys.executable, path, "--output_file", str(self.out / "public.txt")]
        for axis, sizes in SMALL_LIST.items():
            words += [f"--{axis}", *(str(size // 16 if self.dry else size) for size in sizes)]
        seconds, rc, text, errors = self.command(words, 55)
        self.runs.append({"name": "public finder", "options": words[4:], "wall_s": round(seconds, 2), "rc": rc,
                          "best": public_figures(text.splitlines()), "stderr": errors[-800:]})
        print(f"== public finder: {seconds:.1f} s, rc {rc}", *text.splitlines()[-8:], errors[-300:], sep="\n", flush=True)
        (self.out / "public.txt").unlink(missing_ok=True)
        self.save()

    def save(self) -> None:
        """After every run, so that a cut leaves what was recorded."""
        head = {"schema": 1, "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), "dry_run": self.dry,
                "seconds": round(self.elapsed(), 1), "runs": self.runs}
        (self.out / "mamf_h200.json").write_text(json.dumps(head, indent=1) + "\n")
        (self.out / "mamf_h200_reports.json").write_text(json.dumps(self.reports) + "\n")


def public_figures(lines: list[str]) -> dict[str, list]:
    """statistic -> [TFLOPS, shape] from the lines that it ends with."""
    found = (re.match(r"(mean|median|max):\s+([\d.]+) TFLOPS @ (\d+x\d+x\d+)", line) for line in lines)
    return {one[1]: [float(one[2]), one[3]] for one in found if one}


def brief(report: dict) -> list[dict]:
    """The figures of a report that a table needs."""
    rows = []
    for one in report.get("results", []):
        if one.get("kind") == "figure" and "state" in one:
            seen = one["telemetry"]
            rows.append({"dtype": one["dtype"], "state": one["state"], "shape": shape_text(one),
                         "tflops": one["tflops"], "ci": one["ci"], "percent_of_peak": one["percent_of_peak"],
                         "sm_mhz": seen["sm_mhz"], "power_w": seen["power_w"], "temperature_c": seen["temperature_c"],
                         "throttle": seen["throttle"], "drift": one["drift"], "reason": one["reason"]})
    return rows


def figures(report: dict, state: str) -> list[dict]:
    return [one for one in report.get("results", []) if one.get("kind") == "figure" and one.get("state") == state]


def shape_text(one: dict) -> str:
    return f"{one['m']}x{one['n']}x{one['k']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--public", help="path of the public mamf-finder.py")
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    record = Recorder(args.out, args.dry)
    short = ["--budget", "2s"] if args.dry else []
    scale = 16 if args.dry else 1
    axis = [str(STEP // scale), str(12 * STEP // scale + 1), str((6 if args.dry else 1) * STEP // scale)]
    record.tool("smoke", "--shape", "1024x1024x1024", "--budget", "1s")
    if record.runs[-1]["rc"] != 0:
        print(*record.runs[-1]["text"], record.runs[-1]["stderr"], sep="\n")
        return 1
    record.tool("search_seed0", *short)
    record.tool("exhaustive", "--m-range", *axis, "--n-range", *axis, "--k", *(str(k // scale) for k in GRID_K),
                "--num-iterations", "4", "--num-warmup-iterations", "1", "--passes", "3", "--finalists", "8",
                "--budget", "2s" if args.dry else "24s")
    record.tool("search_seed1", "--seed", "1", *short)
    winners = [shape_text(one) for name in ("search_seed0", "search_seed1") for one in
               figures(record.reports[name], "final")[:2]]
    winners += [shape_text(one) for one in figures(record.reports["exhaustive"], "final")[:4]]
    chosen = [word for shape in dict.fromkeys(winners) for word in ("--shape", shape)]
    record.tool("winners_interleaved", *chosen, "--finalists", "8", "--budget", "2s" if args.dry else "24s")
    record.tool("fp8_tf32", "--dtype", "fp8,tf32", "--budget", "1s" if args.dry else "9s")
    lists = [word for name, sizes in SMALL_LIST.items() for word in (f"--{name}", *(str(s // scale) for s in sizes))]
    record.tool("small_list", *lists, "--budget", "2s" if args.dry else "14s")
    if args.public:
        record.public(args.public)
    if record.elapsed() < 235:
        record.tool("zeros", "--shape", winners[0] if winners else "4096x4096x4096", "--data", "zeros",
                    "--budget", "2s" if args.dry else "8s")
    print(f"total {record.elapsed():.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
