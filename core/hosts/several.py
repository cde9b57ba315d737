"""Several computers that train one model: what their keeper does here beside following the first one (`mirror`).

Each has a run folder of the same name. Events, checkpoints and the model are the first one's; the others have what they
need to go on, and are ended when it has ended.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import msgspec

from core.base.errors import Fix, UserError
from core.base.language import _
from core.hosts import far
from core.hosts.computers import CheckedComputer, find
from core.hosts.install import differences
from core.hosts.link import Link, Tell
from core.options import RunOptions, run_file
from core.runs.events import Action, Level, MessageRaised
from core.runs.folder import ExitRecord, Rendezvous, Request

ALIVE_SECONDS = 60.0
"""The first computer's session is spoken to this often while files go to the others."""

AGAIN_SECONDS = 5.0
GRACE_SECONDS = 15.0
"""How long the others may take to end by themselves after the first one has."""

END_SECONDS, HURRIED_SECONDS = 45.0, 1.0
"""How long the others are waited for at the end, and once the person wants to end the run now."""

LOOK_SECONDS = 0.2
OF_OTHERS_BYTES = 64 << 20
BLAME_SECONDS = 40.0
"""How long the first computer may take to notice by itself that another one has ended."""


def start_others(first: Link, options: RunOptions, start: far.Start, tell: Tell) -> far.Start:
    """Starts a run on all its computers but the first; returns how to start that one, for which they wait.

    Raises:
        UserError: They can't train together.
    """
    names = options.device.computers
    if len(names) == 1:
        return start
    told = time.monotonic()

    def tell_all(what: str, done: int, total: int) -> None:
        nonlocal told
        tell(what, done, total)
        if time.monotonic() - told > ALIVE_SECONDS and not is_copying:
            told = time.monotonic()
            first.ask(far.Hello(), far.Greeting)

    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Link(find(name), first.wants_end)) for name in names[1:]]
        for other in others:
            other.require_this_hone()
        _refuse_differences([first, *others], options)
        host, port = _meeting_point(first, others)
        meeting = Rendezvous(rank=0, names=names, host=host, port=port, id=uuid.uuid4().hex)
        checkpoint = (
            first.ask(far.Newest(run=start.run), dict[str, tuple[far.Size, far.Digest]])
            if start.goes_on
            else {}
        )
        for rank, other in enumerate(others, 1):
            is_copying = False
            sent = other.send_sources(options, tell_all)
            _end_now(other, start.run)  # what is left of an attempt that was begun in part
            is_copying = True
            _copy_checkpoint(first, other, start.run, checkpoint, tell_all)
            part = far.Start(
                run=start.run,
                attempt=None,
                options=run_file.dumps(sent),
                rendezvous=msgspec.structs.replace(meeting, rank=rank),
            )
            other.ask(part, int)
    return msgspec.structs.replace(start, rendezvous=meeting)


def _refuse_differences(links: Sequence[Link], options: RunOptions) -> None:
    facts = [link.ask(far.Facts(), dict[str, str]) for link in links]
    macs = [
        link.computer.name for link, found in zip(links, facts, strict=True) if found["system"] == "Darwin"
    ]
    if macs and options.device.there != "cpu":
        raise UserError(
            _("Macs can't train together: PyTorch has no way for Apple GPUs to exchange gradients"),
            ", ".join(macs),
            (Fix(_("Choose one computer"), {"device.name": options.device.name.partition("+")[0]}),),
        )
    first, *others = [
        msgspec.structs.replace(link.computer, checked=CheckedComputer(time=0.0, versions=found))
        for link, found in zip(links, facts, strict=True)
    ]
    found = [line for other in others for line in differences(first, other)]
    if found:
        raise UserError(
            _("These computers have different versions, so they can't train together"),
            "\n".join(found),
            (Fix(_("Install Hone on both again: `hone hosts install {name}`").format(name=others[0].name)),),
        )


def _meeting_point(first: Link, others: Sequence[Link]) -> tuple[str, int]:
    """Returns an address and a port of the first computer that all can reach, tried out."""
    listening = first.ask(far.Listen(), far.Listening)
    reach = far.Reach(addresses=listening.addresses, port=listening.port)
    for other in (first, *others):
        reached = tuple(other.ask(reach, list[str]))
        if not reached:
            raise UserError(
                _("{other} can't reach {first}").format(other=other.computer.name, first=first.computer.name),
                _(
                    "Tried: {addresses}, each at port {port}. Computers that train together must reach each other's "
                    "ports; a firewall may be closed, or they are in different networks."
                ).format(addresses=", ".join(reach.addresses) or _("no address"), port=listening.port),
            )
        reach = msgspec.structs.replace(reach, addresses=reached)
    return reach.addresses[0], listening.port


