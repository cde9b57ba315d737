"""The far end of a session with another computer, started there as `python -P -s -m core.hosts.far`.

It reads requests from standard input and answers on standard output, in turn: a line of JSON, followed by as many bytes
as it says. It ends when standard input does, and works only in Hone's home there::

    store/SHA256         files that were sent
    store/partial/       files of which a part was sent
    store/trees/DIGEST/  files under their names, links to those of the store
    runs/                the runs

`core.hosts.far JOB` runs a job of the engine, and ends it once nobody listens any more.
"""

import contextlib
import hashlib
import io
import os
import platform
import select
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import psutil

from core.base import settings
from core.base.errors import RunFolderError, UserError, why
from core.base.files import inside, is_link, locked, open_plain, remove, write_atomically
from core.base.jobs import FailureReport, engine_command
from core.base.language import _
from core.base.processes import ASKER, kill_with_children, source_digest, start_worker
from core.runs import models
from core.runs import start as runs_start
from core.runs.folder import Attempt, KeeperRecord, Rendezvous, Request, RunFolder
from core.runs.status import State
from core.runs.summary import status_at_end

PROTOCOL = 1
"""Changed when a session of an older Hone can't follow its runs any more."""

STREAMS = ("events.jsonl", "machine.jsonl", "log.txt")
"""The files of a run that only grow."""

REACH_SECONDS = 3.0
LIBRARIES = (
    *("torch", "transformers", "accelerate", "datasets", "tokenizers"),
    *("peft", "trl", "bitsandbytes", "deepspeed"),
)

PIECE_BYTES, BLOCK_BYTES = 1 << 20, 64 << 10
LONGEST_REQUEST = 1 << 28
"""Bytes: the names and hashes of a million files."""

POLL_SECONDS = 0.05
LONGEST_WAIT = 2.0
IDLE_SECONDS = 900
SILENT_SECONDS = 30
"""A session without a request, or amid a file without a byte, for so long has lost its other end; ssh there notices
that within 15 s.
"""
SENDING_SECONDS = 60.0
"""How long a file waits for another session that is sending the same one."""

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}$")]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Size = Annotated[int, msgspec.Meta(ge=0)]


# --- What is asked, and answered


class _Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class Hello(_Asked, frozen=True, kw_only=True):
    """Asks who is there."""


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of the Hone there, its home, this process, and the time of its clock."""

    protocol: int
    pid: int
    source: str
    home: str
    time: float


class Missing(_Asked, frozen=True, kw_only=True):
    """Asks which of these files are missing, and how much of each is there; answered with bytes by hash."""

    files: tuple[Digest, ...]


class Put(_Asked, frozen=True, kw_only=True):
    """Store files: hash, offset of what follows, and the whole size of each; their bytes follow."""

    files: tuple[tuple[Digest, Size, Size], ...]


class MakeTree(_Asked, frozen=True, kw_only=True):
    """Make stored files visible under their names (with slashes); answered with the folder."""

    files: dict[str, Digest]


class Start(_Asked, frozen=True, kw_only=True):
    """Start or resume a run, unless that attempt of it was begun already; answered with the attempt.

    Whether its device is free there can't be seen from here, so it is `queued`: it waits for its turn.
    `goes_on`: it has trained there before. `rendezvous`: it trains on several computers; `attempt` is None on all but
    the first of them: a new one.
    """

    run: Name
    attempt: Attempt | None
    options: str
    forecast: str = ""
    queued: bool = True
    goes_on: bool = False
    rendezvous: Rendezvous | None = None


class Facts(_Asked, frozen=True, kw_only=True):
    """What has to be the same on all computers of a run: the system, Python and the libraries; versions by name."""


class Listen(_Asked, frozen=True, kw_only=True):
    """Open a port, until the run starts."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """The port, and this computer's addresses."""

    port: int
    addresses: tuple[str, ...]


class Reach(_Asked, frozen=True, kw_only=True):
    """Asks which of these addresses answer at that port."""

    addresses: tuple[str, ...]
    port: int


