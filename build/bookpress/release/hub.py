"""The Hub as publish uses it: a few questions and three changes, through huggingface_hub.

In: a repository's name. Out: State, and changes that are asked for again until they are done or surely not.
Failures come out as three kinds: WrongUse (credentials, no such repository), NetworkFailed (no answer after
every try), Refused (the server says no to the content). No message carries a token, a query or a header.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import sleep, time
from typing import Any, TypeVar

from ..archives import Packed
from ..problems import NetworkFailed, ToolMissing, WrongUse
from .plan import Remote, State

T = TypeVar("T")
OFFICIAL = "https://huggingface.co"
TRIES = 5
LONGEST_WAIT = 600.0  # seconds that a server may ask us to wait
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class Refused(Exception):
    """The server does not take the content: its card, or a commit that is not well formed."""


class Moved(Exception):
    """The branch is not where it was: somebody else committed, or an earlier try of ours did."""


class Passing(Exception):
    """A failure that may be gone at the next try; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float | None = None):
        super().__init__(reason)
        self.wait = wait


def endpoint() -> str:
    """The server that the client talks to, from the client's own variable."""
    return (os.environ.get("HF_ENDPOINT") or OFFICIAL).rstrip("/")


def client(say: Callable[[str], None], timeout: float):
    """huggingface_hub, set up before its first import; ToolMissing where it is not installed."""
    if endpoint() != OFFICIAL and "HF_HUB_DISABLE_XET" not in os.environ:
        # The client has no way back from Xet where a server lacks it (huggingface_hub#4507).
        os.environ["HF_HUB_DISABLE_XET"] = "1"
        say(f"large files go by plain LFS: {endpoint()} may lack Xet storage (HF_HUB_DISABLE_XET=0 says it has it)")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_UPDATE_CHECK", "1")
    if "@" in endpoint():
        raise WrongUse("HF_ENDPOINT holds a user name or a password, which messages would show; give the token as HF_TOKEN")
    if not endpoint().startswith(("http://", "https://")):
        raise WrongUse(f"HF_ENDPOINT is '{endpoint()}'; it starts with https:// or http://")
    try:
        import huggingface_hub
        from huggingface_hub.utils import logging
        from huggingface_hub.utils._http import default_client_factory
    except ImportError as error:
        raise ToolMissing(f"{error}; `make publish` installs huggingface_hub, or: pip install huggingface_hub") from None
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise WrongUse("HF_HUB_OFFLINE is set, which forbids every request; unset it to publish")
    logging.set_verbosity_error()  # its warnings print upload addresses, which carry signatures

    def patient():
        """The client's own session, which waits forever as it is, with a limit."""
        session = default_client_factory()
        session.timeout = timeout
        return session

    huggingface_hub.set_client_factory(patient)
    return huggingface_hub


def _bare(text: str) -> str:
    """Words of the client's without queries of addresses and without anything like a token."""
    text = re.sub(r"(https?://[^\s?'\"]+)\?[^\s'\"]*", r"\1?…", text)
    text = re.sub(r"\b(hf|api)_[A-Za-z0-9_]{8,}", r"\1_…", text)
    return " ".join(text.split())[:300]


def _status(error: Exception) -> int:
    return int(getattr(getattr(error, "response", None), "status_code", 0) or 0)


