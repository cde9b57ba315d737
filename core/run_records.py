"""The small records that a run's folder holds of the processes that work on it, and what they are asked."""

import platform
from enum import StrEnum
from typing import Annotated

import msgspec
import psutil

from core.event import Moment, ProcessNumber

Attempt = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""The number of an attempt. A larger one is damage, and counting on from it would lead beyond what can be read."""

BOOT_SECONDS = 60.0
"""How far the moments may differ that a computer tells it was started at; its clock is set now and then."""


SINCE_BOOT_SECONDS = 0.1
"""How far two tellings may differ of how long after the boot a process was started."""


class Action(StrEnum):
    """What a run can be asked while it trains or waits for its turn; all but `kill` are answered by its engine."""

    STOP = "stop"
    PAUSE = "pause"
    SAVE = "save"
    KILL = "kill"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One file in `requests/`, called `ID.json`."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    action: Action


class KeeperRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`keeper.json`: enough to prove later that the keeper still lives. `started` and `booted` are unix seconds.

    `attempt` is the one it keeps: 1, and one more each time the run is resumed. `engine` is the process number of the
    engine it has started, 0 before that, and `engine_started` when that one started, by the clock of `booted`.
    """

    pid: ProcessNumber
    started: Moment
    host: str
    booted: Moment
    attempt: Attempt = 1
    engine: ProcessNumber = 0
    engine_started: Moment = 0.0

    @classmethod
    def of(cls, pid: int, attempt: int = 1) -> "KeeperRecord":
        """The record of a process of this computer.

        Raises:
            psutil.Error: There is no such process (any more).
        """
        return cls(
            pid=pid,
            started=psutil.Process(pid).create_time(),
            host=platform.node(),
            booted=psutil.boot_time(),
            attempt=attempt,
        )

    @property
    def is_here(self) -> bool:
        """Whether it was started on this computer: by its name, or (a Mac's name follows its network) its boot."""
        return self.host == platform.node() or self.is_of_this_boot

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the computer that looks has been on ever since."""
        booted: float = psutil.boot_time()
        return abs(self.booted - booted) < BOOT_SECONDS

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs on this computer (process numbers are reused)."""
        return self.is_here and is_same_process(self.pid, self.started, self.booted)

    @property
    def is_worked_on(self) -> bool:
        """Whether the keeper lives, or an engine that lost it."""
        if self.is_alive:
            return True
        is_named = self.engine > 0 and self.is_here
        return is_named and is_same_process(self.engine, self.engine_started, self.booted)

    def with_engine(self, pid: int) -> "KeeperRecord":
        """The record of a keeper that has started this engine.

        Raises:
            psutil.Error: There is no such process (any more).
        """
        created = psutil.Process(pid).create_time()
        moved = clock_moved(self.booted)
        return msgspec.structs.replace(self, engine=pid, engine_started=created - moved)


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`exit.json`: how the engine ended.

    `code` is its exit status; `signal` the name of the signal that ended it (POSIX). `reason` is a plain sentence,
    `log_tail` the last lines it printed. `out_of_memory` tells that the operating system ended it for lack of memory.
    `attempt` is the one that ended so. Where its engine was never started (it left the queue), `before` is how the last
    one ended that was.
    """

    time: Moment
    code: int | None
    signal: str | None = None
    reason: str = ""
    log_tail: str = ""
    out_of_memory: bool = False
    attempt: Attempt = 1
    before: "ExitRecord | None" = None

    @property
    def of_engine(self) -> "ExitRecord | None":
        """How the last engine ended that was started."""
        return self if self.code is not None else self.before


def is_same_process(pid: int, started: float, booted: float | None = None) -> bool:
    """Whether process `pid` lives and is the one that started at `started` (unix seconds).

    Linux counts a process's start from the boot, so that setting the clock moves both; elsewhere it stays.

    Args:
        pid: Its number.
        started: When it started, as that was told at some time.
        booted: When the computer was started, as told at the same time; None: the clock was not set since.
    """
    created = creation_time(pid)
    if created is None:
        return False
    if abs(created - started) < 1.0:
        return True
    return booted is not None and abs(created - clock_moved(booted) - started) < SINCE_BOOT_SECONDS


def clock_moved(booted: float) -> float:
    """By how many seconds the clock was set forward since it told that the computer was started at `booted`."""
    moved = float(psutil.boot_time()) - booted
    return moved if abs(moved) >= 1.0 else 0.0


def creation_time(pid: int) -> float | None:
    """Unix seconds at which a living process was created; None for one that is gone or only waits to be reaped."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None
