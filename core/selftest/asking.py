"""Asking the engine's short jobs as the window does, with an eye on what comes out of its standard output."""

import contextlib
import threading
from typing import TypeVar

import msgspec

from core.jobs import engine_command, start_asked
from core.processes import converse, kill_with_children
from core.reports import JobProgress
from core.selftest.checking import Failed

SECONDS = 300.0
"""How long a job may take."""

Answer = TypeVar("Answer")


def ask(job: str, request: msgspec.Struct | None, kind: type[Answer]) -> Answer:
    """The answer of a job; every other line it said on its standard output has to be one on its progress.

    Raises:
        Failed: It ended otherwise, was silent, or something else came out.
    """
    process, messages = start_asked(engine_command(job))
    patience = threading.Timer(SECONDS, kill_with_children, (process,))
    patience.start()
    lines: list[bytes] = []
    with messages:
        try:
            converse(process, msgspec.json.encode(request) if request is not None else b"", lines.append)
        finally:
            patience.cancel()
        if process.returncode != 0:
            messages.seek(0)
            said = (b"".join(lines[-1:]) + messages.read()).decode(errors="replace")
            raise Failed(
                f"the engine's job {job} ended with {process.returncode} and said: {said.strip()[-3000:]}"
            )
    return judged(job, lines, kind)


def judged(job: str, lines: list[bytes], kind: type[Answer]) -> Answer:
    """The answer among the lines that a job said.

    Raises:
        Failed: There is none, or a line is neither the answer nor tells how far the job is.
    """
    for line in lines[:-1]:
        with contextlib.suppress(msgspec.MsgspecError):
            msgspec.json.decode(line, type=JobProgress)
            continue
        raise Failed(
            f"the engine's job {job} let out a line of no protocol: {line[:300].decode(errors='replace')!r}"
        )
    try:
        return msgspec.json.decode(lines[-1] if lines else b"", type=kind)
    except msgspec.MsgspecError as error:
        last = b"".join(lines[-1:])[:300].decode(errors="replace")
        raise Failed(f"the engine's job {job} answered what can't be read ({error}): {last!r}") from error