class Newest(_Asked, frozen=True, kw_only=True):
    """The files of a run's newest checkpoint, with size and hash."""

    run: Name


class MoveCheckpoint(_Asked, frozen=True, kw_only=True, tag="Place"):
    """Move stored files into a run's folder as its only checkpoint."""

    run: Name
    files: dict[str, Digest]


class Watch(_Asked, frozen=True, kw_only=True):
    """Asks what is new in the files of a run; waits up to `wait` seconds for something.

    `sizes` are what is known of `STREAMS`, `stamps` the size and date of its small files.
    """

    run: Name
    sizes: dict[str, Size]
    stamps: dict[str, tuple[int, int]] = {}
    wait: float = 0.0


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a file: what follows the known size of a stream, or a whole small file with its stamp."""

    name: str
    size: Size
    stamp: tuple[int, int] | None = None


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of all `pieces` follow. `shrunk` streams are shorter than is known; `is_gone`: the run was removed.

    `is_alive`: somebody works on the run; `has_ended`: there is an exit.json of its newest attempt; `state` is set when
    it is over.
    """

    pieces: tuple[Piece, ...]
    shrunk: tuple[str, ...]
    is_alive: bool
    has_ended: bool
    is_gone: bool = False
    state: State | None = None


class Hashes(_Asked, frozen=True, kw_only=True):
    """The hashes of so many first bytes of the streams, empty where there are fewer; none if the run was removed."""

    run: Name
    sizes: dict[str, Size]


class Forward(_Asked, frozen=True, kw_only=True):
    """Put a request into a run's folder, once; answered with whether it was dealt with."""

    run: Name
    request: Request


class Results(_Asked, frozen=True, kw_only=True):
    """The files to be brought back, with size and hash: the model, or the checkpoint that is newer."""

    run: Name


class Get(_Asked, frozen=True, kw_only=True):
    """The bytes of a file of a run from an offset on, which follow."""

    run: Name
    path: str
    offset: Size = 0


class Remove(_Asked, frozen=True, kw_only=True):
    """Delete a run that is over."""

    run: Name


