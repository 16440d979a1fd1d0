"""`make bench`: the press against Chromium's print-to-PDF of the same pages, both sides in one run.

    .venv/bin/python tests/bench.py [BOOK.toml] [--rounds N]

A copy of the book is built in a scratch folder: cold (no cache), with one medium chapter edited, and with
nothing changed. Chromium prints one HTML file with the same chapters, prepared as the press lays them out
(its time leaves out reading the Markdown; the press's includes it). Sides take turns; what is printed is the
median of each and its ratio to Chromium, because machines differ and ratios travel.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build"))

from bookpress.build import default_jobs, prepare, silent  # noqa: E402
from bookpress.config import read_config  # noqa: E402
from bookpress.pdf import orders, sheet  # noqa: E402
from bookpress.pdf import prepare as printing  # noqa: E402

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-pdf-header-footer"]


def timed(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def press(book: Path, out: Path, cache: Path) -> None:
    """One `bookpress pdf` as a person runs it: a new process each time."""
    argv = [sys.executable, "-m", "bookpress", "pdf", "--quiet", "--book", str(book), "--out", str(out),
            "--cache", str(cache)]  # fmt: skip
    done = subprocess.run(
        argv, env={"PYTHONPATH": str(ROOT / "build"), "PATH": "/usr/bin:/bin"}, stderr=subprocess.PIPE,
        text=True, check=False,
    )
    if done.returncode:
        sys.exit(f"the book does not build:\n{done.stderr[-2000:]}")


def one_page(book: Path, folder: Path) -> Path:
    """All chapters as the PDF stage prepares them, in one HTML file for Chromium."""
    config, _ = read_config(book)
    assert config is not None
    made, _ = prepare(config, folder / "html-cache", default_jobs(), silent)
    css = sheet.style(config)
    parts = []
    for order in orders.all_orders(made, css):
        if order.chapter is None or order.setting is None:
            continue
        drawings: dict[str, bytes] = {}
        html = printing.chapter_markup(order.chapter, order.setting, drawings, [])
        for name, svg in drawings.items():
            (folder / f"{order.name}-{name}.svg").write_bytes(svg)
            html = html.replace(f'"drawing:{name}"', f'"{order.name}-{name}.svg"')
        for key, asset in made.assets.items():
            html = html.replace(f'"asset:{key}"', f'"{asset.file.as_uri()}"')
        parts.append(html.partition("<body")[2].partition(">")[2].partition("</body>")[0])
    page = folder / "whole.html"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><style>{css}</style>'
    page.write_text(f"{head}<body>{''.join(parts)}</body></html>", encoding="utf-8")
    return page


def chromium(page: Path, folder: Path) -> None:
    profile = tempfile.mkdtemp(dir=folder)
    target = folder / "chromium.pdf"
    target.unlink(missing_ok=True)
    argv = ["chromium", *FLAGS, f"--user-data-dir={profile}", f"--print-to-pdf={target}", page.as_uri()]
    subprocess.run(argv, capture_output=True, check=True, timeout=600)
    if not target.is_file():
        sys.exit("Chromium wrote no PDF")


def pages(file: Path) -> int:
    done = subprocess.run(["pdfinfo", str(file)], capture_output=True, text=True, check=True)
    return int(next(x for x in done.stdout.splitlines() if x.startswith("Pages:")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("book", nargs="?", type=Path, default=ROOT / "book.toml")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not shutil.which("chromium"):
        sys.exit("chromium is not there: make setup-test")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        source = args.book.parent if args.book.is_file() else args.book
        ignore = shutil.ignore_patterns(".git", ".venv", ".cache", "dist", "node_modules")
        shutil.copytree(source, folder / "book", ignore=ignore, symlinks=True)
        book = folder / "book" / (args.book.name if args.book.is_file() else "book.toml")
        config, _ = read_config(book)
        assert config is not None
        files = [config.root / c for p in config.parts for c in p.chapters]
        files = [f / "README.md" if f.is_dir() else f for f in files]
        medium = sorted(files, key=lambda f: f.stat().st_size)[len(files) * 3 // 4]
        html = one_page(book, folder)
        times: dict[str, list[float]] = {k: [] for k in ("chromium", "cold", "edited", "unchanged")}
        for number in range(args.rounds):
            cache = folder / f"cache-{number}"
            times["chromium"].append(timed(lambda: chromium(html, folder)))
            times["cold"].append(timed(lambda c=cache: press(book, folder / "out", c)))
            with medium.open("a", encoding="utf-8") as stream:
                stream.write(f"\nOne sentence more, number {number}.\n")
            times["edited"].append(timed(lambda c=cache: press(book, folder / "out", c)))
            times["unchanged"].append(timed(lambda c=cache: press(book, folder / "out", c)))
            shutil.rmtree(cache)
        base = statistics.median(times["chromium"])
        made = next((folder / "out").glob("*.pdf"))
        print(f"{len(files)} chapters; press {pages(made)} pages, Chromium {pages(folder / 'chromium.pdf')} pages; "
              f"{args.rounds} rounds; edited: {medium.relative_to(config.root)}")  # fmt: skip
        print(f"{'':24}{'median s':>9}{'min':>8}{'max':>8}{'× Chromium':>12}")
        labels = {"chromium": "Chromium print-to-PDF", "cold": "press, cold",
                  "edited": "press, one edited", "unchanged": "press, unchanged"}  # fmt: skip
        for key, label in labels.items():
            t = times[key]
            middle = statistics.median(t)
            print(f"{label:24}{middle:9.2f}{min(t):8.2f}{max(t):8.2f}{middle / base:12.2f}")


if __name__ == "__main__":
    main()
