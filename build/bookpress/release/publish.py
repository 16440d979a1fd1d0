"""`make publish`: show what publishing would do; with YES=1 do it, and leave nothing half done.

In: a commit that `make release` made. Out: the plan; with yes one commit on the Hub, every hash on the server
compared, two files downloaded and compared, and last the tag, which is the publication. All state is on the
server: a run that was cut off anywhere is finished by running it again, and a finished one changes nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..archives import Packed
from ..config import read_config
from ..install import SUMS
from ..model import Config
from ..problems import NetworkFailed, Problem, WrongUse, errors
from . import artefacts, card, green, versions
from .artefacts import Made, with_repo
from .cut import dirty
from .git import head, require_repository, tag_commit, tag_message
from .hub import TRIES, Hub, Moved, Passing, Refused, gave_up
from .plan import decide, differing, lines

Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    yes: bool = False
    create: bool = False
    timeout: float = 120.0


def objections(config: Config) -> list[Problem]:
    """What stands against publishing this commit, as far as git and the files tell."""
    root, tag = config.root, f"v{config.version}"
    found = dirty(root) + versions.disagreements(config)
    if tag_commit(root, tag) != head(root):
        message = f"{tag} is not the commit checked out"
        found.append(Problem("book.toml", 0, 0, "REL008", message, f"git checkout {tag}, or make release first"))
    return found


def _as_tagged(root: Path, made: Made) -> list[Problem]:
    """Whether these are the bytes that the tag vouches for; other tools may give others, which is said."""
    match = re.search(r"SHA256SUMS has the SHA-256 ([0-9a-f]{64})", tag_message(root, made.tag))
    if not match:
        message = f"{made.tag} vouches for no files: `make release` did not write it, or it was replaced"
        return [Problem(SUMS, 0, 0, "REL012", message, f"git fetch --force --tags; git cat-file -p {made.tag}", "warning")]
    if match[1] != made.sums_sha256:
        message = f"{made.tag} vouches for other bytes than those built here"
        hint = "REPO or made_with in provenance.json differs; readers can't check them against the tag"
        return [Problem(SUMS, 0, 0, "REL012", message, hint, "warning")]
    return []


def _made_green(root: Path, cache: Path, say: Say) -> list[Problem]:
    """Run the steps at this commit, and note that they passed."""
    problems = dirty(root) or green.prove(root, cache / "release" / "logs", say) or dirty(root)
    if not problems:
        green.record(cache, head(root), green.steps(root))
    return problems


def make_green(book_toml: Path, cache: Path, say: Say) -> list[Problem]:
    """`make green`: what publish would run first, on its own, where no token is needed."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return problems
    require_repository(config.root)
    return problems + _made_green(config.root, cache, say)


def publish(
    book_toml: Path, out: Path, cache: Path, repo: str, order: Order, say: Say, jobs: int | None = None,
) -> list[Problem]:  # fmt: skip
    """The plan, and with `order.yes` the publication."""
    config, problems = read_config(book_toml)
    if config is None or errors(problems):
        return problems
    require_repository(config.root)
    config = with_repo(config, repo)
    versions.number(config.version)
    problems = objections(config)
    if order.yes and problems:
        return problems
    hub = Hub(config.hub_repo, config.hub_type, say, order.timeout)
    if order.yes:
        hub.require_token()  # before minutes of work, not after them
        say(f"publishing as {hub.who()}")
    made, found = artefacts.make(book_toml, out, cache, repo, jobs)
    problems += found
    if made is None:
        return problems
    problems += _as_tagged(config.root, made)
    passed = green.known(cache, head(config.root))
    if passed and not dirty(config.root):
        say(f"green: book, checks and tests passed at this commit on {passed}")
    elif not order.yes:
        say("green: not known for this commit; YES=1 runs book, checks and tests first")
    elif not errors(problems):
        problems += _made_green(config.root, cache, say)
    if order.yes and errors(problems):
        return problems
    return problems + send(hub, made, config.title, order, say)