def _asked_to_wait(error: Exception) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date."""
    given = getattr(getattr(error, "response", None), "headers", {}).get("Retry-After", "").strip()
    if given.isdigit():
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time()) if given else None
    except (TypeError, ValueError):
        return None


def gave_up(what: str, failure: Passing) -> NetworkFailed:
    return NetworkFailed(f"{what} at {endpoint()}: {failure}, {TRIES} times; run it again, nothing is done twice")


class Hub:
    """One repository on the server."""

    def __init__(self, repo: str, kind: str, say: Callable[[str], None], timeout: float = 120.0):
        self.library = client(say, timeout)
        self.errors = self.library.errors
        self.api = self.library.HfApi()
        self.repo, self.kind, self.say = repo, kind, say
        self.about = {"repo_id": repo, "repo_type": kind}

    @property
    def place(self) -> str:
        return f"{endpoint()}/{'datasets/' if self.kind == 'dataset' else ''}{self.repo}"

    def _transport(self) -> tuple[type[Exception], ...]:
        import httpx2

        return (httpx2.TransportError, httpx2.DecodingError, ConnectionError, TimeoutError)

    def _try(self, what: str, call: Callable[[], T]) -> T:
        """Carry out a request once. A failure that may pass is a Passing, every other one what it is."""
        try:
            return call()
        except Exception as error:
            cause = self._cause(error)
            if cause is None or isinstance(cause, self.errors.RepositoryNotFoundError):
                raise
            if isinstance(cause, self.errors.HfHubHTTPError):
                raise self._judged(what, cause) from None
            raise Passing(f"{type(cause).__name__}: {_bare(str(cause))}") from None

    def _cause(self, error: BaseException | None) -> BaseException | None:
        """What the server or the line did. The client wraps some failures in errors that say less."""
        while error is not None:
            if isinstance(error, (self.errors.HfHubHTTPError, json.JSONDecodeError, *self._transport())):
                return error
            error = error.__cause__
        return None

    def _judged(self, what: str, error: Exception) -> Exception:
        status, asked = _status(error), _asked_to_wait(error)
        if status in (401, 403):
            return WrongUse(f"{what}: the server refuses the token (status {status}); {self.repo} needs one that may write")
        if status in (409, 412):
            return Moved(f"{what}: status {status}")
        if status not in _PASSING:
            said = getattr(error, "server_message", "") or str(error)
            return Refused(f"{what}: status {status}: {_bare(said)}")
        if asked is not None and asked > LONGEST_WAIT:
            return NetworkFailed(f"{what}: the server asks to wait {asked:.0f} s (status {status}); run it again then")
        return Passing(f"status {status}", asked)

    def pause(self, what: str, failure: Passing, attempt: int) -> None:
        """Wait before the next try: as long as the server asked, else twice as long each time."""
        wait = min(2.0**attempt, 30.0) if failure.wait is None else failure.wait
        self.say(f"{what}: {failure}; again in {wait:.0f} s")
        sleep(wait)

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """Carry out a request that may be repeated, and repeat it while its failure may pass."""
        for attempt in range(TRIES):
            try:
                return self._try(what, call)
            except Passing as failure:
                if attempt == TRIES - 1:
                    raise gave_up(what, failure) from None
                self.pause(what, failure, attempt)
        raise AssertionError("the last try returns or raises")

    def require_token(self) -> None:
        """The client's own places hold a token, of whatever worth."""
        if self.library.get_token() is None:
            raise WrongUse("no token; set HF_TOKEN, or run `hf auth login` once. Never give it as an argument")

    def who(self) -> str:
        """The account that the token belongs to. A token that may only read is refused here, before any work."""
        answer = self.ask("asking who publishes", self.api.whoami)
        token = (answer.get("auth") or {}).get("accessToken") or {}
        if token.get("role") == "read":
            raise WrongUse(f"the token of {answer['name']} may only read; {self.repo} needs one that may write")
        return str(answer["name"])

    def state(self, tag: str) -> State:
        """The repository, its main branch and, if it is there, the tag."""
        try:
            info = self.ask("reading the repository", lambda: self.api.repo_info(**self.about))
        except self.errors.RepositoryNotFoundError:
            return State()
        head = info.sha or ""
        refs = self.ask("reading tags", lambda: self.api.list_repo_refs(**self.about))
        tags = tuple(sorted(t.name for t in refs.tags))
        files = self.files(head) if head else {}
        tagged = ""
        if tag in tags:
            # Asked for by name: what a tag's own entry points to is not always the commit.
            tagged = self.ask("reading the tag", lambda: self.api.repo_info(revision=tag, **self.about)).sha or ""
        listed = frozenset()
        if not tagged and "SHA256SUMS" in files:
            rows = self.download("SHA256SUMS", head).decode("utf-8", "replace").splitlines()
            listed = frozenset(row[66:] for row in rows)
        held = self.files(tagged) if tagged else {}
        return State(head, True, files, tags, tagged, held, listed, bool(info.private))

    def files(self, revision: str) -> Mapping[str, Remote]:
        """Every file at a commit, as the server has it stored."""

        def read() -> list[Any]:
            return list(self.api.list_repo_tree(recursive=True, revision=revision, **self.about))

        found = self.ask("reading the list of files", read)
        return {
            entry.path: Remote(entry.size, entry.lfs.sha256 if entry.lfs else "", entry.blob_id)
            for entry in found if hasattr(entry, "blob_id")
        }  # fmt: skip

    def download(self, name: str, revision: str) -> bytes:
        """A file's bytes as any reader gets them, past every cache."""

        def fetch() -> bytes:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    path = self.api.hf_hub_download(filename=name, revision=revision, local_dir=folder, **self.about)
                except OSError as error:
                    if error.errno is None and self._cause(error) is None:  # a length that does not fit
                        raise Passing(_bare(str(error))) from None
                    raise
                return Path(path).read_bytes()

        return self.ask(f"downloading {name}", fetch)

    def check_card(self, text: str) -> None:
        """The Hub's own check of a card's head."""
        card = self.library.RepoCard(text, ignore_metadata_errors=True)
        try:
            self.ask("checking the card", lambda: card.validate(repo_type=self.kind))
        except ValueError as error:  # the client's way to say 400
            raise Refused(f"checking the card: {_bare(str(error))}") from None

    def create(self) -> None:
        """Create the repository, private. That it exists already is for state() to find."""
        try:
            self.ask("creating the repository", lambda: self.api.create_repo(self.repo, repo_type=self.kind, private=True))
        except (Moved, Refused) as error:
            if not self.state("").there:
                raise Refused(str(error)) from None

    def commit(self, add: Sequence[Packed], delete: Sequence[str], parent: str, message: str) -> str:
        """One commit on top of `parent`; Moved when main is elsewhere by now, Passing when the answer is lost.

        Not repeated here: the lost answer may be that of a commit, so the caller looks before it tries again.
        """
        operations = [
            *(self.library.CommitOperationAdd(f.name, f.data) for f in add),
            *(self.library.CommitOperationDelete(name) for name in delete),
        ]

        def send() -> str:
            try:
                return self.api.create_commit(
                    operations=operations, commit_message=message, parent_commit=parent or None, **self.about
                ).oid
            except ValueError as error:
                if isinstance(error, (self.errors.HfHubHTTPError, json.JSONDecodeError)):
                    raise
                # What is left is the client's way to say that the card was refused.
                raise Refused(f"checking the card: {_bare(str(error))}") from None

        return self._try("committing", send)

    def tag(self, name: str, commit: str, message: str) -> None:
        """Tag a commit; Moved when the tag is there."""
        self.ask("tagging", lambda: self.api.create_tag(tag=name, revision=commit, tag_message=message, **self.about))