Asked = (
    Hello
    | Facts
    | Listen
    | Reach
    | Newest
    | MoveCheckpoint
    | Missing
    | Put
    | MakeTree
    | Start
    | Watch
    | Hashes
    | Forward
    | Results
    | Get
    | Remove
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The line of an answer, which `size` bytes follow."""

    size: Size = 0
    error: FailureReport | None = None
    answer: msgspec.Raw = msgspec.Raw(b"null")


# --- Files there


def _run(name: str) -> RunFolder:
    return RunFolder(inside(settings.runs_folder(), name))


def _store() -> Path:
    return settings.home() / "store"


def _part(digest: str) -> Path:
    return _store() / "partial" / digest


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _blocks(source: BinaryIO, size: int) -> Iterator[bytes]:
    """Yields so many bytes, as they come.

    Raises:
        EOFError: There are fewer.
    """
    while size > 0:
        _live(SILENT_SECONDS)
        block = source.read(min(size, BLOCK_BYTES))
        if not block:
            raise EOFError
        size -= len(block)
        yield block
    _live(IDLE_SECONDS)


def _receive(source: BinaryIO, digest: str, offset: int, size: int) -> bool:
    """Stores what follows of a file; returns whether it is whole and right.

    Raises:
        OSError: It can't be written, or another session has sent a part of it meanwhile.
    """
    part, whole, hashed = _part(digest), _store() / digest, hashlib.sha256()
    part.parent.mkdir(parents=True, exist_ok=True)
    with locked(part.parent, SENDING_SECONDS, f"{digest[:2]}.lock"):
        if not whole.is_file() and size_of(part) != offset:
            raise BlockingIOError("Another session is sending the same file")
        with part.open("a+b") as file:
            file.seek(0)
            while block := file.read(PIECE_BYTES):
                hashed.update(block)
            for block in _blocks(source, size - offset):
                file.write(block)
                hashed.update(block)
        if whole.is_file():
            part.unlink()
            return True
        if hashed.hexdigest() != digest:
            part.unlink()
            return False
        part.chmod(0o444)
        part.replace(whole)
        return True


def _live(seconds: int) -> None:
    """Ends this process unless this is called again within so many seconds."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


# --- What is done


@singledispatch
def answer(asked: Any, _source: BinaryIO) -> Any:
    """Answers a request; returns the answer, or a pair of the answer and the bytes that follow it."""
    raise NotImplementedError(asked)


@answer.register
def _greet(_asked: Hello, _source: BinaryIO) -> Greeting:
    return Greeting(
        protocol=PROTOCOL,
        source=source_digest(),
        home=str(settings.home()),
        pid=os.getpid(),
        time=time.time(),
    )


@answer.register
def _missing(asked: Missing, _source: BinaryIO) -> dict[str, int]:
    return {digest: size_of(_part(digest)) for digest in asked.files if not (_store() / digest).is_file()}


@answer.register
def _put(asked: Put, source: BinaryIO) -> None:
    wrong = [one for one in asked.files if not _receive(source, *one)]
    if wrong:
        raise UserError(
            _("A file changed while it was sent"),
            _("It was written to meanwhile, or damaged on the way."),
        )


@answer.register
def _make_tree(asked: MakeTree, _source: BinaryIO) -> str:
    listed = msgspec.json.encode(dict(sorted(asked.files.items())))
    tree = _store() / "trees" / hashlib.sha256(listed).hexdigest()
    if not tree.is_dir():
        made = tree.with_name(f".{uuid.uuid4().hex}")
        try:
            made.mkdir(parents=True)
            for name, digest in asked.files.items():
                path = inside(made, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(_store() / digest, path)
                except FileExistsError:
                    message = _("Two names differ only in upper and lower case there: {name}")
                    raise UserError(message.format(name=name)) from None
                except OSError:  # a disk without links
                    shutil.copyfile(_store() / digest, path)
            made.rename(tree)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return str(tree)


@answer.register
def _start(asked: Start, _source: BinaryIO) -> int:
    run = _run(asked.run)
    text = asked.options.encode()
    if run.options_file.exists():
        kept, status = run.attempt_kept(), status_at_end(run, and_beginning=True)
        is_done = run.state(status) is State.FINISHED and run.options_file.read_bytes() == text
        was_begun = asked.attempt is not None and (kept >= asked.attempt or is_done)
        if kept and (was_begun or run.is_worked_on()):
            return kept
        if run.state(status) is State.FINISHED and models.newest(run) is None:
            raise RunFolderError(
                _("The run can't be extended"), _("It has no checkpoint there to resume from.")
            )
    elif asked.goes_on:
        raise RunFolderError(
            _("The run can't be resumed: its folder there is gone"),
            _("Its checkpoints were in it. What is here stays; a new run can start from its settings."),
        )
    run.path.mkdir(parents=True, exist_ok=True)
    if asked.forecast:
        write_atomically(run.forecast_file, asked.forecast.encode())
    _listening.clear()  # the engine listens at that port now
    remove(run.rendezvous_file)
    if asked.rendezvous is not None:
        write_atomically(run.rendezvous_file, msgspec.json.encode(asked.rendezvous))
    write_atomically(run.options_file, text)
    before = (asked.attempt or 1) - 1
    if run.attempt_kept() < before:  # attempts that never got here are counted, too
        past = msgspec.structs.replace(KeeperRecord.of(os.getpid(), before), started=0.0)
        write_atomically(run.keeper_file, msgspec.json.encode(past))
    keeper = runs_start.start(run, queued=asked.queued)
    threading.Thread(target=keeper.wait, daemon=True).start()  # no zombie is left while the session lasts
    return run.attempt_kept()


@answer.register
def _facts(_asked: Facts, _source: BinaryIO) -> dict[str, str]:
    from importlib import metadata  # slow to import

    found = {"system": platform.system(), "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


_listening: list[socket.socket] = []


@answer.register
def _listen(_asked: Listen, _source: BinaryIO) -> Listening:
    _listening[:] = [socket.create_server(("", 0))]
    found = [one for have in psutil.net_if_addrs().values() for one in have if one.family == socket.AF_INET]
    addresses = tuple(one.address for one in found if not one.address.startswith("127."))
    return Listening(port=_listening[0].getsockname()[1], addresses=addresses)


@answer.register
def _reach(asked: Reach, _source: BinaryIO) -> list[str]:
    reached = []
    for address in asked.addresses:
        with contextlib.suppress(OSError), socket.create_connection((address, asked.port), REACH_SECONDS):
            reached.append(address)
    return reached


@answer.register
def _newest(asked: Newest, _source: BinaryIO) -> dict[str, tuple[int, str]]:
    run = _run(asked.run)
    kept = models.newest(run)
    return _listed(run, [kept.path] if kept is not None else [])


@answer.register
def _place(asked: MoveCheckpoint, _source: BinaryIO) -> None:
    run = _run(asked.run)
    if run.checkpoints.exists():
        shutil.rmtree(run.checkpoints)
    for name, digest in asked.files.items():
        path = inside(run.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_store() / digest, path)
    for digest in set(asked.files.values()):
        (_store() / digest).unlink()


@answer.register
def _watch(asked: Watch, _source: BinaryIO) -> tuple[Watched, BinaryIO]:
    run = _run(asked.run)
    deadline = time.monotonic() + min(asked.wait, LONGEST_WAIT)
    is_alive = run.is_worked_on()  # before reading: what was written before it ended is there
    has_ended = run.exit_record() is not None
    while True:
        pieces = list(_pieces(run, asked))
        shrunk = tuple(name for name, size in asked.sizes.items() if size_of(run.path / name) < size)
        if pieces or shrunk or has_ended or not is_alive or time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
    is_over = has_ended or not is_alive
    is_gone = run.is_removed
    ask_state = is_over and not pieces and not is_gone
    watched = Watched(
        pieces=tuple(piece for piece, _content in pieces),
        shrunk=shrunk,
        is_alive=is_alive,
        has_ended=has_ended,
        is_gone=is_gone,
        state=run.state(status_at_end(run, and_beginning=True)) if ask_state else None,
    )
    return watched, io.BytesIO(b"".join(content for _piece, content in pieces))


def _pieces(run: RunFolder, asked: Watch) -> Iterator[tuple[Piece, bytes]]:
    """Yields what is new: complete lines of events (others may be taken back), and changed small files."""
    for name, offset in asked.sizes.items():
        content, limit = b"", PIECE_BYTES
        size = size_of(inside(run.path, name))
        while size > offset and not content and limit < 2 * (size - offset) + PIECE_BYTES:
            with open_plain(run.path / name) as file:
                file.seek(offset)
                content = file.read(limit)
            if name.endswith(".jsonl"):
                content = content[: content.rfind(b"\n") + 1]
            limit *= 2
        if content:
            yield Piece(name=name, size=len(content)), content
    examples = run.path / "examples"
    small = sorted(examples.iterdir()) if examples.is_dir() and not is_link(examples) else []
    for path in (run.validation_file, *small):
        name = path.relative_to(run.path).as_posix()
        found = path.stat() if path.is_file() and not is_link(path) and path.name[:1] != "." else None
        if found is not None and asked.stamps.get(name) != (stamp := (found.st_size, found.st_mtime_ns)):
            with open_plain(path) as file:
                content = file.read()
            yield Piece(name=name, size=len(content), stamp=stamp), content


@answer.register
def _hashes(asked: Hashes, _source: BinaryIO) -> dict[str, str]:
    run = _run(asked.run)
    sizes = {} if run.is_removed else asked.sizes
    return {name: hash_of(inside(run.path, name), size) for name, size in sizes.items()}


def hash_of(path: Path, size: int | None = None) -> str:
    """Returns the SHA-256 of a file, or of its first bytes; empty if it has fewer."""
    hashed, left = hashlib.sha256(), size_of(path) if size is None else size
    if left:
        with open_plain(path) as file:
            while left and (block := file.read(min(left, PIECE_BYTES))):
                hashed.update(block)
                left -= len(block)
    return "" if left else hashed.hexdigest()


@answer.register
def _forward(asked: Forward, _source: BinaryIO) -> bool:
    run, request = _run(asked.run), asked.request
    run.requests.mkdir(exist_ok=True)
    file, seen = (inside(run.requests, f"{request.id}.{ending}") for ending in ("json", "seen"))
    if not seen.exists():
        write_atomically(file, msgspec.json.encode(request))
        seen.touch()
    return not file.exists()


@answer.register
def _results(asked: Results, _source: BinaryIO) -> dict[str, tuple[int, str]]:
    run = _run(asked.run)
    newest = models.trained_model(run)
    folders = [run.tensorboard, run.model]
    folders += [newest.folder] if newest is not None and newest.is_checkpoint else []
    return _listed(run, folders)


def _listed(run: RunFolder, folders: Iterable[Path]) -> dict[str, tuple[int, str]]:
    files = [
        path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not is_link(path) and not is_link(path.parent)
    ]
    listed = {}
    for path in files:
        _live(IDLE_SECONDS)  # they may be large
        listed[path.relative_to(run.path).as_posix()] = (size_of(path), hash_of(path))
    return listed


@answer.register
def _get(asked: Get, _source: BinaryIO) -> tuple[None, BinaryIO]:
    file = open_plain(inside(_run(asked.run).path, asked.path))
    file.seek(asked.offset)
    return None, file


@answer.register
def _remove(asked: Remove, _source: BinaryIO) -> None:
    run = _run(asked.run)
    if run.is_worked_on():
        raise RunFolderError(_("The run isn't over"), run.name)
    if run.path.exists():
        shutil.rmtree(run.path)


# --- The session


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answers requests until there are no more.

    Raises:
        OSError: The answers can't be written, or not what is being sent: of that the rest can't be told from a request.
        ValueError: Something else was asked.
    """
    decode: Callable[[bytes], Asked] = msgspec.json.Decoder(Asked).decode
    while line := source.readline(LONGEST_REQUEST):
        _live(IDLE_SECONDS)
        asked = decode(line)
        content: BinaryIO = io.BytesIO()
        answered, error = None, None
        try:
            answered = answer(asked, source)
            if isinstance(answered, tuple):
                answered, content = answered
        except UserError as failure:
            error = FailureReport(title=failure.title, detail=failure.detail, fixes=failure.fixes)
        except OSError as failure:
            if isinstance(asked, Put):
                raise
            error = FailureReport(title=f"{failure.filename or ''}: {why(failure)}".lstrip(": "))
        with content:
            here = content.tell()
            size = content.seek(0, os.SEEK_END) - here
            content.seek(here)
            head = Answer(size=size, error=error, answer=msgspec.Raw(msgspec.json.encode(answered)))
            target.write(msgspec.json.encode(head) + b"\n")
            for block in _blocks(content, size):
                target.write(block)
        target.flush()


def run_job(name: str) -> int:
    """Runs a job of the engine with these standard streams; it is ended when the other end has gone."""
    process = start_worker(
        engine_command(name),
        stdin=sys.stdin.fileno(),
        stdout=sys.stdout.fileno(),
        stderr=sys.stderr.fileno(),
        environment={ASKER: str(os.getpid())},
    )
    closed = select.poll()
    closed.register(sys.stdout.fileno(), 0)
    while process.poll() is None:
        if closed.poll(200):
            kill_with_children(process)
    return process.returncode


def main(arguments: list[str]) -> int:
    if arguments:
        return run_job(*arguments)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may print among the answers
    try:
        serve(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        return 0
    except (OSError, ValueError) as error:  # ValueError: what was asked is no request
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