def send(hub: Hub, made: Made, title: str, order: Order, say: Say) -> list[Problem]:
    """The server's half: look, plan, and with yes carry out."""
    try:
        state = hub.state(made.tag)
        plan, problems = decide(made.files, state, made.tag)
        for line in lines(plan, title, hub.place, made.tag):
            say(line)
        if not state.tagged:
            hub.check_card(next(f.data.decode() for f in made.files if f.name == card.NAME))
        if problems or not order.yes:
            how = "YES=1 CREATE=1" if plan.create else "YES=1"
            say("nothing was sent" if problems or plan.nothing else f"nothing was sent; {how} does it")
            return problems
        if plan.nothing:
            return _compare(hub, made.files, state.tagged, say)
        if not state.there:
            if not order.create:
                raise WrongUse(f"{hub.place} is not there, or the token may not see it; CREATE=1 creates it")
            hub.create()
        return _carry_out(hub, made, title, say)
    except hub.errors.RepositoryNotFoundError:
        raise WrongUse(f"{hub.place} is not there, or the token may not write to it") from None
    except Refused as error:
        hint = "the message is the server's; nothing was published"
        return [Problem(card.NAME if "card" in str(error) else made.tag, 0, 0, "HUB004", str(error), hint)]
    except Moved as moved:
        return [Problem(made.tag, 0, 0, "HUB005", str(moved), "see who else writes to it, then run it again")]


def _carry_out(hub: Hub, made: Made, title: str, say: Say) -> list[Problem]:
    commit, problems = _committed(hub, made, title, say)
    if problems:
        return problems
    problems = _compare(hub, made.files, commit, say)
    if problems:
        return problems
    # There already, by a lost answer of ours or by somebody else: the look that follows tells.
    with contextlib.suppress(Moved):
        hub.tag(made.tag, commit, f"{title} {made.tag.removeprefix('v')}")
    state = hub.state(made.tag)
    if not state.tagged:
        raise NetworkFailed(f"the server took {made.tag} and does not show it; run it again")
    _, problems = decide(made.files, state, made.tag)
    if not problems:
        say(f"published: {hub.place}/tree/{made.tag} (commit {state.tagged[:12]})")
        if state.private:
            say(f"it is private: readers see it once its visibility is public, at {hub.place}/settings")
    return problems


def _committed(hub: Hub, made: Made, title: str, say: Say) -> tuple[str, list[Problem]]:
    """A commit on the server that holds the release: one that is there, or one made now.

    Before each try the repository is looked at: the answer that was lost may be that of a commit.
    """
    for attempt in range(TRIES):
        state = hub.state(made.tag)
        plan, problems = decide(made.files, state, made.tag)
        if problems:
            return "", problems
        if not plan.commit:
            return state.tagged or state.head, []
        add = [f for f in made.files if f.name in plan.adds]
        try:
            return hub.commit(add, plan.deletes, state.head, f"{title} {made.tag.removeprefix('v')}"), []
        except Moved as moved:
            say(f"{moved}: main has changed; looking at it again")
        except Passing as passing:
            if attempt == TRIES - 1:
                raise gave_up("committing", passing) from None
            hub.pause("committing", passing, attempt)
    message = "the repository changed under each try to commit"
    return "", [Problem(made.tag, 0, 0, "HUB005", message, "see who else writes to it, then run it again")]


def _compare(hub: Hub, files: Sequence[Packed], commit: str, say: Say) -> list[Problem]:
    """Every hash as the server lists it, and a small and a large file as a reader gets them."""
    hint = "not tagged, so not published; run it again"
    wrong = differing(files, hub.files(commit))
    if wrong:
        return [Problem(name, 0, 0, "HUB003", "the server has other bytes than were sent", hint) for name in wrong]
    largest = max(files, key=lambda f: len(f.data))
    for file in (next(f for f in files if f.name == SUMS), largest):
        if hub.download(file.name, commit) != file.data:
            return [Problem(file.name, 0, 0, "HUB003", "a download differs from what was sent", hint)]
    say(f"compared: {len(files)} hashes on the server, {SUMS} and {largest.name} as downloaded")
    return []
