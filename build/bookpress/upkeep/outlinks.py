"""`make links`: links to other sites that lead nowhere by now.

In: the chapters' links and the addresses in data/*.yaml. Out: a problem for each that is gone, a warning for
each that could not be judged. Polite and bounded: one request at a time to a host, few retries that honour
Retry-After, and a budget of seconds after which the rest is reported as not looked at.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

from lxml import etree

from ..build import prepare
from ..config import read_config
from ..model import Config
from ..problems import NetworkFailed, Problem, errors

AGENT = "bookpress link check"
HOSTS, TRIES, TIMEOUT = 8, 3, 20  # hosts at once; tries and seconds of a request
LONGEST_WAIT = 30.0
_GONE = (404, 410)
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_URL = re.compile(r"https?://[^\s\"'<>\\^`{|}\[\]]+")


@dataclass(frozen=True)
class Place:
    """Where the book names an address first."""

    url: str
    path: str
    line: int


@dataclass(frozen=True)
class Answer:
    """What became of an address: ok, gone, unsure (why), unasked."""

    kind: str
    why: str = ""


def _line_of(text: str, url: str) -> int:
    at = text.find(url)
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def places(config: Config, chapters: Iterable) -> list[Place]:
    """Every address once, in the order of the book."""
    found: dict[str, Place] = {}
    for chapter in chapters:
        text = (config.root / chapter.path).read_text(encoding="utf-8")
        for link in etree.fromstring(chapter.body).iter("{*}a", "a"):
            url = urldefrag(link.get("href", "")).url
            if url.startswith(("http://", "https://")):
                found.setdefault(url, Place(url, chapter.path, _line_of(text, url)))
    for file in sorted((config.root / config.data).glob("*.yaml")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for raw in _URL.findall(line):
                url = urldefrag(raw.rstrip(".,;:)")).url
                found.setdefault(url, Place(url, f"{config.data}/{file.name}", number))
    return list(found.values())


def _once(url: str, method: str, timeout: float) -> int:
    request = urllib.request.Request(url, method=method, headers={"User-Agent": AGENT, "Accept": "*/*"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.status


def ask(url: str, deadline: float, sleep: Callable[[float], None] = time.sleep) -> Answer:
    """Look at one address. HEAD first; servers that dislike it are asked with GET."""
    method, why = "HEAD", ""
    for attempt in range(TRIES + 1):  # the change from HEAD to GET is no try of its own
        left = deadline - time.monotonic()
        if left <= 0:
            return Answer("unasked", why)
        wait = 2.0**attempt
        try:
            _once(url, method, min(TIMEOUT, left))
            return Answer("ok")
        except urllib.error.HTTPError as error:
            why = f"status {error.code}"
            if method == "HEAD" and error.code not in (429, 503):
                method = "GET"  # also for 404: some servers know no HEAD and say that the page is not there
                continue
            if error.code in _GONE:
                return Answer("gone", why)
            if error.code not in _AGAIN:
                return Answer("unsure", why)
            given = error.headers.get("Retry-After", "")
            wait = min(float(given), LONGEST_WAIT) if given.isdigit() else wait
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, socket.gaierror):
                return Answer("nohost", f"no such host: {urlsplit(url).hostname}")
            if isinstance(reason, ssl.SSLError):
                return Answer("unsure", f"certificate: {reason.reason or reason}")
            why = f"{type(reason).__name__}: {reason}"
        if attempt < TRIES:
            if time.monotonic() + wait > deadline:
                return Answer("unasked", why)
            sleep(wait)
    return Answer("unsure", why)


def look(found: list[Place], budget: float, say: Callable[[int, int], None]) -> dict[str, Answer]:
    """Ask for every address, the ones of a host after one another."""
    deadline = time.monotonic() + budget
    hosts: dict[str, list[str]] = {}
    for place in found:
        hosts.setdefault(urlsplit(place.url).netloc, []).append(place.url)
    answers: dict[str, Answer] = {}

    def one_host(urls: list[str]) -> None:
        for url in urls:
            answers[url] = ask(url, deadline)
            say(len(answers), len(found))

    with ThreadPoolExecutor(HOSTS) as pool:
        # Hosts with many addresses first, so that the last to finish is a short one.
        list(pool.map(one_host, sorted(hosts.values(), key=len, reverse=True)))
    return answers


def judge(found: list[Place], answers: dict[str, Answer]) -> list[Problem]:
    """Problems, or NetworkFailed when this machine reaches nothing at all."""
    kinds = {answers[p.url].kind for p in found}
    if found and not kinds & {"ok", "gone"} and all(a.kind != "unsure" or "status" not in a.why for a in answers.values()):
        first = answers[found[0].url]
        raise NetworkFailed(f"none of {len(found)} addresses answered; {first.why or 'no time was left'}")
    problems = []
    for place in found:
        answer = answers[place.url]
        if answer.kind in ("gone", "nohost"):
            hint = "link to where it moved, or to an archived copy"
            problems.append(Problem(place.path, place.line, 1, "EXT001", f"{place.url}: {answer.why}", hint))
        elif answer.kind != "ok":
            why = answer.why if answer.kind == "unsure" else ", ".join(w for w in ("no time was left", answer.why) if w)
            problems.append(Problem(place.path, place.line, 1, "EXT002", f"{place.url}: {why}", "", "warning"))
    return problems


def run(
    book_toml: Path, cache: Path, budget: float, say: Callable[[int, int], None] = lambda done, total: None
) -> tuple[list[str], list[Problem]]:
    """(a line for a person, problems)."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return [], problems
    book, problems = prepare(config, cache)
    if errors(problems):
        return [], problems
    found = places(config, book.chapters)
    answers = look(found, budget, say)
    judged = judge(found, answers)
    good = sum(a.kind == "ok" for a in answers.values())
    return [f"{len(found)} addresses: {good} answered, {len(errors(judged))} are gone"], judged
