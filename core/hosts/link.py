"""The near end of a session with another computer (the far one is `far`), and what is sent there before a run.

Files are sent once: they are kept there by their hash, and one of which a part has arrived goes on from there.
"""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from core.base.errors import ComputerError, Fix, UserError
from core.base.language import _
from core.base.processes import kill_with_children, source_digest, start_worker
from core.hosts import far
from core.hosts.computers import INSTALL_IT, SSH_FAILED, Computer, explain, python_command
from core.hosts.sending import Kind, parcels_of, readable, refuse_unasked
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.sources import Scheme

Answer = TypeVar("Answer")
Tell = Callable[[str, int, int], None]
"""Told what is being sent, and how many bytes of how many."""

ENDING_SECONDS = 5.0
NOISE_LINES = 200
"""Of what a shell there prints before the first answer so many lines are skipped."""

FILES_AT_ONCE = 200


class Link:
    """A session with another computer; use it in one thread.

    Raises:
        ComputerError: The computer can't be reached, or has no Hone; as every method does when the connection is lost.
    """

    def __init__(self, computer: Computer) -> None:
        self.computer = computer
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
        try:
            self.greeting = self.ask(far.Hello(), far.Greeting, noise=NOISE_LINES)
            if self.greeting.protocol != far.PROTOCOL:
                raise self._other_hone()
            self.clock = time.time() - self.greeting.time
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_rest: object) -> None:
        self.close()

    def close(self) -> None:
        kill_with_children(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was left to be sent
                    stream.close()
        self._process.wait()
        self._messages.close()

    def require_this_hone(self) -> None:
        """Refuse a computer that has another version of Hone.

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

    def ask(
        self,
        asked: far.Asked,
        kind: type[Answer] | Any = None,
        sent: Iterable[bytes] = (),
        noise: int = 0,
    ) -> Any:
        """Ask for something, with bytes `sent` after it; what the answer announces is to be read with `read`.

        Raises:
            UserError: It is refused.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(msgspec.json.encode(asked) + b"\n")
            for block in sent:
                stdin.write(block)
            stdin.flush()
            line = stdout.readline()
            while noise and line and not line.startswith(b'{"size":'):
                line, noise = stdout.readline(), noise - 1
        except OSError:
            raise self._lost() from None
        if not line.endswith(b"\n"):
            raise self._lost()
        head = self._decoded(line, far.Answer)
        if head.error is not None:
            raise UserError(head.error.title, head.error.detail, head.error.fixes)
        self.size = head.size
        return self._decoded(head.answer, kind)

    def record(self, run: str, name: str, kind: type[Answer]) -> Answer:
        """What a small JSON file of a run there holds."""
        self.ask(far.Get(run=run, path=name))
        return self._decoded(b"".join(self.blocks()), kind)

    def _decoded(self, content: bytes | msgspec.Raw, kind: type[Answer]) -> Answer:
        try:
            return msgspec.json.decode(content, type=kind)
        except (ValueError, RecursionError) as error:  # no JSON, or other fields
            raise self._other_hone() from error

    def read(self, size: int) -> bytes:
        """Bytes that follow an answer."""
        assert self._process.stdout is not None
        content = self._process.stdout.read(size)
        if len(content) < size:
            raise self._lost()
        return content

    def blocks(self) -> Iterator[bytes]:
        """All bytes that follow an answer, as they come."""
        left = self.size
        while left:
            block = self.read(min(left, far.BLOCK_BYTES))
            left -= len(block)
            yield block

    def _lost(self) -> ComputerError:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            code = self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            code = SSH_FAILED
        self._messages.seek(0)
        return explain(self.computer, self._messages.read().decode(errors="replace"), code or SSH_FAILED)

    # --- Sources

    def send_sources(self, options: RunOptions, tell: Tell) -> RunOptions:
        """Send the data and the model of a run; returns its options with the paths there.

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
            changes[option] = Scheme.RUN.of(there) if parts[0].kind is Kind.RUN else there
        return with_changes(options, changes)

    def _send(self, files: dict[str, Path], tell: Tell) -> str:
        """Send files by their names there; returns the folder that has them."""
        sizes = {name: path.stat().st_size for name, path in files.items()}
        total, done = sum(sizes.values()), 0
        digests: dict[str, str] = {}
        for name, path in files.items():
            tell(_("Reading {name}").format(name=path.name), done, total)
            with readable(path):
                digests[name] = far.hash_of(path)
            done += sizes[name]
        missing = self.ask(far.Missing(files=tuple(set(digests.values()))), dict[str, int])
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
                        # of a file that became shorter something else is sent, and its hash refused there
                        block = file.read(min(left, far.PIECE_BYTES)) or bytes(min(left, far.PIECE_BYTES))
                        left -= len(block)
                        done += len(block)
                        yield block

        for index in range(0, len(names), FILES_AT_ONCE):
            part = tuple(sorted(names)[index : index + FILES_AT_ONCE])
            put = far.Put(files=tuple((one, missing[one], sizes[names[one]]) for one in part))
            self.ask(put, sent=content(part))
        return str(self.ask(far.MakeTree(files=digests), str))
