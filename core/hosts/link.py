"""The near end of a session with another computer (the far one is `far`), and what is sent there before a run.

Files are sent once: they are kept there by their hash, and one of which a part has arrived goes on from there.

Whatever the other side does, here nothing grows or waits without end: all that is heard goes through `Link`, which has
a limit of bytes and of time for each answer, and looks all the while whether the person wants to end it.
"""

import contextlib
import itertools
import math
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from core.base import formats
from core.base.errors import ComputerError, Fix, UserError
from core.base.language import _
from core.base.processes import kill_with_children, source_digest, start_worker
from core.hosts import far
from core.hosts.computers import INSTALL_IT, SSH_FAILED, Computer, explain, python_command
from core.hosts.sending import ParcelKind, parcels_of, readable, refuse_unasked
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.sources import Scheme

Answer = TypeVar("Answer")
Tell = Callable[[str, int, int], None]
"""Told what is being sent, and how many bytes of how many."""

ANSWER_SECONDS, SLOW_SECONDS = 60.0, 3600.0
"""Timeouts of an answer, and of one for which the other computer hashes or copies whole models."""
_SLOW = (far.MakeTree, far.Newest, far.MoveCheckpoint, far.Put, far.Remove, far.Results)

BLOCK_SECONDS = 60.0
"""Timeout of each block that follows an answer, or is sent: there, something else may be hashed first."""

LINE_BYTES, SMALL_BYTES, MESSAGES_BYTES = 4 << 20, 1 << 20, 4 << 20
"""The longest answer (plus twice the length of a longer question), the largest small file, and the most that may
be printed there meanwhile.
"""

WORDS_SHOWN, DETAIL_SHOWN = 300, 4000
"""Letters of a message from there."""

LOOK_SECONDS = 0.2
"""How often a session checks whether its time is over, or the person wants to end it."""

ENDING_SECONDS = 5.0
NOISE_LINES = 200
"""Lines that a shell there may print before the first answer, which are skipped."""

FILES_AT_ONCE = 200

WRONG_ANSWER = "wrong-answer"
"""The code of an error: what came is damaged, or isn't what was asked for."""