def _copy_checkpoint(
    first: Link, other: Link, run: str, files: dict[str, tuple[int, str]], tell: Tell
) -> None:
    """Copies the newest checkpoint from the first computer to another one, by way of this one."""
    if not files:
        return
    sizes = {digest: size for size, digest in files.values()}
    missing = other.missing(sizes)
    total, done = sum(sizes[digest] for digest in missing), sum(missing.values())

    def content(path: str, offset: int) -> Iterator[bytes]:
        nonlocal done
        for block in first.content(run, path, offset, files[path][0]):
            done += len(block)
            tell(_("Copying the checkpoint to {name}").format(name=other.computer.name), done, total)
            yield block

    for path, (size, digest) in files.items():
        if digest in missing:
            offset = missing.pop(digest)
            other.ask(far.Put(files=((digest, offset, size),)), sent=content(path, offset))
    other.ask(far.MoveCheckpoint(run=run, files={path: digest for path, (_size, digest) in files.items()}))


def _end_now(link: Link, run: str) -> None:
    """Ends a run there, and waits until nothing works on it any more."""
    until = time.monotonic() + GRACE_SECONDS
    while _look(link, run).is_alive and time.monotonic() < until:
        ask_to_end(link, run)
        time.sleep(0.5)


def ask_to_end(link: Link, run: str) -> None:
    link.ask(far.Forward(run=run, request=Request(id=uuid.uuid4().hex, action=Action.KILL)), bool)


def _look(link: Link, run: str, wait: float = 0.0) -> far.Watched:
    watched, pieces = link.news(far.Watch(run=run, sizes={}, wait=wait), OF_OTHERS_BYTES)
    for _piece, blocks in pieces:
        for _block in blocks:
            pass
    return watched


class Others:
    """Watches the parts of the other computers while the first one's is followed.

    Attributes:
        problem: Why one ended before the first one did; empty while all go on.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.problem = ""
        self._names = names
        self._threads: list[threading.Thread] = []
        self._is_over = threading.Event()
        self._grace = GRACE_SECONDS

    def watch(self, run: str) -> None:
        """Begins, unless that was done."""
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._watch, args=(name, run), name=f"watch-{name}", daemon=True)
                for name in self._names
            ]
            for thread in self._threads:
                thread.start()

    def end(self, is_hurried: Callable[[], bool]) -> None:
        """Lets the others end after the first computer's part; waits until they have, or can't be reached.

        One that can't be reached from here ends itself, as it hears nothing from the first one either.

        Args:
            is_hurried: Asked meanwhile whether to end them at once, and hardly wait any more.
        """
        self._is_over.set()
        until = time.monotonic() + END_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < until:
                if self._grace and is_hurried():
                    self._grace, until = 0.0, time.monotonic() + HURRIED_SECONDS
                thread.join(LOOK_SECONDS)

    def _watch(self, name: str, run: str) -> None:
        over_at = None
        while over_at is None or time.monotonic() - over_at < END_SECONDS:
            try:
                with Link(find(name)) as link:
                    while (seen := _look(link, run, far.LONGEST_WAIT)).is_alive:
                        if self._is_over.is_set():
                            over_at = over_at or time.monotonic()
                            if time.monotonic() - over_at >= self._grace:
                                _end_now(link, run)
                    if not self._is_over.is_set():
                        why = (
                            _why_failed(link, run)
                            if seen.has_ended
                            else _("It ended there without a message.")
                        )
                        self.problem = f"{name}: {why}" if why else ""
                    return
            except (UserError, OSError):
                if self._is_over.is_set():
                    over_at = over_at or time.monotonic()
                self._is_over.wait(AGAIN_SECONDS)


def _why_failed(link: Link, run: str) -> str:
    """Returns why the newest attempt failed there, in words; empty if it didn't."""
    ended = link.record(run, "exit.json", ExitRecord)
    lines = link.small(run, "events.jsonl").splitlines()
    said = [link.decoded(line, MessageRaised) for line in lines if b'"message_raised"' in line]
    said = [one for one in said if one.attempt == ended.attempt and one.level is Level.ERROR]
    if not ended.code:
        return ""
    return "\n".join(filter(None, (said[-1].title, said[-1].detail))) if said else ended.reason