class Link:
    """A session with another computer; use it in one thread.

    Args:
        wants_end: Asked several times a second, in another thread, whether to cut the connection, as if it was lost.

    Raises:
        ComputerError: The computer can't be reached, or has no Hone. Every method raises it when the connection is
            lost, when there is no answer in time, and for an answer that can't be one.
    """

    def __init__(self, computer: Computer, wants_end: Callable[[], bool] = lambda: False) -> None:
        self.computer = computer
        self.wants_end = wants_end
        self._deadline, self._is_greeted = math.inf, False
        self._failure: ComputerError | None = None
        self._is_closed = threading.Event()
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        try:
            self._process = start_worker(
                python_command(computer, "core.hosts.far"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages.fileno(),
            )
        except OSError as error:
            self._messages.close()
            raise explain(computer, str(error), SSH_FAILED) from error
        self._guard = threading.Thread(target=self._watch, name=f"link-{computer.name}", daemon=True)
        self._guard.start()
        try:
            self.greeting: far.Greeting = self._fetch(far.Hello(), far.Greeting, noise=NOISE_LINES)[0]
            if self.greeting.protocol != far.PROTOCOL:
                raise self._other_hone()
            self.clock = time.time() - self.greeting.time
            self._is_greeted = True
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_rest: object) -> None:
        self.close()

    def close(self) -> None:
        self._is_closed.set()
        self._guard.join()
        kill_with_children(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was left to be sent
                    stream.close()
        self._process.wait()
        self._messages.close()

    def require_this_hone(self) -> None:
        """Refuses a computer that has another version of Hone.

        Raises:
            ComputerError: It has.
        """
        if self.greeting.source != source_digest():
            raise self._other_hone()

    def _other_hone(self) -> ComputerError:
        name = self.computer.name
        return ComputerError(
            "other-version",
            _("{name} has another version of Hone").format(name=name),
            _("A run starts only where the same version is installed."),
            (Fix(INSTALL_IT.format(name=name)),),
        )

    def wrong(self, detail: str) -> ComputerError:
        """Returns the error of an answer that can't be one."""
        name = self.computer.name
        return ComputerError(
            WRONG_ANSWER,
            _("{name} sends something invalid").format(name=name),
            detail[:DETAIL_SHOWN],
            (Fix(INSTALL_IT.format(name=name)),),
        )

    # --- Questions and answers

    def ask(self, asked: far.Asked, kind: type[Answer] | Any = None, sent: Iterable[bytes] = ()) -> Any:
        """Asks for something that fits into a line, with bytes `sent` after it; returns the answer.

        Raises:
            UserError: It is refused.
        """
        return self._fetch(asked, kind, sent=sent)[0]

    def record(self, run: str, name: str, kind: type[Answer]) -> Answer:
        """Returns what a small JSON file of a run there holds."""
        return self.decoded(self.small(run, name), kind)

    def small(self, run: str, name: str) -> bytes:
        """Returns a small file of a run there."""
        return b"".join(self._blocks(self._fetch(far.Get(run=run, path=name), limit=SMALL_BYTES)[1]))

    def content(self, run: str, name: str, offset: int, size: int) -> Iterator[bytes]:
        """Yields a file of a run there from an offset to the size that it has by `Results` or `Newest`."""
        left = self._fetch(far.Get(run=run, path=name, offset=offset), limit=max(0, size - offset))[1]
        if offset + left != size:
            raise self.wrong(_("{name} has another size than was announced.").format(name=name[:WORDS_SHOWN]))
        yield from self._blocks(left)

    def news(
        self, asked: far.Watch, limit: int
    ) -> tuple[far.Watched, Iterator[tuple[far.Piece, Iterator[bytes]]]]:
        """Returns what is new in a run, and its pieces with their content, which have to be read in turn."""
        news: far.Watched
        news, size = self._fetch(asked, far.Watched, limit=limit)
        if sum(piece.size for piece in news.pieces) != size:
            raise self.wrong(_("The pieces of an answer are longer or shorter than the answer."))
        return news, ((piece, self._blocks(piece.size)) for piece in news.pieces)

    def missing(self, sizes: dict[str, int]) -> dict[str, int]:
        """Returns which of these files, sizes by hash, are not there, and how much of each is there already."""
        found = self.ask(far.Missing(files=tuple(sizes)), dict[str, far.Size])
        if any(digest not in sizes or part > sizes[digest] for digest, part in found.items()):
            raise self.wrong(_("It asks for files that it wasn't offered."))
        return dict(found)

    def decoded(self, content: bytes | msgspec.Raw, kind: type[Answer]) -> Answer:
        """Returns what came as JSON."""
        try:
            return msgspec.json.decode(content, type=kind)
        except (ValueError, RecursionError) as error:  # no JSON, or other fields
            raise (self.wrong(str(error)) if self._is_greeted else self._other_hone()) from error

    def _fetch(
        self,
        asked: far.Asked,
        kind: Any = None,
        *,
        limit: int = 0,
        sent: Iterable[bytes] = (),
        noise: int = 0,
    ) -> tuple[Any, int]:
        """Returns the answer, and how many bytes follow it, which have to be read next: `limit` at most."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        request = msgspec.json.encode(asked) + b"\n"
        for part in itertools.chain((request,), sent):
            for begin in range(0, len(part), far.BLOCK_BYTES):
                with self._within(far.IDLE_SECONDS):
                    stdin.write(part[begin : begin + far.BLOCK_BYTES])
        longest = LINE_BYTES + 2 * len(request)
        with self._within(SLOW_SECONDS if isinstance(asked, _SLOW) else ANSWER_SECONDS):
            stdin.flush()
            line = stdout.readline(longest)
            while noise and line.endswith(b"\n") and not line.startswith(b'{"size":'):
                line, noise = stdout.readline(longest), noise - 1
        if len(line) == longest:
            raise self.wrong(_("An answer is longer than any can be."))
        if not line.endswith(b"\n"):
            raise self._lost()
        head = self.decoded(line, far.Answer)
        if head.error is not None:
            fixes = tuple(
                Fix(fix.label[:WORDS_SHOWN]) for fix in head.error.fixes[:4]
            )  # none that changes options
            raise UserError(head.error.title[:WORDS_SHOWN], head.error.detail[:DETAIL_SHOWN], fixes)
        if head.size > limit:
            raise self.wrong(
                _("It would send {size}, and {most} is the most there can be.").format(
                    size=formats.memory(head.size), most=formats.memory(limit)
                )
            )
        return self.decoded(head.answer, kind), head.size

    def _blocks(self, size: int) -> Iterator[bytes]:
        """Yields so many bytes that follow an answer, as they come."""
        assert self._process.stdout is not None
        while size:
            with self._within(BLOCK_SECONDS):
                block = self._process.stdout.read(min(size, far.BLOCK_BYTES))
            if len(block) < min(size, far.BLOCK_BYTES):
                raise self._lost()
            size -= len(block)
            yield block

    # --- The end of a session

    @contextlib.contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Cuts the connection if what is done in it takes longer."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        except OSError:
            raise self._lost() from None
        finally:
            self._deadline = math.inf

    def _watch(self) -> None:
        """Cuts the connection when it is time: what waits for the pipes finds them closed, on every system."""
        name = self.computer.name
        while not self._is_closed.wait(LOOK_SECONDS):
            if time.monotonic() > self._deadline:
                self._failure = ComputerError(
                    "no-answer",
                    _("{name} doesn't answer").format(name=name),
                    _("ssh reaches it, but Hone there hasn't answered in time: it is stuck, or too busy."),
                )
            elif os.fstat(self._messages.fileno()).st_size > MESSAGES_BYTES:
                self._failure = self.wrong(_("It prints messages without end."))
            elif not self.wants_end():
                continue
            if self._process.poll() is None:
                kill_with_children(self._process)
            return

    def _lost(self) -> ComputerError:
        """Returns why the connection is lost."""
        assert self._process.stdin is not None
        self._deadline = time.monotonic() + ENDING_SECONDS  # it may have closed its output and wait on
        failure = self._failure
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        code = self._process.wait()
        if failure is not None:
            return failure
        self._messages.seek(max(0, self._messages.seek(0, os.SEEK_END) - SMALL_BYTES))
        printed = self._messages.read().decode(errors="replace")
        return explain(self.computer, printed, max(0, code) or SSH_FAILED)

    # --- Sources

    def send_sources(self, options: RunOptions, tell: Tell) -> RunOptions:
        """Sends the data and the model of a run; returns its options with the paths there.

        What the Hub, torchvision or Hone itself has is fetched there.

        Raises:
            DataError: A file can't be sent.
            UserError: The person hasn't agreed to it.
        """
        changes: dict[str, Any] = {"device.name": options.device.there}
        if options.memory.offload_folder:
            changes["memory.offload_folder"] = self.greeting.home
        parcels = parcels_of(options)
        refuse_unasked(parcels, self.computer)
        for option in dict.fromkeys(parcel.option for parcel in parcels):
            parts = [parcel for parcel in parcels if parcel.option == option]
            files = {name: path for parcel in parts for name, path in parcel.files().items()}
            there = f"{self._send(files, tell)}/{parts[0].path.name}"
            changes[option] = Scheme.RUN.of(there) if parts[0].kind is ParcelKind.RUN else there
        return with_changes(options, changes)

    def _send(self, files: dict[str, Path], tell: Tell) -> str:
        """Sends files by their names there; returns the folder that has them."""
        sizes = {name: path.stat().st_size for name, path in files.items()}
        total, done = sum(sizes.values()), 0
        digests: dict[str, str] = {}
        for name, path in files.items():
            tell(_("Reading {name}").format(name=path.name), done, total)
            with readable(path):
                digests[name] = far.hash_of(path)
            done += sizes[name]
        missing = self.missing({digest: sizes[name] for name, digest in digests.items()})
        names = {digest: name for name, digest in digests.items() if digest in missing}
        total, done = sum(sizes[name] for name in names.values()), sum(missing.values())

        def content(part: tuple[str, ...]) -> Iterator[bytes]:
            nonlocal done
            for digest in part:
                path = files[names[digest]]
                left = sizes[names[digest]] - missing[digest]
                with path.open("rb") as file:
                    file.seek(missing[digest])
                    while left:
                        tell(_("Sending {name}").format(name=path.name), done, total)
                        # if a file became shorter, something else is sent, whose hash is refused there
                        block = file.read(min(left, far.PIECE_BYTES)) or bytes(min(left, far.PIECE_BYTES))
                        left -= len(block)
                        done += len(block)
                        yield block

        for index in range(0, len(names), FILES_AT_ONCE):
            part = tuple(sorted(names)[index : index + FILES_AT_ONCE])
            put = far.Put(files=tuple((one, missing[one], sizes[names[one]]) for one in part))
            self.ask(put, sent=content(part))
        return str(self.ask(far.MakeTree(files=digests), str))
